"""Products of matrices: sizes and strides go in, a few kernels with their arguments come out.

`product` chooses the size of tiles for this machine, what is packed and where, and how the work is cut into
units; the kernels themselves are written by devices/cpu/kernels/gemm_tiles.py and shared by all products of the
same config. Costs are counted in processor cycles of a core that does two multiply-adds of vectors at a
time: only ratios matter. Read next: devices/cpu/programs/products.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from cleargrad.devices.cpu.kernels.gemm_tiles import Epilogue, GemmConfig, Multiplier
from cleargrad.devices.cpu.kernels.packing import right_packer
from cleargrad.devices.cpu.launch import Launch, Launches
from cleargrad.devices.cpu.llvm.jit import Kernel, lanes, named, registers
from cleargrad.devices.cpu.llvm.text import SIZES
from cleargrad.devices.cpu.team import SCRATCH

ELEMENTS = {"float32": "float", "float64": "double"}
DEPTH = 512  # with more k than this, a panel leaves the first cache before it is used again
PIECE = 320  # k at a time in that case
BLOCK = 192 << 10  # bytes of the left operand that should stay in the second cache
PACKED = SCRATCH // 2  # bytes of the right operand that a thread packs for itself
SMALL = 16 << 10  # bytes of an operand that stay in the first cache as they are
FEW = 4  # strips for which packing the right operand does not pay
LARGE = 8 << 20  # bytes of the right operand that are not to be copied as a whole
LINE = 64


@dataclass(frozen=True)
class GemmSizes:
    """A product: extents, and strides in elements (batch ..., row, column) of each operand."""

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    left: tuple[int, ...]
    right: tuple[int, ...]
    place: tuple[int, ...]

    def swapped(self) -> GemmSizes:
        """The transposed product: its left operand is our right one."""
        left, right, place = (
            (*strides[:-2], strides[-1], strides[-2]) for strides in (self.right, self.left, self.place)
        )
        return GemmSizes(self.batch, self.n, self.m, self.k, left, right, place)


def product(
    batch: int | Sequence[int],
    m: int,
    n: int,
    k: int,
    kind: Any,
    left_strides: Sequence[int],
    right_strides: Sequence[int],
    place_strides: Sequence[int],
    threads: int,
    epilogue: Callable[..., Epilogue] | None = None,
    epilogue_key: Hashable = None,
    extra_words: Sequence[Any] = (),
    pack_first: bool = False,
) -> Launches:
    """How to compute place[b, i, j] = sum over k of left[b, i, k] · right[b, k, j]; arguments name the operands.

    `batch` is the extents of the stack, which may be several; strides are (one per such extent, row, column) in
    elements. `epilogue(first_word)` returns a function `(code, value, batch, row, column, width)` that writes what
    happens to `width` neighbouring results of a row instead of their being stored; `batch` is a list of indices.
    `first_word` is where `extra_words` begin. Kernels with an `epilogue_key`, which must say all that decides what
    is written, are remembered under it.
    With `pack_first`, the first of two launches only packs the right operand: products with the same right operand,
    whose first launches are equal, can share it and the work memory it fills.
    """
    extents = (batch,) if isinstance(batch, int) else tuple(batch)
    sizes = GemmSizes(extents, m, n, k, tuple(left_strides), tuple(right_strides), tuple(place_strides))
    if m == 0 or n == 0 or 0 in extents:
        return Launches([], 0)
    if epilogue is None:
        sizes = simplified(sizes)
    element = ELEMENTS[np.dtype(kind).name]
    turn = wants_swap(sizes, epilogue is not None)
    blocking = choose(sizes.swapped() if turn else sizes, element, turn, threads, pack_first and not turn)
    return blocking.launches(epilogue, epilogue_key, tuple(extra_words))


def simplified(sizes: GemmSizes) -> GemmSizes:
    """With as few dimensions of the batch as possible, and none that is only more rows."""
    strides = [sizes.left, sizes.right, sizes.place]
    axes = [axis for axis, extent in enumerate(sizes.batch) if extent != 1]
    batch: list[int] = []
    kept: list[int] = []
    for axis in axes:
        extent = sizes.batch[axis]
        if kept and all(s[kept[-1]] == s[axis] * extent for s in strides):
            batch[-1] *= extent
            kept[-1] = axis
        else:
            batch.append(extent)
            kept.append(axis)
    left, right, place = ((*(s[axis] for axis in kept), s[-2], s[-1]) for s in strides)
    m = sizes.m
    while batch and right[len(batch) - 1] == 0 and all(s[len(batch) - 1] == s[-2] * m for s in (left, place)):
        m *= batch.pop()
        left, right, place = ((*s[: len(batch)], s[-2], s[-1]) for s in (left, right, place))
    return GemmSizes(tuple(batch), m, sizes.n, sizes.k, left, right, place)


def wants_swap(sizes: GemmSizes, with_epilogue: bool) -> bool:
    """Whether the transposed product is the better one: vectors of results should be neighbours, and full."""
    if sizes.n == 1:
        return sizes.m > 1
    return not with_epilogue and sizes.place[-1] != 1 and sizes.place[-2] == 1 and sizes.m > 1


# Choosing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GemmBlocking:
    """A product with everything decided."""

    sizes: GemmSizes
    config: GemmConfig
    tall: int
    strips: int
    strips_each: int
    panels_each: int
    depth: int

    @property
    def panels(self) -> int:
        return -(-self.sizes.n // self.config.panel)

    @property
    def row_blocks(self) -> int:
        return -(-self.strips // self.strips_each)

    @property
    def column_blocks(self) -> int:
        return -(-self.panels // self.panels_each)

    @property
    def units(self) -> int:
        return prod(self.sizes.batch) * self.row_blocks * self.column_blocks

    @property
    def panel_size(self) -> int:
        """Elements of one packed panel."""
        lanes = self.config.lanes
        depth = self.sizes.k if self.config.right_mode == "work" else self.depth
        return -(-depth // lanes) * lanes * self.config.panel

    def launches(self, epilogue: Callable[..., Epilogue] | None, key: Hashable, extra: tuple) -> Launches:
        found = []
        names = self.config.names()
        words = self.words(names)
        work = 0
        if self.config.right_mode == "work":
            step, work = self.packing()
            found.append(step)
        if epilogue is None:
            kernel = plain_kernel(self.config)
        else:
            kernel = kernel_with_epilogue(self.config, epilogue, key)
        found.append(Launch(kernel, [*words, *extra], self.units))
        return Launches(found, work)

    def words(self, names: list[str]) -> list[Any]:
        """The arguments of the multiplying kernel."""
        sizes, s = self.sizes, self.config
        size = SIZES[s.element]
        left_room = self.strips_each * max(s.heights) * self.depth * size if s.left_packed else 0
        right_room = {"own": self.panels_each, "panel": 1}.get(s.right_mode, 0) * self.panel_size * size
        left_room, right_room = (-(-room // LINE) * LINE for room in (left_room, right_room))
        first, second = ("right", "left") if s.swapped else ("left", "right")
        values: dict[str, Any] = {
            "left": (first, 0), "right": ("work" if s.right_mode == "work" else second, 0), "place": ("place", 0),
            "m": sizes.m, "n": sizes.n, "k": sizes.k, "tall": self.tall, "strips": self.strips,
            "panels": self.panels, "strips_each": self.strips_each, "row_blocks": self.row_blocks,
            "panels_each": self.panels_each, "column_blocks": self.column_blocks,
            "left_row": sizes.left[-2], "left_k": sizes.left[-1],
            "right_k": sizes.right[-2], "right_column": sizes.right[-1],
            "place_row": sizes.place[-2], "place_column": sizes.place[-1],
            "left_room": 0, "right_room": left_room, "sums_room": left_room + right_room,
            "panel_size": self.panel_size, "depth": self.depth, "pieces": -(-sizes.k // self.depth) or 1,
        }  # fmt: skip
        right = self.packed_strides() if s.right_mode == "work" else sizes.right
        for axis, extent in enumerate(sizes.batch):
            values |= {f"batch_{axis}": extent, f"left_{axis}": sizes.left[axis]}
            values |= {f"right_{axis}": right[axis], f"place_{axis}": sizes.place[axis]}
        return [values[name] for name in names]

    def packed_strides(self) -> list[int]:
        """From product to product of the batch in packed memory; what is broadcast is packed once."""
        strides, step = [], self.panels * self.panel_size
        for axis in reversed(range(len(self.sizes.batch))):
            alike = self.sizes.right[axis] == 0
            strides.append(0 if alike else step)
            step *= 1 if alike else self.sizes.batch[axis]
        return strides[::-1]

    def packing(self) -> tuple[Launch, int]:
        """The step that packs the right operand, and the memory it takes."""
        sizes, s = self.sizes, self.config
        kernel, names = packer(s.element, s.lanes, s.vectors, s.right, s.batches)
        extents = [1 if sizes.right[axis] == 0 else extent for axis, extent in enumerate(sizes.batch)]
        values: dict[str, Any] = {
            "right": ("left" if s.swapped else "right", 0), "target": ("work", 0), "n": sizes.n, "k": sizes.k,
            "right_k": sizes.right[-2], "right_column": sizes.right[-1],
            "panels": self.panels, "panel_size": self.panel_size,
        }  # fmt: skip
        for axis, extent in enumerate(extents):
            values |= {f"batch_{axis}": extent, f"right_{axis}": sizes.right[axis]}
        units = prod(extents) * self.panels
        return Launch(kernel, [values[name] for name in names], units), units * self.panel_size * SIZES[
            s.element
        ]


@named
def plain_kernel(config: GemmConfig) -> Kernel:
    return Multiplier(config, None).kernel()


_with_epilogue: dict[Hashable, Kernel] = {}


def kernel_with_epilogue(config: GemmConfig, epilogue: Callable[..., Epilogue], key: Hashable) -> Kernel:
    def write() -> Kernel:
        return Multiplier(config, epilogue(len(config.names()))).kernel()

    if key is None:
        return write()
    whole = (config, key)
    if whole not in _with_epilogue:
        _with_epilogue[whole] = Kernel.later(f"{config!r} that ends with {key!r}", write)
    return _with_epilogue[whole]


@cache
def packer(element: str, lanes: int, vectors: int, right: str, batches: int) -> tuple[Kernel, list[str]]:
    return right_packer(element, lanes, vectors, right, batches)


def tile_sizes() -> tuple[int, int, int]:
    """Rows of tall and of short tiles, and vectors side by side: as many sums as registers hold.

    A row that is read where it lies takes a register for its address, so that there are not more than eight.
    """
    return (6, 4, 2) if registers() == 16 else (8, 4, 3)


@cache
def choose(sizes: GemmSizes, element: str, swapped: bool, threads: int, pack_first: bool) -> GemmBlocking:
    left = "k" if sizes.left[-1] == 1 or sizes.k == 1 else "row" if sizes.left[-2] == 1 else "none"
    right = "column" if sizes.right[-1] == 1 or sizes.n == 1 else "k" if sizes.right[-2] == 1 else "none"
    width = lanes() * 4 // SIZES[element]
    heights, vectors = tile_of(sizes, width)
    tall, strips = (sizes.m, sizes.m) if len(heights) == 1 else strips_of(sizes.m, *heights)
    strips = -(-strips // heights[0]) if len(heights) == 1 else strips
    panel = width * vectors
    panels = -(-sizes.n // panel)
    size = SIZES[element]
    left_packed = left != "k" and panels > 1 and sizes.m * sizes.k * size > SMALL
    pieces = -(-sizes.k // PIECE) if sizes.k > DEPTH else 1
    depth = max(-(-sizes.k // pieces), 1)
    row_blocks = -(-strips // block_of_strips(heights, depth, size))
    right_mode = "work" if pack_first else choose_right(sizes, right, strips, row_blocks, pieces, size)
    config = GemmConfig(
        element=element, lanes=width, vectors=vectors, heights=heights,
        edge=-(-(sizes.n % panel) // width), whole=sizes.n >= panel,
        left=left, left_packed=left_packed, right=right, right_mode=right_mode,
        place=sizes.place[-1] == 1, blocked=pieces > 1, batches=len(sizes.batch), swapped=swapped,
    )  # fmt: skip
    each = split(prod(sizes.batch), strips, panels, config, depth, sizes.k, threads)
    return GemmBlocking(sizes, config, tall, strips, *each, depth)


def tile_of(sizes: GemmSizes, width: int) -> tuple[tuple[int, ...], int]:
    """The heights of tiles and their vectors; for a few rows, all of them in one tile that is wider."""
    tall, short, vectors = tile_sizes()
    if sizes.m < short:
        return (sizes.m,), min(4, -(-sizes.n // width))
    return (tall, short), vectors


def choose_right(sizes: GemmSizes, right: str, strips: int, row_blocks: int, pieces: int, size: int) -> str:
    """From where tiles read the right operand.

    "direct": from where it is. "panel": packed just before it is used, so that it never leaves the first cache.
    "own": packed by each thread once for several blocks of rows. "work": packed by all threads before.
    """
    if right == "column" and (strips <= FEW or sizes.k * sizes.n * size <= SMALL):
        return "direct"
    if row_blocks <= 2 or (pieces > 1 and sizes.k * sizes.n * size > LARGE):
        return "panel"
    return "work" if pieces > 1 else "own"


def block_of_strips(heights: tuple[int, ...], depth: int, size: int) -> int:
    """How many strips of the left operand stay in the second cache."""
    return max(BLOCK // (max(heights) * depth * size), 1)


def strips_of(m: int, tall: int, short: int) -> tuple[int, int]:
    """How many tall strips, and how many in all, cover m rows with least waste."""
    options = []
    for more in range(tall):
        first = max(-(-(m - more * short) // tall), 0)
        options.append((first * tall + more * short * 1.05, first, first + more))
    return min(options)[1:]


def split(
    batch: int, strips: int, panels: int, s: GemmConfig, depth: int, k: int, threads: int
) -> tuple[int, int]:
    """Strips and panels of a unit: the cut by which the busiest thread is done first."""
    size = SIZES[s.element]
    most_strips = block_of_strips(s.heights, depth, size)
    best: tuple[float, int, int] | None = None
    for strips_each in cuts(strips, threads, most_strips):
        for panels_each in cuts(panels, threads, panels):
            if s.right_mode == "own" and panels_each * s.panel * (depth + s.lanes) * size > PACKED:
                continue
            if s.blocked and panels_each * strips_each * s.tile * size > SCRATCH // 4:
                continue
            row_blocks, column_blocks = -(-strips // strips_each), -(-panels // panels_each)
            busiest = -(-batch * row_blocks * column_blocks // threads)
            tile = max(s.heights) * s.vectors / 2 * k + 40
            cost = busiest * (strips_each * panels_each * tile + 100)
            if s.right_mode in ("panel", "own"):
                packings = busiest if s.right_mode == "panel" else -(-busiest // row_blocks)
                cost += packings * panels_each * s.panel * k * 0.4
            cost += busiest * strips_each * max(s.heights) * k * 0.4  # rows are packed, or come from far
            if best is None or cost < best[0]:
                best = (cost, strips_each, panels_each)
    return best[1:] if best is not None else (1, 1)


def cuts(extent: int, threads: int, most: int) -> list[int]:
    """GemmSizes of pieces to consider, largest first."""
    pieces = range(1, min(extent, 8 * threads + extent // most) + 1)
    return sorted(
        {size for number in pieces if (size := -(-extent // number)) <= most} or {most}, reverse=True
    )
