"""The kernels of attention's gradient: scores are computed again, block by block, and never kept.

With weights p (exponentials over a row's total) and dp = g vᵀ, the gradient of the scores is
p · (dp - rows' sum of g · out). A unit is some blocks of keys of one head: it walks over all panels of queries
that look at them and adds up what they send back to keys and values. What they send back to the queries
themselves is added up over blocks in memory of the unit's own, and put together by a second kernel; if
one block holds all keys, it is stored at once. Nothing depends on the order in which units run. Read next:
devices/cpu/kernels/attention.py.
"""

from __future__ import annotations

from cleargrad.devices.cpu.kernels.attention_tiles import (
    ACROSS,
    ALONG,
    AttentionCode,
    AttentionConfig,
    Panel,
    finished,
    weight_of,
)
from cleargrad.devices.cpu.kernels.packing import PARAMETERS
from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import Val, width_of

OPERANDS = ("g", "q", "k", "v", "mask", "out", "dq", "dk", "dv")


def names(batches: int) -> list[str]:
    """The arguments of both kernels in order."""
    return [
        *(*OPERANDS, "peaks", "totals", "work", "scale", "rows", "keys", "width", "depth"),
        *("heads", "panels", "block", "ahead", "chunks", "chunk", "width_pitch", "depth_pitch"),
        *(f"{name}_row" for name in OPERANDS),
        *("mask_key", "queries_room", "grads_room", "q_rows_room", "g_rows_room", "scores_room"),
        *("k_room", "v_room", "k_pitch", "v_pitch", "k_copied", "v_copied"),
        *("slopes_room", "keys_room", "values_room", "sums_room", "rows_room", "rows_pitch", "inner_room"),
        *(f"{what}_{axis}" for axis in range(batches) for what in ("batch", *OPERANDS)),
    ]


