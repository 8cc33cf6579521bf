"""The kernel that sums products of taps and weights: convolutions, and their gradients in the input.

A tile of results, a few channels by a few vectors of neighbouring outputs, stays in registers while channels
and taps of the source run. Sums of a block wait in the thread's memory; there they lie at the pitch of the
copied source, with nothing between the rows that matters, and go from there to their place. Read next:
devices/cpu/kernels/convolution_weight.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from cleargrad.devices.cpu.kernels.packing import PARAMETERS
from cleargrad.devices.cpu.kernels.windows import TABLES, WORDS, CopiedBlock, WindowCode, part
from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import Val, vector, width_of


@dataclass(frozen=True)
class TapConfig:
    """What the code of the kernel depends on."""

    element: str
    lanes: int
    height: int  # channels of a tile
    vectors: int  # of outputs in a tile
    single: bool  # whether there is one tap
    step: int  # of the source's last dimension; 0 if it is a word
    together: bool  # whether results of a row are neighbours
    bias: bool
    relu: bool
    gate: bool  # whether results are zero where another array is not above zero: the gradient of relu

    @property
    def across(self) -> int:
        """Outputs of a tile."""
        return self.lanes * self.vectors


NAMES = [
    *("source", "weight", "bias", "gate", "place", "groups", "strips", "strips_each", "strip_blocks"),
    *("channels", "results", "channels_each", "channel_blocks", "taps", "sums_room", "sums_pitch"),
    *("source_batch", "source_channel", "source_z", "source_y"),
    *("place_batch", "place_channel", "place_z", "place_y", "place_x", "place_first"),
    *WORDS,
    *TABLES,
]


class TapSum:
    """Writes the kernel of one config."""

    def __init__(self, config: TapConfig) -> None:
        self.config = config
        self.code = WindowCode(NAMES, config.element, config.lanes)
        self.element, self.type = self.code.element, self.code.type

    def kernel(self) -> Kernel:
        code = self.code
        with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
            self.unit(unit)
        code.do("ret void")
        text = code.function("kernel", PARAMETERS, notes="nounwind ")
        tiles = Tiles(self.config, NAMES, "channel_room")
        return Kernel("\n".join([tiles.function("tiles"), text]), tuple(code.declared | tiles.code.declared))

    def unit(self, unit: Val) -> None:
        """A block of outputs of one sample, for some channels of one group."""
        code = self.code
        sample, group, strip_block, z, y_block, x_block = code.parts(
            unit, "groups", "strip_blocks", "z_count", "y_blocks", "x_blocks"
        )
        block = code.outputs(z, y_block, x_block)
        first_strip = code.mul(strip_block, code.word("strips_each"))
        last_strip = code.least(code.add(first_strip, code.word("strips_each")), code.word("strips"))
        cells = code.add(code.mul(code.sub(block.rows, code.integer(1)), code.word("pitch")), block.columns)
        self.sums = code.at(PARAMETERS[3], code.word("sums_room"), "i8")
        source = code.element_at(
            code.word("source", "ptr"),
            (sample, code.word("source_batch")),
            (code.mul(group, code.word("channels")), code.word("source_channel")),
        )
        with code.loop(code.integer(0), code.word("channel_blocks")) as number:
            channel = code.mul(number, code.word("channels_each"))
            count = code.least(code.word("channels_each"), code.sub(code.word("channels"), channel))
            start = code.element_at(source, (channel, code.word("source_channel")))
            code.copy_block(start, PARAMETERS[3], count, block, self.config.step)
            strip = code.add(code.mul(group, code.word("strips")), first_strip)
            depth = code.mul(code.add(code.mul(strip, code.word("channels")), channel), code.word("taps"))
            weight = code.element_at(code.word("weight", "ptr"), (depth, code.integer(self.config.height)))
            strips = code.sub(last_strip, first_strip)
            with code.loop(code.integer(0), cells, self.config.across) as cell:
                image, sums = (code.at(room, cell, self.element) for room in (PARAMETERS[3], self.sums))
                code.call_part("tiles", PARAMETERS[0], image, weight, sums, strips, channel, count)
        self.put(sample, group, first_strip, last_strip, block)

    def sums_at(self, row: Val, cell: Val) -> Val:
        return self.code.element_at(
            self.sums, (row, self.code.word("sums_pitch")), (cell, self.code.integer(1))
        )

    # Results -----------------------------------------------------------------------------------------------

    def put(self, sample: Val, group: Val, first_strip: Val, last_strip: Val, block: CopiedBlock) -> None:
        """Brings the sums of a block to their place."""
        code, s = self.code, self.config
        height = code.integer(s.height)
        first = code.mul(first_strip, height)
        last = code.least(code.mul(last_strip, height), code.word("results"))
        step = code.integer(1) if s.together else code.word("place_x")
        with code.loop(first, last) as result:
            channel = code.add(code.mul(group, code.word("results")), result)
            plane = code.add(
                code.mul(sample, code.word("place_batch")), code.mul(channel, code.word("place_channel"))
            )
            bias = None
            if s.bias:
                bias = code.load(code.at(code.word("bias", "ptr"), channel, self.element), self.element)
            with code.loop(code.integer(0), block.rows) as row:
                start = code.add(
                    code.add(plane, code.word("place_first")), code.mul(block.z, code.word("place_z"))
                )
                start = code.add(start, code.mul(code.add(block.y, row), code.word("place_y")))
                start = code.add(start, code.product(block.x, step))
                sums = self.sums_at(code.sub(result, first), code.mul(row, code.word("pitch")))

                def at(
                    place: Val, width: int, sums: Val = sums, start: Val = start, bias: Val | None = bias
                ) -> None:
                    value = code.load(code.at(sums, place, self.element), vector(self.element, width))
                    where = code.add(start, code.product(place, step))
                    value = finished(code, s, value, bias, where)
                    code.store(value, code.at(code.word("place", "ptr"), where, self.element))

                if s.together:
                    code.sweep(code.integer(0), block.columns, at)
                else:
                    with code.loop(code.integer(0), block.columns) as place:
                        at(place, 1)


def finished(code: WindowCode, config: TapConfig, value: Val, bias: Val | None, where: Val) -> Val:
    """What becomes of results before they are stored."""
    zero = code.const(0, value.type)
    if bias is not None:
        value = code.add(value, code.splat(bias, width_of(value.type)))
    if config.relu:  # not above zero, but NaN stays
        value = code.select(code.compare("ole", value, zero), zero, value)
    if config.gate:
        gate = code.load(code.at(code.word("gate", "ptr"), where, code.element), value.type)
        value = code.select(code.compare("ole", gate, zero), zero, value)
    return value


class Tiles:
    """Writes the function that adds what some channels give to all strips of one tile's width."""

    PARAMETERS = (
        PARAMETERS[0], Val("%image", "ptr"), Val("%weight", "ptr"), Val("%sums", "ptr"),
        Val("%strips", "i64"), Val("%channel", "i64"), Val("%count", "i64"),
    )  # fmt: skip

    def __init__(self, config: TapConfig, names: list[str], room: str, vectors: int = 0) -> None:
        self.config, self.room = config, room  # the word that says how far channels are apart
        self.vectors = vectors or config.vectors
        self.code = WindowCode(names, config.element, config.lanes)
        self.element, self.type = self.code.element, self.code.type

    def function(self, name: str) -> str:
        code, s = self.code, self.config
        _, image, weight, sums, strips, channel, count = self.PARAMETERS
        height = code.integer(s.height)
        depth = code.mul(code.word("channels"), code.mul(code.word("taps"), height))
        again = code.compare("ne", channel, code.integer(0))
        with code.loop(code.integer(0), strips) as strip:
            first = code.element_at(sums, (code.mul(strip, height), code.word("sums_pitch")))
            self.tile(image, code.element_at(weight, (strip, depth)), first, count, again)
        return part(code, name, self.PARAMETERS)

    def tile(self, image: Val, weight: Val, sums: Val, count: Val, again: Val) -> None:
        code, s = self.code, self.config
        places = []
        for row in range(s.height):
            start = code.element_at(sums, (code.integer(row), code.word("sums_pitch")))
            places += [code.at(start, code.integer(v * s.lanes), self.element) for v in range(self.vectors)]
        totals = [code.slot(self.type, code.const(0, self.type)) for _ in places]
        with code.when(again):
            for total, place in zip(totals, places, strict=True):
                code.set(total, code.load(place, self.type))
        with code.loop(code.integer(0), count) as channel:
            here = code.element_at(image, (channel, code.word(self.room)))
            step = code.mul(code.word("taps"), code.integer(s.height))
            factors = code.element_at(weight, (channel, step))
            if s.single:
                self.add_products(here, factors, code.integer(0), totals)
            else:
                with code.loop(code.integer(0), code.word("taps")) as tap:
                    self.add_products(here, factors, tap, totals)
        for total, place in zip(totals, places, strict=True):
            code.store(code.get(total, self.type), place)

    def add_products(self, image: Val, factors: Val, tap: Val, totals: list[Val]) -> None:
        code, s = self.code, self.config
        seen = image if s.single else code.at(image, code.listed("distances", tap), self.element)
        values = [
            code.load(code.at(seen, code.integer(v * s.lanes), self.element), self.type)
            for v in range(self.vectors)
        ]
        row = code.element_at(factors, (tap, code.integer(s.height)))
        for number in range(s.height):
            factor = code.load(code.at(row, code.integer(number), self.element), self.element)
            wide = code.splat(factor, s.lanes)
            for v, value in enumerate(values):
                total = totals[number * self.vectors + v]
                code.set(total, code.fma(wide, value, code.get(total, self.type)))


