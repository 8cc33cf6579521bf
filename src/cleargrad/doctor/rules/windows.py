"""Accumulation over several backward passes that an epoch's end cuts short.

A window is what one step uses. Where windows hold several passes of one kind and the loader ends in the middle of
one, the rest must be stepped before the next epoch. Read next: rules/clipping.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

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
