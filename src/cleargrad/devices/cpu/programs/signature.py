"""The key of a nest's kernel: what its code depends on, and how its work is cut.

`arguments_of` walks through a nest and gives the key of its code, which all nests of that signature share, and the
arguments of this one: extents, strides, addresses, and numbers that may be others for another batch, such as how
many elements a mean is of. Read next: devices/cpu/programs/loops.py, which writes the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import frexp, isfinite, prod
from typing import Any

import numpy as np

from cleargrad.devices.cpu.kernels.ufuncs import ABREAST
from cleargrad.devices.cpu.llvm.jit import lanes
from cleargrad.devices.cpu.team import SCRATCH
from cleargrad.expr.expr import Expr, Var, text_of
from cleargrad.schedule.formulas import Buffer, Lazy, Load, Map, Number, kind_of
from cleargrad.schedule.fuse import Nest, Ref

CHUNK = 2048  # elements of a flat loop that are one unit of work
BROAD = 2  # vectors in one, where long formulas would otherwise wait for themselves
LONG = 20  # work per element of such formulas: an exponential, say
KNOWN = 64  # powers of two up to this are parts of the code: one may divide by them by multiplying
CALCULATING = ("add", "sub", "mul", "div")
BITS = {"float32": np.uint32, "float64": np.int64}


@dataclass
class Arguments:
    """The int64 a kernel finds its nest by: (buffer, bytes behind), or a number."""

    words: list[Any]
    slots: dict[int, int]  # id of a load -> where its words begin
    key: str
    loads: list[Load]
    numbers: dict[tuple[int, int], int]  # id of a map and position of an operand -> where that number is


def flat(nest: Nest) -> bool:
    """Whether all is one loop, cut into chunks."""
    return not nest.rows and len(nest.cols) == 1 and not any(member.reduce for member in nest.members)


def units(nest: Nest) -> int:
    """How many pieces of work the threads share."""
    if nest.columns:
        block = abreast(nest) * lanes()
        return prod(nest.rows[: nest.outer]) * -(-nest.cols[-1] // block)
    return -(-nest.cols[0] // CHUNK) if flat(nest) else prod(nest.rows)


def abreast(nest: Nest) -> int:
    return ABREAST if nest.cols and nest.cols[-1] >= ABREAST * lanes() else 1


def breadth(nest: Nest) -> int:
    """How many vectors are computed as one: what one of them waits for is time to work on the other.

    Processors look some 60 instructions ahead, and a chain of an exponential is about as long.
    """
    if nest.columns or nest.work < LONG or any(member.reduce for member in nest.members):
        return 1
    last = nest.cols[-1] if nest.cols else 1
    left_over = last % (ABREAST * lanes()) != 0
    if left_over and not (
        flat(nest) and last >= CHUNK
    ):  # what is left over is dear where there is little else
        return 1
    places = [load for member in nest.members for load in (member.place, *member.formula.loads)]
    simple = all(not load.index and load.dtype.itemsize <= 4 for load in places)
    return BROAD if simple else 1


def arguments_of(nest: Nest) -> Arguments:
    """The key of a nest's code, and the arguments of this one."""
    return Signature(nest).arguments()


