"""The kernel of attention: scores, softmax and results of a few panels of queries, block by block of keys.

A unit is a group of panels of one head. For every block of keys each panel computes scores, which stay in the
near cache, turns them into exponentials and adds what they bring; the highest score, the sum of exponentials
and the results so far are corrected when a later block has a higher score. Read next:
devices/cpu/kernels/attention_gradient.py.
"""

from __future__ import annotations

from cleargrad.devices.cpu.kernels.attention_tiles import (
    ACROSS,
    ALONG,
    LOWEST,
    AttentionCode,
    AttentionConfig,
    Panel,
    finished,
    weight_of,
)
from cleargrad.devices.cpu.kernels.packing import PARAMETERS
from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import Val

OPERANDS = ("q", "k", "v", "mask", "out")


def names(batches: int) -> list[str]:
    """The arguments in order."""
    return [
        *(
            *OPERANDS,
            "peaks",
            "totals",
            "scale",
            "rows",
            "keys",
            "width",
            "depth",
            "panels",
            "block",
            "ahead",
        ),
        *("group", "groups", "q_row", "k_row", "v_row", "out_row", "mask_row", "mask_key"),
        *("queries_room", "scores_room", "sums_room", "state_room", "rows_room", "rows_pitch"),
        *("queries_size", "sums_size", "k_room", "v_room", "k_pitch", "v_pitch", "k_copied", "v_copied"),
        *(f"{what}_{axis}" for axis in range(batches) for what in ("batch", *OPERANDS)),
    ]


