"""Normal random numbers by Box and Muller: uniform numbers in, the very bits of PyTorch's AVX2 kernel out.

PyTorch computes float32 normals with short polynomials for log, sine and cosine (the Cephes ones) in fused
multiply-adds: one rounding per step. NumPy has no such instruction, so each fused step is done in float64,
where the product of two float32 numbers is exact, and then rounded to float32. The results were compared with
PyTorch on all 2**24 arguments that can occur. Read next: core/generator.py, which draws the uniforms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.core import libm

BLOCK = 4096  # rows of 8 pairs done at a time: the scratch arrays of a block stay in the second-level cache

LOG: tuple[float, ...] = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1)
LOG += (1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
QUARTER_PI = [np.float32(part) for part in (0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8)]
FOUR_OVER_PI = np.float32(1.27323954473516)
TWO_PI = np.float32(2 * np.pi)
HALF, ONE, MINUS_TWO = np.float32(0.5), np.float32(1), np.float32(-2)
SQRT_HALF_BITS = np.int32(0x3F3504F3)  # float32 sqrt(1/2), read as an integer


def fill_with_normals(normals: np.ndarray, draw: Callable[[int], np.ndarray]) -> None:
    """Fill (rows, 16) with standard normals, eight cosines and eight sines a row, from draws in [0, 1)."""
    scratch = None
    for start in range(0, len(normals), BLOCK):
        block = normals[start : start + BLOCK]
        uniforms = draw(block.size).reshape(block.shape)
        if normals.dtype == np.float64:
            _transform_double(uniforms, block)
            continue
        if scratch is None or len(scratch.x) != len(block):
            scratch = _Scratch(len(block))
        _transform_single(uniforms, block, scratch)


def _transform_double(uniforms: np.ndarray, normals: np.ndarray) -> None:
    radius = np.sqrt(-2.0 * libm.log(1.0 - uniforms[:, :8]))
    angle = 2.0 * np.pi * uniforms[:, 8:]
    np.multiply(radius, libm.cos(angle), out=normals[:, :8])
    np.multiply(radius, libm.sin(angle), out=normals[:, 8:])


class _Scratch:
    """Arrays for one block, made once: fresh memory for every step would cost as much as the arithmetic."""

    def __init__(self, rows: int):
        self.wide, self.wide_x = np.empty((2, rows, 8), np.float64)
        self.radius, self.x, self.square, self.sine, self.cosine = np.empty((5, rows, 8), np.float32)
        self.octant, self.swap, self.sign = np.empty((3, rows, 8), np.int32)


def _transform_single(uniforms: np.ndarray, normals: np.ndarray, scratch: _Scratch) -> None:
    np.subtract(ONE, uniforms[:, :8], out=scratch.x)
    radius = _log(scratch)
    radius *= MINUS_TWO
    np.sqrt(radius, out=radius)
    np.multiply(uniforms[:, 8:], TWO_PI, out=scratch.x)
    sine, cosine = _sine_and_cosine(scratch)
    np.multiply(radius, cosine, out=normals[:, :8])
    np.multiply(radius, sine, out=normals[:, 8:])


def _log(scratch: _Scratch) -> np.ndarray:
    """float32 log of numbers in (0, 1], computed as exponent * ln 2 + polynomial(mantissa - 1)."""
    x, y, square, exponent, shifted = scratch.x, scratch.radius, scratch.square, scratch.sine, scratch.octant
    bits = x.view(np.int32)
    np.subtract(bits, SQRT_HALF_BITS, out=shifted)
    shifted >>= 23
    np.copyto(exponent, shifted, casting="same_kind")
    shifted <<= 23
    bits -= shifted  # leaves the mantissa, in [sqrt(1/2), sqrt(2))
    x -= ONE
    np.multiply(x, x, out=square)
    np.copyto(scratch.wide_x, x)
    _horner(LOG, y, scratch)
    y *= x
    np.multiply(exponent, LN2_LOW, out=scratch.cosine)
    _fuse(y, square, scratch.cosine, scratch)
    square *= HALF
    y -= square
    y += x
    exponent *= LN2_HIGH
    y += exponent
    return y


def _sine_and_cosine(scratch: _Scratch) -> tuple[np.ndarray, np.ndarray]:
    """float32 sine and cosine of angles in [0, 2 pi], from polynomials on [-pi/4, pi/4]."""
    angle, square, octant = scratch.x, scratch.square, scratch.octant
    sine, cosine = scratch.sine, scratch.cosine
    np.multiply(angle, FOUR_OVER_PI, out=sine)
    np.copyto(octant, sine, casting="unsafe")
    octant += 1
    octant &= ~1
    multiple = cosine
    np.copyto(multiple, octant, casting="same_kind")
    for part in QUARTER_PI[:2]:  # these products are exact, so that no fused step is needed
        angle -= np.multiply(multiple, part, out=sine)
    _fuse(multiple, -QUARTER_PI[2], angle, scratch)
    np.copyto(angle, multiple)
    np.multiply(angle, angle, out=square)
    np.copyto(scratch.wide_x, square)
    _horner(SINE, sine, scratch)
    sine *= square
    _fuse(sine, angle, angle, scratch)
    _horner(COSINE, cosine, scratch)
    cosine *= square
    _fuse(cosine, scratch.wide_x, np.multiply(square, -HALF, out=square), scratch)
    cosine += ONE
    _place_in_octant(scratch)
    return sine, cosine


def _place_in_octant(scratch: _Scratch) -> None:
    # Exchange and negate on the bits, without a branch: a choice per random element would be mispredicted.
    octant, swap, sign = scratch.octant, scratch.swap, scratch.sign
    sine, cosine = scratch.sine.view(np.int32), scratch.cosine.view(np.int32)
    np.left_shift(octant, 30, out=swap)
    swap >>= 31  # all ones where the octant has bit 2 set
    swap &= np.bitwise_xor(sine, cosine, out=sign)
    sine ^= swap
    cosine ^= swap
    for value, offset in (sine, 0), (cosine, 2):
        octant += offset
        np.bitwise_and(octant, 4, out=sign)
        sign <<= 29
        value ^= sign


def _horner(coefficients: tuple[float, ...], y: np.ndarray, scratch: _Scratch) -> None:
    """Set y to the polynomial at scratch.wide_x, rounded to float32 after every fused step."""
    wide, x = scratch.wide, scratch.wide_x
    first, second, *rest = [float(np.float32(c)) for c in coefficients]
    np.multiply(x, first, out=wide)
    wide += second
    np.copyto(y, wide, casting="same_kind")
    for coefficient in rest:
        np.copyto(wide, y)
        wide *= x
        wide += coefficient
        np.copyto(y, wide, casting="same_kind")


def _fuse(y: np.ndarray, x: np.ndarray | np.float32, addend: np.ndarray, scratch: _Scratch) -> None:
    """y = y * x + addend, rounded once."""
    wide = scratch.wide
    np.copyto(wide, y)
    wide *= x
    wide += addend
    np.copyto(y, wide, casting="same_kind")


def fused_multiply_add(x: np.ndarray, scale: float, shift: float) -> np.ndarray:
    """x * scale + shift, rounded once as in PyTorch's compiled kernels; x is overwritten if that suffices."""
    scale, shift = x.dtype.type(scale), x.dtype.type(shift)
    if shift == 0:
        x *= scale
        x += shift
        return x
    if x.dtype == np.float64:
        return _fused_double(x, scale, shift)
    flat, results = x.ravel(), np.empty(x.size, np.float32)
    for start in range(0, x.size, 8 * BLOCK):
        part = slice(start, start + 8 * BLOCK)
        results[part] = _fused_single(flat[part], float(scale), float(shift))
    return results.reshape(x.shape)


