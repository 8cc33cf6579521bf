"""Trigonometric and hyperbolic functions as vector instructions, in the manner of devices/cpu/llvm/vector_math.py.

Floats are within 2 ulp for every argument, however large: angles are reduced to turns in double arithmetic.
Doubles call the C library. Read next: devices/cpu/llvm/vector_convert.py.
"""

from __future__ import annotations

import math

from cleargrad.devices.cpu.llvm.text import Code, Val, element_of
from cleargrad.devices.cpu.llvm.vector_math import (
    NAN,
    at_most,
    bits,
    exp,
    expm1,
    is_double,
    lane_by_lane,
    log1p,
    magnitude,
    polynomial,
    rare,
    select_number,
    sqrt,
    with_sign,
)

# 1 / (2 pi) as a sum of four numbers, and what is left of it without its first 62 binary digits, likewise.
# All but the last have 29 digits, so that their products with a float are exact.
TURN = (0.15915494225919247, 8.327028684640414e-10, 5.69002511952534e-19, 6.317065088957875e-27)
TURN_FAR = (1.3532164901678398e-19, 2.5861333653073586e-28, 3.2976802163026164e-37, 9.458140970740169e-46)
FAR = 2.0**85  # multiples of this lose those 62 digits' whole turns

# sin(x) / x and cos(x) over x^2, |x| <= pi / 4
SIN = (
    -2.4760408854672095e-08, 2.7555339050457506e-06, -0.00019841263725860688, 0.008333333325072696,
    -0.16666666666630323, 1.0,
)  # fmt: skip
COS = (
    -2.717472287247549e-07, 2.4798959810240945e-05, -0.0013888880655063634, 0.04166666655334668,
    -0.4999999999948892, 1.0,
)  # fmt: skip
# (sin(x) - x) / x^3 and (cos(x) - 1 + x^2 / 2) / x^4 over x^2, in floats
SIN_SINGLE = (-0.00019518286, 0.008332189, -0.16666655)
COS_SINGLE = (2.4432364e-05, -0.001388731, 0.041666646)
# (arctan(x) - x) / x^3 over x^2, x <= 1, and (arcsin(x) - x) / x^3 over x^2, x <= 1/2
ATAN = (
    -0.0017886456, 0.010891389, -0.03113267, 0.057910193, -0.08400558, 0.10951156, -0.1426404, 0.1999853,
    -0.333333,
)  # fmt: skip
ROUND_PART = 0.75
ASIN = (0.042216238, 0.024148349, 0.045476913, 0.07495247, 0.16666754)


def quarter(code: Code, x: Val) -> tuple[Val, Val]:
    """q, an i32 of which the last two digits count, and r with |x| = (q + 4n) pi / 2 + r, as doubles."""
    wide = code.cast("fpext", magnitude(code, x), "double")
    far = code.compare("oge", wide, code.const(FAR, wide.type))
    total = code.const(0.0, wide.type)
    for near_part, far_part in zip(TURN, TURN_FAR):
        part = code.select(far, code.const(far_part, wide.type), code.const(near_part, wide.type))
        turns = code.mul(wide, part)
        # Whole turns go before they are added, so that the digits behind them stay.
        turns = code.binary("fsub", turns, code.intrinsic("roundeven", wide.type, turns))
        total = code.binary("fadd", total, turns)
    quarters = code.mul(total, code.const(4.0, wide.type))
    nearest = code.intrinsic("roundeven", wide.type, quarters)
    rest = code.mul(code.sub(quarters, nearest), code.const(math.pi / 2, wide.type))
    # Infinities have become NaN by now, of which no integer can be made.
    known = code.select(code.compare("ord", nearest, nearest), nearest, code.const(0.0, wide.type))
    return code.cast("fptosi", known, "i32"), rest


def sin(code: Code, x: Val) -> Val:
    if is_double(x):
        return lane_by_lane(code, "sin", x)
    q, rest = quarter(code, x)
    # Below zero, the sine is the opposite of the sine above.
    flips = code.binary("and", bits(code, x), code.const(-(2**31), q.type))
    return _wave(code, q, code.cast("fptrunc", rest, "float"), flips)


