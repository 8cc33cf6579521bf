"""Elementwise fusion: what an element of a value is, as a formula of memory.

A `Load` is an element of a buffer at an affine place (a stride per dimension, an offset, and perhaps a place
that another formula names); a `Map` is a scalar expression of others. Views and broadcasts change the strides
of loads and cost nothing. Equal formulas are one object, so equal work is done once. Read next:
schedule/concatenation.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, ClassVar

import numpy as np

from cleargrad.expr.expr import Expr, Var

HEAVY = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf", "erfc", "normal_below",
    "sin", "cos", "tan", "power", "sinh", "cosh", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh",
    "logaddexp", "hypot",
}  # fmt: skip
MEDIUM = {"div", "sqrt", "rsqrt", "reciprocal", "fmod", "remainder", "floor_divide", "trunc_divide"}
CHEAP = 4  # at most this much work is repeated rather than stored
KEPT = 20_000  # views whose strides are remembered


_kinds: dict[np.dtype, str] = {}


def kind_of(dtype: np.dtype) -> str:
    """The name of a dtype; NumPy works it out anew every time."""
    name = _kinds.get(dtype)
    if name is None:
        name = _kinds[dtype] = dtype.name
    return name


class Buffer:
    """Memory for one value: where it comes from is `role`, its place is found by the plan."""

    __slots__ = ("dtype", "number", "role", "shape", "size", "strides")

    def __init__(
        self, number: int, shape: tuple[int, ...], dtype: np.dtype, role: str, strides: tuple[int, ...]
    ):
        self.number, self.shape, self.dtype = number, shape, dtype
        self.role = role  # "inside", "input", "outside", "constant"
        self.strides = strides  # in elements
        self.size = prod(shape)

    def __repr__(self) -> str:
        return f"b{self.number}"


class Load:
    """An element of a buffer. `index` are formulas whose values, times a stride, are added to the place."""

    __slots__ = ("behind", "buffer", "dtype", "index", "offset", "shape", "strides", "weight")

    def __init__(self, buffer: Buffer, shape: tuple, strides: tuple, offset: int, index: tuple):
        self.buffer, self.shape, self.strides, self.offset, self.index = buffer, shape, strides, offset, index
        self.dtype = buffer.dtype
        self.weight = sum([place.weight for place, _, _ in index]) if index else 0
        self.behind: tuple[Load, ...] = ()  # the loads in the index
        if index:
            self.behind = tuple(dict.fromkeys([x for place, _, _ in index for x in place.loads]))

    @property
    def loads(self) -> tuple[Load, ...]:
        """Every load in a formula, once; not kept, since what knows itself is garbage that Python has to find."""
        return (self, *self.behind)

    def __repr__(self) -> str:
        places = "".join(f"+{place}*{stride}" for place, stride, _ in self.index)
        return f"{self.buffer}[{self.offset}+{self.strides}{places}]"


class Map:
    """A scalar expression of formulas and numbers, computed in `working` and rounded to `dtype`."""

    __slots__ = ("dtype", "loads", "operands", "shape", "tree", "weight", "working")

    def __init__(self, tree: Expr, operands: tuple, working: np.dtype, dtype: np.dtype, shape: tuple):
        self.tree, self.operands, self.working, self.dtype, self.shape = tree, operands, working, dtype, shape
        weight, loads = work_of(tree), ()
        for x in operands:
            weight += x.weight
            more = x.loads
            if more:
                loads = tuple(dict.fromkeys(loads + more)) if loads else more
        self.weight = weight
        self.loads: tuple[Load, ...] = loads

    def __repr__(self) -> str:
        return f"{self.tree.primitive}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True)
class Number:
    """A constant, with the dtype it has as an operand."""

    value: float | int | bool
    dtype: np.dtype
    weight: ClassVar[int] = 0
    loads: ClassVar[tuple] = ()

    @cached_property
    def key(self) -> tuple:
        """What makes two numbers the same: zeros differ by their sign."""
        return self.dtype, type(self.value), repr(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


Lazy = Any  # Load | Map | Number


@lru_cache(maxsize=8192)
def work_of(tree: Expr) -> int:
    """About how many simple instructions an expression takes; what stands in it twice is computed once."""
    seen: dict[int, int] = {}

    def visit(node: Any) -> None:
        if id(node) in seen or isinstance(node, Var) or not isinstance(node, Expr):
            return
        seen[id(node)] = 20 if node.primitive in HEAVY else 4 if node.primitive in MEDIUM else 1
        for arg in node.args:
            visit(arg)

    visit(tree)
    return sum(seen.values())


@lru_cache(maxsize=8192)
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
        self.seen: dict[Any, dict] = {}  # by what was done, what became of formulas
        self.numbers: dict[tuple, Number] = {}

    def load(self, buffer: Buffer, shape=None, strides=None, offset: int = 0, index: tuple = ()) -> Load:
        shape = buffer.shape if shape is None else shape
        strides = buffer.strides if strides is None else strides
        if 1 in shape:
            strides = tuple([0 if extent == 1 else stride for extent, stride in zip(shape, strides)])
        places = tuple([(id(place), *rest) for place, *rest in index]) if index else ()
        key = (id(buffer), shape, strides, offset, places)
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = Load(buffer, shape, strides, offset, index)
        return found

    def map(self, tree: Expr, operands: tuple, working: np.dtype, dtype: np.dtype, shape: tuple) -> Map:
        names = tuple([x.key if type(x) is Number else id(x) for x in operands])
        key = (id(tree), names, working, dtype, shape)
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = Map(tree, operands, working, dtype, shape)
        return found

    def number(self, value: float | int | bool, dtype: np.dtype) -> Number:
        key = (type(value), repr(value), dtype)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = Number(value, dtype)
        return found

    def each(
        self, change: Callable[[Load], Load | None], lazy: Lazy, shape: tuple, done: dict
    ) -> Lazy | None:
        """The formula with every load changed; None if one of them cannot be."""
        if type(lazy) is Number:
            return lazy
        if id(lazy) in done:
            return done[id(lazy)]
        if type(lazy) is not Map:
            new: Lazy | None = change(lazy)
        else:
            operands = tuple([self.each(change, x, shape, done) for x in lazy.operands])
            new = None
            if None not in operands:
                new = self.map(lazy.tree, operands, lazy.working, lazy.dtype, shape)
        done[id(lazy)] = new
        return new

    def done(self, key: Any) -> dict:
        """What has become of formulas by the same change so far; nothing for changes that have no key."""
        return {} if key is None else self.seen.setdefault(key, {})

    def expand(self, lazy: Lazy, shape: tuple[int, ...]) -> Lazy:
        """Broadcast to a shape."""
        if type(lazy) is Number or lazy.shape == shape:
            return lazy
        if type(lazy) is Load and not lazy.index:
            strides = (0,) * (len(shape) - len(lazy.shape)) + lazy.strides
            return self.load(lazy.buffer, shape, strides, lazy.offset)

        def change(load: Load) -> Load:
            strides = (0,) * (len(shape) - len(load.shape)) + load.strides
            index = tuple((self.expand(place, shape), *rest) for place, *rest in load.index)
            return self.load(load.buffer, shape, strides, load.offset, index)

        return self.each(change, lazy, shape, self.done(("expand", shape)))

    def view(
        self, lazy: Lazy, run: Callable[[np.ndarray], np.ndarray], shape: tuple, key: Any = None
    ) -> Lazy | None:
        """Seen through an op that returns a NumPy view; None where memory would have to move.

        What has a key is looked at once: views of equal keys do the same to arrays of the same layout.
        """
        if type(lazy) is Load and not lazy.index:
            seen = strides_through(run, lazy.shape, lazy.strides, key)
            return None if seen is None else self.load(lazy.buffer, shape, seen[0], lazy.offset + seen[1])

        def change(load: Load) -> Load | None:
            seen = strides_through(run, load.shape, load.strides, key)
            if seen is None:
                return None
            places = [(self.view(place, run, shape, key), *rest) for place, *rest in load.index]
            if any(place is None for place, *_ in places):
                return None
            return self.load(load.buffer, shape, seen[0], load.offset + seen[1], tuple(places))

        return self.each(change, lazy, shape, self.done(key))

    def reshape(self, lazy: Lazy, shape: tuple[int, ...]) -> Lazy | None:
        if type(lazy) is Number or lazy.shape == shape:
            return lazy
        return self.view(lazy, lambda array: array.reshape(shape), shape, ("reshape", shape))

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


_strides: dict[tuple, tuple[tuple[int, ...], int] | None] = {}


def strides_through(
    run: Callable, shape: tuple, strides: tuple, key: Any = None
) -> tuple[tuple[int, ...], int] | None:
    """Strides and offset, in elements, of a view of an array with these; None if NumPy would copy."""
    if key is None:
        return looked_through(run, shape, strides)
    whole = (key, shape, strides)
    if whole not in _strides:
        if len(_strides) >= KEPT:
            _strides.clear()
        _strides[whole] = looked_through(run, shape, strides)
    return _strides[whole]


def looked_through(run: Callable, shape: tuple, strides: tuple) -> tuple[tuple[int, ...], int] | None:
    reach = 1 + sum(
        (extent - 1) * stride for extent, stride in zip(shape, strides) if extent > 1 and stride > 0
    )
    lowest = sum((extent - 1) * stride for extent, stride in zip(shape, strides) if extent > 1 and stride < 0)
    memory = np.empty(
        reach - lowest, np.int8
    )  # one byte an element: strides in bytes are strides in elements
    array = np.ndarray(shape, np.int8, memory, -lowest, strides)
    seen = run(array)
    if 0 in seen.shape:
        return contiguous(seen.shape), 0
    if not np.may_share_memory(seen, memory):
        return None
    return seen.strides, seen.__array_interface__["data"][0] - array.__array_interface__["data"][0]
