"""What an optimizer's step depends on: the options of its groups, the state of its parameters, and hooks.

Read next: compile/proofs/witness.py.
"""

from __future__ import annotations

from operator import is_, itemgetter
from typing import Any

from cleargrad.compile.proofs.rewriting import Unproven
from cleargrad.compile.traces import equal
from cleargrad.core.tensor import Tensor
from cleargrad.optim import optimizer as optimizers
from cleargrad.optim.rule import is_input


class Options:
    """Whether the options of a group are such as they were, but for numbers that programs read at every run."""

    def __init__(self, optimizer: Any, group: dict[str, Any]) -> None:
        self.inputs = set(optimizer._INPUTS)
        self.names = [name for name in group if name != "params"]
        self.chosen = (
            itemgetter(*self.names) if len(self.names) > 1 else lambda group: (group[self.names[0]],)
        )
        self.values = self.chosen(group)
        for name, value in zip(self.names, self.values):
            parts = value if type(value) is tuple else (value,)
            if not all(type(part) in (int, float, bool, str, type(None)) for part in parts):
                raise Unproven(f"the option {name} of an optimizer is no plain number")

    def __call__(self, group: dict[str, Any]) -> bool:
        values = self.chosen(group)
        if len(group) != len(self.names) + 1:
            return False
        if not all(map(is_, values, self.values)):
            if not all(map(self.is_like, self.names, values, self.values)):
                return False
            self.values = values
        return True

    def is_like(self, name: str, now: Any, before: Any) -> bool:
        if type(now) is tuple and type(before) is tuple and len(now) == len(before):
            return all(self.is_like(name, *parts) for parts in zip(now, before))
        if name in self.inputs and is_input(name, now) and is_input(name, before):
            return type(now) is type(before)
        return equal(now, before)


class States:
    """Whether an optimizer has the very state for each parameter that it had."""

    def __init__(self, optimizer: Any) -> None:
        self.names: list[tuple[int, int, list[str], list[int]]] = []
        self.tensors: list[Tensor] = []
        for k, group in enumerate(optimizer.param_groups):
            for number, parameter in enumerate(group["params"]):
                state = optimizer.state.get(parameter) or {}
                if not all(isinstance(value, Tensor) or value is None for value in state.values()):
                    raise Unproven("an optimizer's state holds more than tensors")
                self.names.append((k, number, list(state), list(map(id, state.values()))))
                self.tensors += [value for value in state.values() if value is not None]

    def __call__(self, optimizer: Any) -> bool:
        groups, states = optimizer.param_groups, optimizer.state
        if not states and not self.tensors:
            return True
        for k, number, names, ids in self.names:
            state = states.get(groups[k]["params"][number])
            if not state:
                if names:
                    return False
            elif list(map(id, state.values())) != ids or list(state) != names:
                return False
        return True


def is_followed(optimizer: Any) -> bool:
    """Whether hooks see the steps of an optimizer."""
    own = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    return bool(own or optimizers.EVERY_STEP_BEFORE or optimizers.EVERY_STEP_AFTER)
