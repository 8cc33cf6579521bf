"""Pooling: sizes go in, a kernel with its arguments comes out.

Windows are read as convolutions read them (devices/cpu/kernels/windows.py): a block works on a copy of its
plane in which vectors of outputs read vectors of the copy. `maxima` gives the largest entry of every window
and, if wanted, its place in the plane; `sums` gives sums or means, and `spread` their adjoint. Words name the
operands "source", "place" and "indices". `scatter` adds entries into planes of zeros at given places. Read
next: devices/cpu/launch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from cleargrad.devices.cpu.kernels.convolution import contiguous, deep, phases, three
from cleargrad.devices.cpu.kernels.gemm import ELEMENTS
from cleargrad.devices.cpu.kernels.packing import PARAMETERS
from cleargrad.devices.cpu.kernels.windows import (
    TABLES,
    WORDS,
    Axis,
    CopiedBlock,
    CopyLayout,
    TooLarge,
    WindowCode,
    known_step,
    with_tables,
)
from cleargrad.devices.cpu.launch import Launch, Launches
from cleargrad.devices.cpu.llvm.jit import Kernel, lanes, named
from cleargrad.devices.cpu.llvm.text import SIZES, Val, vector
from cleargrad.devices.cpu.team import SCRATCH

CELLS = 8192  # outputs of a block, at most: what they read should stay in a near cache


@dataclass(frozen=True)
class PoolingConfig:
    """What the code of a pooling kernel depends on."""

    element: str
    lanes: int
    step: int  # of the source's last dimension; 0 if it is a word
    together: bool  # whether results of a row are neighbours
    what: str  # "max", "indices" (maxima and where they are), "sum" or "mean"


NAMES = [
    *(
        "source",
        "place",
        "indices",
        "taps",
        "sums_room",
        "source_plane",
        "source_channel",
        "source_z",
        "source_y",
    ),
    *(
        "place_plane",
        "place_z",
        "place_y",
        "place_x",
        "place_first",
        "z_dilation",
        "y_dilation",
        "x_dilation",
    ),
    *WORDS,
    *TABLES,
    *("tap_places", "z_counts", "y_counts", "x_counts"),
]


class Pool:
    """Writes the kernel of one config; a unit is a block of outputs of one plane."""

    def __init__(self, config: PoolingConfig) -> None:
        self.config = config
        self.maximum = config.what in ("max", "indices")
        blank = float("-inf") if self.maximum else 0.0
        self.code = WindowCode(NAMES, config.element, config.lanes, blank)
        self.element, self.type = self.code.element, self.code.type

    def kernel(self) -> Kernel:
        code = self.code
        with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
            plane, z, y_block, x_block = code.parts(unit, "z_count", "y_blocks", "x_blocks")
            block = code.outputs(z, y_block, x_block)
            source = code.element_at(code.word("source", "ptr"), (plane, code.word("source_plane")))
            code.copy_block(source, PARAMETERS[3], code.integer(1), block, self.config.step)
            with code.loop(code.integer(0), block.rows) as row:
                self.row(plane, block, row)
        code.do("ret void")
        return Kernel(code.function("kernel", PARAMETERS, notes="nounwind "), tuple(code.declared))

    def row(self, plane: Val, block: CopiedBlock, row: Val) -> None:
        code = self.code
        self.step = code.integer(1) if self.config.together else code.word("place_x")
        start = code.add(code.mul(plane, code.word("place_plane")), code.word("place_first"))
        start = code.add(start, code.mul(block.z, code.word("place_z")))
        start = code.add(start, code.mul(code.add(block.y, row), code.word("place_y")))
        start = code.add(start, code.product(block.x, self.step))
        image = code.element_at(PARAMETERS[3], (row, code.word("pitch")))

        def at(column: Val, width: int) -> None:
            where = code.add(start, code.product(column, self.step))
            seen = code.at(image, column, self.element)
            if self.maximum:
                self.put_maxima(seen, where, block, row, column, width)
            else:
                self.put_sums(seen, where, block, row, column, width)

        if self.config.together:
            code.sweep(code.integer(0), block.columns, at)
        else:
            with code.loop(code.integer(0), block.columns) as column:
                at(column, 1)

    # Sums --------------------------------------------------------------------------------------------------

    def put_sums(self, seen: Val, where: Val, block: CopiedBlock, row: Val, column: Val, width: int) -> None:
        code, type = self.code, vector(self.element, width)
        total = code.slot(type, code.const(0, type))
        with code.loop(code.integer(0), code.word("taps")) as tap:
            value = code.load(code.at(seen, code.listed("distances", tap), self.element), type)
            code.set(total, code.add(code.get(total, type), value))
        value = code.get(total, type)
        if self.config.what == "mean":
            outer = code.mul(
                code.listed("z_counts", block.z), code.listed("y_counts", code.add(block.y, row))
            )
            count = code.splat(code.cast("sitofp", outer, self.element), width)
            counts = code.at(code.table("x_counts"), code.add(block.x, column), self.element)
            value = code.div(value, code.mul(count, code.load(counts, type)))
        code.store(value, code.at(code.word("place", "ptr"), where, self.element))

    # Maxima ------------------------------------------------------------------------------------------------

    def put_maxima(
        self, seen: Val, where: Val, block: CopiedBlock, row: Val, column: Val, width: int
    ) -> None:
        """The first of the largest entries wins, and the last NaN over all."""
        code, type = self.code, vector(self.element, width)
        with_places = self.config.what == "indices"
        whole = vector("i32", width)
        best = code.slot(type, code.const(float("-inf"), type))
        winner = code.slot(whole, code.const(-1, whole))
        with code.loop(code.integer(0), code.word("taps")) as tap:
            value = code.load(code.at(seen, code.listed("distances", tap), self.element), type)
            old = code.get(best, type)
            larger = code.compare("ugt", value, old)  # also if one of them is NaN ...
            if with_places:
                larger = code.binary(
                    "and",
                    larger,
                    code.binary("or", code.compare("ord", old, old), code.compare("uno", value, value)),
                )
                number = code.pure("i32", f"trunc {code.listed('tap_places', tap)} to i32")
                code.set(winner, code.select(larger, code.splat(number, width), code.get(winner, whole)))
                code.set(best, code.select(larger, value, old))
            else:  # ... where the old one stays, if it is
                code.set(
                    best, code.select(code.compare("uno", old, old), old, code.select(larger, value, old))
                )
        code.store(code.get(best, type), code.at(code.word("place", "ptr"), where, self.element))
        if with_places:
            self.put_places(winner, where, block, row, column, width)

    def put_places(
        self, winner: Val, where: Val, block: CopiedBlock, row: Val, column: Val, width: int
    ) -> None:
        code, whole = self.code, vector("i32", width)
        zero = code.integer(0)
        z = code.place("z", block.z, zero)
        y = code.place("y", code.add(block.y, row), zero)
        x = code.place("x", code.add(block.x, column), zero)
        lanes = (
            Val(f"<{', '.join(f'i32 {lane}' for lane in range(width))}>", whole)
            if width > 1
            else Val("0", "i32")
        )

        def narrow(value: Val) -> Val:
            return code.splat(code.pure("i32", f"trunc {value} to i32"), width)

        xs = code.add(narrow(x), code.mul(lanes, narrow(code.word("x_step"))))
        lost = code.compare("slt", code.get(winner, whole), code.const(0, whole))
        some = lost if width == 1 else code.call(f"llvm.vector.reduce.or.v{width}i1", "i1", lost)
        with code.when(some):  # nothing above minus infinity: the first entry inside wins
            first = self.first_inside(z, y, xs, narrow)
            code.set(winner, code.select(lost, first, code.get(winner, whole)))
        base = code.add(code.mul(z, code.word("source_z")), code.mul(y, code.word("source_y")))
        place = code.add(code.add(narrow(base), xs), code.get(winner, whole))
        wide = code.cast("sext", place, "i64")
        code.store(wide, code.at(code.word("indices", "ptr"), where, "i64"))

    def first_inside(self, z: Val, y: Val, xs: Val, narrow: Any) -> Val:
        """Where, behind the window's first entry, the first one lies that is inside the plane."""
        code, zero = self.code, self.code.integer(0)

        def outside(value: Val, dilation: Val, none: Val) -> Val:
            back = code.select(code.compare("slt", value, none), code.sub(none, value), none)
            one = code.const(1, back.type)
            steps = code.binary("udiv", code.sub(code.add(back, dilation), one), dilation)
            return code.mul(steps, dilation)

        deep_shift = code.mul(outside(z, code.word("z_dilation"), zero), code.word("source_z"))
        high_shift = code.mul(outside(y, code.word("y_dilation"), zero), code.word("source_y"))
        wide_shift = outside(xs, narrow(code.word("x_dilation")), code.const(0, xs.type))
        return code.add(narrow(code.add(deep_shift, high_shift)), wide_shift)


