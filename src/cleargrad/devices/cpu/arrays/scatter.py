"""Joining values into chosen places of an array, where a place may be chosen more than once.

All gradients of gathering ops come down to `add_at` (whole rows, as in an embedding) or `join_flat` (single
elements). Both end in NumPy's `ufunc.at` on one flat line, the only form of it that is fast, and they join in
the order of the values, as PyTorch does. Measured for 768 rows of 128 float32, and for 8192 rows of 768:

    np.add.at on rows       1.10 ms   66 ms
    sort and np.add.reduceat 0.24     24
    one-hot matrix product  0.16      10      (65 classes; 89 ms for 50000)
    flat np.add.at          0.19      18
    flat, pairs as complex  0.12       8      (chosen)

Read next: ops/scattering.py.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from cleargrad.devices.cpu.arrays.precision import widen

# Two neighbours are added at a time as one complex number: addition works on its parts separately.
PAIR: dict[np.dtype, np.dtype] = {
    np.dtype(np.float32): np.dtype(np.complex64),
    np.dtype(np.float64): np.dtype(np.complex128),
}


def add_at(x: np.ndarray, values: np.ndarray, indices: tuple[np.ndarray, ...], dims: tuple[int, ...]) -> None:
    """`x[..., indices, ...] += values`, repetitions counted; the indices stand in dimensions `dims`."""
    joint = np.broadcast_shapes(*[places.shape for places in indices])
    count, rank = len(dims), len(joint)
    moved = np.moveaxis(x, dims, range(count))
    rest = moved.shape[count:]
    if dims[-1] - dims[0] == count - 1:  # neighbours: the result has the index dimensions in their place
        first = dims[0]
        shape = (*rest[:first], *joint, *rest[first:])
        rows = np.moveaxis(np.broadcast_to(values, shape), range(first, first + rank), range(rank))
    else:
        rows = np.broadcast_to(values, (*joint, *rest))
    places = flat_places(indices, moved.shape[:count])
    if not rows.size:
        return
    table = np.ascontiguousarray(widen(moved))
    add_rows(
        table.reshape(-1, rows.size // places.size),
        np.ascontiguousarray(rows, table.dtype).reshape(places.size, -1),
        np.broadcast_to(places, joint).reshape(-1),
    )
    if not np.may_share_memory(table, x):
        moved[...] = table


def flat_places(indices: tuple[np.ndarray, ...], extents: tuple[int, ...]) -> np.ndarray:
    """Several indices as one into the flattened dimensions; negative ones count from the end."""
    if len(indices) == 1:
        return indices[0].astype(np.intp, copy=False)
    flat: np.ndarray = np.zeros((), np.intp)
    for places, extent in zip(indices, extents, strict=True):
        flat = flat * extent + np.where(places < 0, places + extent, places)
    return flat


def add_rows(table: np.ndarray, rows: np.ndarray, places: np.ndarray) -> None:
    """`table[places[k]] += rows[k]`, one k after the other. Both arrays are contiguous."""
    width = table.shape[1]
    pair = PAIR.get(table.dtype)
    if pair is not None and width % 2 == 0:
        table, rows, width = table.view(pair), rows.view(pair), width // 2
    positions = places if width == 1 else (places[:, None] * width + np.arange(width)).reshape(-1)
    np.add.at(table.reshape(-1), positions, rows.reshape(-1))


def join_flat(join: np.ufunc, x: np.ndarray, positions: np.ndarray, values: np.ndarray) -> None:
    """Joins `values` into the flat `positions` of a contiguous array, one after the other."""
    join.at(x.reshape(-1), positions.reshape(-1), values.astype(x.dtype, copy=False).reshape(-1))


def positions_along(index: np.ndarray, shape: tuple[int, ...], dim: int) -> np.ndarray:
    """The flat positions that `index` names along one dimension of a contiguous array."""
    stride = math.prod(shape[dim + 1 :])
    small = index.size <= 4096  # small grids are kept, large ones cost little beside the gathering
    grid = (kept_grid if small else grid_along)(index.shape, shape, dim)
    return index * stride + grid if stride != 1 else index + grid


def grid_along(wanted: tuple[int, ...], shape: tuple[int, ...], dim: int) -> np.ndarray:
    """The flat positions of place 0 along `dim`, for each place of the other dimensions."""
    flat: np.ndarray = np.zeros([1] * len(shape), np.intp)
    for axis, extent in enumerate(shape):
        flat = flat * extent
        if axis != dim:
            flat = flat + np.arange(wanted[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return flat


kept_grid = functools.lru_cache(maxsize=64)(grid_along)
