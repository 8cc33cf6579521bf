"""Gamma and Dirichlet numbers as PyTorch draws them: concentrations go in, numbers come out.

Marsaglia and Tsang (2000): the cube of a shifted normal is almost gamma; a uniform decides whether it is kept.
Concentrations below one are raised by one, and the number is scaled down again. Normals take two 53-bit
uniforms for a pair, whose second half waits in the stream. Read next: core/generator.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cleargrad.core.generator import Generator, _Supply
from cleargrad.errors import error

# PyTorch writes these in float32, whatever the concentration's dtype.
THIRD = float(np.float32(1) / np.float32(3))
SQUEEZE = float(np.float32(0.0331))


def standard_gamma(stream: Generator, concentration: np.ndarray) -> np.ndarray:
    """A number of rate one for each concentration, never below the smallest normal number of its dtype."""
    dtype = concentration.dtype
    check_wide("standard_gamma", dtype)
    values = _drawn(stream, concentration, dtype.type)
    return np.maximum(values.astype(dtype), np.finfo(dtype).tiny)


def dirichlet(stream: Generator, concentration: np.ndarray) -> np.ndarray:
    """A point of the simplex for each vector of concentrations: gamma numbers divided by their sum."""
    dtype = concentration.dtype
    check_wide("dirichlet", dtype)
    # Numbers that vanish all together get equal shares.
    values = np.maximum(_drawn(stream, concentration, np.float64), np.finfo(np.float64).tiny)
    shares = (values / values.sum(axis=-1, keepdims=True)).astype(dtype)
    # Neither end of the interval is reached: logarithms of both x and 1 - x must be finite.
    largest = np.nextafter(dtype.type(1), dtype.type(0))
    return np.clip(shares, np.finfo(dtype).tiny, largest)


def _drawn(stream: Generator, concentration: np.ndarray, arithmetic: Any) -> np.ndarray:
    with stream._lock:
        draws = _Draws(stream)
        numbers = [_gamma(arithmetic(alpha), draws) for alpha in concentration.ravel().tolist()]
        draws.uniform.give_back()
    return np.array(numbers, np.float64).reshape(concentration.shape)


def check_wide(op: str, dtype: np.dtype) -> None:
    if dtype not in (np.float32, np.float64):
        raise error(NotImplementedError, op, "concentrations must be float32 or float64", dtype=str(dtype))


class _Draws:
    """Uniforms and normals one at a time, from one stream."""

    def __init__(self, stream: Generator):
        self.stream = stream
        self.uniform = _Supply(stream)

    def normal(self) -> float:
        kept, self.stream._next_normal = self.stream._next_normal, None
        if kept is not None:
            return kept
        angle = 2.0 * math.pi * self.uniform()
        radius = math.sqrt(-2.0 * math.log1p(-self.uniform()))
        self.stream._next_normal = radius * math.sin(angle)
        return radius * math.cos(angle)


def _gamma(alpha: Any, draws: _Draws) -> float:
    """One number; `alpha` is a NumPy scalar because PyTorch rounds its first steps to the tensor's dtype."""
    one = type(alpha)(1)
    if alpha == 0:
        return 0.0
    scale = 1.0
    if alpha < 1:
        scale = (1 - draws.uniform()) ** float(one / alpha)
        alpha = alpha + one
    d = float(alpha - type(alpha)(THIRD))
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = draws.normal()
        root = 1.0 + c * x
        if root <= 0:
            continue
        v = root * root * root
        u = 1 - draws.uniform()
        if u < 1.0 - SQUEEZE * x * x * x * x or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return scale * d * v
