"""Whether numbers are the same to the last bit: what single calls and programs promise each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from cleargrad import Tensor


def same_bits(found: Any, expected: Any, what: object = "") -> None:
    """Two tensors or arrays of one shape and dtype; 0 is not -0, and which NaN it is does not matter."""
    x, y = (np.asarray(t.detach().numpy() if isinstance(t, Tensor) else t) for t in (found, expected))
    assert (x.shape, x.dtype) == (y.shape, y.dtype), what
    alike = alike_in(x, y)
    if not alike.all():
        place = tuple(map(int, np.unravel_index(np.argmin(alike), alike.shape)))
        count = alike.size - np.count_nonzero(alike)
        raise AssertionError(
            f"{what}: {count} of {alike.size} differ, {x[place]!r} instead of {y[place]!r} at {place}"
        )


def alike_in(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """For each element of two arrays of one dtype, whether it is the same."""
    if x.dtype.kind == "c":
        return alike_in(x.real, y.real) & alike_in(x.imag, y.imag)
    words = np.dtype(f"u{x.dtype.itemsize}")
    bits = (np.ascontiguousarray(array).view(words).reshape(array.shape) for array in (x, y))
    return np.equal(*bits) | ((x != x) & (y != y))
