"""What the programs share: the list of all, and small tensors and layers."""

from __future__ import annotations

import math
from collections.abc import Callable

PROGRAMS: list[tuple[str, str, Callable]] = []


def program(kind: str) -> Callable:
    """Registers a program under its class of attack."""

    def register(function: Callable) -> Callable:
        PROGRAMS.append((function.__name__, kind, function))
        return function

    return register


def row(torch, n: int = 4, start: float = 1.0):
    """start, start + 0.5, start + 1, ..."""
    return torch.arange(n, dtype=torch.float32) * 0.5 + start


def linear(torch, n: int, m: int):
    """A linear layer whose numbers need no random generator and are far from saturating anything."""
    layer = torch.nn.Linear(n, m)
    weights = [0.4 * math.sin(1.3 * i + 1) for i in range(n * m)]
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights).reshape(m, n))
        layer.bias.copy_(torch.arange(m, dtype=torch.float32) * 0.05 + 0.1)
    return layer


def facts(value):
    """All that can be seen of a value by itself: numbers, layout, history and version of a tensor."""
    if hasattr(value, "requires_grad") and hasattr(value, "detach"):
        history = value.requires_grad, value.is_leaf, value.grad_fn is None
        layout = type(value).__name__, str(value.dtype), tuple(value.shape), tuple(value.stride())
        return value.detach().tolist(), history, layout, value._version
    if isinstance(value, dict):
        return "dict", [(key, facts(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [facts(part) for part in value]
    return type(value).__name__, value


def attempted(call):
    """What a call gives, or the type of what it raises."""
    try:
        return facts(call())
    except Exception as error:
        return type(error).__name__


def played(call, *changes, first=7, then=6):
    """A call over and over, so that Python is left out of it; then again behind each of the changes."""
    out = [attempted(call) for _ in range(first)]
    for change in changes:
        change()
        out += [attempted(call) for _ in range(then)]
    return out


def state_of(model, optimizer=None):
    """A model's parameters with their gradients, its buffers, and an optimizer's options and state.

    Versions are left out of what optimizers write: how often a step counts depends on how it is made.
    """
    parts = [(facts(p)[:-1], None if p.grad is None else facts(p.grad)) for p in model.parameters()]
    parts += [facts(buffer) for buffer in model.buffers()]
    if optimizer is not None:
        options = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
        states = [[(name, facts(part)[:3]) for name, part in s.items()] for s in optimizer.state.values()]
        parts += [facts(options), states]
    return parts


class Box:
    """An object with attributes."""

    def __init__(self, **attributes):
        vars(self).update(attributes)
