"""What the kernels of attention are made of: products of small panels, masks, and panels brought back to rows.

A panel holds a few queries side by side (two vectors of them), so that scores, their exponentials and sums
are vectors of queries and nothing is ever added up across lanes: scores are kept as [key][query], results
as [column][query]. Every product has a panel on its right and, on its left, memory as it lies. Read next:
devices/cpu/kernels/attention_forward.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cleargrad.devices.cpu.kernels.packing import PARAMETERS, Matrix, ProductCode, pack_panel, transpose
from cleargrad.devices.cpu.kernels.windows import WindowCode
from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import SIZES, Val, vector
from cleargrad.devices.cpu.llvm.vector_math import (
    LN2,
    at_least,
    format_of,
    nearest,
    polynomial,
    select_number,
)

ALONG, ACROSS = "along", "across"  # how a product reads its left operand
LOWEST = float("-inf")
UNROLL = 4
LINE = 64  # bytes that caches keep together


@dataclass(frozen=True)
class AttentionConfig:
    """What the code of the kernels depends on."""

    element: str
    lanes: int
    vectors: int  # of queries in a panel
    height: int  # rows of the largest tiles
    batches: int
    causal: bool
    mask: str  # "none", "bool" or "float"
    mask_order: str  # "keys": the same for all queries; "rows": keys are neighbours; "any"
    single: bool = False  # gradients: all keys are one block, so that gradients of queries are done at once

    @property
    def panel(self) -> int:
        return self.lanes * self.vectors


# Products --------------------------------------------------------------------------------------------------

TILE = [
    Val("%left", "ptr"), Val("%left_step", "i64"), Val("%right", "ptr"), Val("%right_step", "i64"),
    Val("%count", "i64"), Val("%place", "ptr"), Val("%place_step", "i64"), Val("%adds", "i1"),
]  # fmt: skip
ROWS = Val("%rows", "i64")


def tile(s: AttentionConfig, kind: str, height: int) -> tuple[str, set[str]]:
    """A function: place[r][...] = sum over k of left · right[k][...], `height` rows by a panel's columns at a time.

    The factor of row r is left[r · left_step + k] if `kind` is ALONG, else left[k · left_step + r].
    """
    code = ProductCode(())
    left, left_step, _, _, _, place, place_step, _ = TILE
    with code.loop(code.integer(0), ROWS, height) as row:
        from_left = code.mul(row, left_step) if kind == ALONG else row
        here = code.at(left, from_left, s.element)
        AttentionTile(s, kind, height, code).write(here, code.at(place, code.mul(row, place_step), s.element))
    return part_of(code, f"{kind}_{height}", [*TILE, ROWS]), code.declared


class AttentionTile:
    """Some rows of results, which stay in registers while k runs."""

    def __init__(self, config: AttentionConfig, kind: str, height: int, code: ProductCode) -> None:
        self.config, self.kind, self.height, self.code = config, kind, height, code
        self.element = config.element
        self.type = vector(config.element, config.lanes)
        self.cells = [(row, number) for row in range(height) for number in range(config.vectors)]

    def write(self, left: Val, place: Val) -> None:
        code, element = self.code, self.element
        _, left_step, right, _, count, _, place_step, adds = TILE
        totals = {cell: code.slot(self.type, code.const(0, self.type)) for cell in self.cells}
        lines = [
            code.at(place, code.mul(code.integer(row), place_step), element) for row in range(self.height)
        ]
        places = {
            (row, number): code.at(lines[row], code.integer(number * self.config.lanes), element)
            for row, number in self.cells
        }
        with code.when(adds):
            for cell in self.cells:
                code.set(totals[cell], code.load(places[cell], self.type))
        self.starts = [
            code.at(left, code.mul(code.integer(row), left_step), element) for row in range(self.height)
        ]
        self.line, self.column = code.slot("ptr", right), code.slot("ptr", left)
        unroll = UNROLL if self.height == self.config.height else 1
        evenly = code.binary("and", count, code.integer(-unroll))
        for begin, end, step in ((code.integer(0), evenly, unroll), (evenly, count, 1))[: min(unroll, 2)]:
            with code.loop(begin, end, step) as k:
                sums = {cell: code.get(totals[cell], self.type) for cell in self.cells}
                for more in range(step):
                    self.step(code.add(k, code.integer(more)), sums)
                for cell in self.cells:
                    code.set(totals[cell], sums[cell])
        for cell in self.cells:
            code.store(code.get(totals[cell], self.type), places[cell])

    def step(self, k: Val, sums: dict[tuple[int, int], Val]) -> None:
        """Adds what one k gives."""
        code, s, element = self.code, self.config, self.element
        _, left_step, _, right_step, *_ = TILE
        here = code.get(self.line, "ptr")
        shifts = [code.integer(number * s.lanes) for number in range(s.vectors)]
        values = [code.load(code.at(here, shift, element), self.type) for shift in shifts]
        code.set(self.line, code.at(here, right_step, element))
        factors = code.get(self.column, "ptr") if self.kind == ACROSS else None
        for row in range(self.height):
            where = (
                code.at(self.starts[row], k, element)
                if factors is None
                else code.at(factors, code.integer(row), element)
            )
            factor = code.splat(code.load(where, element), s.lanes)
            for number, value in enumerate(values):
                sums[row, number] = code.fma(factor, value, sums[row, number])
        if factors is not None:
            code.set(self.column, code.at(factors, left_step, element))


def part_of(code: ProductCode, name: str, parameters: Sequence[Val]) -> str:
    code.do("ret void")
    return code.function(name, parameters, "internal void", "noinline nounwind ")


def heights(s: AttentionConfig) -> list[int]:
    return [s.height, 4, 1]


def product(s: AttentionConfig, kind: str) -> tuple[str, set[str]]:
    """A function that calls tiles for any number of rows; its last parameter is that number."""
    code, first = ProductCode(()), ROWS
    left, left_step, right, right_step, count, place, place_step, adds = TILE
    tall = code.binary("udiv", first, code.integer(s.height))
    rest = code.binary("urem", first, code.integer(s.height))
    if s.height == 6:  # eight rows are better two fours than six and two
        two = code.binary(
            "and",
            code.compare("eq", rest, code.integer(2)),
            code.compare("sgt", tall, code.integer(0)),
        )
        tall = code.sub(tall, code.pure("i64", f"zext {two} to i64"))
    begin = code.integer(0)
    for height in heights(s):
        if height == s.height:
            end = code.mul(tall, code.integer(height))
        else:
            span = code.sub(first, begin)
            end = code.add(begin, code.sub(span, code.binary("urem", span, code.integer(height))))
        with code.when(code.compare("slt", begin, end)):
            from_left = code.mul(begin, left_step) if kind == ALONG else begin
            here = (
                code.at(left, from_left, s.element), left_step, right, right_step, count,
                code.at(place, code.mul(begin, place_step), s.element), place_step, adds, code.sub(end, begin),
            )  # fmt: skip
            code.do(f"call void @{kind}_{height}({', '.join(map(str, here))})")
        begin = end
    return part_of(code, kind, [*TILE, ROWS]), code.declared


# Rows ------------------------------------------------------------------------------------------------------


def rows_function(s: AttentionConfig) -> tuple[str, set[str]]:
    """A function that copies rows, times a factor."""
    code = WindowCode([], s.element, s.lanes)
    source, source_step, place, place_step, count, columns = (Val(f"%{name}", "i64") for name in "abcdef")
    source, place, factor = Val("%a", "ptr"), Val("%c", "ptr"), Val("%g", s.element)
    pair = code.integer(2 * s.lanes - 1)
    with code.loop(code.integer(0), count) as row:
        here = code.at(source, code.mul(row, source_step), s.element)
        there = code.at(place, code.mul(row, place_step), s.element)

        def move(column: Val, width: int) -> None:
            value = code.load(code.at(here, column, s.element), vector(s.element, width))
            value = code.mul(value, code.splat(factor, width))
            code.store(value, code.at(there, column, s.element))

        even = code.compare("eq", code.binary("and", columns, pair), code.integer(0))
        with code.when(even), code.loop(code.integer(0), columns, 2 * s.lanes) as column:
            move(column, s.lanes)
            move(code.add(column, code.integer(s.lanes)), s.lanes)
        with code.when(code.opposite(even)):
            code.sweep(code.integer(0), columns, move)
    parameters = [source, source_step, place, place_step, count, columns, factor]
    return part_of(code, "rows", parameters), code.declared


def pack_function(s: AttentionConfig) -> tuple[str, set[str]]:
    """A function that brings rows into the order of a panel."""
    code = ProductCode(())
    source, step, room, count, depth = (Val(f"%{name}", "ptr" if name in "ac" else "i64") for name in "abcde")
    matrix = Matrix(source, s.element, code.integer(1), step)
    pack_panel(code, matrix, room, s.lanes, s.vectors, count, depth)
    return part_of(code, "pack", [source, step, room, count, depth]), code.declared


def fetch_function(s: AttentionConfig) -> tuple[str, set[str]]:
    """A function that asks for rows."""
    code = ProductCode(())
    start, step, count, columns = (Val(f"%{name}", "ptr" if name == "a" else "i64") for name in "abcd")
    with code.loop(code.integer(0), count) as row:
        place = code.at(start, code.mul(row, step), s.element)
        with code.loop(code.integer(0), columns, LINE // SIZES[s.element]) as column:
            code.do(f"call void @llvm.prefetch.p0({code.at(place, column, s.element)}, i32 0, i32 2, i32 1)")
    code.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    return part_of(code, "fetch", [start, step, count, columns]), code.declared


FUNCTIONS = {"rows": rows_function, "pack": pack_function, "fetch": fetch_function}


def finished(s: AttentionConfig, code: AttentionCode) -> Kernel:
    """The kernel, with the functions it calls."""
    code.do("ret void")
    made = [FUNCTIONS[name](s) for name in FUNCTIONS if name in code.called]
    for kind in (ALONG, ACROSS):
        if kind in code.called:
            made += [*(tile(s, kind, height) for height in heights(s)), product(s, kind)]
    text = code.function("kernel", PARAMETERS, notes="nounwind ")
    declared = code.declared.union(*(more for _, more in made))
    return Kernel("\n".join([*(text for text, _ in made), text]), tuple(declared))


def weight_of(code: ProductCode, x: Val) -> Val:
    """e^x for x that are not above zero but for rounding; what would not be a normal number is zero.

    Hidden places are most of what lies so far below, and numbers that are not normal take hundreds of cycles.
    """
    kind = format_of(x)
    end = -math.floor((kind.bias - 1) * LN2)
    high, low = kind.double_ln2
    k, power = nearest(code, at_least(code, x, end), 1 / LN2)
    r = code.fma(k, code.const(-high / 2, x.type), at_least(code, x, end))
    r = code.fma(k, code.const(-low / 2, x.type), r)
    value = code.mul(polynomial(code, r, (*kind.expm1, 1.0, 1.0)), power)
    return select_number(code, code.compare("olt", x, code.const(end, x.type)), 0.0, value)


# Kernels ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """Some queries, in the code: the first one, and how many there are."""

    first: Val
    count: Val


class AttentionCode(WindowCode):
    """Code with what the kernels of attention share."""

    def __init__(self, names: list[str], config: AttentionConfig) -> None:
        super().__init__(names, config.element, config.lanes)
        self.config = config
        self.called: set[str] = set()
        self.zero, self.one = self.integer(0), self.integer(1)
        self.across = self.integer(config.panel)
        self.yes, self.no = Val("true", "i1"), Val("false", "i1")

    def unravel(self, head: Val) -> None:
        self.batch = self.indices(head)

    def indices(self, head: Val) -> list[Val]:
        """From the number of a head to an index along each dimension of the batch."""
        found = []
        for axis in reversed(range(self.config.batches)):
            if axis == 0:
                found.append(head)
            else:
                found.append(self.binary("urem", head, self.word(f"batch_{axis}")))
                head = self.binary("udiv", head, self.word(f"batch_{axis}"))
        return found[::-1]

    def base(self, name: str, element: str | None = None, batch: list[Val] | None = None) -> Val:
        """Where the present head of an operand begins, or another one."""
        start = self.word(name, "ptr")
        for axis, index in enumerate(self.batch if batch is None else batch):
            start = self.at(start, self.mul(index, self.word(f"{name}_{axis}")), element or self.element)
        return start

    def row(self, start: Val, name: str, index: Val) -> Val:
        return self.at(start, self.mul(index, self.word(f"{name}_row")), self.element)

    def room(self, name: str) -> Val:
        """A part of the thread's memory."""
        return self.at(PARAMETERS[3], self.word(name), "i8")

    def panel(self, number: Val) -> Panel:
        first = self.mul(number, self.across)
        return Panel(first, self.least(self.sub(self.word("rows"), first), self.across))

    def seen(self, panel: Panel, first: Val, count: Val) -> Val:
        """How many of some keys the panel's queries look at."""
        if not self.config.causal:
            return count
        reach = self.sub(self.add(panel.first, panel.count), first)
        return self.most(self.least(count, reach), self.zero)

    def scale(self) -> Val:
        return self.cast("fptrunc", self.word("scale", "double"), self.element)

    def vectors(self, pointer: Val) -> list[Val]:
        """The addresses of the vectors of a panel's line."""
        numbers = range(self.config.vectors)
        return [self.at(pointer, self.integer(number * self.width), self.element) for number in numbers]

    def line(self, room: Val, index: Val) -> list[Val]:
        return self.vectors(self.at(room, self.mul(index, self.across), self.element))

    def call_part(self, name: str, *operands: Val) -> None:
        self.called.add(name)
        super().call_part(name, *operands)

    def fetch_ahead(self, head: Val, panel: Panel, columns: dict[str, str]) -> None:
        """Asks for a panel's rows of the next head: heads of one row of memory lie apart, which processors do
        not see coming. Large heads are no use: what is asked for would be gone before it is read.
        """
        following = self.indices(self.add(head, self.one))
        with self.when(self.compare("ne", self.word("ahead"), self.zero)):
            for name, extent in columns.items():
                start = self.row(self.base(name, batch=following), name, panel.first)
                self.call_part("fetch", start, self.word(f"{name}_row"), panel.count, self.word(extent))

    def slots(self, value: float = 0) -> list[Val]:
        return [self.slot(self.type, self.const(value, self.type)) for _ in range(self.config.vectors)]

    def multiply(
        self, kind: str, left: Val, left_step: Val, right: Val, right_step: Val, count: Val,
        place: Val, place_step: Val, rows: Val, adds: Val,
    ) -> None:  # fmt: skip
        self.call_part(kind, left, left_step, right, right_step, count, place, place_step, adds, rows)

    def copied(self, name: str, first: Val, count: Val) -> tuple[Val, Val]:
        """Where some rows lie side by side, and how far apart; rows that lie apart are copied first.

        Parts of a wide row often lie powers of two apart, and then contend for few places in the cache.
        """
        start, step = self.row(self.base(name), name, first), self.word(f"{name}_row")
        copies = self.compare("ne", self.word(f"{name}_copied"), self.zero)
        room, pitch = self.room(f"{name}_room"), self.word(f"{name}_pitch")
        with self.when(copies):
            columns = self.word("width" if name == "k" else "depth")
            self.copy_rows(start, step, room, pitch, count, columns)
        return self.select(copies, room, start), self.select(copies, pitch, step)

    def pack(self, source: Val, name: str, panel: Panel, room: Val, depth: Val) -> None:
        """Rows of the panel's queries as lines of a panel."""
        self.call_part("pack", source, self.word(f"{name}_row"), room, panel.count, depth)

    def times(self, room: Val, lines: Val, factors: Sequence[Val]) -> None:
        """Multiplies the lines of a panel by a vector for each of theirs."""
        with self.loop(self.zero, lines) as index:
            for place, factor in zip(self.line(room, index), factors, strict=True):
                self.store(self.mul(self.load(place, self.type), factor), place)

    # Masks -------------------------------------------------------------------------------------------------

    def hide(self, scores: Val, panel: Panel, first: Val, count: Val) -> None:
        """Puts minus infinity where a query must not look, and adds what a mask adds."""
        if self.config.mask != "none":
            element = "i8" if self.config.mask == "bool" else self.element
            start = self.base("mask", element)
            place = self.add(
                self.mul(panel.first, self.word("mask_row")), self.mul(first, self.word("mask_key"))
            )
            self.mask(scores, self.at(start, place, element), panel, count)
        if self.config.causal:
            self.hide_later(scores, panel, first, count)

    def hide_later(self, scores: Val, panel: Panel, first: Val, count: Val) -> None:
        """Keys behind a query's own place."""
        whole = vector("i32", self.width)
        begin = self.most(self.sub(self.add(panel.first, self.one), first), self.zero)
        with self.loop(begin, count) as key:
            ahead = self.sub(self.add(first, key), panel.first)
            ahead = self.splat(self.pure("i32", f"trunc {ahead} to i32"), self.width)
            for number, place in enumerate(self.line(scores, key)):
                numbers = self.numbers(number * self.width, whole)
                self.put_bounded(place, self.bound(self.compare("slt", numbers, ahead), self.type), self.type)

    def bound(self, hidden: Val, type: str) -> Val:
        return self.select(hidden, self.const(LOWEST, type), self.const(-LOWEST, type))

    def put_bounded(self, place: Val, bound: Val, type: str) -> None:
        """Lowers a score to its bound: minus infinity, whatever it was, or infinity.

        A score that is no number becomes infinity, and its row no number in the end, as it should. The load is
        volatile so that load and store do not become one masked store, which is slow.
        """
        score = self.now(type, f"load volatile {type}, ptr {place.name}, align {SIZES[self.element]}")
        self.store(self.select(self.compare("olt", score, bound), score, bound), place)

    def numbers(self, first: int, whole: str) -> Val:
        if self.width == 1:
            return Val(str(first), whole)
        return Val(f"<{', '.join(f'i32 {first + lane}' for lane in range(self.width))}>", whole)

    def mask(self, scores: Val, mask: Val, panel: Panel, count: Val) -> None:
        order = self.config.mask_order
        if order == "keys":
            with self.loop(self.zero, count) as key:
                value = self.mask_value(mask, self.mul(key, self.word("mask_key")), 1)
                for place in self.line(scores, key):
                    self.put_masked(place, self.splat(value, self.width), self.type)
            return
        done = self.zero
        if order == "rows" and self.width > 1:
            done = self.binary("and", count, self.integer(-self.width))
            with self.loop(self.zero, done, self.width) as key:
                self.mask_square(scores, mask, panel, key)
        last = self.sub(panel.count, self.one)
        with self.loop(done, count) as key, self.loop(self.zero, self.across) as query:
            row = self.mul(self.least(query, last), self.word("mask_row"))
            value = self.mask_value(mask, self.add(row, self.mul(key, self.word("mask_key"))), 1)
            place = self.at(scores, self.add(self.mul(key, self.across), query), self.element)
            self.put_masked(place, value, self.element)

    def mask_square(self, scores: Val, mask: Val, panel: Panel, key: Val) -> None:
        """As many keys as a vector has lanes: what is read along keys is turned around."""
        last = self.sub(panel.count, self.one)
        for number in range(self.config.vectors):
            values = []
            for lane in range(self.width):
                query = self.least(self.integer(number * self.width + lane), last)
                place = self.add(self.mul(query, self.word("mask_row")), key)
                values.append(self.mask_value(mask, place, self.width))
            for lane, value in enumerate(transpose(self, values)):
                place = self.line(scores, self.add(key, self.integer(lane)))[number]
                self.put_masked(place, value, self.type)

    def mask_value(self, mask: Val, place: Val, width: int) -> Val:
        """Entries of the mask as what is added to scores; of booleans as bounds of scores."""
        type = vector(self.element, width)
        if self.config.mask == "float":
            return self.load(self.at(mask, place, self.element), type)
        entries = self.load(self.at(mask, place, "i8"), vector("i8", width))
        return self.bound(self.compare("eq", entries, self.const(0, entries.type)), type)

    def put_masked(self, place: Val, value: Val, type: str) -> None:
        if self.config.mask == "float":
            self.store(self.add(self.load(place, type), value), place)
        else:
            self.put_bounded(place, value, type)

    # Back to rows ------------------------------------------------------------------------------------------

    def put_panel(
        self, source: Val, columns: Val, factors: Sequence[Val], place: Val, name: str, panel: Panel
    ) -> None:
        """Stores a panel, [column][query], times a vector of factors, as rows of the result `name`."""
        step = self.word(f"{name}_row")
        uneven = self.binary("and", columns, self.integer(self.width - 1))
        whole = self.binary(
            "and", self.compare("eq", panel.count, self.across), self.compare("eq", uneven, self.zero)
        )
        room, pitch = self.room("rows_room"), self.word("rows_pitch")
        target, target_step = self.select(whole, place, room), self.select(whole, step, pitch)
        self.turn(source, columns, factors, target, target_step)
        with self.when(self.opposite(whole)):
            self.copy_rows(room, pitch, place, step, panel.count, columns)

    def turn(self, source: Val, columns: Val, factors: Sequence[Val], place: Val, step: Val) -> None:
        with self.loop(self.zero, columns, self.width) as column:
            for number, factor in enumerate(factors):
                values = []
                for lane in range(self.width):
                    where = self.line(source, self.add(column, self.integer(lane)))[number]
                    values.append(self.mul(self.load(where, self.type), factor))
                for lane, value in enumerate(transpose(self, values)):
                    row = self.mul(self.integer(number * self.width + lane), step)
                    self.store(value, self.at(place, self.add(row, column), self.element))

    def copy_rows(
        self, source: Val, source_step: Val, place: Val, place_step: Val, rows: Val, columns: Val,
        factor: Val | None = None,
    ) -> None:  # fmt: skip
        factor = self.const(1, self.element) if factor is None else factor
        self.call_part("rows", source, source_step, place, place_step, rows, columns, factor)
