"""Cross-entropy on small arrays: a row of scores and a class number for each sample, nothing ignored or weighted.

That is what classifiers call at every step, so it is written with as few calls of NumPy as possible. Everything
else is for ops/cross_entropy.py, which asks `plain` first, and names class numbers that are too large. Read next:
that file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cleargrad.backend.cpu.sums import ALONE, ones

F32, F64, I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)


def plain(x: np.ndarray, target: np.ndarray, weight: Any, ignore_index: int) -> bool:
    """Whether the functions below are for these scores, if no class number is too large."""
    if weight is not None or ignore_index >= 0 or x.ndim != 2 or target.ndim != 1 or target.dtype is not I64:
        return False
    kind = x.dtype
    return (kind is F32 or kind is F64) and 0 < x.size <= ALONE and np.minimum.reduce(target) >= 0


def losses(x: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """log Σ exp(x) − x[target] of every row; None where a class number is too large."""
    count, classes = x.shape
    shifted = x - np.maximum.reduce(x, axis=1, keepdims=True)
    try:
        own = shifted[np.arange(count), target]
    except IndexError:
        return None
    np.exp(shifted, shifted)
    totals = shifted.dot(ones(classes, x.dtype))
    np.log(totals, totals)
    totals -= own
    return totals


def gradient(x: np.ndarray, target: np.ndarray, scale: Any) -> np.ndarray:
    """(softmax(x) − one_hot(target)) · scale, where `scale` is one number or one of each row.

    The class numbers are those of a loss that was computed, so they are right.
    """
    count, classes = x.shape
    result = np.subtract(x, np.maximum.reduce(x, axis=1, keepdims=True), order="C")
    np.exp(result, result)
    factors = scale / result.dot(ones(classes, x.dtype))
    result *= factors[:, None]
    result[np.arange(count), target] -= scale
    return result