PACK_NAMES = [
    *("weight", "target", "strips", "channels", "results", "taps"),
    *("weight_group", "weight_result", "weight_channel", "tap_places"),
]


def weight_packer(element: str, height: int) -> Kernel:
    """The kernel that puts weights in the order in which tiles read them: (group, strip, channel, tap, row)."""
    code = WindowCode(PACK_NAMES, element, 1)
    zero = code.integer(0)
    with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
        group, strip = code.parts(unit, "strips")
        first = code.mul(strip, code.integer(height))
        rows = code.least(code.integer(height), code.sub(code.word("results"), first))
        source = code.element_at(
            code.word("weight", "ptr"),
            (group, code.word("weight_group")),
            (first, code.word("weight_result")),
        )
        size = code.mul(code.mul(code.word("channels"), code.word("taps")), code.integer(height))
        target = code.element_at(code.word("target", "ptr"), (unit, size))
        with code.loop(zero, code.word("channels")) as channel:
            from_channel = code.element_at(source, (channel, code.word("weight_channel")))
            with code.loop(zero, code.word("taps")) as tap:
                from_tap = code.at(from_channel, code.listed("tap_places", tap), element)
                number = code.add(code.mul(channel, code.word("taps")), tap)
                to = code.element_at(target, (number, code.integer(height)))
                with code.loop(zero, rows) as row:
                    value = code.load(code.element_at(from_tap, (row, code.word("weight_result"))), element)
                    code.store(value, code.at(to, row, element))
                with code.loop(rows, code.integer(height)) as row:
                    code.store(code.const(0, element), code.at(to, row, element))
    code.do("ret void")
    return Kernel(code.function("kernel", PARAMETERS), tuple(code.declared))
