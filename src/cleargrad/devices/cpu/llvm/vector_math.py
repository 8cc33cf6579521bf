"""Elementary functions as straight lines of vector instructions: exponentials, logarithms, powers, erf.

Each function takes the `Code` to write into and a value of floats or doubles, of any width, and returns the
value of the result. Floats are within 2 ulp everywhere, doubles within 4; NaN, infinities, signed zeros and
denormals come out as IEEE 754 wants them. What is rare runs in double arithmetic for floats and calls the C
library for doubles. The tuples of numbers are minimax fits made in 45-digit arithmetic, highest power first;
those of floats were rounded one by one, refitting what was left. Read next: devices/cpu/llvm/vector_angles.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cleargrad.devices.cpu.llvm.text import Code, Val, element_of, width_of

INF, NAN = math.inf, math.nan
LN2 = math.log(2)


@dataclass(frozen=True)
class Format:
    """A floating-point type: the integer of its size, its stored digits, the bias of its exponent."""

    whole: str
    digits: int
    bias: int
    double_ln2: tuple[float, float]  # 2 ln 2 as the sum of two positive numbers of the type
    exp_range: tuple[float, float]  # where exp(x) has become 0 and infinity
    exp2_range: tuple[float, float]
    tanh_end: float  # where tanh has become 1
    exp: tuple[float, ...]  # e^x for |x| <= ln 2
    exp2: tuple[float, ...]  # 2^x for |x| <= 1
    expm1: tuple[float, ...]  # (e^x - 1 - x) / x^2 for |x| <= ln 2 / 2


FORMATS = {
    "float": Format(
        "i32", 23, 127, (1.3862942457199097, 1.1539998095086571e-07), (-104.0, 89.0), (-151.0, 129.0), 10.0,
        exp=(
            0.00019635285, 0.0014105922, 0.008335944, 0.041661177, 0.16666616, 0.50000036, 1.0, 1.0,
        ),
        exp2=(
            1.4132068e-05, 0.00015634464, 0.0013357173, 0.009616999, 0.055502787, 0.24022664, 0.69314736, 1.0,
        ),
        expm1=(0.0013882383, 0.008367103, 0.041667387, 0.16666539, 0.49999997),
    ),
    "double": Format(
        "i64", 52, 1023, (2 * LN2, 4.638093627692599e-17), (-746.0, 710.0), (-1076.0, 1025.0), 20.0,
        exp=(
            1.5932169872194322e-10, 2.1062456373176545e-09, 2.5055084949745693e-08, 2.755615655182394e-07,
            2.75573003614612e-06, 2.4801590836366403e-05, 0.00019841269893528408, 0.0013888888883565125,
            0.008333333333269027, 0.04166666666670217, 0.1666666666666694, 0.4999999999999993, 1.0, 1.0,
        ),
        exp2=(
            1.2639416610360057e-12, 2.589808459758347e-11, 4.449131453543915e-10, 7.054638010765699e-09,
            1.0178040667386642e-07, 1.3215488434993776e-06, 1.5252734076164676e-05, 0.0001540353038850755,
            0.0013333558145635584, 0.009618129107634842, 0.055504108664831533, 0.24022650695910047,
            0.693147180559945, 1.0,
        ),
        expm1=(
            2.089418040364538e-09, 2.510875516489031e-08, 2.75573288329436e-07, 2.75572449942052e-06,
            2.4801587279607403e-05, 0.00019841269885455872, 0.0013888888888893497, 0.008333333333321771,
            0.041666666666666685, 0.16666666666666677, 0.5,
        ),
    ),
}  # fmt: skip

# (log(1 + x) - x) / x^2 for |x| <= 1/3
LOG_SINGLE = (
    -0.1247055, 0.14067522, -0.12274624, 0.13989109, -0.16674463, 0.20011437, -0.2499992, 0.33333197, -0.5,
)  # fmt: skip
# (2 artanh(s) - 2s) / s^3 over s^2, |s| <= 1/5
LOG_DOUBLE = (
    0.13843910170050588, 0.13173475315906927, 0.15391118983621924, 0.18181665673569827, 0.22222224299535925,
    0.285714285558054, 0.4000000000005674, 0.666666666666666,
)  # fmt: skip
# -log(erfc(x)) / x - 1 for 0 <= x <= 4
ERF = (
    -9.388251e-06, 0.00011886557, -0.00063737924, 0.0016756995, -0.00016951724, -0.01914782, 0.102776304,
    0.63661957, 0.12837917,
)  # fmt: skip
# (1 + 2x) e^(x^2) erfc(x) over (x - 3) / (x + 3), 0 <= x <= 10.5
ERFC = (
    -4.841691661127134e-06, 1.9196560981200902e-05, 0.00011755566798490061, -0.00011922505393280227,
    -0.0007804223940675803, 0.0018938409873508176, 0.002530416642099669, -0.023771389907871997,
    0.06830781294265403, -0.11927359558172748, 0.12964517428955877, -0.047562296260290855,
    -0.1356211064504011, 1.2530080582804497,
)  # fmt: skip

# Pieces ----------------------------------------------------------------------------------------------------


def format_of(x: Val) -> Format:
    return FORMATS[element_of(x.type)]


def is_double(x: Val) -> bool:
    return element_of(x.type) == "double"


def polynomial(code: Code, x: Val, coefficients: Sequence[float]) -> Val:
    """By Horner's rule: the fewest instructions, and loops over arrays have others to run meanwhile."""
    total = code.const(coefficients[0], x.type)
    for coefficient in coefficients[1:]:
        total = code.fma(total, x, code.const(coefficient, x.type))
    return total


