"""Gradients that the loss of another network has left behind.

A loss that goes through one network to train another (a generator through its discriminator, an actor through its
critic) fills both. Left where it is, and unused, that is fine; a step that mixes it with its own loss is not.
Read next: rules/averaging.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cleargrad.doctor.events import Backward, Forward, Ids, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.registry import Optimizer
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import counted, listed

REMEMBERED = 16  # steps


@rule("foreign-gradient", "error", on=(Forward, Backward, Step))
def foreign_gradient(event: Any, case: Case) -> Iterator[Finding]:
    """A step used, beside its own loss, what the loss of a network in front of it had left behind."""
    memory = case.memory
    if isinstance(event, Forward):
        memory["modules"] = event.modules
        return
    if isinstance(event, Backward):
        modules = memory.pop("modules", None)
        if modules is not None:
            memory.setdefault("orders", {})[event.place] = modules
        return
    use = case.ledger.use
    if use is None:
        return
    passes = {backward.number: backward for found in use.fresh.values() for backward in found}
    foreign = [
        each for each in foreign_passes(event, passes, case) if use.by_hand.isdisjoint(each.parameters)
    ]
    steps = memory.setdefault("steps", [])
    steps.append((event, frozenset(passes)))
    del steps[:-REMEMBERED]
    if foreign:
        yield mixed(event, case, foreign, [passes[max(passes)]])


def foreign_passes(event: Step, passes: dict[int, Backward], case: Case) -> list[Backward]:
    """The passes that an optimizer of a network in front has used before this step's own loss was computed."""
    if len(passes) < 2:
        return []
    last = passes[max(passes)]
    own = {record.number for record in case.registry.optimizers[event.optimizer].parameters}
    if not own.issuperset(last.parameters):
        return []
    found = []
    for number, backward in passes.items():
        for step, used in case.memory.get("steps", ()):
            other = case.registry.optimizers[step.optimizer]
            if step.optimizer == event.optimizer or number not in used or step.number > last.number:
                continue
            if backward.place != last.place and comes_before(other, own, backward, case):
                found.append(backward)
                break
    return found


def comes_before(other: Optimizer, own: set[int], backward: Backward, case: Case) -> bool:
    """Whether the other optimizer's network ran before this one's on the way to a loss, as far as is known."""
    order: Ids = case.memory.get("orders", {}).get(backward.place, ())
    place = {module: index for index, module in enumerate(order)}
    theirs = [
        place[m]
        for record in other.parameters
        for m in record.modules
        if m in place and record.number not in own
    ]
    ours = [place[m] for number in own for m in case.registry.parameters[number].modules if m in place]
    return bool(theirs) and bool(ours) and min(theirs) < min(ours)


def lines_of(passes: list[Backward]) -> str:
    return listed(dict.fromkeys(str(backward.place) for backward in passes))


def mixed(event: Step, case: Case, foreign: list[Backward], own: list[Backward]) -> Finding:
    optimizer = case.registry.optimizers[event.optimizer]
    parameters = [record.number for record in optimizer.parameters]
    return case.finding(
        event,
        f"step {event.step} used gradients of {lines_of(foreign)}, a loss that trains another network and has only "
        f"passed through this one, together with its own loss of {lines_of(own)}",
        fix=f"clear this optimizer's gradients (zero_grad) before {own[0].place}",
        evidence=[
            f"{counted(len(foreign), 'backward call')} of the other network left gradients in "
            f"{listed(case.names(parameters), 4)}",
            "the other network's optimizer had used that loss already",
        ],
        parameters=parameters,
    )
