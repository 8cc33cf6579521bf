"""Runs a schedule with NumPy: entry by entry, in the memory it plans. Every lowering is tested against this.

Inputs come in as arrays, outputs go out; tensors from outside are read and written where `memory_of` says. Buffers
lie where the arena has them, and are spoiled before and after their lives, so that lifetimes, places and writes in
place that are wrong show in the numbers. Rows of a nest do not depend on each other: with `random` they are read in
pieces, in any order. Bits are those of the ops' own `run`. Read next: devices/cpu/programs/program.py.
"""

from __future__ import annotations

import random as generators
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cleargrad.core.dtype import OF_NUMPY
from cleargrad.core.tensor import Tensor, as_array
from cleargrad.expr.expr import conditions
from cleargrad.expr.numpy_reading import read as read_formula
from cleargrad.ops.declare import Reduction, as_type
from cleargrad.ops.op import OPS
from cleargrad.ops.record import Call, Value
from cleargrad.schedule.formulas import Buffer, Lazy, Load, Map, Number
from cleargrad.schedule.fuse import Member, Nest, Ref
from cleargrad.schedule.schedule import Schedule
from cleargrad.schedule.statements import IDENTITY, AddRows, Host, Native, Product, Reduce, Store

SPOILED = 0xFF  # every byte of memory that nothing was stored in: NaN as a float, -1 as a whole number
PIECES = 3  # into which the rows of a nest are cut at random places

Memory = Callable[[Tensor], np.ndarray]


def read(
    schedule: Schedule,
    inputs: Sequence[np.ndarray],
    memory_of: Memory = lambda tensor: tensor._data,
    random: generators.Random | None = None,
) -> list[np.ndarray]:
    """The outputs of a schedule; tensors from outside have their new values afterwards."""
    reading = Reading(schedule, inputs, memory_of, random)
    with np.errstate(all="ignore"):
        reading.run()
    return [reading.arrays[buffer] for buffer in schedule.plan.outputs]