def at_least(code: Code, x: Val, bound: float) -> Val:
    """The larger of x and a number; NaN stays. Written so that x86 needs one instruction."""
    limit = code.const(bound, x.type)
    return code.select(code.compare("ogt", limit, x), limit, x)


def at_most(code: Code, x: Val, bound: float) -> Val:
    limit = code.const(bound, x.type)
    return code.select(code.compare("olt", limit, x), limit, x)


def magnitude(code: Code, x: Val) -> Val:
    return code.intrinsic("fabs", x.type, x)


def with_sign(code: Code, x: Val, sign: Val) -> Val:
    """The size of x with the sign of another value."""
    return code.intrinsic("copysign", x.type, x, sign)


def bits(code: Code, x: Val) -> Val:
    return code.cast("bitcast", x, format_of(x).whole)


def select_number(code: Code, condition: Val, number: float, x: Val) -> Val:
    """The number where the condition holds, else x."""
    return code.select(condition, code.const(number, x.type), x)


def nearest(code: Code, x: Val, factor: float, less: int = 0) -> tuple[Val, Val]:
    """k, the integer nearest to factor · x, and 2^(k - less), which must be a normal number.

    Adding a large number leaves an integer in the last digits, here one that already holds the bias.
    """
    kind = format_of(x)
    large = code.const(1.5 * 2.0**kind.digits + kind.bias - less, x.type)
    shifted = code.fma(x, code.const(factor, x.type), large)
    return code.sub(shifted, large), as_power(code, bits(code, shifted), x)


def as_power(code: Code, biased: Val, x: Val) -> Val:
    """2^k of x's type from integers that hold k plus the bias in their last digits."""
    shifted = code.binary("shl", biased, code.const(format_of(x).digits, biased.type))
    return code.cast("bitcast", shifted, element_of(x.type))


def lane_by_lane(code: Code, function: str, *operands: Val) -> Val:
    """A function of the C library on doubles, once per element."""
    kind, width = operands[0].type, width_of(operands[0].type)
    if width == 1:
        return code.call(function, kind, *operands)
    result = Val("poison", kind)
    for index in range(width):
        one = code.call(function, "double", *[code.lane(x, index) for x in operands])
        result = code.pure(kind, f"insertelement {result}, {one}, i32 {index}")
    return result


def in_double(code: Code, function: Callable[..., Val], *operands: Val) -> Val:
    """A function computed in double arithmetic for floats and doubles alike."""
    wide = [code.cast("fpext", x, "double") for x in operands]
    return code.cast("fptrunc", function(code, *wide), element_of(operands[0].type))


