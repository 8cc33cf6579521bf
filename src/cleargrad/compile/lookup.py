"""Products with rows that are looked up in a table: the table is multiplied instead, where it has fewer rows.

A text has more characters than there are different ones, so the rows of a small embedding are looked up many
times over, and T[i] @ B multiplies each of them as often. (T @ B)[i] is the same, with one product for each row of
the table. Backward, rows of the gradient that belong to the same row of the table are added up first; the gradients
of T and of B are products with that sum. `multiply_tables` is a pass from graph to graph. Read next:
compile/lazy.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec
from cleargrad.ops.op import OPS
from cleargrad.ops.record import Call, Graph, Value

OFTEN = 2  # times that a row of a table is looked up on average, from which on the table is multiplied


@dataclass(frozen=True)
class Rows:
    """Rows of a table, and the views by which they were put into another order."""

    table: Value
    places: Value
    views: tuple[Call, ...] = ()


def multiply_tables(graph: Graph) -> Graph:
    """Products with looked-up rows become products with the table they come from, where that is less work."""
    if not any(
        call.op.name == "index" and is_lookup(call.operands[0], call.operands[1], call)
        for call in graph.calls
    ):
        return graph
    return Rewriting(graph).run()


def is_lookup(table: Any, places: Any, call: Call) -> bool:
    """Whether a call reads or adds up whole rows of a matrix, each of them often enough."""
    if len(call.operands) - (call.op.name == "index_put") != 2 or call.attrs["dims"] != (0,):
        return False
    shape, kind = table.spec.shape, table.spec.dtype.numpy
    often = prod(places.spec.shape) >= OFTEN * max(shape[0], 1)
    return (
        len(shape) == 2 and kind in (np.float32, np.float64) and places.spec.dtype.numpy == np.int64 and often
    )


class Rewriting:
    """One walk through a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.size = graph, graph.size
        self.calls: list[Call] = []
        self.constants = list(graph.constants)
        self.makers = {result.index: call for call in graph.calls for result in call.results}
        self.rows: dict[int, Rows] = {}  # by the index of a value
        self.uses = Counter(x.index for call in graph.calls for x in call.operands if isinstance(x, Value))
        self.uses.update(value.index for value in graph.outputs)
        self.uses.update(value.index for _, value in graph.writes)

    def run(self) -> Graph:
        for call in self.graph.calls:
            self.calls.append(self.rewritten(call) or call)
        return replace(self.graph, calls=self.calls, constants=self.constants, size=self.size)

    def rewritten(self, call: Call) -> Call | None:
        """What computes the same results with less work; None if the call is to stay."""
        name = call.op.name
        if name in ("mm", "bmm"):
            return self.product_of_rows(call) or self.factor_gradient(call)
        if name == "index_put":
            return self.table_gradient(call)
        if name == "index" and is_lookup(call.operands[0], call.operands[1], call):
            self.rows[call.results[0].index] = Rows(*call.operands)
        elif keeps_rows(call) and call.operands[0].index in self.rows:
            found = self.rows[call.operands[0].index]
            self.rows[call.results[0].index] = replace(found, views=(*found.views, call))
        return None

    def product_of_rows(self, call: Call) -> Call | None:
        """T[i] @ B."""
        left, right = call.operands
        found = self.rows.get(left.index)
        if found is None or len(right.spec.shape) != 2:
            return None
        shape = (found.table.spec.shape[0], right.spec.shape[1])
        product = self.made("mm", (found.table, right), shape, {})
        places = self.seen(found.places, found.views)
        return Call(OPS["index"], (product, places), {"dims": (0,)}, call.results)

    def factor_gradient(self, call: Call) -> Call | None:
        """G.T @ T[i], or its transpose."""
        for number, (other, rows) in enumerate(zip(call.operands, call.operands[::-1], strict=True)):
            if number == 1:
                rows = self.untransposed(rows)
            else:
                other = self.untransposed(other)
            found = None if rows is None or other is None else self.rows.get(rows.index)
            if found is None or len(other.spec.shape) != 2:
                continue
            total = self.added_up(other, self.seen(found.places, found.views), found.table.spec.shape[0])
            first, second = (total, found.table) if number == 0 else (found.table, total)
            turned = self.made("transpose", (first,), first.spec.shape[::-1], {"dim0": -2, "dim1": -1})
            return Call(OPS["mm"], (turned, second), {}, call.results)
        return None

    def table_gradient(self, call: Call) -> Call | None:
        """Rows of G @ B, added up by the rows of a table they belong to."""
        base, rows, places = call.operands[:3]
        if not (is_lookup(base, places, call) and call.attrs["accumulate"] and self.is_zero(base)):
            return None
        maker, views = self.makers.get(rows.index), []
        while maker is not None and keeps_rows(maker) and self.uses[maker.results[0].index] == 1:
            views.append(maker)
            maker = self.makers.get(maker.operands[0].index)
        if maker is None or maker.op.name not in ("mm", "bmm") or self.uses[maker.results[0].index] > 1:
            return None
        gradient, factor = maker.operands
        wanted = (*places.spec.shape, base.spec.shape[1])
        if len(factor.spec.shape) != 2 or rows.spec.shape != wanted or rows.spec.dtype != base.spec.dtype:
            return None
        total = self.added_up(gradient, self.unseen(places, views), base.spec.shape[0])
        return Call(OPS["mm"], (total, factor), {}, call.results)

    # New calls ---------------------------------------------------------------------------------------------

    def new(self, shape: tuple[int, ...], like: Value) -> Value:
        self.size += 1
        return Value(self.size - 1, Spec(shape, like.spec.dtype))

    def made(self, name: str, operands: tuple, shape: tuple[int, ...], attrs: dict[str, Any]) -> Value:
        """The result of a new call, of its first operand's dtype."""
        result = self.new(shape, operands[0])
        self.calls.append(Call(OPS[name], operands, attrs, (result,)))
        return result

    def seen(self, places: Value, views: Sequence[Call]) -> Value:
        """Places in the order into which views have put their rows."""
        for view in views:
            places = self.moved(places, view, view.results[0])
        return places

    def unseen(self, places: Value, views: Sequence[Call]) -> Value:
        """Places in the order of rows before views, of which the last comes first."""
        for view in views:
            places = self.moved(places, view, view.operands[0])
        return places

    def moved(self, places: Value, view: Call, like: Value) -> Value:
        """Places after a view, or before it: either is the same kind of view."""
        shape = like.spec.shape[:-1]
        attrs = {"shape": shape} if view.op.name == "view" else axes_of(view)
        return self.made(view.op.name, (places,), shape, attrs)

    def added_up(self, rows: Value, places: Value, count: int) -> Value:
        """Rows added up by their places, from 0 to count."""
        maker = self.makers.get(rows.index)
        while maker is not None and maker.op.name == "view" and keeps_rows(maker):
            rows = maker.operands[0]
            maker = self.makers.get(rows.index)
        around, width = rows.spec.shape[:-1], rows.spec.shape[-1]
        if places.spec.shape != around:
            places = self.made("view", (places,), around, {"shape": around})
        zero = self.new((), rows)
        self.constants.append((zero, np.zeros((), rows.spec.dtype.numpy)))
        shape = (count, width)
        empty = self.made("expand", (zero,), shape, {"shape": shape})
        attrs = {"dims": (0,), "accumulate": True}
        return self.made("index_put", (empty, rows, places), shape, attrs)

    def untransposed(self, value: Value) -> Value | None:
        """What a matrix is the transpose of."""
        maker = self.makers.get(value.index)
        if maker is None or maker.op.name not in ("transpose", "permute") or len(value.spec.shape) != 2:
            return None
        turned = maker.op.name == "transpose" or tuple(maker.attrs["dims"]) in ((1, 0), (-1, -2))
        return (
            maker.operands[0] if turned and maker.operands[0].spec.shape == value.spec.shape[::-1] else None
        )

    def is_zero(self, value: Value) -> bool:
        """Whether a value is nothing but zeros, wherever it is read."""
        maker = self.makers.get(value.index)
        if maker is not None:
            return maker.op.name == "expand" and self.is_zero(maker.operands[0])
        return any(known.index == value.index and not array.any() for known, array in self.constants)


def keeps_rows(call: Call) -> bool:
    """Whether a view puts rows into another order, and leaves each of them as it is."""
    if call.op.name == "view":
        return call.operands[0].spec.shape[-1:] == call.results[0].spec.shape[-1:] != ()
    last = len(call.results[0].spec.shape) - 1
    return call.op.name == "transpose" and last not in axes_of(call).values()


def axes_of(call: Call) -> dict[str, int]:
    """The dimensions that a transpose exchanges, counted from the first."""
    count = max(len(call.results[0].spec.shape), 1)
    return {name: call.attrs[name] % count for name in ("dim0", "dim1")}
