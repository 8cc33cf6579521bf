"""Optimizers that hold parameters which the model no longer uses: replaced, resized, deep-copied.

Read next: rules/graphs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cleargrad.doctor.events import Copied, ModuleReplaced, Registered, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.places import Place
from cleargrad.doctor.registry import Parameter
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import listed

PATIENCE = 2  # steps in which a parameter has no gradient


@rule("optimizer-stale-parameter", "error", on=(Copied, ModuleReplaced, Registered, Step))
def optimizer_stale_parameter(event: Any, case: Case) -> Iterator[Finding]:
    """A step went to parameters that the model does not use any more."""
    memory = case.memory
    if isinstance(event, Copied):
        received = case.registry.parameters[event.parameter].received
        memory.setdefault("copies", {}).setdefault(event.parameter, []).append((event, received))
    elif isinstance(event, ModuleReplaced):
        gone = set(event.old) - set(event.new)
        memory.setdefault("gone", {}).update(dict.fromkeys(gone, event))
    elif isinstance(event, Registered):
        if event.replaced is not None:
            memory.setdefault("gone", {})[event.replaced] = event
    elif event.without_gradient:
        yield from stale_parameters(event, case)


def stale_parameters(event: Step, case: Case) -> Iterator[Finding]:
    counts = case.memory.setdefault("counts", {})
    groups: dict[tuple[Place | None, str], list[int]] = {}
    for number in event.without_gradient:
        counts[number] = counts.get(number, 0) + 1
        if counts[number] != PATIENCE and counts[number] != 2 * PATIENCE:
            continue
        reason = why_stale(case.registry.parameters[number], case)
        if reason is not None:
            groups.setdefault(reason, []).append(number)
    for (place, how), numbers in groups.items():
        case.registry.explained.update(numbers)
        yield holds_stale(event, case, place, how, numbers)


def why_stale(record: Parameter, case: Case) -> tuple[Place | None, str] | None:
    """In what way a parameter came out of use, and the line of the call that did it; None where it is in use.

    A copy is that call. Of a parameter that was replaced, the step is what went wrong: it should have the new one.
    """
    gone = case.memory.get("gone", {}).get(record.number)
    if gone is not None:
        new = gone.new if isinstance(gone, ModuleReplaced) else (gone.parameter,)
        trained = any(is_trained_outside(case.registry.parameters[number]) for number in new)
        if trained or not is_held(record, case):
            return None, f"replaced at {gone.place}"
    for copied, received in case.memory.get("copies", {}).get(record.number, ()):
        copy = case.registry.parameters[copied.copy]
        if is_trained_outside(copy) and record.received == received:
            return copied.place, "deep-copied, and the copy is the one in use"
    if record.modules and not is_held(record, case):
        copied_at = line_of_copy(record, case)
        if copied_at is not None:
            return copied_at, "dropped for a copy made"
        return None, "dropped: no model that is alive has it"
    return None


def line_of_copy(record: Parameter, case: Case) -> Place | None:
    """Where the copy was made that is trained in place of a parameter, if there is one (or a copy of a copy)."""
    waiting, copies = [record.number], case.memory.get("copies", {})
    for number in waiting:
        for copied, _ in copies.get(number, ()):
            if is_trained_outside(case.registry.parameters[copied.copy]):
                return copied.place
            waiting.append(copied.copy)
    return None


def is_trained_outside(record: Parameter) -> bool:
    """Whether a parameter receives gradients but belongs to no optimizer and is not written by hand."""
    return record.received > 0 and not record.optimizers and not record.written


def is_held(record: Parameter, case: Case) -> bool:
    """Whether a module that is alive has the parameter."""
    tensor = record.ref()
    for number in record.modules:
        module = case.registry.modules.refs[number]()
        if module is not None and any(each is tensor for each in module._parameters.values()):
            return True
    return False


def holds_stale(event: Step, case: Case, place: Place | None, how: str, numbers: list[int]) -> Finding:
    optimizer = case.registry.optimizers[event.optimizer]
    names = listed(case.names(numbers), 4)
    where = "" if place is None else f" at {place}"
    return case.finding(
        event,
        f"the {optimizer.kind} made at {optimizer.place} still holds the old {names}, which "
        f"{'was' if len(numbers) == 1 else 'were'} {how}{where}; its steps do not train the model",
        fix="make the optimizer after the model has its final parameters, or give it the new ones with "
        "add_param_group",
        evidence=[f"no gradient reached {names} before {event.place}, step {event.step}"],
        place=place,
        parameters=numbers,
        cause=(event.optimizer, place),
    )