def rare(name: str, formula: Callable[..., Val]) -> Callable[..., Val]:
    """A function that follows the formula, in double arithmetic, for floats; the C library's for doubles."""

    def write(code: Code, *operands: Val) -> Val:
        if is_double(operands[0]):
            return lane_by_lane(code, name, *operands)
        return in_double(code, formula, *operands)

    return write


# Exponentials ----------------------------------------------------------------------------------------------


def reduced(code: Code, x: Val) -> tuple[Val, Val]:
    """r and 2^k with x = 2k ln 2 + r, |r| <= ln 2.

    k is half of what the exponent needs. So 2^k is a number of the type even where e^x is infinite or
    denormal, and multiplying by it twice rounds once; the longer polynomial costs less than splitting 2^2k.
    """
    high, low = format_of(x).double_ln2
    k, power = nearest(code, x, 0.5 / LN2)
    r = code.fma(k, code.const(-high, x.type), x)
    return code.fma(k, code.const(-low, x.type), r), power


def exp(code: Code, x: Val) -> Val:
    kind = format_of(x)
    x = at_most(code, at_least(code, x, kind.exp_range[0]), kind.exp_range[1])
    r, power = reduced(code, x)
    return code.mul(code.mul(polynomial(code, r, kind.exp), power), power)


def exp2(code: Code, x: Val) -> Val:
    kind = format_of(x)
    x = at_most(code, at_least(code, x, kind.exp2_range[0]), kind.exp2_range[1])
    k, power = nearest(code, x, 0.5)
    r = code.fma(k, code.const(-2.0, x.type), x)
    return code.mul(code.mul(polynomial(code, r, kind.exp2), power), power)


def expm1(code: Code, x: Val) -> Val:
    """2^k (e^r - 1) + (2^k - 1) with x = k ln 2 + r, |r| <= ln 2 / 2."""
    kind = format_of(x)
    # Below, e^x no longer counts beside 1.
    x = at_most(code, at_least(code, x, -(kind.digits + 3) * LN2), kind.exp_range[1])
    high, low = kind.double_ln2
    # Half of the result first: 2^k itself overflows before e^x - 1 does.
    k, half = nearest(code, x, 1 / LN2, less=1)
    r = code.fma(k, code.const(-high / 2, x.type), x)
    r = code.fma(k, code.const(-low / 2, x.type), r)
    near = code.fma(code.mul(r, r), polynomial(code, r, kind.expm1), r)
    one_half = code.const(0.5, x.type)
    scaled = code.mul(code.fma(half, near, code.sub(half, one_half)), code.const(2.0, x.type))
    # The sign matters for -0 alone, which the sum of two zeros would lose.
    return with_sign(code, code.select(code.compare("oeq", k, code.const(0.0, x.type)), near, scaled), x)


def falling(code: Code, x: Val, fold: int) -> tuple[Val, Val]:
    """2^k and 1 - e^-r with -fold · x = k ln 2 - r, |r| <= ln 2 / 2, for x >= 0.

    ln 2 is one number here: where k is large, e^-x no longer matters to those who call.
    """
    k, power = nearest(code, x, -fold / LN2)
    r = code.fma(k, code.const(LN2 / fold, x.type), x)
    coefficients = reversed(format_of(x).expm1)
    signed = [(-1) ** (j + 1) * fold ** (j + 2) * c for j, c in enumerate(coefficients)]
    line = r if fold == 1 else code.mul(r, code.const(float(fold), x.type))
    return power, code.fma(code.mul(r, r), polynomial(code, r, signed[::-1]), line)


def tanh(code: Code, x: Val) -> Val:
    """(1 - e^-2|x|) / (1 + e^-2|x|), both sides rounded once after they are put together."""
    size = at_most(code, magnitude(code, x), format_of(x).tanh_end)
    power, fall = falling(code, size, fold=2)
    one = code.const(1.0, x.type)
    top = code.fma(power, fall, code.sub(one, power))
    bottom = code.fma(power, code.neg(fall), code.add(one, power))
    return with_sign(code, code.div(top, bottom), x)


