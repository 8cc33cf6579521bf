"""Windows over images: where each tap of a kernel reads, and the copy of an image in which that is a fixed
distance.

Outputs t of one dimension read a source at t · step + shift - before, for each tap's shift. A block of
outputs works on a copy of what it reads (`CopyLayout`): positions of equal phase (remainder by the step) lie side
by side, padding is there as zeros, and rows follow each other at one pitch. There the tap of output (y, x)
lies at y · pitch + x plus a distance that depends on the tap alone, so that vectors of outputs read vectors
of the copy, whatever stride and dilation are. Read next: devices/cpu/kernels/convolution_tiles.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from cleargrad.devices.cpu.kernels.packing import PARAMETERS, ProductCode
from cleargrad.devices.cpu.llvm.text import Val, vector

NARROWEST = 4  # elements of the parts of vectors that short rows are worked on with


class TooLarge(Exception):
    """A window that reads more than a thread's memory holds; such cases are left to NumPy."""


@dataclass(frozen=True)
class Axis:
    """One dimension: `count` outputs t, written at first + t · spread, which read at t · step + shift - before."""

    size: int
    count: int
    shifts: tuple[int, ...]
    step: int = 1
    before: int = 0
    first: int = 0
    spread: int = 1

    @property
    def phases(self) -> list[int]:
        return sorted({shift % self.step for shift in self.shifts})

    @property
    def reach(self) -> int:
        """How many positions of a phase follow the one that an output has for its own."""
        return max((shift // self.step for shift in self.shifts), default=0)


@dataclass(frozen=True)
class CopyLayout:
    """The copy of one channel for a block of `rows` by `columns` outputs of one plane."""

    axes: tuple[Axis, Axis, Axis]  # depth, height, width
    rows: int
    columns: int

    @property
    def pitch(self) -> int:
        return self.columns + self.axes[2].reach

    @property
    def lines(self) -> int:
        return self.rows + self.axes[1].reach

    @cached_property
    def channel(self) -> int:
        """Elements from channel to channel: an odd number of cache lines, lest channels contend for them."""
        depth, height, width = self.axes
        size = len(depth.shifts) * len(height.phases) * len(width.phases) * self.lines * self.pitch
        return (-(-size // 16) | 1) * 16

    @cached_property
    def distances(self) -> list[int]:
        """For every tap the place it reads for the first output of the block."""
        _, height, width = self.axes
        found = []
        for plane, y, x in product(range(len(self.axes[0].shifts)), height.shifts, width.shifts):
            phase = plane * len(height.phases) + height.phases.index(y % height.step)
            phase = phase * len(width.phases) + width.phases.index(x % width.step)
            line = phase * self.lines + y // height.step
            found.append(line * self.pitch + x // width.step)
        return found

    def cells(self, rows: int) -> int:
        """Places from the first output to the last one of a block, both included."""
        return (rows - 1) * self.pitch + self.columns

    def words(self) -> dict[str, Any]:
        """The arguments that `copy_block` and the loops over blocks need."""
        depth, height, width = self.axes
        values: dict[str, Any] = {
            "rows_each": self.rows, "columns_each": self.columns, "pitch": self.pitch, "lines": self.lines,
            "channel_room": self.channel, "line_reach": height.reach, "column_reach": width.reach,
            "planes": len(depth.shifts), "row_phases": len(height.phases), "column_phases": len(width.phases),
            "y_blocks": -(-height.count // self.rows), "x_blocks": -(-width.count // self.columns),
        }  # fmt: skip
        for name, axis in zip("zyx", self.axes):
            values |= {f"{name}_size": axis.size, f"{name}_count": axis.count, f"{name}_step": axis.step}
            values |= {f"{name}_before": axis.before}
        return values

    def tables(self) -> dict[str, list[int]]:
        depth, height, width = self.axes
        return {
            "plane_shifts": list(depth.shifts), "row_shifts": height.phases, "column_shifts": width.phases,
            "distances": self.distances,
        }  # fmt: skip

    @property
    def blocks(self) -> int:
        """How many blocks an image has."""
        return (
            self.axes[0].count * -(-self.axes[1].count // self.rows) * -(-self.axes[2].count // self.columns)
        )


def known_step(axis: Axis) -> int:
    """The step that is compiled in; others are words."""
    return axis.step if axis.step <= 2 else 0


WORDS = (
    *("rows_each", "columns_each", "pitch", "lines", "channel_room", "line_reach", "column_reach"),
    *("planes", "row_phases", "column_phases", "y_blocks", "x_blocks"),
    *(f"{axis}_{what}" for axis in "zyx" for what in ("size", "count", "step", "before")),
)
TABLES = ("plane_shifts", "row_shifts", "column_shifts", "distances")


def with_tables(names: list[str], values: dict[str, Any], tables: dict[str, list[int]]) -> list[Any]:
    """Words in order, then the tables; the word of a table's name is where it begins."""
    values = dict(values)
    rest: list[int] = []
    for name, table in tables.items():
        values[name] = len(names) + len(rest)
        rest += table
    return [*(values[name] for name in names), *rest]


@dataclass(frozen=True)
class CopiedBlock:
    """A block of outputs in the code: its first output and how many there are."""

    z: Val
    y: Val
    x: Val
    rows: Val
    columns: Val


def part(code: WindowCode, name: str, parameters: Sequence[Val]) -> str:
    """A function that a kernel calls: registers are shared out for it alone."""
    code.do("ret void")
    return code.function(name, parameters, "internal void", "noinline nounwind ")


class WindowCode(ProductCode):
    """Code that walks over blocks of outputs and copies what they read."""

    def __init__(self, names: list[str], element: str, width: int, blank: float = 0.0) -> None:
        super().__init__(names)
        self.element, self.width = element, width
        self.type = vector(element, width)
        self.blank = blank  # what lies outside the source

    def listed(self, table: str, index: Val) -> Val:
        """A number of a table."""
        place = self.at(PARAMETERS[0], self.add(self.word(table), index), "i64")
        return self.pure("i64", f"load i64, ptr {place.name}, align 8, !invariant.load !{{}}")

    def table(self, name: str) -> Val:
        return self.at(PARAMETERS[0], self.word(name), "i64")

    def parts(self, number: Val, *names: str) -> list[Val]:
        """The indices of a number that counts through several extents, the last one fastest; first the rest."""
        found = []
        for name in reversed(names):
            found.append(self.binary("urem", number, self.word(name)))
            number = self.binary("udiv", number, self.word(name))
        return [number, *found[::-1]]

    def outputs(self, z: Val, y_block: Val, x_block: Val) -> CopiedBlock:
        y, x = self.mul(y_block, self.word("rows_each")), self.mul(x_block, self.word("columns_each"))
        rows = self.least(self.word("rows_each"), self.sub(self.word("y_count"), y))
        columns = self.least(self.word("columns_each"), self.sub(self.word("x_count"), x))
        return CopiedBlock(z, y, x, rows, columns)

    def element_at(self, pointer: Val, *terms: tuple[Val, Val]) -> Val:
        """The address of an element, from indices and their strides."""
        for index, stride in terms:
            pointer = self.at(pointer, self.product(index, stride), self.element)
        return pointer

    def call_part(self, name: str, *operands: Val) -> None:
        self.do(f"call void @{name}({', '.join(map(str, operands))})")

    # Copies ------------------------------------------------------------------------------------------------

    def copy_block(self, source: Val, target: Val, channels: Val, block: CopiedBlock, step: int) -> None:
        """Copies what a block reads of some channels; `step` is the last dimension's, or 0 if it is a word."""
        zero = self.integer(0)
        lines = self.add(block.rows, self.word("line_reach"))
        columns = self.add(block.columns, self.word("column_reach"))
        with self.loop(zero, channels) as channel:
            image = self.element_at(source, (channel, self.word("source_channel")))
            room = self.element_at(target, (channel, self.word("channel_room")))
            with self.loop(zero, self.word("planes")) as plane:
                z = self.place("z", block.z, self.listed("plane_shifts", plane))
                inside = self.compare("ult", z, self.word("z_size"))
                image_plane = self.element_at(image, (z, self.word("source_z")))
                with self.loop(zero, self.word("row_phases")) as row_phase:
                    y = self.place("y", block.y, self.listed("row_shifts", row_phase))
                    with self.loop(zero, self.word("column_phases")) as column_phase:
                        x = self.place("x", block.x, self.listed("column_shifts", column_phase))
                        first, last = self.inside(x, columns, step)
                        phase = self.add(self.mul(plane, self.word("row_phases")), row_phase)
                        phase = self.add(self.mul(phase, self.word("column_phases")), column_phase)
                        line = self.mul(phase, self.word("lines"))
                        with self.loop(zero, lines) as number:
                            here = self.add(y, self.mul(number, self.word("y_step")))
                            exists = self.binary(
                                "and", inside, self.compare("ult", here, self.word("y_size"))
                            )
                            end = self.select(exists, last, first)
                            row = self.element_at(
                                image_plane, (here, self.word("source_y")), (x, self.integer(1))
                            )
                            to = self.element_at(room, (self.add(line, number), self.word("pitch")))
                            self.fill(to, zero, first)
                            self.copy(row, to, first, end, step)
                            self.fill(to, end, columns)

    def place(self, axis: str, output: Val, shift: Val) -> Val:
        """Where an output reads along an axis."""
        start = self.mul(output, self.word(f"{axis}_step"))
        return self.sub(self.add(start, shift), self.word(f"{axis}_before"))

    def inside(self, x: Val, columns: Val, known: int) -> tuple[Val, Val]:
        """From where to where a row of the copy lies inside the source, if it begins at x."""
        zero = self.integer(0)
        outside = self.most(self.sub(zero, x), zero)
        left = self.most(self.sub(self.word("x_size"), x), zero)
        if known != 1:
            step = self.integer(known) if known else self.word("x_step")
            more = self.sub(step, self.integer(1))
            outside = self.binary("udiv", self.add(outside, more), step)
            left = self.binary("udiv", self.add(left, more), step)
        first = self.least(outside, columns)
        return first, self.most(self.least(left, columns), first)

    def fill(self, target: Val, begin: Val, end: Val) -> None:
        """What lies outside. The last vector reaches beyond the end, where nothing has been written yet."""
        with self.loop(begin, end, self.width) as place:
            self.store(self.const(self.blank, self.type), self.at(target, place, self.element))

    def copy(self, source: Val, target: Val, begin: Val, end: Val, known: int) -> None:
        """Every `known`-th element of a row; of words' steps, element by element."""

        def move(place: Val, width: int) -> None:
            step = self.integer(known) if known else self.word("x_step")
            start = self.element_at(source, (place, step))
            type = vector(self.element, width)
            if known == 2 and width > 1:
                # Two vectors that share an element end with the last one that is read.
                low = self.load(start, type)
                high = self.load(self.at(start, self.integer(width - 1), self.element), type)
                lanes = [*range(0, width, 2), *range(width + 1, 2 * width, 2)]
                value = self.shuffle(low, high, lanes)
            else:
                value = self.load(start, type)
            self.store(value, self.at(target, place, self.element))

        if known:
            self.sweep(begin, end, move)
        else:
            with self.loop(begin, end) as place:
                move(place, 1)

    def sweep(self, begin: Val, end: Val, at: Any) -> None:
        """Writes at(place, width) for a range; the last vector reaches back, which must do no harm."""
        self.sweep_by(self.width, begin, end, at)

    def sweep_by(self, width: int, begin: Val, end: Val, at: Any) -> None:
        """The widest vectors that are not longer than the range, or single elements where there are none."""
        if width == 1 or width < min(NARROWEST, self.width):
            with self.loop(begin, end) as place:
                at(place, 1)
            return
        last = self.sub(end, self.integer(width))
        wide = self.compare("sge", last, begin)
        with self.when(wide):
            with self.loop(begin, last, width) as place:
                at(place, width)
            at(last, width)
        with self.when(self.opposite(wide)):
            self.sweep_by(width // 2, begin, end, at)