class Signature:
    """Walks through a nest and names all there is in it."""

    def __init__(self, nest: Nest) -> None:
        self.nest, self.last_axis = nest, len(nest.space) - 1
        self.words: list[Any] = [*nest.rows, *nest.cols]
        self.slots: dict[int, int] = {}
        self.loads: list[Load] = []
        self.numbers: dict[tuple[int, int], int] = {}
        self.names: dict[int, str] = {}
        last = nest.cols[-1] if nest.cols else 1
        evenly = 2 if last % (ABREAST * lanes()) == 0 else 1 if last % lanes() == 0 else 0
        loops = f"{len(nest.rows)},{len(nest.cols)},{evenly},{flat(nest)},{nest.columns},{nest.outer}"
        self.tokens = [f"{loops},{abreast(nest)}", f"{spills_fit(nest)},{breadth(nest)}"]

    def arguments(self) -> Arguments:
        for member in self.nest.members:
            formula = self.visit(member.formula)
            rule, text = member.reduce, "store"
            if rule is not None:
                text = f"{text_of(rule.combine)},{rule.start},{kind_of(rule.working)}"
            place = self.visit_load(member.place) if member.kept else kind_of(member.place.dtype)
            self.tokens.append(f"{text}:{formula}->{place}:{is_row(self.nest, member.place)}")
        if any(load.index for load in self.loads):
            self.words.append(("error", 0))
        return Arguments(self.words, self.slots, "|".join(self.tokens), self.loads, self.numbers)

    def visit(self, lazy: Lazy) -> str:
        kind = type(lazy)
        if kind is Number:
            return f"{lazy.value!r}:{kind_of(lazy.dtype)}"
        name = self.names.get(id(lazy))
        if name is not None:
            return name
        if kind is Load:
            return self.visit_load(lazy)
        if kind is Ref:
            return f"R{self.nest.members.index(lazy.member)}"
        operands = ",".join(
            [
                self.visit_number(x, position, lazy) if type(x) is Number else self.visit(x)
                for position, x in enumerate(lazy.operands)
            ]
        )
        name = self.names[id(lazy)] = f"M{len(self.names)}"
        working, dtype = kind_of(lazy.working), kind_of(lazy.dtype)
        self.tokens.append(f"{name}={text_of(lazy.tree)}({operands}){working}>{dtype}")
        return name

    def visit_number(self, number: Number, position: int, map: Map) -> str:
        if not is_argument(number, position, map):
            return self.visit(number)
        self.numbers[id(map), position] = len(self.words)
        self.words.append(bits_of(number.value, map.working))
        return "N"

    def visit_load(self, load: Load) -> str:
        if id(load) not in self.names:
            places = ";".join([self.visit(place) for place, *_ in load.index])
            words = self.words
            self.slots[id(load)] = len(words)
            self.loads.append(load)
            words.append(place_of(load))
            classes = ""
            for axis, stride in enumerate(load.strides):
                if stride == 0:
                    classes += "0"
                elif stride == 1 and axis == self.last_axis:
                    classes += "1"
                else:
                    classes += "s"
                    words.append(stride)
            for _, stride, extent in load.index:
                words.extend((stride, extent))
            self.tokens.append(f"L{len(self.loads)}:{kind_of(load.dtype)}:{classes}:{places}")
            self.names[id(load)] = f"L{len(self.loads)}"
        return self.names[id(load)]


def place_of(load: Load) -> tuple[Buffer, int]:
    """Where a load begins, as an argument of a launch."""
    return load.buffer, load.offset * load.dtype.itemsize


def is_argument(number: Number, position: int, map: Map) -> bool:
    """Whether a number is given to the code rather than written into it, where it might be worth knowing."""
    if kind_of(map.working) not in BITS or position not in calculated(map.tree):
        return False
    size = abs(float(number.value))
    return isfinite(size) and size > 0 and not (frexp(size)[0] == 0.5 and 1 / KNOWN <= size <= KNOWN)


def bits_of(value: float, dtype: np.dtype) -> int:
    """A number as the int64 whose first bytes it is."""
    return int(np.array(value).astype(dtype).view(BITS[kind_of(dtype)]))


@lru_cache(maxsize=8192)
def calculated(tree: Expr) -> frozenset[int]:
    """The operands of an expression with which it does nothing but calculate."""
    found: dict[int, bool] = {}

    def walk(part: Any) -> None:
        for arg in part.args if isinstance(part, Expr) and not isinstance(part, Var) else ():
            if isinstance(arg, Var):
                found[arg.position] = found.get(arg.position, True) and part.primitive in CALCULATING
            walk(arg)

    walk(tree)
    return frozenset(position for position, only in found.items() if only)


def spills_fit(nest: Nest) -> bool:
    return prod(nest.cols) * 8 * 4 <= SCRATCH


def is_row(nest: Nest, load: Load) -> bool:
    """Whether a place is the same for all columns of a row."""
    return not any(load.strides[len(nest.rows) :]) and not load.index
