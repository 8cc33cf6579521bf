"""Nested values: arguments and results taken apart into tensors and the rest, and results put together again.

Read next: compile/effects.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.compile.facts import Same, is_plain
from cleargrad.core.tensor import Tensor


def key_of(value: Any, tensors: list[Tensor]) -> Any:
    """A hashable description of an argument. Tensors go to the list; only their layout is part of the key."""
    if type(value) is Tensor:
        tensors.append(value)
        data = value._data
        return data.shape, data.dtype, data.strides, wants_gradient(value)
    if is_plain(value):
        return type(value), value
    if isinstance(value, (tuple, list)):
        return type(value), tuple([key_of(part, tensors) for part in value])
    if isinstance(value, dict):
        return type(value), tuple([(name, key_of(part, tensors)) for name, part in value.items()])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return type(value), tuple([key_of(getattr(value, name), tensors) for name in names])
    if isinstance(value, np.ndarray):
        raise Unsupported("an argument is a NumPy array, whose values could change unseen; pass a tensor")
    return Same(value)


class Unsupported(Exception):
    """An argument or a result that no program can take or give."""


class OutOfRange(IndexError):
    """A run that was given up before it had written anything: an eager call says what is wrong, and where."""


def wants_gradient(tensor: Tensor) -> int:
    """0: no; 1: it is a leaf; 2: it comes from elsewhere in a graph."""
    if tensor._edge is None:
        return 0
    return 1 if tensor.is_leaf else 2


Builder = Callable[[list], Any]  # from the parts of a result to the result


def taken_apart(value: Any, parts: list, is_part: Callable[[Any], bool]) -> Builder:
    """How to put a result together again; the parts that differ from call to call go to the list."""
    if is_part(value):
        position = next((number for number, part in enumerate(parts) if part is value), len(parts))
        if position == len(parts):
            parts.append(value)
        return lambda found: found[position]
    if isinstance(value, (tuple, list)):
        builders = [taken_apart(part, parts, is_part) for part in value]
        kind = type(value)
        if hasattr(kind, "_fields"):
            return lambda found: kind(*[build(found) for build in builders])
        return lambda found: kind([build(found) for build in builders])  # type: ignore[call-arg]
    if isinstance(value, dict) and any_part(value, is_part):
        named = {name: taken_apart(part, parts, is_part) for name, part in value.items()}
        form = type(value)
        if form is dict:
            return lambda found: {name: build(found) for name, build in named.items()}
        return lambda found: refilled(value, {name: build(found) for name, build in named.items()})
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and any_part(value, is_part):
        fields = {
            field.name: taken_apart(getattr(value, field.name), parts, is_part)
            for field in dataclasses.fields(value)
            if field.init
        }
        return lambda found: type(value)(**{name: build(found) for name, build in fields.items()})
    if any_part(value, is_part):
        raise Unsupported(f"a result of type {type(value).__name__} holds tensors")
    return lambda found: value


def refilled(like: dict, items: dict) -> dict:
    """A dictionary of another class, with other values; an OrderedDict, a defaultdict or the user's own."""
    import copy

    made = copy.copy(like)
    for name, value in items.items():
        made[name] = value
    return made


def any_part(value: Any, is_part: Callable[[Any], bool]) -> bool:
    if is_part(value):
        return True
    if isinstance(value, (tuple, list)):
        return any(any_part(part, is_part) for part in value)
    if isinstance(value, dict):
        return any(any_part(part, is_part) for part in value.values())
    table = getattr(value, "__dict__", None)
    if not isinstance(table, dict) or callable(value) or isinstance(value, type):
        return False
    return any(is_part(part) for part in table.values())
