"""Chains: entries that each thread can run for rows of its own, one after the other, without waiting for others.

The steps of a recurrent network depend on each other in time, but not across the batch: a thread that keeps to
its part of the batch needs nothing that another one computes. The same holds wherever small entries follow each
other and every row is computed from the same row alone. What a chain saves is the waiting between its entries and
the way of data from one core to another. `grouped` finds chains among a program's entries. Read next:
devices/cpu/programs/program.py.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cleargrad.devices.cpu.launch import Launch
from cleargrad.devices.cpu.programs.signature import flat, place_of, units
from cleargrad.schedule.formulas import Buffer, Load
from cleargrad.schedule.fuse import Nest
from cleargrad.schedule.lifetimes import reads_of, writes_of
from cleargrad.schedule.statements import Product

SHORTEST = 4  # entries that make a chain
SHARED = 3  # products for which packing an operand beforehand pays
LARGE = 20_000_000  # about as many multiply-adds of an entry take so long that waiting does not matter


@dataclass(eq=False)
class Chain:
    """Entries that are cut into the same rows."""

    rows: int
    entries: list[Any] = field(default_factory=list)

    @cached_property
    def writes(self) -> tuple[Buffer, ...]:
        return tuple(dict.fromkeys(buffer for entry in self.entries for buffer in writes_of(entry)))

    @cached_property
    def formulas(self) -> tuple[Load, ...]:
        return tuple(load for entry in self.entries for load in reads_of(entry))

    def shares(self, threads: int) -> list[tuple[int, int]]:
        """From which to which row each thread goes."""
        count = min(threads, self.rows)
        return [(self.rows * k // count, self.rows * (k + 1) // count) for k in range(count)]


class Access(NamedTuple):
    """The elements that a row touches: row 0 some of low to high, every other one `stride` further."""

    buffer: Buffer
    low: int
    high: int
    stride: int
    first: int  # the first and the last element that any row touches
    last: int

    @classmethod
    def of(cls, buffer: Buffer, low: int, high: int, stride: int, rows: int) -> Access:
        shift = (rows - 1) * stride
        return cls(buffer, low, high, stride, low + min(shift, 0), high + max(shift, 0))


def grouped(entries: list[Any], final: set[Buffer]) -> list[Any]:
    """The entries, with chains in the place of those that form some; `final` buffers leave the program."""
    found: list[Any] = []
    position = 0
    while position < len(entries):
        chain = chain_from(entries, position, final)
        found.append(chain if chain is not None else entries[position])
        position += 1 if chain is None else len(chain.entries)
    return found


def chain_from(entries: list[Any], first: int, final: set[Buffer]) -> Chain | None:
    """The longest chain that begins with an entry, if it is worth it."""
    rows = rows_of(entries[first])
    if rows is None or rows < 2:
        return None
    chain, touched = Chain(rows), TouchedByRow()
    for entry in islice(entries, first, None):
        accesses = accesses_of(entry, rows) if final.isdisjoint(writes_of(entry)) else None
        if accesses is None or cost_of(entry) > LARGE or not touched.take(*accesses):
            break
        chain.entries.append(entry)
    products = sum(isinstance(entry, Product) for entry in chain.entries)
    return chain if len(chain.entries) >= SHORTEST and products > 1 else None


def rows_of(entry: Any) -> int | None:
    """Into how many rows an entry would be cut by itself; chains begin with a product."""
    return entry.place.shape[0] if isinstance(entry, Product) and not entry.place.index else None


def cost_of(entry: Any) -> int:
    if isinstance(entry, Product):
        return prod(entry.place.shape) * entry.left.shape[-1]
    return prod(entry.space) * entry.work


class TouchedByRow:
    """What the entries of a chain read and write."""

    def __init__(self) -> None:
        self.read: dict[Buffer, Accesses] = {}
        self.written: dict[Buffer, Accesses] = {}

    def take(self, reads: list[Access], writes: list[Access]) -> bool:
        """Adds an entry, if each of its rows depends on the same row of the others alone."""
        for accesses, tables in ((reads, [self.written]), (writes, [self.written, self.read])):
            for access in accesses:
                for table in tables:
                    known = table.get(access.buffer)
                    if known is not None and not known.keep_apart_from(access):
                        return False
        for accesses, table in ((reads, self.read), (writes, self.written)):
            for access in accesses:
                if access.buffer not in table:
                    table[access.buffer] = Accesses()
                table[access.buffer].add(access)
        return True


class Accesses:
    """How one buffer is touched."""

    def __init__(self) -> None:
        self.all: dict[Access, None] = {}
        self.first, self.last = sys.maxsize, -1

    def add(self, access: Access) -> None:
        self.all[access] = None
        self.first, self.last = min(self.first, access.first), max(self.last, access.last)

    def keep_apart_from(self, access: Access) -> bool:
        if access.last < self.first or self.last < access.first:
            return True
        return all(keeps_apart(access, other) for other in self.all)


def keeps_apart(one: Access, other: Access) -> bool:
    """Whether no row of one touches what another row of the other touches."""
    _, low, high, stride, first, last = one
    _, begin, end, step, start, stop = other
    if last < start or stop < first:
        return True
    return stride == step and (high if high > end else end) - (low if low < begin else begin) < abs(stride)


# What rows touch -------------------------------------------------------------------------------------------


def accesses_of(entry: Any, rows: int) -> tuple[list[Access], list[Access]] | None:
    """What an entry reads and writes, row by row; None if it cannot be cut into so many rows."""
    if isinstance(entry, Product):
        return product_accesses(entry, rows)
    if isinstance(entry, Nest) and not entry.columns:
        return nest_accesses(entry, rows)
    return None


def product_accesses(entry: Product, rows: int) -> tuple[list[Access], list[Access]] | None:
    shape, rank = entry.place.shape, len(entry.place.shape)
    if shape[0] % rows or entry.place.index:
        return None
    operands = [entry.left]
    stacked = rank > 2 and len(entry.right.shape) == rank
    reads = [whole(entry.right, rows)] if not stacked else []
    operands += [entry.right] if stacked else []
    if any(len(load.shape) != rank or load.index for load in operands):
        return None
    reads += [cut(load, rows, shape[0]) for load in operands]
    place = cut(entry.place, rows, shape[0])
    return ([*reads, place] if entry.adds else reads), [place]


def nest_accesses(nest: Nest, rows: int) -> tuple[list[Access], list[Access]] | None:
    space = nest.space
    if not space or space[0] % rows or units(nest) % rows:
        return None
    if not nest.rows and (not flat(nest) or any(member.reduce for member in nest.members)):
        return None
    places = [member.place for member in nest.members if member.kept]
    if any(place.index or place.strides[0] == 0 for place in places):
        return None
    reads = [whole(load, rows) if load.index else cut(load, rows, space[0]) for load in reads_of(nest)]
    return reads, [cut(place, rows, space[0]) for place in places]


def whole(load: Load, rows: int) -> Access:
    """Any element, whatever the row."""
    return Access.of(load.buffer, 0, max(load.buffer.size - 1, 0), 0, rows)


def cut(load: Load, rows: int, extent: int) -> Access:
    """The first dimension, of this extent, cut into rows."""
    low = high = load.offset
    for n, step in zip((extent // rows, *load.shape[1:]), load.strides, strict=True):
        end = (n - 1) * step
        if end > 0:
            high += end
        else:
            low += end
    return Access.of(load.buffer, low, high, load.strides[0] * (extent // rows), rows)


# How products are computed ---------------------------------------------------------------------------------


@dataclass
class ChainPlan:
    """The products of a chain, thread by thread."""

    shares: list[tuple[int, int]]
    packing: list[Launch] = field(default_factory=list)  # what all threads need, first
    launches: dict[tuple[int, int], list[Launch]] = field(default_factory=dict)
    work: list[Buffer] = field(default_factory=list)  # memory for packed operands

    def memory(self, size: int) -> Buffer:
        self.work.append(Buffer(-1 - len(self.work), (size,), np.dtype(np.uint8), "inside", (1,)))
        return self.work[-1]


def planned(chain: Chain, threads: int, choose: Callable[..., Any]) -> ChainPlan:
    """How each thread computes its rows; right operands that several products have in common are packed once."""
    plan = ChainPlan(chain.shares(threads))
    products = [entry for entry in chain.entries if isinstance(entry, Product)]
    made = set(chain.writes)
    often = Counter(common(product, made) for product in products)
    packed: dict[Any, Buffer] = {}
    for product in products:
        key = common(product, made)
        together = key is not None and often[key] >= SHARED
        for low, high in plan.shares:
            part = cut_out(product, chain.rows, low, high)
            needed = choose(part, 1, together)
            first = needed.launches[0]
            layout = (key, first.kernel, tuple(first.arguments))  # few rows have other tiles than many
            work = packed.get(layout) if together else None
            if work is None:
                work = plan.memory(needed.work)
            loads = operands_of(part, work)
            launches = [placed(launch, loads) for launch in needed.launches]
            if together and len(launches) == 2:
                if layout not in packed:
                    packed[layout] = work
                    plan.packing.append(launches[0])
                launches = launches[1:]
            plan.launches[id(product), low] = launches
    return plan


def common(product: Product, made: set[Buffer]) -> Any:
    """What products with the same right operand have in common; None if the operand is made in the chain."""
    right = product.right
    if len(right.shape) != 2 or right.buffer in made:
        return None
    return right.buffer, right.shape, right.strides, right.offset


def cut_out(product: Product, rows: int, low: int, high: int) -> Product:
    """Some rows of a product."""
    each = product.place.shape[0] // rows
    stacked = len(product.right.shape) > 2 and len(product.right.shape) == len(product.place.shape)

    def part(load: Load) -> Load:
        shape = ((high - low) * each, *load.shape[1:])
        return Load(load.buffer, shape, load.strides, load.offset + low * each * load.strides[0], ())

    right = part(product.right) if stacked else product.right
    return Product(part(product.place), part(product.left), right, product.adds)


def operands_of(product: Product, work: Buffer) -> dict[str, Load]:
    """What the arguments of a product's launches mean."""
    memory = Load(work, (1,), (0,), 0, ())
    return {"left": product.left, "right": product.right, "place": product.place, "work": memory}


def placed(launch: Launch, loads: dict[str, Load]) -> Launch:
    """A launch with the buffers that its arguments name; those without a load keep their names."""
    arguments = []
    for word in launch.arguments:
        if isinstance(word, tuple) and word[0] in loads:
            buffer, start = place_of(loads[word[0]])
            word = (buffer, start + word[1])
        arguments.append(word)
    return Launch(launch.kernel, arguments, launch.units)