def sigmoid(code: Code, x: Val) -> Val:
    """1 / (1 + e^-x) as 2^-a / (2^-a + p 2^b) with e^-x = p 2^(a + b), of which no part overflows."""
    kind = format_of(x)
    end = -kind.exp_range[0]
    x = at_most(code, at_least(code, x, -end), end)
    high, low = kind.double_ln2
    large = code.const(1.5 * 2.0**kind.digits + 2 * kind.bias, x.type)
    shifted = code.fma(x, code.const(-1 / LN2, x.type), large)
    k = code.sub(shifted, large)
    r = code.fma(k, code.const(high / 2, x.type), x)
    r = code.fma(k, code.const(low / 2, x.type), r)
    signed = [(-1) ** (j + 1) * c for j, c in enumerate(reversed(kind.expm1))]
    fall = code.fma(code.mul(r, r), polynomial(code, r, signed[::-1]), r)  # 1 - p
    both = bits(code, shifted)
    one = code.binary("lshr", both, code.const(1, both.type))
    power = as_power(code, code.sub(both, one), x)
    inverse = as_power(code, code.sub(code.const(2 * kind.bias, both.type), one), x)
    # The smaller of the two powers meets the fraction first, so that the sum as good as rounds once.
    smaller = code.select(code.compare("olt", power, inverse), power, inverse)
    larger = code.select(code.compare("ogt", power, inverse), power, inverse)
    return code.div(inverse, code.add(larger, code.fma(power, code.neg(fall), smaller)))


# Logarithms ------------------------------------------------------------------------------------------------


def opposite_exponent(code: Code, x: Val) -> Val:
    """n, an integer, with 2/3 < x 2^n <= 4/3; its opposite would turn sums of zeros into the wrong zero."""
    kind = format_of(x)
    whole = bits(code, x)
    third = (kind.bias << kind.digits) + (1 << kind.digits) // 3  # the bits of 4/3
    distance = code.sub(code.const(third, whole.type), whole)
    return code.binary("ashr", distance, code.const(kind.digits, whole.type))


def near_log1p(code: Code, x: Val) -> Val:
    """log(1 + x) for |x| <= 1/3."""
    if not is_double(x):
        return code.fma(code.mul(x, x), polynomial(code, x, LOG_SINGLE), x)
    # With s = x / (2 + x), log(1 + x) is 2 artanh(s) = x - (h - s (h + s^2 R)), h = x^2 / 2.
    s = code.div(x, code.add(x, code.const(2.0, x.type)))
    square = code.mul(s, s)
    tail = polynomial(code, square, LOG_DOUBLE)
    half = code.mul(code.mul(x, x), code.const(0.5, x.type))
    return code.sub(x, code.sub(half, code.mul(s, code.fma(square, tail, half))))


def logarithm(code: Code, x: Val) -> tuple[Val, Val]:
    """n and log(m) with x = m 2^-n, for positive finite x."""
    kind = format_of(x)
    smallest = code.const(2.0 ** (1 - kind.bias), x.type)
    tiny = code.compare("olt", x, smallest)
    x = code.select(tiny, code.mul(x, code.const(2.0 ** (kind.digits + 1), x.type)), x)
    n = opposite_exponent(code, x)
    shift = code.binary("shl", n, code.const(kind.digits, n.type))
    m = code.cast("bitcast", code.add(bits(code, x), shift), element_of(x.type))
    lifted = code.select(tiny, code.const(kind.digits + 1, n.type), code.const(0, n.type))
    count = code.cast("sitofp", code.add(n, lifted), element_of(x.type))
    return count, near_log1p(code, code.sub(m, code.const(1.0, x.type)))


def with_ends(code: Code, result: Val, x: Val, origin: float = 0.0) -> Val:
    """What a logarithm is at infinity, at the origin and left of it."""
    start = code.const(origin, x.type)
    result = code.select(code.compare("oeq", x, code.const(INF, x.type)), x, result)
    outside = code.const(NAN, x.type)
    outside = select_number(code, code.compare("oeq", x, start), -INF, outside)
    return code.select(code.compare("ogt", x, start), result, outside)


