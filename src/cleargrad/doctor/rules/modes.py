"""Training in eval mode: batch statistics that stand still and dropout that drops nothing.

A network in eval mode that does not train is fine; so is a backward pass that no step uses. Read next:
rules/freezing.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cleargrad.doctor.events import Backward, Forward, ModeChange, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import listed

REMEMBERED = 64  # backward passes
PASSES_AFTER = 4  # passes of other networks may come between a network's forward and its own backward


@rule("eval-mode-training", "warning", on=(ModeChange, Forward, Backward, Step), every_time=True)
def eval_mode_training(event: Any, case: Case) -> Iterator[Finding]:
    """A step trained layers whose BatchNorm or Dropout was in eval mode."""
    memory = case.memory
    if isinstance(event, ModeChange):
        note_mode(event, case)
    elif isinstance(event, Forward):
        evaluating = memory.setdefault("evaluating", set())
        evaluating.difference_update(event.modules)
        evaluating.update(event.evaluating)
        memory["passes left"] = PASSES_AFTER
    elif isinstance(event, Backward):
        passes = memory.setdefault("passes", {})
        if memory.get("evaluating"):
            passes[event.number] = tuple(memory["evaluating"])
            memory["passes left"] -= 1
            if not memory["passes left"]:
                memory["evaluating"] = set()
            while len(passes) > REMEMBERED:
                del passes[next(iter(passes))]
    elif memory.get("passes"):
        yield from trained_in_eval(event, case)


def note_mode(event: ModeChange, case: Case) -> None:
    """Which call put each module into eval mode."""
    module = case.registry.modules.refs[event.module]()
    calls = case.memory.setdefault("calls", {})
    for each in () if module is None else module.modules():
        calls[case.registry.module(each)] = None if event.training else event


def trained_in_eval(event: Step, case: Case) -> Iterator[Finding]:
    use, passes = case.ledger.use, case.memory["passes"]
    if use is None:
        return
    trained = {number for number, found in use.fresh.items() if any(each.number in passes for each in found)}
    if not trained:
        return
    numbers = {each.number for found in use.fresh.values() for each in found}
    evaluating = {module for number in numbers for module in passes.get(number, ())}
    wrong = [module for module in sorted(evaluating) if is_wrong(module, evaluating, trained, case)]
    groups: dict[Any, list[int]] = {}
    for module in wrong:
        groups.setdefault(case.memory.get("calls", {}).get(module), []).append(module)
    for call, modules in groups.items():
        yield in_eval(event, case, call, modules)


def is_wrong(number: int, evaluating: set[int], trained: set[int], case: Case) -> bool:
    module, kind = case.registry.modules.refs[number](), case.registry.module_kinds[number]
    if module is None:
        return False
    if "BatchNorm" in kind:
        own = [p for p in module._parameters.values() if p is not None]
        return trains(own, trained, case) if own else parent_trains(module, evaluating, trained, case)
    return drops(module, kind) and parent_trains(module, evaluating, trained, case)


def drops(module: Any, kind: str) -> bool:
    share = getattr(module, "p", 0) if "Dropout" in kind else getattr(module, "dropout", 0)
    return isinstance(share, (int, float)) and share > 0


def trains(tensors: Any, trained: set[int], case: Case) -> bool:
    numbers = case.registry.parameter_numbers.by_id
    return any(numbers.get(id(tensor)) in trained for tensor in tensors)


def parent_trains(module: Any, evaluating: set[int], trained: set[int], case: Case) -> bool:
    """Whether the smallest module in eval mode around it that has parameters is being trained."""
    around = []
    for number in evaluating:
        outer = case.registry.modules.refs[number]()
        if outer is not None and any(each is module for each in outer.modules()):
            tensors = list(outer.parameters())
            if tensors:
                around.append(tensors)
    return bool(around) and trains(min(around, key=len), trained, case)


def in_eval(event: Step, case: Case, call: ModeChange | None, modules: list[int]) -> Finding:
    kinds = listed(sorted({case.registry.module_kinds[module] for module in modules}))
    since = "" if call is None else f" since {call.place}"
    return case.finding(
        event,
        f"step {event.step} trained a model whose {kinds} layers are in eval mode{since}: BatchNorm does not learn "
        "the data's statistics there, and Dropout drops nothing",
        fix="call model.train() before training goes on (after validation, too)",
        evidence=[f"{len(modules)} such layers ran in the forward pass of {event.place}, step {event.step}"],
        place=None if call is None else call.place,
        parameters=(),
    )