# Choosing --------------------------------------------------------------------------------------------------


def maxima(
    source: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], size: Sequence[int], kind: Any, indices: bool,
) -> Launches:  # fmt: skip
    """place[n, c, t] = the largest source[n, c, t·stride + k·dilation - padding] over k inside."""
    axes = [
        Axis(n, t, tuple(range(0, d * k, d)), s, p)
        for n, t, k, s, p, d in zip(source[2:], size, kernel, stride, padding, dilation)
    ]
    what = "indices" if indices else "max"
    return Launches([pool(source, axes, size, kind, what, dilation=dilation)], 0)


def sums(
    source: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    size: Sequence[int], kind: Any, counts: Sequence[Sequence[int]] | None,
) -> Launches:  # fmt: skip
    """place[n, c, t] = sum over k of source[n, c, t·stride + k - padding], over the product of the counts[t]."""
    axes = [
        Axis(n, t, tuple(range(k)), s, p) for n, t, k, s, p in zip(source[2:], size, kernel, stride, padding)
    ]
    return Launches([pool(source, axes, size, kind, "sum" if counts is None else "mean", counts)], 0)


def spread(
    source: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    size: Sequence[int], kind: Any,
) -> Launches:  # fmt: skip
    """place[n, c, t·stride + k - padding] = sum over k of source[n, c, t]: the adjoint of sums."""
    chosen = [
        phases(n, count, k, s, p, 1) for n, count, k, s, p in zip(size, source[2:], kernel, stride, padding)
    ]
    return Launches(
        [pool(source, [axis for axis, _ in phase], size, kind, "sum") for phase in product(*chosen)], 0
    )