def _fused_single(x: np.ndarray, scale: float, shift: float) -> np.ndarray:
    product = x.astype(np.float64)
    product *= scale
    total = product + shift
    # Rounding to float64 first does harm only half way between two float32 numbers: nudge those off.
    halfway = np.flatnonzero((total.view(np.int64) & 0x1FFFFFFF) == 0x10000000)
    if halfway.size:
        near = total[halfway]
        lost = _sum_error(product[halfway], shift, near)
        total[halfway] = np.where(lost == 0, near, np.nextafter(near, np.copysign(np.inf, lost)))
    return total


def _fused_double(x: np.ndarray, scale: Any, shift: Any) -> np.ndarray:
    if not 1e-100 < abs(scale) < 1e100:
        return x * scale + shift  # splitting such a factor overflows, or its low half is lost
    product = x * scale
    total = product + shift
    x_high, scale_high = _high_half(x), _high_half(scale)
    x_low, scale_low = x - x_high, scale - scale_high
    lost = x_low * scale_low - (((product - x_high * scale_high) - x_low * scale_high) - x_high * scale_low)
    return total + (lost + _sum_error(product, shift, total))


def _high_half(x: Any) -> Any:
    scaled = x * 134217729.0  # 2**27 + 1
    return scaled - (scaled - x)


def _sum_error(a: np.ndarray, b: float, total: np.ndarray) -> np.ndarray:
    """What rounding took away from a + b."""
    part = total - a
    return (a - (total - part)) + (b - part)