def cos(code: Code, x: Val) -> Val:
    if is_double(x):
        return lane_by_lane(code, "cos", x)
    q, rest = quarter(code, x)
    q = code.add(q, code.const(1, q.type))
    return _wave(code, q, code.cast("fptrunc", rest, "float"), code.const(0, q.type))


def _wave(code: Code, q: Val, r: Val, flips: Val) -> Val:
    """The sine of q quarter turns plus r, with its sign bit flipped where `flips` says."""
    square = code.mul(r, r)
    sine = code.fma(code.mul(square, r), polynomial(code, square, SIN_SINGLE), r)
    curve = code.fma(square, code.const(-0.5, r.type), code.const(1.0, r.type))
    cosine = code.fma(code.mul(square, square), polynomial(code, square, COS_SINGLE), curve)
    odd = code.binary("and", q, code.const(1, q.type))
    chosen = code.select(code.compare("ne", odd, code.const(0, q.type)), cosine, sine)
    half = code.binary("shl", code.binary("lshr", q, code.const(1, q.type)), code.const(31, q.type))
    signed = code.binary("xor", bits(code, chosen), code.binary("xor", half, flips))
    return code.cast("bitcast", signed, element_of(r.type))


def tan(code: Code, x: Val) -> Val:
    if is_double(x):
        return lane_by_lane(code, "tan", x)
    q, r = quarter(code, x)
    square = code.mul(r, r)
    sine, cosine = code.mul(polynomial(code, square, SIN), r), polynomial(code, square, COS)
    odd = code.compare("ne", code.binary("and", q, code.const(1, q.type)), code.const(0, q.type))
    top, bottom = code.select(odd, cosine, sine), code.select(odd, code.neg(sine), cosine)
    ratio = code.cast("fptrunc", code.div(top, bottom), "float")
    flips = code.binary("and", bits(code, x), code.const(-(2**31), q.type))
    return code.cast("bitcast", code.binary("xor", bits(code, ratio), flips), "float")


# Inverses --------------------------------------------------------------------------------------------------


def atan(code: Code, x: Val) -> Val:
    if is_double(x):
        return lane_by_lane(code, "atan", x)
    size, one = magnitude(code, x), code.const(1.0, x.type)
    steep = code.compare("ogt", size, one)
    slope = code.select(steep, code.div(one, size), size)
    angle = _small_angle(code, slope)
    turned = code.sub(code.const(math.pi / 2, x.type), angle)
    return with_sign(code, code.select(steep, turned, angle), x)


def _small_angle(code: Code, slope: Val) -> Val:
    """The arctangent for 0 <= slope <= 1."""
    square = code.mul(slope, slope)
    return code.fma(code.mul(square, slope), polynomial(code, square, ATAN), slope)


def atan2(code: Code, y: Val, x: Val) -> Val:
    if is_double(x):
        return lane_by_lane(code, "atan2", y, x)
    height, width = magnitude(code, y), magnitude(code, x)
    steep = code.compare("ogt", height, width)
    small, large = code.select(steep, width, height), code.select(steep, height, width)
    slope = code.div(small, large)
    # 0 / 0 and inf / inf: the axis and the diagonal. NaN is equal to nothing and stays.
    slope = select_number(code, code.compare("oeq", large, code.const(0.0, x.type)), 0.0, slope)
    slope = select_number(code, code.compare("oeq", small, code.const(math.inf, x.type)), 1.0, slope)
    slope = code.select(code.compare("uno", y, x), code.const(NAN, x.type), slope)
    angle = _small_angle(code, slope)
    angle = code.select(steep, code.sub(code.const(math.pi / 2, x.type), angle), angle)
    behind = code.compare("slt", bits(code, x), code.const(0, bits(code, x).type))
    angle = code.select(behind, code.sub(code.const(math.pi, x.type), angle), angle)
    return with_sign(code, angle, y)


