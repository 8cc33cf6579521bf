"""Sums over rows of matrices, as products with ones: NumPy's own sum goes over the result once for every row.

The pieces are so small that NumPy's linear algebra library multiplies them in the calling thread: its other threads
would stay awake for a while and be in the way of those that run machine code. Read next: ops/reductions.py.
"""

from __future__ import annotations

import numpy as np

BLOCK = (
    64  # rows that are added up in order; sums of blocks are added again, so errors grow with the logarithm
)
ALONE = 9_000  # elements that the library goes over without waking threads of its own

kept_ones: dict[np.dtype, dict[int, np.ndarray]] = {np.dtype(np.float32): {}, np.dtype(np.float64): {}}


def ones(count: int, kind: np.dtype) -> np.ndarray:
    """A vector of ones to multiply with; never written to."""
    kept = kept_ones[kind]
    vector = kept.get(count)
    if vector is None:
        vector = kept[count] = np.ones(count, kind)
    return vector


def add_rows(x: np.ndarray) -> np.ndarray:
    """The sums over the middle axis of three."""
    count = x.shape[1]
    while count > BLOCK:
        whole = count - count % BLOCK
        sums = add_block(x[:, :whole].reshape(len(x), -1, BLOCK, x.shape[2]))
        if whole < count:
            sums = np.concatenate([sums, add_block(x[:, whole:])[:, None]], axis=1)
        x, count = sums, sums.shape[1]
    return ones(count, x.dtype).dot(x[0]) if len(x) == 1 and x.size <= ALONE else add_block(x)


def add_block(x: np.ndarray) -> np.ndarray:
    """The sums over the last axis but one, which is short."""
    rows, columns = x.shape[-2:]
    if rows * columns > ALONE:
        return np.add.reduce(x, axis=-2)
    return np.matmul(ones(rows, x.dtype), x)
