"""What an element of a value is, as a formula of memory: the form in which the compiler fuses.

A `Load` is an element of a buffer at an affine place (a stride per dimension, an offset, and perhaps a place
that another formula names); a `Map` is a scalar expression of others. Views and broadcasts change the strides
of loads and cost nothing. Equal formulas are one object, so equal work is done once. Read next:
compile/statements.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cleargrad.codegen.expr import Expr, Var

HEAVY = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf", "erfc", "sin", "cos", "tan",
    "power", "sinh", "cosh", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "logaddexp", "hypot",
}  # fmt: skip
MEDIUM = {"div", "sqrt", "rsqrt", "reciprocal", "fmod", "remainder", "floor_divide", "trunc_divide"}
CHEAP = 4  # at most this much work is repeated rather than stored


_kinds: dict[np.dtype, str] = {}


def kind_of(dtype: np.dtype) -> str:
    """The name of a dtype; NumPy works it out anew every time."""
    name = _kinds.get(dtype)
    if name is None:
        name = _kinds[dtype] = dtype.name
    return name


@dataclass(eq=False)
class Buffer:
    """Memory for one value: where it comes from is `role`, its place is found by the plan."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype
    role: str  # "inside", "input", "outside", "constant"
    strides: tuple[int, ...]  # in elements

    @property
    def size(self) -> int:
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    def __repr__(self) -> str:
        return f"b{self.number}"


class Load:
    """An element of a buffer. `index` are formulas whose values, times a stride, are added to the place."""

    __slots__ = ("buffer", "dtype", "index", "offset", "shape", "strides", "weight")

    def __init__(self, buffer: Buffer, shape: tuple, strides: tuple, offset: int, index: tuple):
        self.buffer, self.shape, self.strides, self.offset, self.index = buffer, shape, strides, offset, index
        self.dtype = buffer.dtype
        self.weight = sum(place.weight for place, _, _ in index)

    def __repr__(self) -> str:
        places = "".join(f"+{place}*{stride}" for place, stride, _ in self.index)
        return f"{self.buffer}[{self.offset}+{self.strides}{places}]"


class Map:
    """A scalar expression of formulas and numbers, computed in `working` and rounded to `dtype`."""

    __slots__ = ("dtype", "operands", "shape", "tree", "weight", "working")

    def __init__(self, tree: Expr, operands: tuple, working: np.dtype, dtype: np.dtype, shape: tuple):
        self.tree, self.operands, self.working, self.dtype, self.shape = tree, operands, working, dtype, shape
        self.weight = work_of(tree) + sum(x.weight for x in operands if not isinstance(x, Number))

    def __repr__(self) -> str:
        return f"{self.tree.primitive}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True)
class Number:
    """A constant, with the dtype it has as an operand."""

    value: float | int | bool
    dtype: np.dtype

    def __repr__(self) -> str:
        return repr(self.value)


Lazy = Any  # Load | Map | Number


def work_of(tree: Expr) -> int:
    """About how many simple instructions an expression takes."""
    if isinstance(tree, Var) or not isinstance(tree, Expr):
        return 0
    own = 20 if tree.primitive in HEAVY else 4 if tree.primitive in MEDIUM else 1
    return own + sum(work_of(arg) for arg in tree.args)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


