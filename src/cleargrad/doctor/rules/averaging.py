"""Accumulation of averages that nobody divides by their number.

Only ever information: a larger sum may be what the program wants. Read next: rules/reading.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from cleargrad.doctor.events import Backward, GradWrite, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.places import Place
from cleargrad.doctor.rules import Case, rule

WINDOWS = 2  # in a row


@rule("accumulation-unscaled", "info", on=(GradWrite, Step))
def accumulation_unscaled(event: GradWrite | Step, case: Case) -> Iterator[Finding]:
    """A step used the sum of several averages, none of which was divided."""
    memory = case.memory
    if isinstance(event, GradWrite):
        memory["edited"] = True
        return
    use = case.ledger.use
    if memory.pop("edited", False) or use is None or use.reused or use.by_hand:
        memory.pop(event.optimizer, None)
        return
    by_line: dict[Place | None, list[Backward]] = {}
    passes = {backward.number: backward for found in use.fresh.values() for backward in found}
    for backward in passes.values():
        by_line.setdefault(backward.place, []).append(backward)
    windows = memory.setdefault(event.optimizer, {})
    for place, found in by_line.items():
        whole = len(found) > 1 and all(backward.plain_mean for backward in found)
        windows[place] = windows.get(place, 0) + 1 if whole else 0
        if windows[place] == WINDOWS:
            yield undivided(event, case, place, len(found), list(use.fresh))


def undivided(event: Step, case: Case, place: Place | None, count: int, parameters: list[int]) -> Finding:
    return case.finding(
        event,
        f"step {event.step} used the sum of {count} average losses of {place}, which is {count} times their "
        f"average: the learning rate is in effect {count} times as large as for one batch",
        fix=f"if that is not meant, divide the loss by {count} before backward()",
        evidence=["the losses are averages over their batch and nothing divides them or their gradients"],
        place=place,
        parameters=parameters,
        facts={"contributions": count},
    )