def log(code: Code, x: Val) -> Val:
    n, near = logarithm(code, x)
    return with_ends(code, code.fma(n, code.const(-LN2, x.type), near), x)


def log2(code: Code, x: Val) -> Val:
    n, near = logarithm(code, x)
    return with_ends(code, code.fma(near, code.const(1 / LN2, x.type), code.neg(n)), x)


def log10(code: Code, x: Val) -> Val:
    def formula(code: Code, x: Val) -> Val:
        n, near = logarithm(code, x)
        whole = code.mul(n, code.const(-math.log10(2), x.type))
        return with_ends(code, code.fma(near, code.const(math.log10(math.e), x.type), whole), x)

    return rare("log10", formula)(code, x)


def log1p(code: Code, x: Val) -> Val:
    """As log of 1 + x, but scaled before the 1 is added, so that no digit of x is lost."""
    kind = format_of(x)
    one = code.const(1.0, x.type)
    n = opposite_exponent(code, code.add(one, x))
    shift = code.binary("shl", n, code.const(kind.digits, n.type))
    # x 2^n by its exponent: where |x| is too small for that, n is 0. For the largest x, 2^n counts as 0.
    scaled = code.cast("bitcast", code.add(bits(code, x), shift), element_of(x.type))
    power = code.add(code.const(kind.bias << kind.digits, n.type), shift)
    zero = code.const(0, n.type)
    power = code.select(code.compare("sgt", power, zero), power, zero)
    power = code.cast("bitcast", power, element_of(x.type))
    near = near_log1p(code, code.sub(scaled, code.sub(one, power)))
    count = code.cast("sitofp", n, element_of(x.type))
    return with_ends(code, code.fma(count, code.const(-LN2, x.type), near), x, -1.0)


# Powers ----------------------------------------------------------------------------------------------------


def sqrt(code: Code, x: Val) -> Val:
    return code.intrinsic("sqrt", x.type, x)


def rsqrt(code: Code, x: Val) -> Val:
    return code.div(code.const(1.0, x.type), sqrt(code, x))


def pow(code: Code, x: Val, y: Val) -> Val:
    """2^(y log2 |x|) in double arithmetic, with the signs and the many exceptions of IEEE 754."""
    if is_double(x):
        return lane_by_lane(code, "pow", x, y)
    size = in_double(code, _power, magnitude(code, x), y)
    zero, one = code.const(0.0, x.type), code.const(1.0, x.type)
    half = code.mul(y, code.const(0.5, x.type))
    whole = code.compare("oeq", y, code.intrinsic("floor", x.type, y))
    even = code.compare("oeq", half, code.intrinsic("floor", x.type, half))
    odd = code.select(whole, code.select(even, zero, one), zero)
    flipped = code.select(code.compare("oeq", odd, one), with_sign(code, size, x), size)
    below = code.compare("olt", x, zero)
    finite = code.compare("one", x, code.const(-INF, x.type))
    fraction = code.compare("une", y, code.intrinsic("floor", x.type, y))
    senseless = code.binary("and", code.binary("and", below, finite), fraction)
    result = select_number(code, senseless, NAN, flipped)
    certain = code.binary("or", code.compare("oeq", x, one), code.compare("oeq", y, zero))
    return code.select(certain, one, result)


def _power(code: Code, x: Val, y: Val) -> Val:
    """x to the power of y for doubles that were floats, x >= 0.

    Zero and infinity have huge but finite logarithms here, and y is bounded, so that 0 · inf never happens.
    """
    n, near = logarithm(code, x)
    log = code.fma(near, code.const(1 / LN2, x.type), code.neg(n))
    log = select_number(code, code.compare("oeq", x, code.const(0.0, x.type)), -1e60, log)
    log = select_number(code, code.compare("oeq", x, code.const(INF, x.type)), 1e60, log)
    log = code.select(code.compare("uno", x, x), x, log)
    return exp2(code, code.mul(at_most(code, at_least(code, y, -1e18), 1e18), log))


