"""Parameters and optimizers that do not belong together.

Each verdict is about the whole run ("never received", "in no optimizer that steps"), so it waits for the end; what
can only be seen while models are alive is noted at the steps. Read next: rules/replacement.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cleargrad.doctor.events import Accumulate, End, Forward, GradWrite, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.places import Place
from cleargrad.doctor.registry import Optimizer, Parameter
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import counted, listed

PATIENCE = 3  # steps, or backward passes


def steps_at_all(optimizer: Optimizer) -> bool:
    """Whether an optimizer has stepped, or would have but for infinite gradients."""
    return optimizer.steps + optimizer.skips > 0


@rule("parameter-not-in-optimizer", "warning", on=(Accumulate, Forward, GradWrite, Step, End))
def parameter_not_in_optimizer(event: Any, case: Case) -> Iterator[Finding]:
    """A parameter receives gradients, but no optimizer that steps holds it and nobody else writes it."""
    memory = case.memory
    if isinstance(event, Accumulate):
        note_values(event, case)
    elif isinstance(event, Forward):
        evaluating = set(event.evaluating)
        memory.setdefault("evaluating", set()).update(evaluating)
        memory.setdefault("training", set()).update(set(event.modules) - evaluating)
    elif isinstance(event, GradWrite):
        memory["by hand"] = True
    elif isinstance(event, Step):
        if event.count == 2:
            memory.setdefault("roots", {}).update(roots_of_parameters(case))
        note_company(event, case)
    elif not memory.get("by hand"):
        yield from outsiders(event, case)


def note_values(event: Accumulate, case: Case) -> None:
    """While no optimizer has stepped, whether the program updates the parameters itself."""
    if any(steps_at_all(optimizer) for optimizer in case.registry.optimizers):
        return
    values = case.memory.setdefault("values", {})
    for number in event.parameters:
        record = case.registry.parameters[number]
        tensor = record.ref()
        if tensor is None or record.received not in (1, PATIENCE):
            continue
        now = tensor.detach().reshape(-1)[:16].tolist()
        if values.setdefault(number, now) != now:
            record.written += 1


def note_company(event: Step, case: Case) -> None:
    """Which parameters the backward passes fill whose contributions elsewhere a step uses."""
    use, company = case.ledger.use, case.memory.setdefault("company", {})
    own = {record.number for record in case.registry.optimizers[event.optimizer].parameters}
    passes = {each.number: each for found in (() if use is None else use.fresh.values()) for each in found}
    for number in {number for each in passes.values() for number in each.parameters} - own:
        company[number] = company.get(number, 0) + 1


def outsiders(event: End, case: Case) -> Iterator[Finding]:
    optimizers = case.registry.optimizers
    stepping = [optimizer for optimizer in optimizers if steps_at_all(optimizer)]
    outside: dict[int, list[Parameter]] = {}
    idle: dict[int, list[Parameter]] = {}
    for record in case.registry.parameters:
        held = [optimizers[number] for number in record.optimizers]
        if record.written or record.steps or any(steps_at_all(optimizer) for optimizer in held):
            continue
        if held:
            if record.received > PATIENCE:
                idle.setdefault(held[0].number, []).append(record)
        elif case.memory.get("company", {}).get(record.number, 0) >= 2 and not is_left_alone(record, case):
            nearest = nearest_optimizer(record, stepping, case)
            if nearest is not None and nearest.steps >= 2:
                outside.setdefault(nearest.number, []).append(record)
    for number, records in outside.items():
        yield not_held(event, case, optimizers[number], records)
    for number, records in idle.items():
        yield never_stepped(event, case, optimizers[number], records)


def is_left_alone(record: Parameter, case: Case) -> bool:
    """Whether its network is in eval mode and only passes gradients on, or another rule speaks of it."""
    memory = case.memory
    if record.modules & memory.get("evaluating", set()) and not record.modules & memory.get(
        "training", set()
    ):
        return True
    return stands_in(record, case)


def stands_in(record: Parameter, case: Case) -> bool:
    """Whether it took the place of one that an optimizer holds; of that, optimizer-stale-parameter speaks."""
    return any(case.registry.parameters[number].optimizers for number in record.replaces)


def roots_of_parameters(case: Case) -> dict[int, int]:
    """By parameter, the identity of the outermost model that holds it."""
    found = {}
    numbers = case.registry.parameter_numbers.by_id
    for root in case.registry.roots():
        for tensor in root.parameters():
            number = numbers.get(id(tensor))
            if number is not None:
                found[number] = id(root)
    return found


def nearest_optimizer(record: Parameter, stepping: list[Optimizer], case: Case) -> Optimizer | None:
    """The optimizer that holds other parameters of the same model, or else the first."""
    roots = case.memory.get("roots", {})
    root = roots.get(record.number)
    for optimizer in stepping:
        if root is not None and any(roots.get(other.number) == root for other in optimizer.parameters):
            return optimizer
    return stepping[0] if stepping else None


def not_held(event: End, case: Case, optimizer: Optimizer, records: list[Parameter]) -> Finding:
    numbers = [record.number for record in records]
    names = case.names(numbers)
    return case.finding(
        event,
        f"{listed(names, 4)} received gradients from {counted(max(r.received for r in records), 'backward call')}, "
        f"but no optimizer holds {'it' if len(names) == 1 else 'them'}, so training never changes "
        f"{'it' if len(names) == 1 else 'them'}",
        fix=f"give {'it' if len(names) == 1 else 'them'} to the {optimizer.kind} made at {optimizer.place} "
        "(add_param_group for one that exists already), or freeze with requires_grad_(False)",
        evidence=[
            f"the {optimizer.kind} made at {optimizer.place} holds "
            f"{counted(len(optimizer.parameters), 'parameter')} and has stepped {optimizer.steps} times",
            "nothing else in the program has written these parameters",
        ],
        place=optimizer.place,
        parameters=numbers,
        cause=optimizer.number,
    )


def never_stepped(event: End, case: Case, optimizer: Optimizer, records: list[Parameter]) -> Finding:
    numbers = [record.number for record in records]
    return case.finding(
        event,
        f"the {optimizer.kind} made at {optimizer.place} never stepped, although its parameters received gradients "
        f"from {counted(max(record.received for record in records), 'backward call')}",
        fix="call step() of this optimizer after backward()",
        evidence=[f"never changed: {listed(case.names(numbers), 4)}"],
        place=optimizer.place,
        parameters=numbers,
        cause=optimizer.number,
    )


# In an optimizer, but never reached by a gradient ----------------------------------------------------------


@rule("parameter-without-gradient", "warning", on=(Step, Forward, End))
def parameter_without_gradient(event: Step | Forward | End, case: Case) -> Iterator[Finding]:
    """A parameter of a stepping optimizer never receives a gradient, and nobody writes it."""
    memory = case.memory
    if isinstance(event, Forward):
        memory.setdefault("evaluating", set()).update(event.evaluating)
        memory.setdefault("unrecorded", set()).update(event.unrecorded)
    elif isinstance(event, Step):
        if event.without_gradient and event.with_gradient:
            note_missing(event, case)
    else:
        yield from never_reached(event, case)


def note_missing(event: Step, case: Case) -> None:
    missing = case.memory.setdefault("missing", {})
    records = case.registry.parameters
    for number in event.without_gradient:
        if records[number].received:
            missing.pop(number, None)
            continue
        entry = missing.setdefault(number, [event, 0])
        entry[1] += 1
        if entry[1] == 2:
            case.memory.setdefault("excused", {})[number] = excuse(records[number], case)


def excuse(record: Parameter, case: Case) -> Any:
    """Why a parameter may do without a gradient, looked up while its model is alive: True for a module in eval mode
    or one that the model has lost, else the parameters of modules that may run in its place."""
    modules = [case.registry.modules.refs[number]() for number in record.modules]
    alive = [module for module in modules if module is not None]
    tensor = record.ref()
    if record.modules and not any(any(p is tensor for p in module._parameters.values()) for module in alive):
        return True
    if alive and not any(module.training for module in alive):
        return True
    return alternatives(alive, case)


def alternatives(modules: list[Any], case: Case) -> tuple[int, ...]:
    """Parameters of other entries of the lists and dictionaries of modules that the given ones stand in."""
    numbers = case.registry.parameter_numbers.by_id
    wanted = {id(module) for module in modules}
    found: list[int] = []
    for _, container in case.registry.modules.alive():
        if type(container).__name__ not in ("ModuleList", "ModuleDict"):
            continue
        entries = [entry for entry in container._modules.values() if entry is not None]
        if any(id(each) in wanted for entry in entries for each in entry.modules()):
            found += [numbers[id(p)] for entry in entries for p in entry.parameters() if id(p) in numbers]
    return tuple(found)


def never_reached(event: End, case: Case) -> Iterator[Finding]:
    records = case.registry.parameters
    groups: dict[int, list[int]] = {}
    steps: dict[int, Step] = {}
    for number, (step, count) in case.memory.get("missing", {}).items():
        record, excused = records[number], case.memory.get("excused", {}).get(number, ())
        if count < PATIENCE or record.received or record.written or excused is True:
            continue
        if number in case.registry.explained:
            continue
        usual = max(records[other].received for other in step.with_gradient)
        if any(0 < records[other].received < usual for other in excused):
            continue  # which of them runs depends on the batch
        groups.setdefault(step.optimizer, []).append(number)
        steps[step.optimizer] = step
    for optimizer, numbers in groups.items():
        yield without(event, case, steps[optimizer], case.registry.optimizers[optimizer], numbers)


def without(event: End, case: Case, step: Step, optimizer: Optimizer, numbers: list[int]) -> Finding:
    names = case.names(numbers)
    off = [n for n in numbers if case.registry.parameters[n].modules & case.memory.get("unrecorded", set())]
    them = "it" if len(names) == 1 else "them"
    why = "the layer ran under no_grad()" if off else f"no backward pass has ever reached {them}"
    return case.finding(
        event,
        f"{listed(names, 4)} never received a gradient in {counted(optimizer.steps, 'step')} of the optimizer that "
        f"holds {them}: {why}",
        fix="use the layer in forward() so that the loss depends on it, or leave it out of the optimizer "
        "(freeze it with requires_grad_(False) if it is meant to rest)",
        evidence=[f"{counted(len(step.with_gradient), 'other parameter')} did receive gradients"],
        place=step.place,
        parameters=numbers,
        cause=optimizer.number,
    )


# Outside every optimizer, filling up -----------------------------------------------------------------------


@rule("outside-accumulation", "warning", on=(Step, End))
def outside_accumulation(event: Step | End, case: Case) -> Iterator[Finding]:
    """Gradients of parameters that no optimizer holds are added up and never cleared."""
    memory = case.memory
    if isinstance(event, Step):
        memory["last"] = event
        count = event.count
        if count < PATIENCE or (count > PATIENCE and count & (count - 1)):
            return
    elif "last" not in memory or memory["last"].count < PATIENCE:
        return
    full = [record for record in case.registry.parameters if fills_up(record, case)]
    by_line: dict[Place | None, list[Parameter]] = {}
    for record in full:
        by_line.setdefault(case.ledger.bucket(record.number).live[-1].place, []).append(record)
    for place, records in by_line.items():
        if memory.get("told") == place:
            continue
        memory["told"] = place
        yield filling(event, case, place, records)


def fills_up(record: Parameter, case: Case) -> bool:
    if record.optimizers or record.written or record.received < PATIENCE or stands_in(record, case):
        return False
    bucket = case.ledger.bucket(record.number)
    return not bucket.by_hand and len({backward.step for backward in bucket.live}) >= PATIENCE


def filling(event: Step | End, case: Case, place: Place | None, records: Iterable[Parameter]) -> Finding:
    numbers = [record.number for record in records]
    count = max(
        len(case.ledger.bucket(number).live) + case.ledger.bucket(number).merged for number in numbers
    )
    names, them = listed(case.names(numbers), 4), "it" if len(numbers) == 1 else "them"
    return case.finding(
        event,
        f".grad of {names} holds the sum of {counted(count, 'backward call')} and keeps growing: no optimizer "
        f"holds {them}, so optimizer.zero_grad() never clears {them}",
        fix=f"freeze {them} with requires_grad_(False), run that network under no_grad(), or clear with "
        "model.zero_grad()",
        evidence=[f"filled by {place} in every step, cleared by nobody"],
        place=place,
        parameters=numbers,
    )
