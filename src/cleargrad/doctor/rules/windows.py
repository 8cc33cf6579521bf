"""Accumulation over several backward passes that an epoch's end cuts short.

A window is what one step uses. Where windows hold several passes of one kind and the loader ends in the middle of
one, the rest must be stepped before the next epoch. Read next: rules/clipping.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cleargrad.doctor.events import Backward, End, EpochBegin, EpochEnd, Step, Zero
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.ledger import Use
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.rules.drop import Kind, kind_of
from cleargrad.doctor.sentences import counted, passes_by_line


def window_kinds(use: Use) -> set[Kind]:
    """The kinds of passes of which a step used more than one."""
    passes = {backward.number: backward for found in use.fresh.values() for backward in found}
    counts = Counter(kind_of(backward) for backward in passes.values())
    return {kind for kind, count in counts.items() if count > 1}


class Tail:
    """The unfinished window of an optimizer at the end of an epoch."""

    def __init__(self, step: Step, passes: dict[int, Backward], end: EpochEnd) -> None:
        self.step = step  # the optimizer's last step
        self.passes = passes
        self.end = end


def tails_at(event: EpochEnd, began: int, case: Case) -> dict[int, Tail]:
    """By optimizer: passes of this epoch that no step has used, of the kinds that fill its windows."""
    tails = {}
    for number, use in case.ledger.last_use.items():
        kinds = window_kinds(use)
        if not kinds or not isinstance(use.step, Step) or use.step.number < began:
            continue
        passes = {}
        for record in case.registry.optimizers[number].parameters:
            bucket = case.ledger.bucket(record.number)
            if not bucket.by_hand:
                passes.update({backward.number: backward for backward in bucket.fresh})
        if passes and all(kind_of(each) in kinds and each.number > began for each in passes.values()):
            tails[number] = Tail(use.step, passes, event)
    return tails


@rule("window-leak", "warning", on=(EpochBegin, EpochEnd, Step), needs=EpochBegin, every_time=True)
def window_leak(event: EpochBegin | EpochEnd | Step, case: Case) -> Iterator[Finding]:
    """The rest of an epoch went into the first step of the next."""
    memory = case.memory
    if isinstance(event, EpochBegin):
        memory[("began", event.loader)] = event.number
        return
    if isinstance(event, EpochEnd):
        memory["tails"] = tails_at(event, memory.get(("began", event.loader), 0), case)
        return
    tail = memory.get("tails", {}).pop(event.optimizer, None)
    use = case.ledger.use
    if tail is None or use is None:
        return
    used = {backward.number: backward for found in use.fresh.values() for backward in found}
    left = [backward for number, backward in tail.passes.items() if number in used]
    later = [backward for number, backward in used.items() if number > tail.end.number]
    if left and later:
        yield case.finding(
            event,
            f"step {event.step} used {counted(len(left), 'backward call')} of the epoch before "
            f"({passes_by_line(left)}) together with {counted(len(later), 'backward call')} of its own",
            fix="step once more after the last batch of an epoch, or clear the gradients there",
            evidence=[
                f"batches in that epoch: {tail.end.batches}",
                f"its last step was at {tail.step.place}, step {tail.step.step}",
            ],
            parameters=use.fresh,
        )


@rule(
    "window-dropped", "warning", on=(EpochBegin, EpochEnd, Step, Zero, End), needs=EpochBegin, every_time=True
)
def window_dropped(event: EpochBegin | EpochEnd | Step | Zero | End, case: Case) -> Iterator[Finding]:
    """The rest of an epoch was cleared, or never used."""
    memory = case.memory
    if isinstance(event, EpochBegin):
        memory[("began", event.loader)] = event.number
        return
    if isinstance(event, EpochEnd):
        memory["tails"] = tails_at(event, memory.get(("began", event.loader), 0), case)
        memory["epochs"] = memory.get("epochs", 0) + bool(memory["tails"])
        return
    tails: dict[int, Tail] = memory.get("tails", {})
    if isinstance(event, Step):
        tails.pop(event.optimizer, None)
        return
    for number, tail in list(tails.items()):
        records = {record.number for record in case.registry.optimizers[number].parameters}
        if isinstance(event, End):
            if not event.failed and memory["epochs"] == 1:  # what became of earlier ones has been said
                yield lost(case, event, tail, f"no step used them after {tail.step.place}", records)
        elif records.intersection(event.parameters):
            del tails[number]
            yield lost(case, event, tail, f"they were cleared at {event.place}", records)


def lost(case: Case, event: Zero | End, tail: Tail, how: str, parameters: set[int]) -> Finding:
    return case.finding(
        event,
        f"the last {counted(len(tail.passes), 'backward call')} of an epoch "
        f"({passes_by_line(tail.passes.values())}) were thrown away: {how}",
        fix="step once more after the last batch of an epoch, or drop the batches that fill no window",
        evidence=[f"the last step before was at {tail.step.place}, step {tail.step.step}"],
        place=event.place or tail.step.place,
        parameters=parameters,
    )


class Windows:
    """The windows of one optimizer: the kind and number of their passes, and what was cleared in between."""

    def __init__(self, kind: Kind, passes: int) -> None:
        self.kind = kind
        self.passes = passes
        self.steps = 0  # since the last time that part of one was cleared
        self.cleared: list[tuple[Any, int, int]] = []  # by which line, how many passes, after how many steps

    def clear(self, event: Zero, passes: int) -> bool:
        """Notes that part of a window was cleared; whether the same has happened before."""
        self.cleared.append((event.place, passes, self.steps))
        del self.cleared[:-2]
        self.steps = 0
        return len(self.cleared) == 2 and self.cleared[0] == self.cleared[1]


@rule("window-dropped", "info", on=(Step, Zero, EpochBegin), every_time=True)
def part_of_a_window_cleared(event: Step | Zero | EpochBegin, case: Case) -> Iterator[Finding]:
    """After equally many full windows the same line clears the beginning of one, again and again.

    Without a DataLoader nobody says that an epoch ends there; it might be meant so, hence no more than a remark.
    """
    memory = case.memory
    if isinstance(event, EpochBegin):
        memory["loader"] = True
    elif memory.get("loader"):
        return
    elif isinstance(event, Step):
        use = case.ledger.use
        if use is not None and not event.closure:
            count_window(memory.setdefault("windows", {}), event, use)
    elif case.ledger.dropping:
        for number, windows in memory.get("windows", {}).items():
            yield from cleared_in(windows, number, event, case)


def count_window(known: dict[int, Windows], event: Step, use: Use) -> None:
    passes = {backward.number: backward for found in use.fresh.values() for backward in found}
    kinds = {kind_of(backward) for backward in passes.values()}
    if len(kinds) != 1 or len(passes) < 2 or use.reused or use.by_hand:
        known.pop(event.optimizer, None)
        return
    kind = kinds.pop()
    windows = known.get(event.optimizer)
    if windows is None or windows.kind != kind or windows.passes != len(passes):
        windows = known[event.optimizer] = Windows(kind, len(passes))
    windows.steps += 1


def cleared_in(windows: Windows, number: int, event: Zero, case: Case) -> Iterator[Finding]:
    """The passes of an optimizer's unfinished window that an event has cleared."""
    optimizer = case.registry.optimizers[number]
    passes = {
        backward.number: backward
        for record in optimizer.parameters
        for backward, zero in case.ledger.bucket(record.number).dropped
        if zero is event
    }
    if not passes or event.place is None or any(kind_of(each) != windows.kind for each in passes.values()):
        return
    if len(passes) < windows.passes and windows.clear(event, len(passes)):
        yield case.finding(
            event,
            f"{event.place} threw away {counted(len(passes), 'backward call')} "
            f"({passes_by_line(passes.values())}), less than the {windows.passes} that a step uses, "
            "and so it did before",
            fix="if they are the last batches of an epoch: step once more after them, or leave them out",
            evidence=[
                f"each time after {counted(windows.cleared[-1][2], 'step')} of {windows.passes} backward calls"
            ],
            parameters=[record.number for record in optimizer.parameters],
        )
