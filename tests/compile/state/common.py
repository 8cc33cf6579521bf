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
