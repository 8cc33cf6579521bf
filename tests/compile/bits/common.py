"""What the programs share: their registry, and the loop around a loss.

A program is a function of the library. It returns `step`, which trains on fresh data, and `state`, which lists
all tensors that training changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Program = Callable[[Any], tuple[Callable[[int], Any], Callable[[], list]]]
PROGRAMS: dict[str, Program] = {}


def program(build: Program) -> Program:
    """Register a program under its function's name."""
    assert build.__name__ not in PROGRAMS
    PROGRAMS[build.__name__] = build
    return build


def weights(torch: Any, *shapes: tuple[int, ...], scale: float = 0.3, dtype: Any = None) -> list:
    """One leaf for each shape, normally distributed."""
    return [(torch.randn(shape, dtype=dtype) * scale).requires_grad_() for shape in shapes]


def training(optimizer: Any, loss_of: Callable[[int], Any], *others: Any) -> tuple[Callable, Callable]:
    """The usual step, and the state of an optimizer and of others: modules, optimizers, tensors."""

    def step(k: int) -> Any:
        optimizer.zero_grad()
        loss = loss_of(k)
        loss.backward()
        optimizer.step()
        return loss

    return step, state_of(optimizer, *others)


def state_of(*holders: Any) -> Callable[[], list]:
    return lambda: [tensor for holder in holders for tensor in tensors_in(holder)]


def tensors_in(holder: Any) -> Iterator[Any]:
    """Parameters with their gradients, buffers, and an optimizer's state."""
    if holder is None or isinstance(holder, (bool, int, float, str)):
        return
    if isinstance(holder, dict):
        for value in holder.values():
            yield from tensors_in(value)
    elif isinstance(holder, (list, tuple)):
        for value in holder:
            yield from tensors_in(value)
    elif hasattr(holder, "param_groups"):
        for group in holder.param_groups:
            for parameter in group["params"]:
                yield from tensors_in([parameter, parameter.grad, dict(holder.state.get(parameter, {}))])
    elif hasattr(holder, "named_parameters"):
        for parameter in holder.parameters():
            yield from tensors_in([parameter, parameter.grad])
        yield from holder.buffers()
    elif hasattr(holder, "state_dict"):
        yield from tensors_in(holder.state_dict())
    elif hasattr(holder, "detach"):
        yield holder
