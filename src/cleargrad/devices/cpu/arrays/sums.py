"""Sums and products over dimensions of float arrays, in the one order that all kernels keep to.

expr/order_of_sums.py says which order that is; devices/cpu/kernels/ufuncs.py has both loops. Read next:
ops/reductions.py.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from cleargrad.core.shape import reduced
from cleargrad.devices.cpu.native import ufuncs
from cleargrad.expr.numpy_reading import F32, F64, FLOATS
from cleargrad.expr.order_of_sums import by_columns, groups


class ReductionLayout(NamedTuple):
    """How an array is seen by the loops, and the shape of what they leave."""

    by_columns: bool
    order: tuple[int, ...] | None  # of dimensions, where reduced ones must become the last
    seen: tuple[int, ...]
    left: tuple[int, ...]


@lru_cache(maxsize=8192)
def layout(shape: tuple[int, ...], dims: tuple[int, ...], keepdims: bool) -> ReductionLayout | None:
    """None where nothing is joined."""
    dims = tuple(sorted(axis % len(shape) for axis in dims)) if shape else ()
    parts, left = groups(shape, dims), reduced(shape, dims, keepdims)
    extents = [extent for extent, is_reduced in parts if is_reduced]
    if not extents or 0 in shape:
        return None
    kept = [extent for extent, is_reduced in parts if not is_reduced]
    if by_columns(parts):
        place = parts.index((extents[0], True))
        sizes = [extent for extent, _ in parts]
        return ReductionLayout(True, None, (prod(sizes[:place]), extents[0], prod(sizes[place + 1 :])), left)
    order = (*(axis for axis in range(len(shape)) if axis not in dims), *dims)
    seen = (prod(kept), prod(extents[:-1]), extents[-1])
    return ReductionLayout(False, None if order == tuple(range(len(shape))) else order, seen, left)


def joined(
    name: str, start: float, x: np.ndarray, axis: tuple[int, ...], keepdims: bool = False
) -> np.ndarray:
    """The sum ("add") or the product ("mul") over dimensions."""
    found = layout(x.shape, axis, keepdims)
    kind = x.dtype
    made = ufuncs() if found is not None and (kind is F32 or kind is F64 or kind in FLOATS) else None
    if found is None or made is None:
        return getattr(np, {"add": "add", "mul": "multiply"}[name]).reduce(x, axis=axis, keepdims=keepdims)
    columns, order, seen, left = found
    if order is not None:
        x = x.transpose(order)
    loop = made.columns(name, start) if columns else made.rows(name, start)
    return np.asarray(loop(x.reshape(seen))).reshape(left)


def add_up(x: np.ndarray, axis: tuple[int, ...], keepdims: bool = False) -> np.ndarray:
    """The sum over dimensions."""
    return joined("add", 0.0, x, axis, keepdims)