class Formulas:
    """Makes formulas, each once."""

    def __init__(self) -> None:
        self.made: dict[tuple, Any] = {}
        self.views: dict[tuple, Any] = {}

    def load(self, buffer: Buffer, shape=None, strides=None, offset: int = 0, index: tuple = ()) -> Load:
        shape = buffer.shape if shape is None else shape
        strides = buffer.strides if strides is None else strides
        strides = tuple(0 if extent == 1 else stride for extent, stride in zip(shape, strides, strict=True))
        key = (id(buffer), shape, strides, offset, tuple((id(place), *rest) for place, *rest in index))
        if key not in self.made:
            self.made[key] = Load(buffer, shape, strides, offset, index)
        return self.made[key]

    def map(self, tree: Expr, operands: tuple, working: np.dtype, dtype: np.dtype, shape: tuple) -> Map:
        key = (
            id(tree),
            tuple(x if isinstance(x, Number) else id(x) for x in operands),
            working,
            dtype,
            shape,
        )
        if key not in self.made:
            self.made[key] = Map(tree, operands, working, dtype, shape)
        return self.made[key]

    def each(
        self, change: Callable[[Load], Load | None], lazy: Lazy, shape: tuple, done: dict
    ) -> Lazy | None:
        """The formula with every load changed; None if one of them cannot be."""
        if isinstance(lazy, Number):
            return lazy
        if id(lazy) in done:
            return done[id(lazy)]
        if isinstance(lazy, Load):
            new: Lazy | None = change(lazy)
        else:
            operands = [self.each(change, x, shape, done) for x in lazy.operands]
            whole = all(x is not None for x in operands)
            new = self.map(lazy.tree, tuple(operands), lazy.working, lazy.dtype, shape) if whole else None
        done[id(lazy)] = new
        return new

    def expand(self, lazy: Lazy, shape: tuple[int, ...]) -> Lazy:
        """Broadcast to a shape."""
        if isinstance(lazy, Number) or lazy.shape == shape:
            return lazy

        def change(load: Load) -> Load:
            strides = (0,) * (len(shape) - len(load.shape)) + load.strides
            index = tuple((self.expand(place, shape), *rest) for place, *rest in load.index)
            return self.load(load.buffer, shape, strides, load.offset, index)

        return self.each(change, lazy, shape, {})

    def view(self, lazy: Lazy, run: Callable[[np.ndarray], np.ndarray], shape: tuple) -> Lazy | None:
        """Seen through an op that returns a NumPy view; None where memory would have to move."""

        def change(load: Load) -> Load | None:
            seen = strides_through(run, load.shape, load.strides)
            if seen is None:
                return None
            places = [(self.view(place, run, shape), *rest) for place, *rest in load.index]
            if any(place is None for place, *_ in places):
                return None
            return self.load(load.buffer, shape, seen[0], load.offset + seen[1], tuple(places))

        return self.each(change, lazy, shape, {})

    def reshape(self, lazy: Lazy, shape: tuple[int, ...]) -> Lazy | None:
        if isinstance(lazy, Number) or lazy.shape == shape:
            return lazy
        return self.view(lazy, lambda array: array.reshape(shape), shape)

    def at(self, lazy: Lazy, dim: int, place: Lazy, shape: tuple[int, ...], count: int) -> Lazy:
        """Read along one dimension, in whose stead `count` others stand, at places given in the new shape."""

        def change(load: Load) -> Load:
            stride, extent = load.strides[dim], load.shape[dim]
            strides = (*load.strides[:dim], *(0,) * count, *load.strides[dim + 1 :])
            index = tuple((self.at(inner, dim, place, shape, count), *rest) for inner, *rest in load.index)
            if stride:
                index += ((place, stride, extent),)
            return self.load(load.buffer, shape, strides, load.offset, index)

        return self.each(change, lazy, shape, {})


def strides_through(run: Callable, shape: tuple, strides: tuple) -> tuple[tuple[int, ...], int] | None:
    """Strides and offset, in elements, of a view of an array with these; None if NumPy would copy."""
    reach = 1 + sum(
        (extent - 1) * stride for extent, stride in zip(shape, strides) if extent > 1 and stride > 0
    )
    lowest = sum((extent - 1) * stride for extent, stride in zip(shape, strides) if extent > 1 and stride < 0)
    memory = np.empty(
        reach - lowest, np.int8
    )  # one byte an element: strides in bytes are strides in elements
    array = as_strided(memory[-lowest:], shape, strides)
    seen = run(array)
    if 0 in seen.shape:
        return contiguous(seen.shape), 0
    if not np.may_share_memory(seen, memory):
        return None
    return seen.strides, seen.__array_interface__["data"][0] - array.__array_interface__["data"][0]
