"""The kernel for few rows: vectors run along k, and each result is the sum of a vector's lanes.

For a left operand of some rows, packing the right one would cost more than the product. Where k is contiguous in
both operands, nothing needs to be packed this way: a panel is as many columns as a vector has lanes. Read next:
codegen/gemm.py.
"""

from __future__ import annotations

from cleargrad.codegen.gemm_tiles import Multiplier
from cleargrad.codegen.llvm_text import Val
from cleargrad.codegen.packing import transpose


class DotMultiplier(Multiplier):
    """Writes a kernel whose strips are single rows."""

    def piece(self, begin: Val, depth: Val) -> None:
        code, s = self.code, self.structure
        last_column = code.sub(code.word("n"), code.integer(1))
        with code.loop(self.first_panel, self.last_panel) as panel:
            column = code.mul(panel, code.integer(s.lanes))
            columns = code.least(code.sub(code.word("n"), column), code.integer(s.lanes))
            starts = []
            for lane in range(s.lanes):
                clamped = code.least(code.add(column, code.integer(lane)), last_column)
                starts.append(code.at(self.right, code.mul(clamped, code.word("right_column")), self.element))
            with code.loop(self.first_strip, self.last_strip) as row:
                start = code.at(self.left, code.mul(row, code.word("left_row")), self.element)
                value = self.dots(start, starts, depth)
                code.store(value, self.buffer)
                self.finish_tile(self.buffer, row, code.integer(1), column, columns)

    def dots(self, left: Val, starts: list[Val], depth: Val) -> Val:
        """The products of one row with each of some columns, as a vector."""
        code, s = self.code, self.structure
        totals = [code.slot(self.type, code.const(0, self.type)) for _ in starts]
        evenly = code.binary("and", depth, code.integer(-s.lanes))
        for begin, end, whole in ((code.integer(0), evenly, True), (evenly, depth, False)):
            with code.loop(begin, end, s.lanes) as k:
                places = [code.at(start, k, self.element) for start in (left, *starts)]
                values = [
                    code.load(place, self.type)
                    if whole
                    else code.masked_load(place, self.type, code.sub(depth, k))
                    for place in places
                ]
                for total, value in zip(totals, values[1:]):
                    code.set(total, code.fma(values[0], value, code.get(total, self.type)))
        rows = transpose(code, [code.get(total, self.type) for total in totals]) if s.lanes > 1 else totals
        while len(rows) > 1:
            rows = [code.add(rows[i], rows[i + len(rows) // 2]) for i in range(len(rows) // 2)]
        return rows[0]
