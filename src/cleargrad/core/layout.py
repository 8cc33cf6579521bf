"""Layouts without memory: arrays that say shape, dtype and strides, and whose elements are nobody's.

They stand for values that are not here: those that wait to be computed, and those on other devices. Reading one
gives zeros; nobody should. Read next: core/device.py.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

NORESERVE = 0x4000  # MAP_NORESERVE, which Python has no name for

MOST = 1 << 45  # bytes

_room = [np.zeros(0, np.uint8)]  # all ghosts lie in the same place


def pages(size: int) -> np.ndarray:
    """Memory that takes none as long as nobody touches it: of any size, where the system need not vouch for it."""
    if sys.platform == "linux":
        return np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE), np.uint8)
    return np.frombuffer(mmap.mmap(-1, size), np.uint8)


def ghost(shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None = None) -> np.ndarray:
    """An array that has a layout, and no elements that anybody wrote; strides are in bytes."""
    steps = None if strides is None else zip(shape, strides)
    count = dtype.itemsize
    if steps is None:
        for extent in shape:
            count *= extent
    else:
        count += sum([(extent - 1) * step for extent, step in steps if extent])
    if count > MOST:  # no address space has so much; whoever reads such an array can only be wrong
        return as_strided(ghost((1,) * len(shape), dtype), shape, strides or strides_of(shape, dtype))
    if count > _room[0].size:
        _room[0] = pages(max(2 * count, 1 << 24))
    return np.ndarray(shape, dtype, _room[0], 0, strides)


def strides_of(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    """The strides of a dense array, in bytes."""
    strides, step = [], dtype.itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def ghost_of(array: np.ndarray) -> np.ndarray:
    return ghost(array.shape, array.dtype, array.strides)


def ghost_in_order(shape: tuple[int, ...], dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The layout of what NumPy computes from these arrays by elements: dense, its dimensions in their order."""
    if all(array.flags.c_contiguous for array in arrays):
        return ghost(shape, dtype)
    # NumPy is asked about arrays of two elements a dimension, so that it allocates next to nothing.
    small = [as_strided(array, [min(extent, 2) for extent in array.shape]) for array in arrays]
    ways: list = [["readonly"]] * len(small) + [["writeonly", "allocate"]]
    extents = tuple([min(extent, 2) for extent in shape])
    found = np.nditer([*small, None], ["zerosize_ok"], ways, itershape=extents).operands[-1]
    order = sorted(range(len(shape)), key=lambda axis: -found.strides[axis])
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return ghost(shape, dtype, tuple(strides))
