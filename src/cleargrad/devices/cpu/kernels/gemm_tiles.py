"""The kernel that multiplies matrices tile by tile: a tile of results stays in registers while k runs.

`GemmConfig` is everything that is compiled in; extents, strides and addresses are arguments, listed by `names`. A
unit of work is a block of strips (rows) by panels (columns) of one product of the batch. Read next:
devices/cpu/kernels/gemm.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cleargrad.devices.cpu.kernels.packing import (
    PARAMETERS,
    Matrix,
    ProductCode,
    copy_neighbours,
    pack_panel,
    pack_single_elements,
    reach,
)
from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import SIZES, Val, vector

UNROLL = 4
CHUNK = 8  # k that are packed together
MANY = 32  # strips among which the cost of fetching columns is not felt
LINE = 64
NUMBERS = (
    "m",
    "n",
    "k",
    "tall",
    "strips",
    "panels",
    "strips_each",
    "row_blocks",
    "panels_each",
    "column_blocks",
)

Epilogue = Callable[..., None]


@dataclass(frozen=True)
class GemmConfig:
    """What the code of a multiplying kernel depends on."""

    element: str
    lanes: int
    vectors: int  # side by side in a tile
    heights: tuple[int, ...]  # rows of a tile: tall ones first, then short ones that fill up
    edge: int  # vectors of the last panel if it is not whole, else 0
    whole: bool  # whether there are whole panels
    left: str  # which stride is 1: "k", "row" or "none"
    left_packed: bool
    right: str  # which stride is 1: "k", "column" or "none"
    right_mode: str  # where it is read: "direct", "panel", "own" or "work", as gemm.choose_right explains
    place: bool  # whether columns of the result are neighbours
    blocked: bool  # whether k is cut into pieces, with sums between them in the thread's memory
    batches: int
    swapped: bool = False  # rows and columns have changed places; `epilogue` sees the original ones

    @property
    def panel(self) -> int:
        return self.lanes * self.vectors

    @property
    def tile(self) -> int:
        """The elements of the largest tile."""
        return max(self.heights) * self.panel

    def names(self) -> list[str]:
        """The arguments in order."""
        strides = ["left_row", "left_k", "right_k", "right_column", "place_row", "place_column"]
        memory = ["left_room", "right_room", "sums_room", "panel_size", "depth", "pieces"]
        batch = [
            f"{what}_{axis}" for axis in range(self.batches) for what in ("batch", "left", "right", "place")
        ]
        return ["left", "right", "place", *NUMBERS, *strides, *memory, *batch]


class Multiplier:
    """Writes the kernel of one config."""

    def __init__(self, config: GemmConfig, epilogue: Epilogue | None) -> None:
        self.config, self.epilogue = config, epilogue
        self.code = ProductCode(config.names())
        self.element = config.element
        self.type = vector(config.element, config.lanes)
        self.buffer = self.code.slot(f"[{config.tile} x {config.element}]")

    def kernel(self) -> Kernel:
        code = self.code
        self.packed = code.slot(
            "i64", code.integer(-1)
        )  # which column block lies packed in the thread's memory
        with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
            self.unit(unit)
        code.do("ret void")
        text = code.function("kernel", PARAMETERS, notes="#0 ")
        return Kernel(text, (*code.declared, "attributes #0 = { nounwind }"))

    # A unit of work ----------------------------------------------------------------------------------------

    def unit(self, unit: Val) -> None:
        code, s = self.code, self.config
        group = code.binary("udiv", unit, code.word("row_blocks"))
        row_block = code.binary("urem", unit, code.word("row_blocks"))
        column_block = code.binary("urem", group, code.word("column_blocks"))
        self.batch = self.unravel(code.binary("udiv", group, code.word("column_blocks")))
        self.left, self.right, self.place = (self.base(name) for name in ("left", "right", "place"))
        self.first_strip = code.mul(row_block, code.word("strips_each"))
        self.last_strip = code.least(
            code.add(self.first_strip, code.word("strips_each")), code.word("strips")
        )
        self.first_panel = code.mul(column_block, code.word("panels_each"))
        self.last_panel = code.least(
            code.add(self.first_panel, code.word("panels_each")), code.word("panels")
        )
        self.first_row = self.row_of(self.first_strip)
        if s.right_mode == "own":
            with code.when(code.compare("ne", group, code.get(self.packed, "i64"))):
                with code.loop(self.first_panel, self.last_panel) as panel:
                    self.pack_right(panel, code.integer(0), code.word("k"))
                code.set(self.packed, group)
        if s.blocked:
            with code.loop(code.integer(0), code.word("pieces")) as number:
                begin = code.mul(number, code.word("depth"))
                self.piece(begin, code.least(code.word("depth"), code.sub(code.word("k"), begin)))
        else:
            self.piece(code.integer(0), code.word("k"))

    def unravel(self, number: Val) -> list[Val]:
        """The index along each dimension of the batch."""
        code, found = self.code, []
        for axis in reversed(range(self.config.batches)):
            if axis == 0:
                found.append(number)
            else:
                found.append(code.binary("urem", number, code.word(f"batch_{axis}")))
                number = code.binary("udiv", number, code.word(f"batch_{axis}"))
        return found[::-1]

    def base(self, name: str) -> Val:
        code, start = self.code, self.code.word(name, "ptr")
        for axis, index in enumerate(self.batch):
            start = code.at(start, code.mul(index, code.word(f"{name}_{axis}")), self.element)
        return start

    def stride(self, operand: str, direction: str) -> Val:
        """A stride; 1 where the config says so."""
        s = self.config
        one = {"left": s.left, "right": s.right, "place": "column" if s.place else "none"}[operand]
        return self.code.integer(1) if one == direction else self.code.word(f"{operand}_{direction}")

    def row_of(self, strip: Val) -> Val:
        """The first row of a strip."""
        code, heights = self.code, self.config.heights
        first = code.mul(strip, code.integer(heights[0]))
        if len(heights) == 1:
            return first
        lost = code.mul(code.sub(strip, code.word("tall")), code.integer(heights[0] - heights[1]))
        return code.sub(first, code.most(lost, code.integer(0)))

    def room(self, name: str) -> Val:
        """A part of the thread's memory."""
        return self.code.at(PARAMETERS[3], self.code.word(name), "i8")

    # Packing -----------------------------------------------------------------------------------------------

    def pack_right(self, panel: Val, begin: Val, depth: Val) -> None:
        code, s = self.code, self.config
        column = code.mul(panel, code.integer(s.panel))
        across, along = self.stride("right", "column"), self.stride("right", "k")
        first = code.add(code.product(column, across), code.product(begin, along))
        matrix = Matrix(code.at(self.right, first, self.element), self.element, along, across)
        columns = code.least(code.sub(code.word("n"), column), code.integer(s.panel))
        pack_panel(code, matrix, self.own_panel(panel), s.lanes, s.vectors, columns, depth)

    def own_panel(self, panel: Val) -> Val:
        """Where a panel lies in the thread's memory: all in the same place, or one behind the other."""
        code, start = self.code, self.room("right_room")
        if self.config.right_mode == "panel":
            return start
        place = code.mul(code.sub(panel, self.first_panel), code.word("panel_size"))
        return code.at(start, place, self.element)

    def pack_left(self, begin: Val, depth: Val) -> None:
        """Some k of all strips, then the next ones: where rows are neighbours, strips share lines of the cache."""
        code = self.code
        across, along = self.stride("left", "row"), self.stride("left", "k")
        start = code.at(self.left, code.product(begin, along), self.element)
        with code.loop(code.integer(0), depth, CHUNK) as k:
            now = code.least(code.sub(depth, k), code.integer(CHUNK))
            here = Matrix(code.at(start, code.product(k, along), self.element), self.element, along, across)
            for number, height in enumerate(self.config.heights):
                first, last = self.strips_of_height(number)
                if self.config.left == "row":
                    first = self.pack_quickly(here, number, first, last, k, depth)
                with code.loop(first, last) as strip:
                    matrix, target, rows = self.strip_to_pack(here, strip, height, k, depth)
                    pack_single_elements(code, matrix, target, height, rows, now)

    def pack_quickly(self, here: Matrix, number: int, first: Val, last: Val, k: Val, depth: Val) -> Val:
        """Packs strips by whole vectors while there are rows enough behind them; the first strip that is left."""
        code, s = self.code, self.config
        height = s.heights[number]
        before = code.integer(0) if number == 0 else code.word("tall")  # strips, which are all tall
        rows = code.sub(code.word("m"), code.mul(before, code.integer(s.heights[0])))
        enough = code.sub(rows, code.integer(reach(height, s.lanes) - height))
        end = code.add(before, code.binary("sdiv", enough, code.integer(height)))
        end = code.most(code.least(end, last), first)
        whole = code.compare("sge", code.sub(depth, k), code.integer(CHUNK))
        end = code.select(whole, end, first)
        with code.loop(first, end) as strip:
            matrix, target, _ = self.strip_to_pack(here, strip, height, k, depth)
            copy_neighbours(code, matrix, target, height, s.lanes, CHUNK)
        return end

    def strip_to_pack(
        self, here: Matrix, strip: Val, height: int, k: Val, depth: Val
    ) -> tuple[Matrix, Val, Val]:
        """Where a strip lies, where some k of it go, and how many rows there are from its first one on."""
        code, row = self.code, self.row_of(strip)
        start = code.at(here.start, code.product(row, here.across), self.element)
        target = code.at(self.packed_strip(row, depth), code.mul(k, code.integer(height)), self.element)
        matrix = Matrix(start, self.element, here.along_k, here.across)
        return matrix, target, code.sub(code.word("m"), row)

    def strips_of_height(self, number: int) -> tuple[Val, Val]:
        """The strips of the unit that have one of the heights: the first, and where they end."""
        code, first, last = self.code, self.first_strip, self.last_strip
        if len(self.config.heights) == 1:
            return first, last
        tall = code.word("tall")
        return (code.most(first, tall), last) if number else (first, code.least(last, tall))

    def next_panel(self, panel: Val, begin: Val, depth: Val) -> tuple[Val, Val]:
        """Where the panel lies that will be packed next, and how many k of it there are."""
        code = self.code
        after, later = code.add(panel, code.integer(1)), code.add(begin, depth)
        same = code.compare("slt", after, self.last_panel)
        column = code.mul(code.select(same, after, self.first_panel), code.integer(self.config.panel))
        first = code.select(same, begin, later)
        across, along = self.stride("right", "column"), self.stride("right", "k")
        place = code.add(code.product(column, across), code.product(first, along))
        count = code.least(depth, code.sub(code.word("k"), first))
        return code.at(self.right, place, self.element), count

    def fetch(self, start: Val, count: Val, strip: Val) -> None:
        """Fetches a strip's share of the next panel, which comes from far while tiles are multiplied."""
        code, s = self.code, self.config
        lines, elements = -(-s.panel * SIZES[self.element] // LINE), LINE // SIZES[self.element]
        strips = code.sub(self.last_strip, self.first_strip)
        if s.right == "k":
            count = code.select(code.compare("sge", strips, code.integer(MANY)), count, code.integer(0))
        each = code.add(code.binary("udiv", count, strips), code.integer(1))
        begin = code.mul(code.sub(strip, self.first_strip), each)
        with code.loop(begin, code.least(code.add(begin, each), count)) as number:
            for line in range(lines):
                if s.right == "column":
                    along = code.mul(number, self.stride("right", "k"))
                    place = code.add(along, code.integer(line * elements))
                else:
                    index = code.add(code.mul(number, code.integer(lines)), code.integer(line))
                    column = code.binary("urem", index, code.integer(s.panel))
                    k = code.mul(code.binary("udiv", index, code.integer(s.panel)), code.integer(elements))
                    place = code.add(code.mul(column, self.stride("right", "column")), k)
                code.prefetch(code.at(start, place, self.element), 2)

    def packed_strip(self, row: Val, depth: Val) -> Val:
        """Where the strip that begins with a row lies packed."""
        place = self.code.mul(self.code.sub(row, self.first_row), depth)
        return self.code.at(self.room("left_room"), place, self.element)

    def is_height(self, strip: Val, number: int) -> Val:
        if len(self.config.heights) == 1:
            return Val("true", "i1")
        return self.code.compare("sge" if number else "slt", strip, self.code.word("tall"))

    def height_of(self, strip: Val) -> Val:
        first, *others = (self.code.integer(height) for height in self.config.heights)
        return self.code.select(self.is_height(strip, 0), first, others[0]) if others else first

    # Tiles -------------------------------------------------------------------------------------------------

    def piece(self, begin: Val, depth: Val) -> None:
        """All tiles of a unit, over one piece of k."""
        code, s = self.code, self.config
        if s.left_packed:
            self.pack_left(begin, depth)
        with code.loop(self.first_panel, self.last_panel) as panel:
            column = code.mul(panel, code.integer(s.panel))
            columns = code.least(code.sub(code.word("n"), column), code.integer(s.panel))
            if s.right_mode == "panel":
                self.pack_right(panel, begin, depth)
            right = self.panel_start(panel, column, begin)
            fetching = s.right_mode == "panel" and s.right != "none"
            ahead = self.next_panel(panel, begin, depth) if fetching else None
            with code.loop(self.first_strip, self.last_strip) as strip:
                if ahead is not None:
                    self.fetch(*ahead, strip)
                row = self.row_of(strip)
                rows = code.sub(code.word("m"), row)
                sums = self.sums(strip, panel)
                self.pending = code.slot("i1", Val("true", "i1"))
                whole = code.compare("eq", columns, code.integer(s.panel))
                for number, height in enumerate(s.heights):
                    with code.when(self.is_height(strip, number)):
                        left = self.left_rows(row, rows, height, begin, depth)
                        if s.left == "k" and not s.left_packed:
                            self.fetch_rows(left, height)
                        for is_whole in self.kinds_of_panels():
                            fits = code.compare("eq", Val("true" if is_whole else "false", "i1"), whole)
                            with code.when(fits if s.whole and s.edge else Val("true", "i1")):
                                tile = GemmTile(self, height, s.vectors if is_whole else s.edge, is_whole)
                                tile.write(left, right, columns, begin, depth, sums, row, rows, column)
                with code.when(code.get(self.pending, "i1")):
                    self.finish_tile(sums, row, code.least(rows, self.height_of(strip)), column, columns)

    def kinds_of_panels(self) -> list[bool]:
        return [
            kind for kind, exists in ((True, self.config.whole), (False, bool(self.config.edge))) if exists
        ]

    def panel_start(self, panel: Val, column: Val, begin: Val) -> Val:
        code, s = self.code, self.config
        if s.right_mode == "direct":
            place = code.add(code.mul(begin, self.stride("right", "k")), column)
            return code.at(self.right, place, self.element)
        if s.right_mode in ("panel", "own"):
            return self.own_panel(panel)
        place = code.add(code.mul(panel, code.word("panel_size")), code.mul(begin, code.integer(s.panel)))
        return code.at(self.right, place, self.element)

    def sums(self, strip: Val, panel: Val) -> Val:
        """Where a tile waits between pieces of k, or for what is done to it at last."""
        code = self.code
        if not self.config.blocked:
            return self.buffer
        along = code.mul(code.sub(panel, self.first_panel), code.word("strips_each"))
        number = code.add(along, code.sub(strip, self.first_strip))
        place = code.mul(number, code.integer(self.config.tile))
        return code.at(self.room("sums_room"), place, self.element)

    def left_rows(self, row: Val, rows: Val, height: int, begin: Val, depth: Val) -> list[Val]:
        """Where each row of a strip begins."""
        code, s = self.code, self.config
        if s.left_packed:
            start = self.packed_strip(row, depth)
            return [code.at(start, code.integer(number), self.element) for number in range(height)]
        along, across = self.stride("left", "k"), self.stride("left", "row")
        start = code.at(self.left, code.product(row, across), self.element)
        start = code.at(start, code.product(begin, along), self.element)
        last = code.sub(rows, code.integer(1))
        found = []
        for number in range(height):
            index = code.least(code.integer(number), last) if number else code.integer(0)
            found.append(code.at(start, code.product(index, across), self.element))
        return found

    def fetch_rows(self, left: list[Val], height: int) -> None:
        """Fetches the beginning of each row of the next strip: from there on, processors see where it goes."""
        code = self.code
        step = code.mul(code.integer(height), self.stride("left", "row"))
        for start in left:
            code.prefetch(code.at(start, step, self.element), 1)

    # Results -----------------------------------------------------------------------------------------------

    def finish_tile(self, sums: Val, row: Val, rows: Val, column: Val, columns: Val) -> None:
        """Does to each result of a tile what is to be done to it."""
        code, s = self.code, self.config
        together = s.lanes if self.vectors_finish() else 1
        evenly = code.binary("and", columns, code.integer(-s.lanes)) if together > 1 else code.integer(0)
        with code.loop(code.integer(0), rows) as number:
            line = code.at(sums, code.mul(number, code.integer(s.panel)), self.element)
            here = code.add(row, number)
            for begin, end, width in ((code.integer(0), evenly, together), (evenly, columns, 1)):
                if width == 1 or together > 1:
                    with code.loop(begin, end, width) as shift:
                        value = code.load(code.at(line, shift, self.element), vector(self.element, width))
                        self.result(value, here, code.add(column, shift), width)

    def vectors_finish(self) -> bool:
        return self.config.place if self.epilogue is None else not self.config.swapped

    def result(self, value: Val, row: Val, column: Val, width: int) -> None:
        if self.epilogue is None:
            self.code.store(value, self.place_of(row, column))
        elif self.config.swapped:
            self.epilogue(self.code, value, self.batch, column, row, width)
        else:
            self.epilogue(self.code, value, self.batch, row, column, width)

    def place_of(self, row: Val, column: Val) -> Val:
        code = self.code
        line = code.at(self.place, code.mul(row, code.word("place_row")), self.element)
        return code.at(line, code.product(column, self.stride("place", "column")), self.element)


class GemmTile:
    """Writes the innermost loop for one size of tile."""

    def __init__(self, kernel: Multiplier, height: int, vectors: int, is_whole: bool) -> None:
        self.kernel, self.code, self.config = kernel, kernel.code, kernel.config
        self.height, self.vectors, self.is_whole = height, vectors, is_whole
        self.cells = [(row, number) for row in range(height) for number in range(vectors)]

    def write(
        self, left: list[Val], right: Val, columns: Val, begin: Val, depth: Val,
        sums: Val, row: Val, rows: Val, column: Val,
    ) -> None:  # fmt: skip
        code, s, kernel = self.code, self.config, self.kernel
        self.columns = columns
        totals = {cell: code.slot(kernel.type, code.const(0, kernel.type)) for cell in self.cells}
        if s.blocked:
            with code.when(code.compare("sgt", begin, code.integer(0))):
                for cell in self.cells:
                    code.set(totals[cell], code.load(self.cell(sums, cell), kernel.type))
        self.run(left, right, depth, totals)
        if kernel.epilogue is None and s.place and self.is_whole:
            done = code.compare("sge", rows, code.integer(self.height))
            if s.blocked:
                last = code.compare("eq", code.add(begin, depth), code.word("k"))
                done = code.binary("and", done, last)
            with code.when(done):
                self.store_results(totals, row, column)
            with code.when(code.opposite(done)):
                self.keep(totals, sums)
            code.set(kernel.pending, code.opposite(done))
        else:
            self.keep(totals, sums)
        if s.blocked:
            unfinished = code.compare("slt", code.add(begin, depth), code.word("k"))
            with code.when(unfinished):
                code.set(kernel.pending, Val("false", "i1"))

    def cell(self, sums: Val, cell: tuple[int, int]) -> Val:
        row, number = cell
        place = row * self.config.panel + number * self.config.lanes
        return self.code.at(sums, self.code.integer(place), self.kernel.element)

    def keep(self, totals: dict[tuple[int, int], Val], sums: Val) -> None:
        for cell in self.cells:
            self.code.store(self.code.get(totals[cell], self.kernel.type), self.cell(sums, cell))

    def store_results(self, totals: dict[tuple[int, int], Val], row: Val, column: Val) -> None:
        code = self.code
        for here, number in self.cells:
            line = code.add(row, code.integer(here))
            place = self.kernel.place_of(line, code.add(column, code.integer(number * self.config.lanes)))
            code.store(code.get(totals[here, number], self.kernel.type), place)

    def run(self, left: list[Val], right: Val, depth: Val, totals: dict[tuple[int, int], Val]) -> None:
        """The sums over k."""
        code = self.code
        # With a stride that is known only at run time, LLVM keeps an address for each row and each unrolled k.
        unroll = 1 if self.config.left != "k" and not self.config.left_packed else UNROLL
        evenly = code.binary("and", depth, code.integer(-unroll))
        for begin, end, step in ((code.integer(0), evenly, unroll), (evenly, depth, 1))[: min(unroll, 2)]:
            with code.loop(begin, end, step) as k:
                sums = {cell: code.get(totals[cell], self.kernel.type) for cell in self.cells}
                for more in range(step):
                    self.add_products(left, right, code.add(k, code.integer(more)), sums)
                for cell in self.cells:
                    code.set(totals[cell], sums[cell])

    def add_products(self, left: list[Val], right: Val, k: Val, sums: dict[tuple[int, int], Val]) -> None:
        """Adds what one k gives."""
        code, s, element = self.code, self.config, self.kernel.element
        direct = s.right_mode == "direct"
        line = code.at(
            right, code.mul(k, self.kernel.stride("right", "k") if direct else code.integer(s.panel)), element
        )
        values = []
        for number in range(self.vectors):
            shift = code.integer(number * s.lanes)
            place = code.at(line, shift, element)
            if direct and not self.is_whole:
                values.append(code.masked_load(place, self.kernel.type, code.sub(self.columns, shift)))
            else:
                values.append(code.load(place, self.kernel.type))
        along = code.integer(self.height) if s.left_packed else self.kernel.stride("left", "k")
        for row, start in enumerate(left):
            factor = code.load(code.at(start, code.product(k, along), element), element)
            wide = code.splat(factor, s.lanes)
            for number, value in enumerate(values):
                sums[row, number] = code.fma(wide, value, sums[row, number])