class Reading:
    """One run of a schedule."""

    def __init__(
        self,
        schedule: Schedule,
        inputs: Sequence[np.ndarray],
        memory_of: Memory,
        random: generators.Random | None,
    ) -> None:
        self.schedule, self.memory_of, self.random = schedule, memory_of, random
        plan = schedule.plan
        self.arrays: dict[Buffer, np.ndarray] = dict(zip(plan.inputs, inputs, strict=True))
        self.arrays.update((buffer, memory_of(tensor)) for buffer, tensor in plan.outside)
        self.arrays.update(plan.constants)
        self.arrays.update((buffer, memory_of(tensor)) for buffer, tensor in schedule.in_place.items())
        self.arrays.update((buffer, spoiled(buffer)) for buffer in plan.outputs if buffer.role == "inside")
        offsets, size = schedule.arena
        arena = np.full(size, SPOILED, np.uint8)
        for buffer, offset in offsets.items():
            self.arrays[buffer] = np.ndarray(buffer.shape, buffer.dtype, arena, offset)
        self.births: dict[int, list[Buffer]] = {}
        self.deaths: dict[int, list[Buffer]] = {}
        for buffer in offsets:
            first, last = schedule.lifetimes[buffer]
            self.births.setdefault(first, []).append(buffer)
            self.deaths.setdefault(last, []).append(buffer)

    def run(self) -> None:
        for position, entry in enumerate(self.schedule.entries):
            self.spoil(self.births, position)
            READERS[type(entry)](self, entry)
            self.spoil(self.deaths, position)
        for tensor, buffer in self.schedule.copied:
            np.copyto(self.memory_of(tensor), self.arrays[buffer])

    def spoil(self, ends: dict[int, list[Buffer]], position: int) -> None:
        for buffer in ends.get(position, ()):
            self.arrays[buffer].reshape(-1).view(np.uint8).fill(SPOILED)

    # Memory ------------------------------------------------------------------------------------------------

    def view(self, load: Load) -> np.ndarray:
        """The elements that a load without an index names, where they lie."""
        return elements(self.arrays[load.buffer], load.shape, load.strides, load.offset)

    def put(self, place: Load, value: np.ndarray) -> None:
        self.view(place)[...] = cast(value, place.dtype)

    # Entries -----------------------------------------------------------------------------------------------

    def nest(self, nest: Nest) -> None:
        for piece in self.pieces(nest):
            NestReading(self, nest, piece).run()

    def pieces(self, nest: Nest) -> list[tuple[slice, ...]]:
        """The parts of the first loop that are read one after the other: all at once, or a few in any order."""
        alone = not nest.space or (nest.columns and not nest.outer)
        alone = alone or (not nest.rows and any(member.reduce for member in nest.members))
        if self.random is None or alone:
            return [()]
        extent = nest.space[0]
        cuts = sorted({0, extent, *(self.random.randint(0, extent) for _ in range(PIECES - 1))})
        pieces: list[tuple[slice, ...]] = [(slice(low, high),) for low, high in pairwise(cuts)]
        self.random.shuffle(pieces)
        return pieces

    def store(self, store: Store) -> None:
        shape = store.place.shape
        self.nest(Nest(shape[:-1], shape[-1:], [Member(store.place, store.formula)]))

    def reduce(self, reduce: Reduce) -> None:
        value = NestReading(self, Nest(reduce.shape, ()), ()).value(reduce.formula)
        value = np.broadcast_to(cast(value, reduce.working), reduce.shape)
        self.put(reduce.place, run_of(reduce.combine.primitive)(value, dim=reduce.dims, keepdim=False))

    def product(self, product: Product) -> None:
        place = self.view(product.place)
        value = OPS["bmm"].run(self.view(product.left), self.view(product.right))  # stacks broadcast
        place[...] = place + value if product.adds else value

    def add_rows(self, entry: AddRows) -> None:
        table = self.view(entry.place)
        places = in_range(self.view(entry.places), len(table)).reshape(-1)
        np.add.at(table, places, self.view(entry.rows).reshape(len(places), *table.shape[1:]))

    def host(self, host: Host) -> None:
        operands = []
        for operand, given in zip(host.operands, host.call.operands, strict=True):
            if isinstance(operand, Load):
                operands.append(self.view(operand))
            elif isinstance(operand, Number):
                operands.append(np.full(given.spec.shape, operand.value, operand.dtype))
            else:
                operands.append(operand)
        for buffer, array in zip(host.results, results_of(host.call, operands), strict=True):
            np.copyto(self.arrays[buffer], array)

    def native(self, entry: Native) -> None:
        """By the calls that the kernels stand for."""
        slots = {entry.values[name].index: self.view(load) for name, load in entry.operands.items()}
        for value in entry.zeros:
            slots[value.index] = np.zeros(value.spec.shape, value.spec.dtype.numpy)
        for call in entry.calls:
            operands = [slots[x.index] if isinstance(x, Value) else x for x in call.operands]
            for value, array in zip(call.results, results_of(call, operands), strict=True):
                slots[value.index] = array
        for name, load in entry.results.items():
            self.put(load, slots[entry.values[name].index].reshape(load.shape))