class Gradient:
    """Writes the kernel that visits all scores."""

    def __init__(self, config: AttentionConfig) -> None:
        self.config = config
        self.code = AttentionCode(names(config.batches), config)

    def kernel(self) -> Kernel:
        code = self.code
        with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
            self.head = code.binary("udiv", unit, code.word("chunks"))
            self.chunk = code.binary("urem", unit, code.word("chunks"))
            code.unravel(self.head)
            begin = code.mul(self.chunk, code.word("chunk"))
            end = code.least(code.add(begin, code.word("chunk")), code.word("keys"))
            blocks = code.add(code.sub(end, begin), code.sub(code.word("block"), code.one))
            blocks = code.binary("udiv", blocks, code.word("block"))
            with code.loop(code.zero, blocks) as number:
                self.later = code.compare("sgt", number, code.zero)
                first = code.add(begin, code.mul(number, code.word("block")))
                self.block(first, code.least(code.word("block"), code.sub(end, first)))
        return finished(self.config, code)

    def block(self, first: Val, count: Val) -> None:
        """All that one block of keys takes part in."""
        code = self.code
        self.keys_room, self.values_room = code.room("keys_room"), code.room("values_room")
        for room, pitch in ((self.keys_room, "width_pitch"), (self.values_room, "depth_pitch")):
            with code.loop(code.zero, code.mul(count, code.word(pitch)), code.width) as place:
                code.store(code.const(0, code.type), code.at(room, place, code.element))
        self.keys, self.values = (code.copied(name, first, count) for name in ("k", "v"))
        begin = code.binary("udiv", first, code.across) if self.config.causal else code.zero
        with code.loop(begin, code.word("panels")) as number:
            self.panel(number, code.panel(number), first, count)
        for name, room, columns in (("dk", self.keys_room, "width"), ("dv", self.values_room, "depth")):
            place = code.row(code.base(name), name, first)
            step = code.word(f"{columns}_pitch")
            factor = code.scale() if name == "dk" else None
            code.copy_rows(room, step, place, code.word(f"{name}_row"), count, code.word(columns), factor)

    def panel(self, number: Val, panel: Panel, first: Val, count: Val) -> None:
        code, across = self.code, self.code.across
        count = code.seen(panel, first, count)
        width, depth = code.word("width"), code.word("depth")
        columns = {"g": "depth", "q": "width", "k": "width", "v": "depth", "out": "depth"}
        code.fetch_ahead(self.head, panel, columns)
        self.take_rows(panel)
        scores, slopes = code.room("scores_room"), code.room("slopes_room")
        code.multiply(ALONG, *self.keys, self.queries, across, width, scores, across, count, code.no)
        code.hide(scores, panel, first, count)
        code.multiply(ALONG, *self.values, self.grads, across, depth, slopes, across, count, code.no)
        self.weigh(panel, scores, slopes, count)
        self.add_rows(scores, self.grad_rows, "depth", self.values_room, panel, count)
        self.add_rows(slopes, self.query_rows, "width", self.keys_room, panel, count)
        single = self.config.single
        sums = code.room("sums_room") if single else self.own_sums(number)
        adds = code.no if single else self.later
        code.multiply(ACROSS, *self.keys, slopes, across, count, sums, across, width, adds)
        if single:
            place = code.row(code.base("dq"), "dq", panel.first)
            scale = code.splat(code.scale(), code.width)
            code.put_panel(sums, width, [scale] * self.config.vectors, place, "dq", panel)

    def take_rows(self, panel: Panel) -> None:
        """What belongs to the panel's queries, as panels (scaled, of the queries) and as rows."""
        code = self.code
        width, depth = code.word("width"), code.word("depth")
        query, grad = (code.row(code.base(name), name, panel.first) for name in ("q", "g"))
        self.queries, self.grads = code.room("queries_room"), code.room("grads_room")
        code.pack(query, "q", panel, self.queries, width)
        code.times(self.queries, width, [code.splat(code.scale(), code.width)] * self.config.vectors)
        code.pack(grad, "g", panel, self.grads, depth)
        self.query_rows = self.whole_rows("q", query, panel, "width")
        self.grad_rows = self.whole_rows("g", grad, panel, "depth")

    def whole_rows(self, name: str, start: Val, panel: Panel, columns: str) -> tuple[Val, Val]:
        """Rows that may be read by whole panels of columns, and how far apart they are."""
        code, step = self.code, self.code.word(f"{name}_row")
        room, pitch = code.room(f"{name}_rows_room"), code.word(f"{columns}_pitch")
        whole = code.compare("eq", code.word(columns), pitch)
        with code.when(code.opposite(whole)):
            code.copy_rows(start, step, room, pitch, panel.count, code.word(columns))
        return code.select(whole, start, room), code.select(whole, step, pitch)

    def inner(self, panel: Panel) -> list[Val]:
        """Each query's sum of g · out."""
        code, room = self.code, self.code.room("inner_room")
        grad, out = (code.row(code.base(name), name, panel.first) for name in ("g", "out"))
        with code.loop(code.zero, panel.count) as query:
            rows = [code.row(start, name, query) for start, name in ((grad, "g"), (out, "out"))]
            total = code.slot(code.type, code.const(0, code.type))
            depth = code.word("depth")
            evenly = code.binary("and", depth, code.integer(-code.width))
            with code.loop(code.zero, evenly, code.width) as column:
                left, right = (code.load(code.at(row, column, code.element), code.type) for row in rows)
                code.set(total, code.fma(left, right, code.get(total, code.type)))
            single = code.slot(code.element, self.across_lanes(code.get(total, code.type)))
            with code.loop(evenly, depth) as column:
                left, right = (code.load(code.at(row, column, code.element), code.element) for row in rows)
                code.set(single, code.fma(left, right, code.get(single, code.element)))
            code.store(code.get(single, code.element), code.at(room, query, code.element))
        return [code.load(place, code.type) for place in code.vectors(room)]

    def across_lanes(self, value: Val) -> Val:
        code, width = self.code, width_of(value.type)
        while width > 2:
            width //= 2
            low, high = (code.shuffle(value, value, range(first, first + width)) for first in (0, width))
            value = code.add(low, high)
        return value if width == 1 else code.add(code.lane(value, 0), code.lane(value, 1))

    def statistics(self, name: str, panel: Panel) -> list[Val]:
        """The panel's part of the peaks or totals."""
        code = self.code
        first = code.add(code.mul(self.head, code.word("rows")), panel.first)
        start, found = code.at(code.word(name, "ptr"), first, code.element), []
        for number, place in enumerate(code.vectors(start)):
            left = code.sub(panel.count, code.integer(number * code.width))
            found.append(code.masked_load(place, code.type, left))
        return found

    def weigh(self, panel: Panel, scores: Val, slopes: Val, count: Val) -> None:
        """Scores become weights, and gradients of weights those of scores."""
        code = self.code
        inner, peaks = self.inner(panel), self.statistics("peaks", panel)
        one = code.const(1, code.type)
        shares = [code.div(one, total) for total in self.statistics("totals", panel)]
        with code.loop(code.zero, count) as key:
            places = zip(code.line(scores, key), code.line(slopes, key), strict=True)
            for number, (score, slope) in enumerate(places):
                weight = weight_of(code, code.sub(code.load(score, code.type), peaks[number]))
                weight = code.mul(weight, shares[number])
                code.store(weight, score)
                change = code.sub(code.load(slope, code.type), inner[number])
                code.store(code.mul(weight, change), slope)

    def add_rows(
        self, left: Val, right: tuple[Val, Val], columns: str, place: Val, panel: Panel, count: Val
    ) -> None:
        """place[key] += sum over the panel's queries of left[key][query] · right[query]."""
        code, pitch = self.code, self.code.word(f"{columns}_pitch")
        start, step = right
        with code.loop(code.zero, code.word(columns), self.config.panel) as column:
            code.multiply(
                ALONG, left, code.across, code.at(start, column, code.element), step, panel.count,
                code.at(place, column, code.element), pitch, count, code.yes,
            )  # fmt: skip

    def own_sums(self, number: Val) -> Val:
        return own_sums(self.code, self.chunk, self.head, number)


