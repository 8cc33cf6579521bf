"""Programs that stop because they read a gradient that is None.

Read next: docs/rules.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator

from cleargrad.doctor.events import End
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.places import Place
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import listed

LINES_BEFORE = 3  # in which the gradient may have been read


@rule("none-gradient", "error", on=End)
def none_gradient(event: End, case: Case) -> Iterator[Finding]:
    """The program ended with an error about None where it reads `.grad`."""
    if event.error is None or "None" not in event.error or not reads_gradient(event.place):
        return
    empty = [record for record in case.registry.parameters if has_none(record.ref())]
    empty = [record for record in empty if record.ref().requires_grad] or empty
    if not empty:
        return
    numbers = [record.number for record in empty]
    zeros = [case.ledger.bucket(number).cleared_by for number in numbers]
    zero = max((each for each in zeros if each is not None), key=lambda each: each.number, default=None)
    if not empty[0].ref().requires_grad:
        clearing, fix = (
            "the parameter is frozen",
            "leave out parameters that require no gradient, or test for None",
        )
    elif zero is None:
        received = any(record.received for record in empty)
        why = (
            "they are frozen or the loss does not depend on them"
            if received
            else "no backward pass has filled it yet"
        )
        clearing, fix = why, "call backward() before reading .grad, or test for None"
    else:
        where = "the program itself" if zero.place is None else f"zero_grad() at {zero.place}"
        clearing = f"{where} cleared it in step {zero.step}, which sets it to None"
        fix = "read .grad after backward() and before zero_grad(), or call zero_grad(set_to_none=False)"
    yield case.finding(
        event,
        f"{event.place} reads .grad of {listed(case.names(numbers), 3)}, which is None: {clearing}",
        fix=fix,
        evidence=[f"the program ended there: {event.error.splitlines()[0]}"],
        parameters=numbers,
    )


def reads_gradient(place: Place | None) -> bool:
    """Whether the line, or one shortly before it, mentions `.grad`."""
    if place is None:
        return False
    lines = linecache.getlines(place.file)[max(0, place.line - 1 - LINES_BEFORE) : place.line]
    return any(re.search(r"\.grad\b", line) for line in lines)


def has_none(tensor: object) -> bool:
    return tensor is not None and tensor.is_leaf and tensor.grad is None  # type: ignore[attr-defined]
