"""The one order in which the elements of a sum are joined, whoever computes it: it follows from the shape alone.

Whether a sum is a call by itself or a part of a compiled program must not show in its bits. Dimensions of one
element are left out, neighbouring ones that are reduced count as one, and then

  columns   one reduced dimension before the last: every column by itself, row after row
  rows      otherwise: lane by lane along the last reduced dimension, the others around it

Read next: autograd/plan.py.
"""

from __future__ import annotations

from math import prod


def groups(shape: tuple[int, ...], dims: tuple[int, ...]) -> list[tuple[int, bool]]:
    """The extents that count, each with whether it is reduced; neighbours that are reduced are one."""
    found: list[tuple[int, bool]] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        if axis in dims and found and found[-1][1]:
            found[-1] = (found[-1][0] * extent, True)
        else:
            found.append((extent, axis in dims))
    return found


def by_columns(parts: list[tuple[int, bool]]) -> bool:
    """Whether each column is reduced by itself: the only reduced extent has kept ones behind it."""
    marks = [is_reduced for _, is_reduced in parts]
    return marks.count(True) == 1 and not marks[-1]


def in_order(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A reduction's shape and reduced dimensions as the order has them."""
    parts = groups(shape, dims)
    extents = [extent for extent, _ in parts]
    reduced = tuple(axis for axis, (_, is_reduced) in enumerate(parts) if is_reduced)
    if by_columns(parts):
        extents[reduced[0] + 1 :] = [prod(extents[reduced[0] + 1 :])]
    return tuple(extents), reduced