def _halved(code: Code, x: Val) -> tuple[Val, Val, Val]:
    """Whether |x| > 1/2, a number s <= 1/2 and arcsin(s): s is |x|, or the sine of half the angle left to 1."""
    size, half = magnitude(code, x), code.const(0.5, x.type)
    large = code.compare("ogt", size, half)
    square = code.select(large, code.fma(size, code.const(-0.5, x.type), half), code.mul(size, size))
    s = code.select(large, sqrt(code, square), size)
    return large, s, code.fma(code.mul(square, s), polynomial(code, square, ASIN), s)


def asin(code: Code, x: Val) -> Val:
    if is_double(x):
        return lane_by_lane(code, "asin", x)
    large, _, angle = _halved(code, x)
    # pi / 2 is no float, but the sum of two; in this order the difference loses nothing.
    rest = code.fma(angle, code.const(-2.0, x.type), code.const(math.pi / 2 - ROUND_PART, x.type))
    rest = code.add(rest, code.const(ROUND_PART, x.type))
    return with_sign(code, code.select(large, rest, angle), x)


def acos(code: Code, x: Val) -> Val:
    if is_double(x):
        return lane_by_lane(code, "acos", x)
    large, _, angle = _halved(code, x)
    below = code.compare("olt", x, code.const(0.0, x.type))
    twice = code.add(angle, angle)
    far = code.select(below, code.sub(code.const(math.pi, x.type), twice), twice)
    signed = with_sign(code, angle, x)
    # pi / 2 has a second part, without which 1 - x as small as this result is would lose digits.
    near = code.sub(code.const(math.pi / 2, x.type), code.sub(signed, code.const(-4.371139e-08, x.type)))
    return code.select(large, far, near)


# Hyperbolic functions --------------------------------------------------------------------------------------


def sinh(code: Code, x: Val) -> Val:
    """(t + t / (t + 1)) / 2 with t = e^|x| - 1."""

    def formula(code: Code, x: Val) -> Val:
        t = expm1(code, at_most(code, magnitude(code, x), 100.0))
        fall = code.div(t, code.add(t, code.const(1.0, x.type)))
        return with_sign(code, code.mul(code.add(t, fall), code.const(0.5, x.type)), x)

    return rare("sinh", formula)(code, x)


def cosh(code: Code, x: Val) -> Val:
    def formula(code: Code, x: Val) -> Val:
        grown = exp(code, at_most(code, magnitude(code, x), 100.0))
        fallen = code.div(code.const(1.0, x.type), grown)
        return code.mul(code.add(grown, fallen), code.const(0.5, x.type))

    return rare("cosh", formula)(code, x)


def asinh(code: Code, x: Val) -> Val:
    def formula(code: Code, x: Val) -> Val:
        one, size = code.const(1.0, x.type), magnitude(code, x)
        square = code.mul(size, size)
        root = sqrt(code, code.add(square, one))
        # The square of an infinity divided by its root would be NaN.
        curve = code.div(at_most(code, square, 1e200), at_most(code, code.add(one, root), 1e200))
        return with_sign(code, log1p(code, code.add(size, curve)), x)

    return rare("asinh", formula)(code, x)


def acosh(code: Code, x: Val) -> Val:
    def formula(code: Code, x: Val) -> Val:
        one = code.const(1.0, x.type)
        t = code.sub(x, one)
        root = sqrt(code, code.mul(t, code.add(t, code.const(2.0, x.type))))
        return select_number(code, code.compare("olt", x, one), NAN, log1p(code, code.add(t, root)))

    return rare("acosh", formula)(code, x)


def atanh(code: Code, x: Val) -> Val:
    def formula(code: Code, x: Val) -> Val:
        size = magnitude(code, x)
        ratio = code.div(code.add(size, size), code.sub(code.const(1.0, x.type), size))
        return with_sign(code, code.mul(log1p(code, ratio), code.const(0.5, x.type)), x)

    return rare("atanh", formula)(code, x)
