"""Kernels for the gradient of a convolution in its weight: every tap times every result, summed over all
outputs.

A unit of work is a share of all blocks of outputs, whose sums it keeps in memory of its own; a second kernel
adds the shares. With many results per group their gradient is turned around, so that vectors hold results
(`ByResults`); with few of them, as in depthwise convolutions, vectors hold neighbouring outputs
(`ByOutputs`). Read next: devices/cpu/kernels/convolution.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from cleargrad.devices.cpu.kernels.packing import PARAMETERS, Matrix, pack_panel, transpose
from cleargrad.devices.cpu.kernels.windows import TABLES, WORDS, CopiedBlock, WindowCode, part
from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import Val


@dataclass(frozen=True)
class WeightConfig:
    """What the code of a kernel depends on."""

    element: str
    lanes: int
    height: int  # rows of a tile; a row is one tap of one channel
    vectors: int  # of results in a tile
    step: int  # of the source's last dimension; 0 if it is a word


NAMES = [
    *("source", "gradient", "sums", "groups", "parts", "jobs", "channel_parts"),
    *(
        "channels",
        "results",
        "channels_each",
        "channels_part",
        "taps",
        "panels",
        "panel_size",
        "gradient_room",
    ),
    *("source_batch", "source_channel", "source_z", "source_y"),
    *("gradient_batch", "gradient_channel", "gradient_z", "gradient_y"),
    *WORDS,
    *TABLES,
]


TILES = (
    PARAMETERS[0], Val("%image", "ptr"), Val("%gradient", "ptr"), Val("%sums", "ptr"),
    Val("%y_count", "i64"), Val("%x_count", "i64"), Val("%rows", "i64"), Val("%again", "i1"),
)  # fmt: skip


class WeightSum:
    """What both kinds of kernels share: the walk over shares and blocks."""

    def __init__(self, config: WeightConfig) -> None:
        self.config = config
        self.code = WindowCode(NAMES, config.element, config.lanes)
        self.element, self.type = self.code.element, self.code.type

    def kernel(self) -> Kernel:
        code = self.code
        with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
            part, self.group, channel_part = code.parts(unit, "groups", "channel_parts")
            self.first_channel = code.mul(channel_part, code.word("channels_part"))
            most = code.add(self.first_channel, code.word("channels_part"))
            self.last_channel = code.least(most, code.word("channels"))
            jobs, parts = code.word("jobs"), code.word("parts")
            first = code.binary("udiv", code.mul(part, jobs), parts)
            last = code.binary("udiv", code.mul(code.add(part, code.integer(1)), jobs), parts)
            share = code.add(code.mul(part, code.word("groups")), self.group)
            self.share = code.element_at(code.word("sums", "ptr"), (share, self.share_size()))
            with code.loop(first, last) as job:
                self.job(job, code.compare("ne", job, first))
        code.do("ret void")
        text = code.function("kernel", PARAMETERS, notes="nounwind ")
        declared = code.declared
        self.code = WindowCode(NAMES, code.element, code.width)
        tiles = self.tiles()
        return Kernel("\n".join([tiles, text]), tuple(declared | self.code.declared))

    def tiles(self) -> str:
        """The function that adds what a block gives for some channels and one panel of results, or one result."""
        code = self.code
        _, image, gradient, sums, y_count, x_count, rows, again = TILES
        block = CopiedBlock(*(code.integer(0),) * 3, y_count, x_count)
        with code.loop(code.integer(0), rows, self.config.height) as row:
            self.tile(image, sums, gradient, block, row, rows, again)
        return part(code, "tiles", TILES)

    def tile(
        self, image: Val, sums: Val, gradient: Val, block: CopiedBlock, row: Val, rows: Val, again: Val
    ) -> None:
        raise NotImplementedError

    def call_tiles(self, gradient: Val, sums: Val, block: CopiedBlock, rows: Val, again: Val) -> None:
        parameters = (PARAMETERS[0], PARAMETERS[3], gradient, sums, block.rows, block.columns, rows, again)
        self.code.call_part("tiles", *parameters)

    def share_size(self) -> Val:
        raise NotImplementedError

    def rows_of(self, channels: Val) -> Val:
        return self.code.mul(channels, self.code.word("taps"))

    def job(self, job: Val, again: Val) -> None:
        """One block of outputs of one sample; `again` if the sums have begun."""
        code = self.code
        sample, z, y_block, x_block = code.parts(job, "z_count", "y_blocks", "x_blocks")
        block = code.outputs(z, y_block, x_block)
        results = code.mul(self.group, code.word("results"))
        gradient = code.element_at(
            code.word("gradient", "ptr"),
            (sample, code.word("gradient_batch")),
            (results, code.word("gradient_channel")),
            (block.z, code.word("gradient_z")),
            (block.y, code.word("gradient_y")),
            (block.x, code.integer(1)),
        )
        self.prepare(gradient, block)
        source = code.element_at(
            code.word("source", "ptr"),
            (sample, code.word("source_batch")),
            (code.mul(self.group, code.word("channels")), code.word("source_channel")),
        )
        each = code.word("channels_each")
        count = code.sub(self.last_channel, self.first_channel)
        blocks = code.binary("udiv", code.add(count, code.sub(each, code.integer(1))), each)
        with code.loop(code.integer(0), blocks) as number:
            channel = code.add(self.first_channel, code.mul(number, each))
            channels = code.least(each, code.sub(self.last_channel, channel))
            start = code.element_at(source, (channel, code.word("source_channel")))
            code.copy_block(start, PARAMETERS[3], channels, block, self.config.step)
            self.add(gradient, block, channel, channels, again)

    def prepare(self, gradient: Val, block: CopiedBlock) -> None:
        """What is to be done once for a block."""

    def add(self, gradient: Val, block: CopiedBlock, channel: Val, channels: Val, again: Val) -> None:
        """Adds what a block of outputs gives for some channels."""
        raise NotImplementedError

    def sources(self, image: Val, row: Val, rows: Val) -> list[Val]:
        """Where each row of a tile reads for the first output; rows that do not exist read as the last one does."""
        code, found = self.code, []
        for number in range(self.config.height):
            own = code.least(code.add(row, code.integer(number)), code.sub(rows, code.integer(1)))
            channel, tap = code.parts(own, "taps")
            place = code.add(code.mul(channel, code.word("channel_room")), code.listed("distances", tap))
            found.append(code.at(image, place, self.element))
        return found

    def keep(self, totals: list[Val], places: list[Val], row: Val, rows: Val) -> None:
        """Stores the sums of the rows that exist."""
        code, per_row = self.code, len(totals) // self.config.height
        for number in range(self.config.height):
            exists = code.compare("slt", code.add(row, code.integer(number)), rows)
            with code.when(exists):
                for index in range(number * per_row, (number + 1) * per_row):
                    code.store(code.get(totals[index], self.type), places[index])

    def begin(self, places: list[Val], again: Val) -> list[Val]:
        """Sums as they are so far."""
        code = self.code
        totals = [code.slot(self.type, code.const(0, self.type)) for _ in places]
        with code.when(again):
            for total, place in zip(totals, places, strict=True):
                code.set(total, code.load(place, self.type))
        return totals


class ByResults(WeightSum):
    """Sums lie as (panel of results, row, result of the panel)."""

    @property
    def panel(self) -> int:
        return self.config.lanes * self.config.vectors

    def share_size(self) -> Val:
        code = self.code
        rows = self.rows_of(code.word("channels"))
        return code.mul(code.mul(code.word("panels"), rows), code.integer(self.panel))

    def turned(self, panel: Val) -> Val:
        """The gradient of a panel of results, turned around."""
        room = self.code.at(PARAMETERS[3], self.code.word("gradient_room"), "i8")
        return self.code.element_at(room, (panel, self.code.word("panel_size")))

    def prepare(self, gradient: Val, block: CopiedBlock) -> None:
        # A block is whole rows, or a part of one row: its outputs follow each other in memory.
        code, s = self.code, self.config
        outputs = code.mul(block.rows, block.columns)
        with code.loop(code.integer(0), code.word("panels")) as panel:
            first = code.mul(panel, code.integer(self.panel))
            start = code.element_at(gradient, (first, code.word("gradient_channel")))
            matrix = Matrix(start, self.element, code.integer(1), code.word("gradient_channel"))
            results = code.least(code.integer(self.panel), code.sub(code.word("results"), first))
            pack_panel(code, matrix, self.turned(panel), s.lanes, s.vectors, results, outputs)

    def add(self, gradient: Val, block: CopiedBlock, channel: Val, channels: Val, again: Val) -> None:
        code = self.code
        rows = self.rows_of(channels)
        with code.loop(code.integer(0), code.word("panels")) as panel:
            line = code.mul(panel, self.rows_of(code.word("channels")))
            line = code.add(line, self.rows_of(channel))
            sums = code.element_at(self.share, (line, code.integer(self.panel)))
            self.call_tiles(self.turned(panel), sums, block, rows, again)

    def tile(
        self, image: Val, sums: Val, gradient: Val, block: CopiedBlock, row: Val, rows: Val, again: Val
    ) -> None:
        code, s = self.code, self.config
        last = code.sub(rows, code.integer(1))
        places = []
        for number in range(s.height):
            line = code.least(code.add(row, code.integer(number)), last)
            start = code.element_at(sums, (line, code.integer(self.panel)))
            places += [code.at(start, code.integer(v * s.lanes), self.element) for v in range(s.vectors)]
        sources = self.sources(image, row, rows)
        totals = self.begin(places, again)
        with code.loop(code.integer(0), block.rows) as y:
            here = code.mul(y, code.word("pitch"))
            line = code.element_at(gradient, (code.mul(y, block.columns), code.integer(self.panel)))
            with code.loop(code.integer(0), block.columns) as x:
                output = code.element_at(line, (x, code.integer(self.panel)))
                values = [
                    code.load(code.at(output, code.integer(v * s.lanes), self.element), self.type)
                    for v in range(s.vectors)
                ]
                place = code.add(here, x)
                for number, source in enumerate(sources):
                    factor = code.splat(
                        code.load(code.at(source, place, self.element), self.element), s.lanes
                    )
                    for v, value in enumerate(values):
                        total = totals[number * s.vectors + v]
                        code.set(total, code.fma(factor, value, code.get(total, self.type)))
        self.keep(totals, places, row, rows)


class ByOutputs(WeightSum):
    """Sums lie as (result, row, lane); the lanes are added up at last."""

    def share_size(self) -> Val:
        code = self.code
        rows = self.rows_of(code.word("channels"))
        return code.mul(code.mul(code.word("results"), rows), code.integer(self.config.lanes))

    def add(self, gradient: Val, block: CopiedBlock, channel: Val, channels: Val, again: Val) -> None:
        code, s = self.code, self.config
        rows = self.rows_of(channels)
        with code.loop(code.integer(0), code.word("results")) as result:
            line = code.add(code.mul(result, self.rows_of(code.word("channels"))), self.rows_of(channel))
            sums = code.element_at(self.share, (line, code.integer(s.lanes)))
            own = code.element_at(gradient, (result, code.word("gradient_channel")))
            self.call_tiles(own, sums, block, rows, again)

    def tile(
        self, image: Val, sums: Val, gradient: Val, block: CopiedBlock, row: Val, rows: Val, again: Val
    ) -> None:
        code, s = self.code, self.config
        last = code.sub(rows, code.integer(1))
        lines = [code.least(code.add(row, code.integer(number)), last) for number in range(s.height)]
        places = [code.element_at(sums, (line, code.integer(s.lanes))) for line in lines]
        sources = self.sources(image, row, rows)
        totals = self.begin(places, again)
        evenly = code.binary("and", block.columns, code.integer(-s.lanes))
        with code.loop(code.integer(0), block.rows) as y:
            here = code.mul(y, code.word("pitch"))
            line = code.element_at(gradient, (y, code.word("gradient_y")))
            for whole in (True, False):
                begin, end = (code.integer(0), evenly) if whole else (evenly, block.columns)
                with code.loop(begin, end, s.lanes) as x:
                    left = code.sub(block.columns, x)

                    def read(place: Val, whole: bool = whole, left: Val = left) -> Val:
                        return (
                            code.load(place, self.type) if whole else code.masked_load(place, self.type, left)
                        )

                    value = read(code.at(line, x, self.element))
                    place = code.add(here, x)
                    for total, source in zip(totals, sources, strict=True):
                        seen = read(code.at(source, place, self.element))
                        code.set(total, code.fma(seen, value, code.get(total, self.type)))
        self.keep(totals, places, row, rows)


JOIN_NAMES = ["sums", "place", "parts", "groups", "results", "rows", "panels"]


def join_results(config: WeightConfig) -> Kernel:
    """The kernel that adds the shares of `ByResults` and turns them; a unit is a vector of results."""
    s, panel = config, config.lanes * config.vectors
    code = WindowCode(JOIN_NAMES, s.element, s.lanes)
    element, rows = s.element, code.word("rows")
    width = code.integer(s.lanes)
    with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
        line, v = (
            code.binary("udiv", unit, code.integer(s.vectors)),
            code.binary("urem", unit, code.integer(s.vectors)),
        )
        group, own = code.parts(line, "panels")
        first = code.add(code.mul(own, code.integer(panel)), code.mul(v, width))
        count = code.least(width, code.sub(code.word("results"), first))
        sums = code.element_at(
            code.word("sums", "ptr"), (code.mul(line, rows), code.integer(panel)), (v, width)
        )
        share = code.mul(
            code.mul(code.mul(code.word("groups"), code.word("panels")), rows), code.integer(panel)
        )
        number = code.add(code.mul(group, code.word("results")), first)
        place = code.element_at(code.word("place", "ptr"), (number, rows))
        evenly = code.binary("and", rows, code.integer(-s.lanes))

        def added(start: Val, type: str) -> Val:
            total = code.slot(type, code.const(0, type))
            with code.loop(code.integer(0), code.word("parts")) as part:
                here = code.load(code.element_at(start, (part, share)), type)
                code.set(total, code.add(code.get(total, type), here))
            return code.get(total, type)

        with code.loop(code.integer(0), evenly, s.lanes) as row:
            wide = []
            for more in range(s.lanes):
                start = code.element_at(sums, (code.add(row, code.integer(more)), code.integer(panel)))
                wide.append(added(start, code.type))
            for lane, value in enumerate(transpose(code, wide) if s.lanes > 1 else wide):
                with code.when(code.compare("slt", code.integer(lane), count)):
                    code.store(
                        value, code.element_at(place, (code.integer(lane), rows), (row, code.integer(1)))
                    )
        with code.loop(evenly, rows) as row, code.loop(code.integer(0), count) as own_lane:
            start = code.element_at(sums, (row, code.integer(panel)), (own_lane, code.integer(1)))
            code.store(
                added(start, element), code.element_at(place, (own_lane, rows), (row, code.integer(1)))
            )
    code.do("ret void")
    return Kernel(code.function("kernel", PARAMETERS), tuple(code.declared))


def join_outputs(config: WeightConfig) -> Kernel:
    """The kernel that adds the shares and lanes of `ByOutputs`; a unit is one row of one result."""
    s = config
    code = WindowCode(JOIN_NAMES, s.element, s.lanes)
    lanes = code.integer(s.lanes)
    share = code.mul(code.mul(code.word("groups"), code.word("results")), code.mul(code.word("rows"), lanes))
    with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
        start = code.element_at(code.word("sums", "ptr"), (unit, lanes))
        total = code.slot(code.type, code.const(0, code.type))
        with code.loop(code.integer(0), code.word("parts")) as part:
            here = code.load(code.element_at(start, (part, share)), code.type)
            code.set(total, code.add(code.get(total, code.type), here))
        whole = code.get(total, code.type)
        value = code.lane(whole, 0) if s.lanes > 1 else whole
        for lane in range(1, s.lanes):
            value = code.add(value, code.lane(whole, lane))
        code.store(value, code.at(code.word("place", "ptr"), unit, s.element))
    code.do("ret void")
    return Kernel(code.function("kernel", PARAMETERS), tuple(code.declared))
