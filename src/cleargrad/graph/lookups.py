"""Embeddings times matrices: where a table has fewer rows than are looked up in it, the table is multiplied.

A text has more characters than there are different ones, so the rows of a small embedding are looked up many
times over, and T[i] @ B multiplies each of them as often. (T @ B)[i] is the same to the last bit, since a row of a
product does not depend on the others, with one product for each row of the table. (Backward, rows that belong to
the same row of the table could be added up before they are multiplied; that would round otherwise, so it is not
done.) `hoist_products_above_lookups` is a pass from graph to graph. Read next: schedule/formulas.py.
"""

from __future__ import annotations

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


def hoist_products_above_lookups(graph: Graph) -> Graph:
    """Products with looked-up rows become products with the table they come from, where that is less work."""
    if not any(
        call.op.name == "index" and is_lookup(call.operands[0], call.operands[1], call)
        for call in graph.calls
    ):
        return graph
    return Rewriting(graph).run()


def is_lookup(table: Any, places: Any, call: Call) -> bool:
    """Whether a call reads whole rows of a matrix, each of them often enough."""
    if len(call.operands) != 2 or call.attrs["dims"] != (0,):
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
        self.rows: dict[int, Rows] = {}  # by the index of a value

    def run(self) -> Graph:
        for call in self.graph.calls:
            self.calls.append(self.rewritten(call) or call)
        return replace(self.graph, calls=self.calls, size=self.size)

    def rewritten(self, call: Call) -> Call | None:
        """What computes the same results with less work; None if the call is to stay."""
        name = call.op.name
        if name in ("mm", "bmm"):
            return self.product_of_rows(call)
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

    # New calls ---------------------------------------------------------------------------------------------

    def made(self, name: str, operands: tuple, shape: tuple[int, ...], attrs: dict[str, Any]) -> Value:
        """The result of a new call, of its first operand's dtype."""
        result = Value(self.size, Spec(shape, operands[0].spec.dtype))
        self.size += 1
        self.calls.append(Call(OPS[name], operands, attrs, (result,)))
        return result

    def seen(self, places: Value, views: Sequence[Call]) -> Value:
        """Places in the order into which views have put their rows."""
        for view in views:
            shape = view.results[0].spec.shape[:-1]
            attrs = {"shape": shape} if view.op.name == "view" else axes_of(view)
            places = self.made(view.op.name, (places,), shape, attrs)
        return places


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
