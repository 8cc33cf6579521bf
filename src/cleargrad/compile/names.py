"""Names of tensors in reports: parameters by their place in the model, gradients and state after their parameter.

Arguments are called as in the function that takes them. Read next: compile/watched.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.nn.module import Module
from cleargrad.optim import Optimizer


def names_of_tensors(things: dict[str, Any]) -> dict[int, str]:
    """Names of parameters, buffers, gradients and state in some objects, by the id of their arrays."""
    found: dict[int, str] = {}
    several = sum(isinstance(thing, Module) for thing in things.values()) > 1
    for name, thing in things.items():
        if isinstance(thing, Module):
            prefix = f"{name}." if several and name else ""
            for path, tensor in [*thing.named_parameters(), *thing.named_buffers()]:
                note(found, tensor, prefix + path)
        elif isinstance(thing, (list, tuple)):
            for number, tensor in enumerate(thing):
                note(found, tensor, f"{name}[{number}]")
        else:
            note(found, thing, name)
    for name, thing in things.items():
        if isinstance(thing, Optimizer):
            note_state(found, thing, name)
    return found


def note(found: dict[int, str], tensor: Any, name: str) -> None:
    array = getattr(tensor, "_data", None)
    if array is None:
        return
    found.setdefault(id(array), name)
    if tensor._grad is not None:
        found.setdefault(id(tensor._grad._data), f"{name}.grad")


def note_state(found: dict[int, str], optimizer: Any, name: str) -> None:
    number = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            own = found.get(id(parameter._data)) or f"{name}.parameter{number}"
            note(found, parameter, own)
            for field, value in optimizer.state.get(parameter, {}).items():
                note(found, value, f"{own}.{field}")
            number += 1


def things_of(function: Callable) -> Iterator[tuple[str, Any]]:
    """What a function finds by name: its own object, the variables around it, and globals it mentions."""
    owner = getattr(function, "__self__", None)
    if owner is not None:
        yield "", owner
    plain = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(plain, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=True):
        with suppress(ValueError):  # a variable that has no value yet
            yield name, cell.cell_contents
    for name in code.co_names:
        if name in plain.__globals__:
            yield name, plain.__globals__[name]


def names_of_arguments(function: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[int, str]:
    """What a function calls the tensors it is given, by their ids."""
    owner = getattr(function, "__self__", None)
    try:
        signature = inspect.signature(owner.forward if isinstance(owner, Module) else function)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {}
    found: dict[int, str] = {}
    for name, value in given.items():
        if isinstance(value, Tensor):
            found[id(value)] = name
        elif isinstance(value, (list, tuple)):
            found.update({id(part): f"{name}[{k}]" for k, part in enumerate(value)})
        elif isinstance(value, dict):
            found.update({id(part): f"{name}[{key!r}]" for key, part in value.items()})
    return found
