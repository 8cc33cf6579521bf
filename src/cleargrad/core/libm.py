"""Functions of the C library over float64 arrays: PyTorch's random numbers are made with them, one by one.

NumPy calls the same functions, except where AVX-512 gives it ones of its own, whose last bit may be another. There
the elements go through Python's `math`, which takes about 0.1 microseconds each. Used by core/generator.py.
Read next: core/generator.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy._core._multiarray_umath import __cpu_features__  # type: ignore[import-not-found]

Function = Callable[[np.ndarray], np.ndarray]

NUMPY_HAS_ITS_OWN: bool = __cpu_features__.get("AVX512_SKX", False)
LARGEST = math.log(np.finfo(np.float64).max)


def elementwise(function: Callable[[float], float]) -> Function:
    def over(x: np.ndarray) -> np.ndarray:
        return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)

    return over


def limited_exp(x: float) -> float:
    return math.exp(x) if x <= LARGEST else math.inf


NUMPYS: tuple[Function, ...] = (np.log, np.log1p, np.exp, np.cos, np.sin, np.tan)
PYTHONS = tuple(map(elementwise, (math.log, math.log1p, limited_exp, math.cos, math.sin, math.tan)))

log, log1p, exp, cos, sin, tan = PYTHONS if NUMPY_HAS_ITS_OWN else NUMPYS