def pool(
    source: Sequence[int], axes: Sequence[Axis], size: Sequence[int], kind: Any, what: str,
    counts: Sequence[Sequence[int]] | None = None, dilation: Sequence[int] = (),
) -> Launch:  # fmt: skip
    """One kernel over all planes; `size` is that of the place."""
    element = ELEMENTS[np.dtype(kind).name]
    whole, planes = three(axes), prod(source[:2])
    layout = blocks(whole)
    if layout.channel * SIZES[element] > SCRATCH - 4096:
        raise TooLarge
    config = PoolingConfig(
        element, max(lanes() * 4 // SIZES[element], 1), known_step(whole[2]), whole[2].spread == 1, what
    )
    place, inside = contiguous(deep(size)), contiguous(deep(source[2:]))
    tap_places = [
        sum(shift * step for shift, step in zip(tap, inside))
        for tap in product(*(axis.shifts for axis in whole))
    ]
    values: dict[str, Any] = {
        "source": ("source", 0), "place": ("place", 0), "indices": ("indices", 0) if what == "indices" else 0,
        "taps": len(tap_places), "sums_room": 0, "source_plane": prod(source[2:]), "source_channel": 0,
        "source_z": inside[0], "source_y": inside[1],
        "place_plane": prod(size), "place_z": place[0] * whole[0].spread, "place_y": place[1] * whole[1].spread,
        "place_x": whole[2].spread, "place_first": sum(a.first * step for a, step in zip(whole, place)),
        **dict(zip(("z_dilation", "y_dilation", "x_dilation"), deep(dilation or (1,)))),
        **layout.words(),
    }  # fmt: skip
    tables = {**layout.tables(), "tap_places": tap_places, "z_counts": [], "y_counts": [], "x_counts": []}
    if counts is not None:
        *outer, last = [[1]] * (3 - len(counts)) + [list(count) for count in counts]
        tables |= {"z_counts": outer[0], "y_counts": outer[1], "x_counts": as_words(last, kind)}
    units = planes * layout.blocks if all(axis.count > 0 for axis in whole) else 0
    return Launch(kernel(config), with_tables(NAMES, values, tables), units)


def blocks(axes: tuple[Axis, Axis, Axis]) -> CopyLayout:
    """Whole rows, or parts of one, of at most so many outputs that what they read stays near."""
    depth, height, width = axes
    cells = max(CELLS // (len(depth.shifts) * len(height.phases) * len(width.phases) or 1), 64)
    pitch = max(width.count + width.reach, 1)
    if pitch > cells:
        pieces = -(-width.count // max(cells - width.reach, 64))
        return CopyLayout(axes, 1, -(-width.count // pieces))
    return CopyLayout(axes, max(min(cells // pitch - height.reach, height.count), 1), max(width.count, 1))


def as_words(numbers: Sequence[int], kind: Any) -> list[int]:
    """Numbers of a floating-point dtype side by side, as the int64 in whose memory they lie."""
    memory = np.zeros(-(-len(numbers) * np.dtype(kind).itemsize // 8), np.int64)
    memory.view(kind)[: len(numbers)] = numbers
    return memory.tolist()


@named
def kernel(config: PoolingConfig) -> Kernel:
    return Pool(config).kernel()


# Back to where the maxima were -----------------------------------------------------------------------------


def scatter(rows: int, count: int, length: int, kind: Any, gate: bool = False) -> Launches:
    """place[r, indices[r, i]] += source[r, i], from zeros; an index outside sets the operand "error".

    With `gate`, entries stay zero where that operand is not above zero.
    """
    words = [
        ("source", 0),
        ("indices", 0),
        ("place", 0),
        ("error", 0),
        ("gate", 0) if gate else 0,
        count,
        length,
    ]
    return Launches([Launch(scatter_kernel(ELEMENTS[np.dtype(kind).name], gate), words, rows)], 0)


@named
def scatter_kernel(element: str, gate: bool) -> Kernel:
    names = ["source", "indices", "place", "error", "gate", "count", "length"]
    code = WindowCode(names, element, max(lanes() * 4 // SIZES[element], 1))
    zero, count, length = code.integer(0), code.word("count"), code.word("length")
    none = code.const(0, element)
    with code.loop(PARAMETERS[1], PARAMETERS[2]) as row:
        source = code.element_at(code.word("source", "ptr"), (row, count))
        indices = code.at(code.word("indices", "ptr"), code.mul(row, count), "i64")
        place = code.element_at(code.word("place", "ptr"), (row, length))

        def clear(at: Val, width: int, place: Val = place) -> None:
            code.store(code.const(0, vector(element, width)), code.at(place, at, element))

        code.sweep(zero, length, clear)
        with code.loop(zero, count) as number:
            index = code.load(code.at(indices, number, "i64"), "i64")
            value = code.load(code.at(source, number, element), element)
            inside = code.compare("ult", index, length)
            with code.when(inside):
                if gate:
                    own = code.element_at(code.word("gate", "ptr"), (row, length), (index, code.integer(1)))
                    value = code.select(code.compare("ole", code.load(own, element), none), none, value)
                target = code.at(place, index, element)
                code.store(code.add(code.load(target, element), value), target)
            with code.when(code.binary("xor", inside, Val("true", "i1"))):
                code.do(f"store i64 1, ptr {code.word('error', 'ptr').name}")
    code.do("ret void")
    return Kernel(code.function("kernel", PARAMETERS, notes="nounwind "), tuple(code.declared))