class NestReading:
    """A nest, for a piece of its first loop: member after member, each for all points at once."""

    def __init__(self, reading: Reading, nest: Nest, piece: tuple[slice, ...]) -> None:
        self.reading, self.nest, self.piece = reading, nest, piece
        self.space = np.empty(nest.space, np.bool_)[piece].shape
        self.made: dict[int, np.ndarray] = {}  # by the id of a member
        self.known: dict[int, np.ndarray] = {}  # by the id of a formula, since the last reduction
        written = {member.place.buffer for member in nest.members}
        self.overwrites = not written.isdisjoint(reading.schedule.in_place)

    def run(self) -> None:
        for member in self.nest.members:
            value = self.value(member.formula)
            if member.reduce is not None:
                value = self.joined(member, value)
                self.known = {}  # the row is walked again
            self.made[id(member)] = value = cast(value, member.place.dtype)
            if member.kept:
                self.view(member.place)[...] = value

    def joined(self, member: Member, value: np.ndarray) -> np.ndarray:
        """What a reduction gives, with ones for columns that it joins."""
        rule, count = member.rule, len(self.nest.rows)
        run = run_of(rule.combine.primitive)
        value = np.broadcast_to(cast(value, rule.working), self.space)
        if self.nest.columns:
            *outer, rows, columns = self.space
            total = run(value.reshape(prod(outer), rows, columns), dim=(1,), keepdim=False)
            return total.reshape(*outer, columns)
        rows, cols = self.space[:count], self.space[count:]
        # With the rows before the last column, neighbouring columns are not taken for one; one row is made two.
        value = np.moveaxis(value.reshape(prod(rows), *cols), 0, -2)
        value = np.concatenate([value, value], -2) if prod(rows) == 1 < len(cols) else value
        total = run(value, dim=(*range(len(cols) - 1), len(cols)), keepdim=False)[: prod(rows)]
        return total.reshape(*rows, *(1,) * len(cols))

    def view(self, load: Load) -> np.ndarray:
        """The elements that a load names, with one for columns that do not change its place."""
        shape = self.thin(load)
        seen = self.reading.view(Load(load.buffer, shape, load.strides, load.offset, ()))
        index: tuple = (*self.piece, ...)
        return seen[index]

    def thin(self, load: Load) -> tuple[int, ...]:
        count = max(len(self.nest.rows), len(self.piece))
        steps = zip(load.shape[count:], load.strides[count:], strict=True)
        return (*load.shape[:count], *(extent if step else 1 for extent, step in steps))

    def value(self, lazy: Lazy) -> np.ndarray:
        """A formula at all points, or at one where all are alike."""
        if isinstance(lazy, Number):
            return as_type(lazy.value, lazy.dtype)
        if isinstance(lazy, Ref):
            return self.made[id(lazy.member)]
        if id(lazy) not in self.known:
            self.known[id(lazy)] = self.load(lazy) if isinstance(lazy, Load) else self.map(lazy)
        return self.known[id(lazy)]

    def load(self, load: Load) -> np.ndarray:
        if not load.index:
            seen = self.view(load)
            return seen.copy() if self.overwrites else seen
        places: np.ndarray = np.full((), load.offset, np.int64)
        for axis, (extent, stride) in enumerate(zip(self.thin(load), load.strides, strict=True)):
            steps = (np.arange(extent) * stride).reshape(-1, *(1,) * (len(load.shape) - axis - 1))
            places = places + (steps[self.piece] if axis == 0 else steps)
        for index, stride, extent in load.index:
            places = places + in_range(self.value(index), extent) * stride
        lowest = int(places.min(initial=0))
        reach = int(places.max(initial=0)) - lowest + 1
        return elements(self.reading.arrays[load.buffer], (reach,), (1,), lowest)[places - lowest]

    def map(self, lazy: Map) -> np.ndarray:
        chosen_by = conditions(lazy.tree)
        operands = []
        for position, operand in enumerate(lazy.operands):
            kind = np.dtype(np.bool_) if position in chosen_by else lazy.working
            if isinstance(operand, Number):
                operands.append(as_type(operand.value, kind))
            else:
                operands.append(cast(self.value(operand), kind))
        if lazy.tree is IDENTITY:
            return cast(operands[0], lazy.dtype)
        return cast(np.asarray(read_formula(lazy.tree, len(operands))(*operands)), lazy.dtype)


READERS: dict[type, Callable[[Reading, Any], None]] = {
    Nest: Reading.nest,
    Store: Reading.store,
    Reduce: Reading.reduce,
    Product: Reading.product,
    AddRows: Reading.add_rows,
    Host: Reading.host,
    Native: Reading.native,
}


def spoiled(buffer: Buffer) -> np.ndarray:
    memory = np.full(buffer.size * buffer.dtype.itemsize, SPOILED, np.uint8)
    return memory.view(buffer.dtype).reshape(buffer.shape)


def elements(array: np.ndarray, shape: tuple, strides: tuple, offset: int) -> np.ndarray:
    """A view from an array's first element and an offset on, both and the strides in elements."""
    if 0 in shape:
        return np.empty(shape, array.dtype)
    size = array.itemsize
    way = as_strided(array, (abs(offset) + 1,), (size if offset >= 0 else -size,))
    return as_strided(way[-1:], shape, tuple(step * size for step in strides))


def in_range(places: np.ndarray, extent: int) -> np.ndarray:
    """Places that are counted from the begin."""
    places = np.asarray(places).astype(np.int64)
    if np.any((places < -extent) | (places >= extent)):
        raise IndexError("an index was out of range in a schedule")
    return np.where(places < 0, places + extent, places)


def cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return array if array.dtype == dtype else OPS["to_copy"].run(array, dtype=OF_NUMPY[dtype])


def results_of(call: Call, operands: list[Any]) -> list[np.ndarray]:
    result = call.op.run(*operands, **call.attrs)
    return [as_array(array) for array in (result if isinstance(result, (list, tuple)) else [result])]


@cache
def run_of(primitive: str) -> Callable:
    """The `run` of an op that joins elements by a primitive, in the one order of sums."""
    rules = {op: op.lower for op in OPS.values() if isinstance(op.lower, Reduction)}
    return next(op.run for op, rule in rules.items() if rule.combine.primitive == primitive)
