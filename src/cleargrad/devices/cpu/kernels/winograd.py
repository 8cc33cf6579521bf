"""Convolutions of 3 by 3 taps with fewer products: Winograd's way, two by two outputs at a time.

A tile of 4 by 4 entries and a kernel of 3 by 3 are each turned into 16 numbers by additions; the 16 products,
summed over channels, turn into 2 by 2 outputs by additions again: 16 products instead of 36, rounded about as well.
The sums are products of matrices, 16 of them, by the tiles of convolution_tiles.py. An infinity makes NaN of all
outputs of its tile, not only of those that see it. Read next: devices/cpu/kernels/convolution_blocking.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cleargrad.devices.cpu.kernels.convolution_tiles import TapConfig, Tiles, finished
from cleargrad.devices.cpu.kernels.packing import PARAMETERS
from cleargrad.devices.cpu.kernels.windows import TABLES, WORDS, CopiedBlock, WindowCode
from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import Val, vector

POINTS = 16

NAMES = [
    *(
        "source",
        "weight",
        "bias",
        "gate",
        "place",
        "groups",
        "strips",
        "strips_each",
        "strips_part",
        "strip_parts",
    ),
    *("samples", "samples_each", "channels", "results", "channels_each", "copied_each", "taps"),
    *("turned_room", "cells_pitch", "turned_step", "sums_room", "sums_pitch", "sums_step", "weight_step"),
    *("source_batch", "source_channel", "source_z", "source_y", "place_batch", "place_channel", "place_y"),
    *WORDS,
    *TABLES,
]


class Winograd:
    """Writes the kernel; a unit is some rows of tiles of some samples, for some channels of the result."""

    def __init__(self, config: TapConfig) -> None:
        self.config = config
        self.code = WindowCode(NAMES, config.element, config.lanes)
        self.element = self.code.element

    def kernel(self) -> Kernel:
        code, s = self.code, self.config
        numbers = [code.integer(point) for point in range(POINTS)]
        # Computed here, so that inner loops need not.
        self.turned_steps = [code.mul(number, code.word("turned_step")) for number in numbers]
        self.sums_steps = [code.mul(number, code.word("sums_step")) for number in numbers]
        with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
            self.unit(unit)
        code.do("ret void")
        parts = [code.function("kernel", PARAMETERS, notes="nounwind ")]
        declared = set(code.declared)
        for vectors in range(1, s.vectors + 1):
            tiles = Tiles(s, NAMES, "cells_pitch", vectors)
            parts.append(tiles.function(f"tiles{vectors}"))
            declared |= tiles.code.declared
        return Kernel("\n".join(parts), tuple(declared))

    def unit(self, unit: Val) -> None:
        code = self.code
        sample_block, group, strip_part, y_block, x_block = code.parts(
            unit, "groups", "strip_parts", "y_blocks", "x_blocks"
        )
        block = code.outputs(code.integer(0), y_block, x_block)
        one, two = code.integer(1), code.integer(2)
        self.rows, self.columns = (
            code.binary("udiv", code.add(count, one), two) for count in (block.rows, block.columns)
        )
        self.cells = code.mul(self.rows, self.columns)
        self.first_sample = code.mul(sample_block, code.word("samples_each"))
        left = code.sub(code.word("samples"), self.first_sample)
        self.samples = code.least(code.word("samples_each"), left)
        self.turned = code.at(PARAMETERS[3], code.word("turned_room"), "i8")
        self.sums = code.at(PARAMETERS[3], code.word("sums_room"), "i8")
        zero, channels = code.integer(0), code.word("channels")
        with (
            self.pieces(zero, channels, "copied_each") as (channel, count),
            code.loop(zero, self.samples) as sample,
        ):
            self.turn(sample, group, channel, count, block)
        begin = code.mul(strip_part, code.word("strips_part"))
        end = code.least(code.add(begin, code.word("strips_part")), code.word("strips"))
        with self.pieces(begin, end, "strips_each") as (first, strips):
            with self.pieces(zero, channels, "channels_each") as (channel, count):
                self.multiply(group, first, strips, channel, count)
            with code.loop(zero, self.samples) as sample:
                self.put(sample, group, first, strips, block)

    @contextmanager
    def pieces(self, begin: Val, end: Val, each: str) -> Iterator[tuple[Val, Val]]:
        """Cuts a range into pieces of so many; gives where each begins and how many it has."""
        code, size = self.code, self.code.word(each)
        whole = code.sub(end, begin)
        count = code.binary("udiv", code.add(whole, code.sub(size, code.integer(1))), size)
        with code.loop(code.integer(0), count) as number:
            first = code.add(begin, code.mul(number, size))
            yield first, code.least(size, code.sub(end, first))

    # Input -------------------------------------------------------------------------------------------------

    def turn(self, sample: Val, group: Val, channel: Val, count: Val, block: CopiedBlock) -> None:
        """Copies some channels of a sample and turns their tiles."""
        code = self.code
        own = code.add(code.mul(group, code.word("channels")), channel)
        source = code.element_at(
            code.word("source", "ptr"),
            (code.add(self.first_sample, sample), code.word("source_batch")),
            (own, code.word("source_channel")),
        )
        code.copy_block(source, PARAMETERS[3], count, block, 1)
        target = code.element_at(self.turned, (sample, self.cells), (channel, code.word("cells_pitch")))
        with code.loop(code.integer(0), count) as number:
            image = code.element_at(PARAMETERS[3], (number, code.word("channel_room")))
            to = code.element_at(target, (number, code.word("cells_pitch")))
            with code.loop(code.integer(0), self.rows) as row:
                line = code.element_at(image, (code.mul(row, code.integer(2)), code.word("pitch")))
                to_line = code.element_at(to, (row, self.columns))

                def at(x: Val, width: int, line: Val = line, to_line: Val = to_line) -> None:
                    tile = code.element_at(line, (x, code.integer(2)))
                    self.turn_tiles(tile, code.at(to_line, x, self.element), width)

                code.sweep(code.integer(0), self.columns, at)

    def turn_tiles(self, image: Val, target: Val, width: int) -> None:
        """Neighbouring tiles: rows are joined first, as they lie in memory, then what each column of tiles has."""
        code = self.code
        lines = [code.element_at(image, (code.integer(i), code.word("pitch"))) for i in range(4)]
        for i, (a, b, join) in enumerate(
            ((0, 2, code.sub), (1, 2, code.add), (2, 1, code.sub), (1, 3, code.sub))
        ):

            def joined(shift: int, a: int = a, b: int = b, join: Callable = join) -> Val:
                pair = (code.at(lines[row], code.integer(shift), self.element) for row in (a, b))
                return join(*(code.load(place, vector(self.element, width)) for place in pair))

            d = self.columns_of(joined, width)
            row = [code.sub(d[0], d[2]), code.add(d[1], d[2]), code.sub(d[2], d[1]), code.sub(d[1], d[3])]
            for j, value in enumerate(row):
                code.store(value, code.at(target, self.turned_steps[4 * i + j], self.element))

    def columns_of(self, joined: Callable[[int], Val], width: int) -> list[Val]:
        """The four columns of neighbouring tiles, which share two with the next one."""
        if width == 1:
            return [joined(shift) for shift in range(4)]
        found = []
        for shift in (0, 2):
            low, high = joined(shift), joined(shift + width)
            found += [self.code.shuffle(low, high, range(first, 2 * width, 2)) for first in (0, 1)]
        return found

    # Products ----------------------------------------------------------------------------------------------

    def multiply(self, group: Val, first: Val, strips: Val, channel: Val, count: Val) -> None:
        code, s = self.code, self.config
        strip = code.add(code.mul(group, code.word("strips")), first)
        depth = code.add(code.mul(strip, code.word("channels")), channel)
        weight = code.element_at(code.word("weight", "ptr"), (depth, code.integer(s.height)))
        turned = code.element_at(self.turned, (channel, code.word("cells_pitch")))
        cells = code.mul(self.cells, self.samples)
        whole = code.sub(cells, code.integer(s.lanes * s.vectors - 1))

        def call(vectors: int, point: Val, cell: Val) -> None:
            image = code.element_at(turned, (point, code.word("turned_step")), (cell, code.integer(1)))
            sums = code.element_at(self.sums, (point, code.word("sums_step")), (cell, code.integer(1)))
            own = code.element_at(weight, (point, code.word("weight_step")))
            code.call_part(f"tiles{vectors}", PARAMETERS[0], image, own, sums, strips, channel, count)

        rest = code.slot("i64", code.integer(0))
        with code.loop(code.integer(0), whole, s.lanes * s.vectors) as cell:
            with code.loop(code.integer(0), code.integer(POINTS)) as point:
                call(s.vectors, point, cell)
            code.set(rest, code.add(cell, code.integer(s.lanes * s.vectors)))
        start = code.get(rest, "i64")
        left = code.binary(
            "udiv", code.add(code.sub(cells, start), code.integer(s.lanes - 1)), code.integer(s.lanes)
        )
        for vectors in range(1, s.vectors + 1):
            fits = code.compare("eq", left, code.integer(vectors))
            with code.when(fits), code.loop(code.integer(0), code.integer(POINTS)) as point:
                call(vectors, point, start)

    # Results -----------------------------------------------------------------------------------------------

    def put(self, sample: Val, group: Val, first_strip: Val, strips: Val, block: CopiedBlock) -> None:
        code, s = self.code, self.config
        first = code.mul(first_strip, code.integer(s.height))
        last = code.mul(code.add(first_strip, strips), code.integer(s.height))
        last = code.least(last, code.word("results"))
        start = code.element_at(self.sums, (sample, self.cells))
        with code.loop(first, last) as result:
            channel = code.add(code.mul(group, code.word("results")), result)
            plane = code.mul(code.add(self.first_sample, sample), code.word("place_batch"))
            plane = code.add(plane, code.mul(channel, code.word("place_channel")))
            bias = None
            if s.bias:
                bias = code.load(code.at(code.word("bias", "ptr"), channel, self.element), self.element)
            sums = code.element_at(start, (code.sub(result, first), code.word("sums_pitch")))
            with code.loop(code.integer(0), self.rows) as row:
                line = code.element_at(sums, (row, self.columns))
                self.put_row(line, plane, code.add(block.y, code.mul(row, code.integer(2))), block, bias)

    def put_row(self, sums: Val, plane: Val, first: Val, block: CopiedBlock, bias: Val | None) -> None:
        """Two rows of outputs; the last tile of a row, and the last row, may have only one output."""
        code = self.code
        two = code.integer(2)
        whole = code.binary("udiv", block.columns, two)
        for below in range(2):
            y = code.add(first, code.integer(below))
            with code.when(code.compare("slt", y, code.word("y_count"))):
                start = code.add(code.add(plane, code.mul(y, code.word("place_y"))), block.x)

                def at(x: Val, width: int, start: Val = start, below: int = below, count: int = 2) -> None:
                    pair = self.outputs(code.at(sums, x, self.element), below, width)
                    self.put_pair(pair, code.add(start, code.mul(x, two)), bias, width, count)

                code.sweep(code.integer(0), whole, at)
                with code.loop(whole, self.columns) as x:
                    at(x, 1, count=1)

    def outputs(self, sums: Val, below: int, width: int) -> list[Val]:
        """The outputs of one row of tiles, left and right."""
        code, type = self.code, vector(self.element, width)

        def entry(i: int, j: int) -> Val:
            return code.load(code.at(sums, self.sums_steps[4 * i + j], self.element), type)

        if below:
            m = [code.sub(code.sub(entry(1, j), entry(2, j)), entry(3, j)) for j in range(4)]
        else:
            m = [code.add(code.add(entry(0, j), entry(1, j)), entry(2, j)) for j in range(4)]
        return [code.add(code.add(m[0], m[1]), m[2]), code.sub(code.sub(m[1], m[2]), m[3])]

    def put_pair(self, pair: list[Val], where: Val, bias: Val | None, width: int, count: int) -> None:
        code = self.code
        if width == 1:
            values = pair[:count]
        else:
            both = [lane for k in range(width) for lane in (k, width + k)]
            left, right = pair
            values = [code.shuffle(left, right, both[:width]), code.shuffle(left, right, both[width:])]
        for number, value in enumerate(values):
            place = code.add(where, code.integer(number * width))
            value = finished(code, self.config, value, bias, place)
            code.store(value, code.at(code.word("place", "ptr"), place, self.element))


PACK_NAMES = [
    *("weight", "target", "strips", "channels", "results", "weight_group", "weight_result", "weight_channel"),
    *("weight_step", "tap_places"),
]


def weight_packer(element: str, height: int) -> Kernel:
    """The kernel that turns weights and lays them out as (point, group, strip, channel, row)."""
    code = WindowCode(PACK_NAMES, element, 1)
    zero, half = code.integer(0), code.const(0.5, element)
    with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
        group, strip = code.parts(unit, "strips")
        first = code.mul(strip, code.integer(height))
        with code.loop(zero, code.word("channels")) as channel:
            place = code.mul(code.add(code.mul(unit, code.word("channels")), channel), code.integer(height))
            target = code.at(code.word("target", "ptr"), place, element)
            with code.loop(zero, code.integer(height)) as row:
                result = code.least(code.add(first, row), code.sub(code.word("results"), code.integer(1)))
                source = code.element_at(
                    code.word("weight", "ptr"),
                    (group, code.word("weight_group")),
                    (result, code.word("weight_result")),
                    (channel, code.word("weight_channel")),
                )
                w = [
                    code.load(code.at(source, code.listed("tap_places", code.integer(tap)), element), element)
                    for tap in range(9)
                ]
                columns = [turned_taps(code, w[j::3], half) for j in range(3)]
                for i in range(4):
                    for j, value in enumerate(turned_taps(code, [column[i] for column in columns], half)):
                        step = code.mul(code.integer(4 * i + j), code.word("weight_step"))
                        code.store(
                            value, code.element_at(target, (row, code.integer(1)), (step, code.integer(1)))
                        )
    code.do("ret void")
    return Kernel(code.function("kernel", PARAMETERS, notes="nounwind "), tuple(code.declared))


def turned_taps(code: WindowCode, w: list[Val], half: Val) -> list[Val]:
    """Four numbers for three taps."""
    outer = code.add(w[0], w[2])
    return [w[0], code.mul(half, code.add(outer, w[1])), code.mul(half, code.sub(outer, w[1])), w[2]]