class Forward:
    """Writes the kernel of one config."""

    def __init__(self, config: AttentionConfig) -> None:
        self.config = config
        self.code = AttentionCode(names(config.batches), config)

    def kernel(self) -> Kernel:
        code = self.code
        with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
            self.unit(unit)
        return finished(self.config, code)

    def unit(self, unit: Val) -> None:
        code = self.code
        self.head = code.binary("udiv", unit, code.word("groups"))
        code.unravel(self.head)
        begin = code.mul(code.binary("urem", unit, code.word("groups")), code.word("group"))
        panels = code.least(code.sub(code.word("panels"), begin), code.word("group"))
        self.scores = code.room("scores_room")
        with code.loop(code.zero, panels) as number:
            self.begin(number, code.panel(code.add(begin, number)))
        last = code.panel(code.sub(code.add(begin, panels), code.one))
        seen = code.seen(last, code.zero, code.word("keys"))
        blocks = code.add(seen, code.sub(code.word("block"), code.one))
        blocks = code.binary("udiv", blocks, code.word("block"))
        with code.loop(code.zero, blocks) as block:
            first = code.mul(block, code.word("block"))
            count = code.least(code.word("block"), code.sub(seen, first))
            keys, values = (code.copied(name, first, count) for name in ("k", "v"))
            with code.loop(code.zero, panels) as number:
                panel = code.panel(code.add(begin, number))
                own = code.seen(panel, first, count)
                with code.when(code.compare("sgt", own, code.zero)):
                    self.block(number, panel, block, first, own, keys, values)
        with code.loop(code.zero, panels) as number:
            self.finish(number, code.panel(code.add(begin, number)))

    # What belongs to a panel of the group ------------------------------------------------------------------

    def queries(self, number: Val) -> Val:
        code = self.code
        return code.at(code.room("queries_room"), code.mul(number, code.word("queries_size")), code.element)

    def sums(self, number: Val) -> Val:
        code = self.code
        return code.at(code.room("sums_room"), code.mul(number, code.word("sums_size")), code.element)

    def state(self, number: Val) -> tuple[list[Val], list[Val]]:
        """Where the highest scores and the totals are."""
        code = self.code
        line = code.mul(number, code.integer(2))
        room = code.room("state_room")
        return code.line(room, line), code.line(room, code.add(line, code.one))

    # Steps -------------------------------------------------------------------------------------------------

    def begin(self, number: Val, panel: Panel) -> None:
        code, queries = self.code, self.queries(number)
        code.fetch_ahead(self.head, panel, {"q": "width", "k": "width", "v": "depth"})
        source = code.row(code.base("q"), "q", panel.first)
        code.pack(source, "q", panel, queries, code.word("width"))
        scale = code.splat(code.scale(), code.width)
        code.times(queries, code.word("width"), [scale] * self.config.vectors)
        for places, value in zip(self.state(number), (LOWEST, 0.0), strict=True):
            for place in places:
                code.store(code.const(value, code.type), place)

    def block(
        self, number: Val, panel: Panel, block: Val, first: Val, count: Val,
        keys: tuple[Val, Val], values: tuple[Val, Val],
    ) -> None:  # fmt: skip
        """What one block of keys adds."""
        code, across, sums = self.code, self.code.across, self.sums(number)
        code.multiply(
            ALONG,
            *keys,
            self.queries(number),
            across,
            code.word("width"),
            self.scores,
            across,
            count,
            code.no,
        )
        code.hide(self.scores, panel, first, count)
        later = code.compare("sgt", block, code.zero)
        self.softmax(number, later, count)
        code.multiply(ACROSS, *values, self.scores, across, count, sums, across, code.word("depth"), later)

    def softmax(self, number: Val, later: Val, count: Val) -> None:
        """Turns scores into exponentials below the highest score so far."""
        code = self.code
        highest, totals = self.state(number)
        before = [code.load(place, code.type) for place in highest]
        slots = [code.slot(code.type, old) for old in before]
        with code.loop(code.zero, count) as key:
            for slot, place in zip(slots, code.line(self.scores, key), strict=True):
                score, most = code.load(place, code.type), code.get(slot, code.type)
                code.set(slot, code.select(code.compare("ogt", score, most), score, most))
        found = [code.get(slot, code.type) for slot in slots]
        for value, place in zip(found, highest, strict=True):
            code.store(value, place)
        peaks = [self.peak(value) for value in found]
        added = code.slots(0)
        with code.loop(code.zero, count) as key:
            for slot, place, peak in zip(added, code.line(self.scores, key), peaks, strict=True):
                weight = weight_of(code, code.sub(code.load(place, code.type), peak))
                code.store(weight, place)
                code.set(slot, code.add(code.get(slot, code.type), weight))
        with code.when(later):
            fading = [weight_of(code, code.sub(old, peak)) for old, peak in zip(before, peaks, strict=True)]
            code.times(self.sums(number), code.word("depth"), fading)
            for place, factor in zip(totals, fading, strict=True):
                code.store(code.mul(code.load(place, code.type), factor), place)
        for place, more in zip(totals, added, strict=True):
            code.store(code.add(code.load(place, code.type), code.get(more, code.type)), place)

    def peak(self, highest: Val) -> Val:
        """The highest score, or zero where nothing is seen: differences with minus infinity are no numbers."""
        code = self.code
        nothing = code.compare("oeq", highest, code.const(LOWEST, code.type))
        return code.select(nothing, code.const(0, code.type), highest)

    def finish(self, number: Val, panel: Panel) -> None:
        code = self.code
        highest, totals = ([code.load(place, code.type) for place in places] for places in self.state(number))
        none, endless = code.const(0, code.type), code.const(float("inf"), code.type)
        totals = [code.select(code.compare("oeq", total, none), endless, total) for total in totals]
        factors = [code.div(code.const(1, code.type), total) for total in totals]
        place = code.row(code.base("out"), "out", panel.first)
        code.put_panel(self.sums(number), code.word("depth"), factors, place, "out", panel)
        first = code.add(code.mul(self.head, code.word("rows")), panel.first)
        for name, values in (("peaks", [self.peak(value) for value in highest]), ("totals", totals)):
            for value, to in zip(values, code.vectors(self.scores), strict=True):
                code.store(value, to)
            target = code.at(code.word(name, "ptr"), first, code.element)
            code.copy_rows(self.scores, code.zero, target, code.zero, code.one, panel.count)