def hypot(code: Code, x: Val, y: Val) -> Val:
    def formula(code: Code, x: Val, y: Val) -> Val:
        root = sqrt(code, code.fma(x, x, code.mul(y, y)))
        x, y = magnitude(code, x), magnitude(code, y)
        far = code.const(INF, x.type)
        endless = code.binary("or", code.compare("oeq", x, far), code.compare("oeq", y, far))
        return code.select(endless, far, root)

    return rare("hypot", formula)(code, x, y)


# Error function --------------------------------------------------------------------------------------------


def erf(code: Code, x: Val) -> Val:
    """1 - e^-y, where y = -log(erfc|x|) is close to a polynomial; no cancellation, for expm1 is at hand."""
    if is_double(x):
        return lane_by_lane(code, "erf", x)
    size = at_most(code, magnitude(code, x), 4.0)
    power, fall = falling(code, code.fma(size, polynomial(code, size, ERF), size), fold=1)
    return with_sign(code, code.fma(power, fall, code.sub(code.const(1.0, x.type), power)), x)


def erfc(code: Code, x: Val) -> Val:
    def formula(code: Code, x: Val) -> Val:
        size = at_most(code, magnitude(code, x), 10.5)
        three = code.const(3.0, x.type)
        place = code.div(code.sub(size, three), code.add(size, three))
        scale = code.fma(size, code.const(2.0, x.type), code.const(1.0, x.type))
        tail = code.div(polynomial(code, place, ERFC), scale)
        right = code.mul(exp(code, code.neg(code.mul(size, size))), tail)
        left = code.sub(code.const(2.0, x.type), right)
        return code.select(code.compare("olt", x, code.const(0.0, x.type)), left, right)

    return rare("erfc", formula)(code, x)


FAR, END = 3.0, 14.0  # behind the end, the density has become zero
# (x + FAR) e^(x^2 / 2) (1 - normal distribution of x) over x / (x + FAR), 0 <= x <= END: off by 5e-8 of itself
TAIL = (
    -0.06876952, 0.15933459, -0.00728791, -0.11166874, -0.25741145, 0.20596708, 1.069186, -2.0904863, 1.5,
)  # fmt: skip


def normal_below(code: Code, x: Val) -> Val:
    """How much of a normal distribution lies below x, to 1.2e-7.

    It is made of e^(-x^2 / 2), which the slope of gelu needs too: where both are computed, that is one exponential.
    """
    one, half = code.const(1.0, x.type), code.const(-0.5, x.type)
    if is_double(x):
        root = code.const(math.sqrt(0.5), x.type)
        return code.mul(code.const(0.5, x.type), code.add(one, erf(code, code.mul(x, root))))
    density = exp(code, code.mul(code.mul(half, x), x))
    size = at_most(code, magnitude(code, x), END)
    near = code.div(one, code.add(size, code.const(FAR, x.type)))
    tail = code.mul(code.mul(density, near), polynomial(code, code.mul(size, near), TAIL))
    return code.select(code.compare("olt", x, code.const(0.0, x.type)), tail, code.sub(one, tail))


def logaddexp(code: Code, x: Val, y: Val) -> Val:
    return _log_sum(code, x, y, exp, 1.0)


def logaddexp2(code: Code, x: Val, y: Val) -> Val:
    return _log_sum(code, x, y, exp2, 1 / LN2)


def _log_sum(code: Code, x: Val, y: Val, grow: Callable[..., Val], factor: float) -> Val:
    """The larger plus the logarithm of 1 + what the smaller adds; two equal infinities have no difference."""
    difference = code.sub(x, y)
    larger = code.select(code.compare("ogt", x, y), x, y)
    added = log1p(code, grow(code, code.neg(magnitude(code, difference))))
    total = code.fma(added, code.const(factor, x.type), larger)
    equal = code.add(x, code.const(factor * LN2, x.type))
    return code.select(code.compare("oeq", x, y), equal, total)
