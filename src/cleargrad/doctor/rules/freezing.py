"""Freezing that has no effect: a flag on a module, a misspelt flag, or parameters frozen while they have gradients.

Read next: rules/scheduling.py.
"""

from __future__ import annotations

import difflib
import linecache
import re
from collections.abc import Iterator
from typing import Any

from cleargrad.doctor.events import Freeze, Ids, Statistics, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.places import Place
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import listed

FLAG = "requires_grad"


@rule("freeze-ineffective", "error", on=(Freeze, Step), needs=Freeze, every_time=True)
def flag_on_a_module(event: Freeze | Step, case: Case) -> Iterator[Finding]:
    """`module.requires_grad = False` is an attribute like any other; the parameters train on."""
    waiting: list[Freeze] = case.memory.setdefault("waiting", [])
    if isinstance(event, Freeze):
        if not event.effective and not event.flag:
            waiting.append(event)
        return
    use = case.ledger.use
    for freeze in list(waiting) if use is not None else ():
        trained = [number for number in freeze.parameters if use.fresh.get(number)]  # type: ignore[union-attr]
        if trained:
            waiting.remove(freeze)
            yield case.finding(
                event,
                f"`requires_grad = False` on a module at {freeze.place} freezes nothing: step {event.step} trained "
                f"{listed(case.names(trained), 4)}",
                fix="call module.requires_grad_(False), which sets the flag of every parameter",
                evidence=[f"backward passes still fill their gradients, and {event.place} uses them"],
                place=freeze.place,
                parameters=trained,
            )


@rule("freeze-ineffective", "error", on=Step)
def misspelt_flag(event: Step, case: Case) -> Iterator[Finding]:
    """`p.require_grad = False` makes a new attribute of the tensor and freezes nothing."""
    use = case.ledger.use
    if event.count not in (1, 2, 8) or use is None:
        return
    by_name: dict[str, list[int]] = {}
    for number, found in use.fresh.items():
        record = case.registry.parameters[number]
        for thing in (record.ref(), *(case.registry.modules.refs[module]() for module in record.modules)):
            name = misspelt(thing) if found else None
            if name is not None and number not in by_name.setdefault(name, []):
                by_name[name].append(number)
    for name, numbers in by_name.items():
        place = line_that_sets(name, event.place)
        yield case.finding(
            event,
            f"`{name} = False` freezes nothing, the flag is called {FLAG}: step {event.step} trained "
            f"{listed(case.names(numbers), 4)}",
            fix=f"write {FLAG} = False, or call {FLAG}_(False)",
            place=place,
            parameters=numbers,
        )


def misspelt(thing: Any) -> str | None:
    """An attribute that somebody set to False and that is nearly called requires_grad."""
    for name, value in getattr(thing, "__dict__", {}).items():
        if value is False and name != FLAG and difflib.SequenceMatcher(None, name, FLAG).ratio() > 0.85:
            return name
    return None


def line_that_sets(name: str, place: Place | None) -> Place | None:
    """The line of the program's file that sets an attribute of this name."""
    for index, text in enumerate(linecache.getlines(place.file) if place is not None else (), 1):
        if re.search(rf"\.{name}\s*=[^=]", text):
            return Place(place.file, index, "")  # type: ignore[union-attr]
    return place


@rule("freeze-ineffective", "warning", on=(Freeze, Step, Statistics), needs=Freeze, every_time=True)
def frozen_too_late(event: Freeze | Step | Statistics, case: Case) -> Iterator[Finding]:
    """A parameter that requires no gradient was moved all the same: by a gradient from before, or by momentum."""
    memory = case.memory
    if isinstance(event, Freeze):
        for number in event.parameters if event.effective else ():
            memory[number] = None if event.flag else event
        return
    if isinstance(event, Step):
        memory["frozen"] = event.frozen
        return
    frozen: Ids = memory.get("frozen", ())
    if not frozen:
        return
    moved = {number for number, has_moved in zip(event.parameters, event.moved, strict=True) if has_moved}
    wrong = [number for number in frozen if number in moved and freezes(memory.get(number), case)]
    if not wrong:
        return
    freeze = memory[wrong[0]]
    yield case.finding(
        event,
        f"step {event.step} at {event.place} changed {listed(case.names(wrong), 4)}, frozen at {freeze.place}: the "
        "optimizer still has a gradient of theirs",
        fix="clear the gradient when freezing (p.grad = None; zeros still let momentum and weight decay go on), or "
        "take the parameter out of the optimizer",
        evidence=[f"requires_grad became False at {freeze.place}, in step {freeze.step}"],
        place=freeze.place,
        parameters=wrong,
    )


def freezes(freeze: Freeze | None, case: Case) -> bool:
    return freeze is not None and any(optimizer.steps for optimizer in case.registry.optimizers)
