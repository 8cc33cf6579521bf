"""Schedulers that step at the wrong time: before the optimizer, or once per micro-batch.

A step that a GradScaler leaves out counts as one, since the program did call it. Read next: rules/networks.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from cleargrad.doctor.events import Accumulate, End, SchedulerStep, Skip, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import counted

WINDOWS = 2  # in a row


def attempts(optimizer: int, case: Case) -> int:
    """Steps of an optimizer, those left out included."""
    record = case.registry.optimizers[optimizer]
    return record.steps + record.skips


class Early:
    """Calls of a scheduler before its optimizer has ever stepped."""

    def __init__(self, event: SchedulerStep) -> None:
        self.event = event
        self.calls = 1
        self.lines = {event.place}  # of all calls


@rule("scheduler-misplaced", "warning", on=(SchedulerStep, End))
def before_the_optimizer(event: SchedulerStep | End, case: Case) -> Iterator[Finding]:
    """The first value of the schedule is never used. Calls that wind it forward have a line of their own."""
    early: dict[int, Early | None] = case.memory
    if isinstance(event, End):
        for number, found in early.items():
            alone = found is not None and found.calls == 1 and len(found.lines) == 1
            if found is not None and alone and attempts(found.event.optimizer or 0, case) >= 2:
                yield stepped_early(event, case, found.event)
                early[number] = None
        return
    if event.optimizer is None:
        return
    found = early.get(event.scheduler)
    if event.scheduler not in early:
        early[event.scheduler] = Early(event) if attempts(event.optimizer, case) == 0 else None
    elif found is not None:
        found.lines.add(event.place)
        if attempts(event.optimizer, case) == 0:
            found.calls += 1
        elif event.place == found.event.place:
            early[event.scheduler] = None
            yield stepped_early(event, case, found.event)


def stepped_early(event: SchedulerStep | End, case: Case, first: SchedulerStep) -> Finding:
    return case.finding(
        event,
        f"{first.kind}.step() at {first.place} came before the first optimizer.step(): the first learning rate of "
        "the schedule is never used",
        fix="call scheduler.step() after optimizer.step()",
        evidence=[f"no step of the optimizer before {first.place}"],
        place=first.place,
    )


@rule(
    "scheduler-misplaced",
    "warning",
    on=(SchedulerStep, Accumulate, Step, Skip),
    needs=SchedulerStep,
    every_time=True,
)
def once_per_micro_batch(event: SchedulerStep | Accumulate | Step | Skip, case: Case) -> Iterator[Finding]:
    """Between two steps of the optimizer the scheduler stepped several times, with backward passes in between."""
    memory = case.memory
    if isinstance(event, Accumulate):
        optimizers = {
            number for each in event.parameters for number in case.registry.parameters[each].optimizers
        }
        for number in optimizers:
            memory.setdefault("filled", {})[number] = True
        return
    if isinstance(event, SchedulerStep):
        filled = memory.setdefault("filled", {}).pop(event.optimizer, False)
        if filled:
            memory.setdefault("calls", {}).setdefault(event.optimizer, {}).setdefault(
                event.scheduler, []
            ).append(event)
        return
    memory.setdefault("filled", {}).pop(event.optimizer, None)
    for number, calls in memory.setdefault("calls", {}).pop(event.optimizer, {}).items():
        yield from judge_window(event, case, number, calls)


def judge_window(
    event: Step | Skip, case: Case, scheduler: int, calls: list[SchedulerStep]
) -> Iterator[Finding]:
    """A window in which the scheduler was called after more than one backward pass, or before the last of them."""
    memory = case.memory.setdefault("windows", {})
    if len(calls) < 2:
        memory[scheduler] = 0
        return
    memory[scheduler] = memory.get(scheduler, 0) + 1
    if memory[scheduler] != WINDOWS:
        return
    yield case.finding(
        event,
        f"{calls[-1].kind}.step() at {calls[-1].place} was called {counted(len(calls), 'time')} between two steps "
        "of the optimizer: the schedule runs that much faster than the training",
        fix="call scheduler.step() where optimizer.step() is called, once per step or once per epoch",
        evidence=[
            f"once after every backward call, but {event.place} steps only after {len(calls)} or more of them"
        ],
        place=calls[-1].place,
    )