def own_sums(code: AttentionCode, chunk: Val, head: Val, number: Val) -> Val:
    """Where a unit adds up what its keys send back to a panel of queries."""
    place = code.add(code.mul(chunk, code.word("heads")), head)
    place = code.add(code.mul(place, code.word("panels")), number)
    place = code.mul(code.mul(place, code.word("width")), code.across)
    return code.at(code.word("work", "ptr"), place, code.element)


def collect(config: AttentionConfig) -> Kernel:
    """The second kernel: gradients of queries from all chunks of keys; a unit is a panel of one head."""
    code = AttentionCode(names(config.batches), config)
    with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
        head = code.binary("udiv", unit, code.word("panels"))
        number = code.binary("urem", unit, code.word("panels"))
        code.unravel(head)
        panel, sums = code.panel(number), code.room("sums_room")
        chunks = code.word("chunks")
        if config.causal:  # those that begin with a key this panel looks at
            ahead = code.binary("udiv", code.mul(number, code.across), code.word("chunk"))
            chunks = code.least(chunks, code.add(ahead, code.one))
        with code.loop(code.zero, code.word("width")) as line:
            totals = code.slots(0)
            with code.loop(code.zero, chunks) as chunk:
                places = code.line(own_sums(code, chunk, head, number), line)
                for total, place in zip(totals, places, strict=True):
                    code.set(total, code.add(code.get(total, code.type), code.load(place, code.type)))
            for total, place in zip(totals, code.line(sums, line), strict=True):
                code.store(code.get(total, code.type), place)
        place = code.row(code.base("dq"), "dq", panel.first)
        scale = code.splat(code.scale(), code.width)
        code.put_panel(sums, code.word("width"), [scale] * config.vectors, place, "dq", panel)
    return finished(config, code)
