"""Concatenation without copies: the parts of a cat are computed where the whole will lie.

The steps of a recurrent network are joined by cat. A value that is only stored to be copied into a cat is stored at
its place there. Read next: schedule/slopes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from cleargrad.ops.record import Graph, Value
from cleargrad.schedule.formulas import Load


@dataclass(frozen=True)
class Home:
    """Where a value lies in the one it is joined into, in elements from its begin."""

    whole: Value
    offset: int


def homes(graph: Graph, asked: set[int]) -> dict[int, Home]:
    """The values, by index, that can be computed where a cat wants them: each a piece without gaps."""
    made = {result.index for call in graph.calls for result in call.results}
    found: dict[int, Home] = {}
    for call in graph.calls:
        if call.op.name != "cat":
            continue
        (whole,) = call.results
        shape, dtype = whole.spec.shape, whole.spec.dtype
        dim = call.attrs["dim"] % max(len(shape), 1)
        if prod(shape[:dim]) != 1:
            continue
        offset = 0
        for part in call.operands:
            fits = part.spec.dtype == dtype and len(part.spec.shape) == len(shape)
            if fits and part.index in made and part.index not in asked and part.index not in found:
                found[part.index] = Home(whole, offset)
            offset += prod(part.spec.shape)
    return found


def described(load: Load) -> tuple:
    return load.buffer, load.shape, load.strides, load.offset, load.index
