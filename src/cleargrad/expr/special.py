"""Special functions that NumPy lacks: the error function family, the gamma family and a few logarithms.

Arrays of float32 or float64 come in, any shape; an array of the same shape and dtype comes out. Formulas are
written for flat float64 pieces small enough for the cache, and float32 is computed through them; only erf,
which gelu needs, has a float32 formula of its own. The tuples of numbers are fits made at Chebyshev nodes in
45-digit arithmetic, highest power first. Read next: expr/special_more.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

# Elements handled at a time: few enough for the temporaries to stay in the cache.
PIECE = 16384


def vectorised(formula: Callable, single: Callable | None = None) -> Callable:
    """A function of arrays and numbers from a formula on flat float64 arrays.

    `single`, when given, fills an array from a flat float32 array and takes over for that dtype.
    """

    def call(*operands) -> np.ndarray:
        dtype = np.result_type(*operands)
        arrays = [np.asarray(operand) for operand in operands]
        if len(arrays) > 1:
            arrays = [np.asarray(array, order="C") for array in np.broadcast_arrays(*arrays)]
        elif not arrays[0].flags.forc:
            # A dense copy: memory order below means something only without gaps, repeats and reversals.
            arrays = [arrays[0].copy(order="K")]
        result = np.empty_like(arrays[0], dtype=dtype)
        # Memory order on both sides, so that a permuted array keeps its layout.
        flat = [array.ravel(order="K") for array in arrays]
        target = result.ravel(order="K")
        with np.errstate(all="ignore"):
            if single is not None and dtype == np.float32:
                _fill_single(single, flat[0], target)
            else:
                _fill(formula, flat, target)
        return result

    return call


def _fill(formula: Callable, flat: list[np.ndarray], target: np.ndarray) -> None:
    for start in range(0, target.size, PIECE):
        piece = slice(start, start + PIECE)
        target[piece] = formula(*[array[piece].astype(np.float64, copy=False) for array in flat])


def _fill_single(single: Callable, flat: np.ndarray, target: np.ndarray) -> None:
    for start in range(0, target.size, PIECE):
        piece = slice(start, start + PIECE)
        single(flat[piece], target[piece])


def put(out: np.ndarray, mask: np.ndarray, formula: Callable, *arrays: np.ndarray) -> None:
    """Computes the formula where the mask holds, and only there."""
    if mask.all():
        out[:] = formula(*arrays)
        return
    # Positions are looked for once: NumPy takes and puts by position several times faster than by mask.
    where = np.flatnonzero(mask)
    if where.size:
        out[where] = formula(*[array.take(where) for array in arrays])


def polynomial(x: np.ndarray, coefficients: tuple[float, ...]) -> np.ndarray:
    total = x * coefficients[0]
    total += coefficients[1]
    for coefficient in coefficients[2:]:
        total *= x
        total += coefficient
    return total


# --- error function -------------------------------------------------------------------------------

# erf(x) / x over x squared, |x| <= 1
ERF_SMALL = (
    -7.79589883e-10, 1.372006455e-08, -1.6208483802e-07, 1.64474247033e-06, -1.492473690742e-05,
    0.0001205529490484, -0.000854832597538969, 0.005223977607116423, -0.02686617064323777,
    0.11283791670945006, -0.37612638903183543, 1.1283791670955126,
)  # fmt: skip
# (1 + 2x) exp(x^2) erfc(x) over (x - 3) / (x + 3), x >= 0
ERFCX = (
    -1.9639169e-10, -3.559646e-11, 2.11596267e-09, 1.20875044e-09, -1.188792322e-08, -1.392484464e-08,
    4.720806732e-08, 1.0280982449e-07, -1.4710961395e-07, -6.17592264673e-07, 3.6059375955e-07,
    3.47304499188e-06, -7.33244717306e-07, -2.010085272925e-05, 4.95002341803e-06, 0.00012509943856882,
    -0.00010515990906393, -0.00077983228909197, 0.00188869037286571, 0.00252939181812418,
    -0.02377051491960985, 0.06830802734383974, -0.11927366341527554, 0.1296451587027649,
    -0.047562294353451176, -0.13562110612458123, 1.2530080582697296,
)  # fmt: skip


def _erf(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    out = x.copy()
    put(out, size <= 1, _erf_near, x)
    put(out, size > 1, lambda x: np.copysign(1 - _erfc_right(np.abs(x)), x), x)
    return out


def _erf_near(x: np.ndarray) -> np.ndarray:
    return x * polynomial(x * x, ERF_SMALL)


def erfc_formula(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    put(out, x < 0.5, lambda x: 1 - _erf(x), x)
    put(out, x >= 0.5, _erfc_right, x)
    return out


def _erfc_right(x: np.ndarray) -> np.ndarray:
    return _exp_square(x, -1.0) * _erfcx_right(x)


def _erfcx(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    put(out, x >= 0, _erfcx_right, x)
    put(out, x < 0, lambda x: 2 * _exp_square(x, 1.0) - _erfcx_right(-x), x)
    return out


def _erfcx_right(x: np.ndarray) -> np.ndarray:
    bounded = np.minimum(x, 1e18)
    return polynomial((bounded - 3) / (bounded + 3), ERFCX) / (1 + 2 * x)


def _exp_square(x: np.ndarray, sign: float) -> np.ndarray:
    """exp(sign * x^2). Rounding x^2 would cost x^2 ulp, so x is split into a head whose square is exact."""
    x = np.clip(x, -30.0, 30.0)
    head = x.astype(np.float32).astype(np.float64)
    rest = sign * (x - head) * (x + head)
    # The rest is below 2e-4, where four terms of the exponential series are exact.
    return np.exp(sign * head * head) * polynomial(rest, (1 / 6, 1 / 2, 1.0, 1.0))


# erf in float32 looks up the nearest point of this grid towards zero and adds three Taylor terms: 1 ulp, in
# fewer passes than a rational function needs for 7. At +-4, where the table ends, erf is 1 to float32.
_GRID = 256
_EDGE = np.float32(4.0)
_points = np.arange(-4 * _GRID, 4 * _GRID + 1) / _GRID
_ERF_AT = _erf(_points).astype(np.float32)
_SLOPE_AT = (2 / math.sqrt(math.pi) * np.exp(-_points * _points)).astype(np.float32)


def _erf_single(x: np.ndarray, out: np.ndarray) -> None:
    # erf(c + d) - erf(c) = slope(c) * (d - c d^2 + (2c^2 - 1) d^3 / 3 ...); with d < 1/256 the c^2 part of
    # the last term is below rounding, and the rest of it matters only near zero.
    offset = x.clip(-_EDGE, _EDGE)
    point = offset * np.float32(_GRID)
    np.trunc(point, out=point)
    # A NaN turns into some integer; the lookup clips it, and the NaN itself lives on in `offset`.
    index = point.astype(np.intp)
    index += 4 * _GRID
    point *= np.float32(1 / _GRID)
    offset -= point
    series = offset * np.float32(1 / 3)
    series += point
    series *= offset
    series *= offset
    np.subtract(offset, series, out=series)
    series *= _SLOPE_AT.take(index, out=point, mode="clip")
    np.add(series, _ERF_AT.take(index, out=point, mode="clip"), out=out)


# --- inverse error function -----------------------------------------------------------------------

# erfinv(x) / x over w = -log(1 - x^2) for w <= 6.25, then over sqrt(w) on [2.5, 4], [4, 6.25], [6.25, 27.5]
ERFINV_NEAR = (
    -2.7032254e-10, 7.68931273e-10, 1.54017387e-09, -8.562787797e-09, 4.79237e-09, 3.915473114e-08,
    -9.8677131402e-08, -1.018514758e-08, 5.39432064871e-07, -1.05932140254e-06, -6.83718721812e-07,
    7.130057263082e-06, -1.125731918268e-05, -1.502771042028e-05, 9.3367391778048e-05,
    -0.00011688883993097, -0.00026439366843662, 0.00123248556868128, -0.0012716922684373,
    -0.00413731437741443, 0.01780836181829566, -0.0226044474534498, -0.05892256710377784,
    0.7504943200799635, 1.6536545626831027,
)  # fmt: skip
ERFINV_MIDDLE = (
    2.435554e-11, -6.471555e-11, -1.1791008e-10, 9.89129751e-10, -2.46052911e-09, -3.6906087e-10,
    2.639903235e-08, -9.468946845e-08, 9.289338749e-08, 5.2646216269e-07, -2.66479384672e-06,
    5.12731678633e-06, 2.40586480579e-06, -4.739182731618e-05, 0.00016966502197544, -0.00040063569835359,
    0.00078830785130669, -0.00158254108940731, 0.00302113943637471, 0.753944225770624, 3.0838856104922208,
)  # fmt: skip
ERFINV_FAR = (
    -8.99833e-12, 3.501668e-11, -3.969985e-11, -5.781523e-11, 4.1839904e-10, -1.4556454e-09,
    3.82568208e-09, -8.16711376e-09, 1.49909005e-08, -2.548198755e-08, 4.701583487e-08, -1.19948206e-07,
    4.3452951044e-07, -1.81598055405e-06, 7.59741385722e-06, -2.989552985281e-05, 0.0001036220853961,
    -0.00025620231232899, -0.00026907124686991, 1.1365383104872455, 4.9761913900163,
)  # fmt: skip
ERFINV_TAIL_TOP = (
    7.289974471673336e-10, 1.9909211195760137e-07, 1.7726588955148227e-05, 0.0007199871727349629,
    0.015341903592742562, 0.18244978241049434, 1.217735299856999, 4.266121095193646, 6.112284280589068,
)  # fmt: skip
ERFINV_TAIL_BOTTOM = (
    5.893836758274624e-19, 7.289965632807644e-10, 1.9453669137488477e-07, 1.6513022633352782e-05,
    0.0006172364237042603, 0.011513965565246061, 0.11132054972437339, 0.5328219437808958, 1.0,
)  # fmt: skip


def _erfinv(x: np.ndarray) -> np.ndarray:
    return x * _erfinv_ratio(-np.log((1 - x) * (1 + x)))


def _ndtri(p: np.ndarray) -> np.ndarray:
    # With x = 2p - 1, 1 - x^2 is 4p(1 - p): no cancellation however small p is.
    return math.sqrt(2) * (2 * p - 1) * _erfinv_ratio(-np.log(4 * p * (1 - p)))


def _erfinv_ratio(w: np.ndarray) -> np.ndarray:
    root = np.sqrt(w)
    out = w.copy()
    put(out, w <= 6.25, lambda w: polynomial((w - 3.125) / 3.125, ERFINV_NEAR), w)
    put(out, (root > 2.5) & (root <= 4), lambda s: polynomial((s - 3.25) / 0.75, ERFINV_MIDDLE), root)
    put(out, (root > 4) & (root <= 6.25), lambda s: polynomial((s - 5.125) / 1.125, ERFINV_FAR), root)
    put(out, (root > 6.25) & (root < np.inf), _erfinv_tail, root)
    return out


def _erfinv_tail(root: np.ndarray) -> np.ndarray:
    return polynomial(root - 6.25, ERFINV_TAIL_TOP) / polynomial(root - 6.25, ERFINV_TAIL_BOTTOM)


# --- normal distribution --------------------------------------------------------------------------


def _ndtr(x: np.ndarray) -> np.ndarray:
    return 0.5 * erfc_formula(x * -math.sqrt(0.5))


def _log_ndtr(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    put(out, x < -1, lambda x: np.log(_erfcx_right(x * -math.sqrt(0.5)) / 2) - x * x / 2, x)
    put(out, x >= -1, lambda x: np.log1p(-0.5 * erfc_formula(x * math.sqrt(0.5))), x)
    return out


# --- gamma ----------------------------------------------------------------------------------------

# lgamma(x) / ((x - 1) (x - 2)) on [0.75, 1.5] and [1.5, 3]
LGAMMA_ONE = (
    1.153863e-11, -3.6207073e-11, 5.3279073e-11, -1.6878968e-10, 6.72674098e-10, -2.138025091e-09,
    6.648109778e-09, -2.1302674203e-08, 6.8712687555e-08, -2.22393819413e-07, 7.2430213127e-07,
    -2.377046901989e-06, 7.873271110367e-06, -2.6380325002176e-05, 8.9723105379059e-05,
    -0.000311424255590461, 0.00111300187262757, -0.004162156505756183, 0.01681920118723516,
    -0.07918246284681588, 0.5487833977237905,
)  # fmt: skip
LGAMMA_TWO = (
    1.07937e-11, -3.377715e-11, 4.9236171e-11, -1.55414708e-10, 6.19433963e-10, -1.960976927e-09,
    6.067625171e-09, -1.9352272055e-08, 6.2115725708e-08, -1.99983821528e-07, 6.4771654727e-07,
    -2.113574573486e-06, 6.960129382686e-06, -2.3187395980634e-05, 7.8427431113308e-05,
    -0.000270761466072268, 0.000962228950349751, -0.003570760544169681, 0.014213449664599944,
    -0.06441063566344568, 0.3995894876556691,
)  # fmt: skip
# B(2k) / (2k (2k - 1)): Stirling's series, over 1 / x^2
STIRLING = (-3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


def lgamma_formula(x: np.ndarray) -> np.ndarray:
    out = np.abs(x)
    put(out, x >= 0.75, lgamma_right, x)
    put(out, (x > -0.25) & (x < 0.75), lambda x: _lgamma_low(x + 1) - np.log(np.abs(x)), x)
    put(out, (x <= -0.25) & (x > -np.inf), _lgamma_left, x)
    return out


def _lgamma_left(x: np.ndarray) -> np.ndarray:
    # The distance to the nearest integer is exact, the sine of pi times x would not be.
    sine = np.abs(np.sin(np.pi * (x - np.rint(x))))
    return np.log(np.pi / sine) - lgamma_right(1 - x)


def lgamma_right(x: np.ndarray) -> np.ndarray:
    """log(gamma(x)) for x >= 0.75."""
    out = x.copy()
    put(out, x < 3, _lgamma_low, x)
    put(out, (x >= 3) & (x < 8), _lgamma_middle, x)
    put(out, (x >= 8) & (x < np.inf), _lgamma_high, x)
    return out


def _lgamma_low(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    put(out, x <= 1.5, lambda x: polynomial((x - 1.125) / 0.375, LGAMMA_ONE), x)
    put(out, x > 1.5, lambda x: polynomial((x - 2.25) / 0.75, LGAMMA_TWO), x)
    return out * (x - 1) * (x - 2)


def _lgamma_middle(x: np.ndarray) -> np.ndarray:
    product = np.ones_like(x)
    for _ in range(5):
        high = x >= 3
        x = np.where(high, x - 1, x)
        product = np.where(high, product * x, product)
    return _lgamma_low(x) + np.log(product)


def _lgamma_high(x: np.ndarray) -> np.ndarray:
    constant = 0.5 * math.log(2 * math.pi) - 0.5
    return (x - 0.5) * (np.log(x) - 1) + (constant + stirling_correction(x))


def stirling_correction(x: np.ndarray) -> np.ndarray:
    """What Stirling's formula for log(gamma(x)) misses, for x >= 8."""
    return polynomial(1 / (x * x), STIRLING) / x


# digamma(x) / (x - root) over x - 1.5 on [1, 2]; the root of digamma needs more digits than one number has
DIGAMMA_TOP = (
    2.309701279e-08, 1.906866260453e-05, 0.00104218245485268, 0.01918456576362228, 0.15965494779896075,
    0.6555603928098713, 1.2853484877879735, 0.9510558760318328,
)  # fmt: skip
DIGAMMA_BOTTOM = (
    3.65757477573e-06, 0.00028298812514733, 0.006868399813024253, 0.07510969110004126, 0.4203286011147847,
    1.2367775291063994, 1.7969248202323633, 1.0,
)  # fmt: skip
DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)
# B(2k) / 2k: the asymptotic series of digamma, over 1 / x^2
DIGAMMA_SERIES = (-3617 / 8160, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


def _digamma(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    put(out, x >= 1, _digamma_right, x)
    put(out, (x > 0) & (x < 1), lambda x: _digamma_low(x + 1) - 1 / x, x)
    put(out, x < 0, _digamma_left, x)
    put(out, x == 0, lambda x: -1 / x, x)
    return out


def _digamma_left(x: np.ndarray) -> np.ndarray:
    distance = x - np.rint(x)
    value = _digamma_right(1 - x) - np.pi / np.tan(np.pi * distance)
    return np.where(distance == 0, np.nan, value)


def _digamma_right(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    put(out, x < 2, _digamma_low, x)
    put(out, (x >= 2) & (x < 10), _digamma_middle, x)
    put(out, (x >= 10) & (x < np.inf), _digamma_high, x)
    return out


def _digamma_low(x: np.ndarray) -> np.ndarray:
    ratio = polynomial(x - 1.5, DIGAMMA_TOP) / polynomial(x - 1.5, DIGAMMA_BOTTOM)
    return ratio * ((x - DIGAMMA_ROOT[0]) - DIGAMMA_ROOT[1])


def _digamma_middle(x: np.ndarray) -> np.ndarray:
    total = np.zeros_like(x)
    for _ in range(8):
        high = x >= 2
        x = np.where(high, x - 1, x)
        total = np.where(high, total + 1 / x, total)
    return total + _digamma_low(x)


def _digamma_high(x: np.ndarray) -> np.ndarray:
    inverse_square = 1 / (x * x)
    return np.log(x) - (0.5 / x + polynomial(inverse_square, DIGAMMA_SERIES) * inverse_square)


# --- zeta and polygamma ---------------------------------------------------------------------------

ZETA_TERMS = 10
# B(2k) / (2k)!: what Euler and Maclaurin add to the first terms of the sum
EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000,
)  # fmt: skip


def _zeta(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Hurwitz zeta: the sum of (q + k)^-x over k >= 0; to the left of zero only for whole x."""
    whole = (q <= 0) & (q == np.floor(q))
    out = np.full_like(x, np.nan)
    put(out, (x > 1) & (q > 0) & (q < np.inf), _zeta_right, x, q)
    put(out, (x > 1) & (q < 0) & ~whole & (x == np.floor(x)), _zeta_left, x, q)
    out[(x > 1) & whole] = np.inf
    out[x == 1] = np.inf
    return out


def _zeta_left(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    # The terms left of zero are, up to their sign, a difference of two sums right of it.
    sign = np.where(np.fmod(x, 2) == 0, 1.0, -1.0)
    mirrored = _zeta_right(x, np.ceil(q) - q) - _zeta_right(x, 1 - q)
    return _zeta_right(x, q - np.floor(q)) + sign * mirrored


def _zeta_right(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    total = np.zeros_like(x)
    for k in range(ZETA_TERMS):
        total += (q + k) ** -x
    end = q + ZETA_TERMS
    power = end**-x
    total += power * (end / (x - 1) + 0.5)
    power *= x / end
    for k, coefficient in enumerate(EULER_MACLAURIN):
        total += coefficient * power
        power *= (x + (2 * k + 1)) * (x + (2 * k + 2)) / (end * end)
    return total


def _trigamma(x: np.ndarray) -> np.ndarray:
    return np.where(x == np.inf, 0.0, np.where(x == -np.inf, np.nan, _zeta(np.full_like(x, 2.0), x)))


def polygamma(n: int, x: np.ndarray) -> np.ndarray:
    """The n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x)."""
    if n == 0:
        return digamma(x)
    if n == 1:
        return trigamma(x)
    factor = math.factorial(n) if n <= 170 else math.inf
    signed = float(factor if n % 2 else -factor)
    return vectorised(lambda x: signed * _zeta(np.full_like(x, n + 1.0), x))(x)


# --- logarithms and sinc --------------------------------------------------------------------------


def entr(x: np.ndarray) -> np.ndarray:
    """-x log(x), 0 at 0, -inf to the left."""
    with np.errstate(all="ignore"):
        value = -x * np.log(x)
    return np.where(x == 0, np.zeros_like(value), np.where(x < 0, np.full_like(value, -np.inf), value))


def xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log(y), and 0 where x is 0 unless y is NaN."""
    return _times_logarithm(x, y, np.log)


def xlog1py(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log(1 + y), and 0 where x is 0 unless y is NaN."""
    return _times_logarithm(x, y, np.log1p)


def _times_logarithm(x: np.ndarray, y: np.ndarray, logarithm: np.ufunc) -> np.ndarray:
    # One dtype before the logarithm: that of a plain number would be a float64 and widen the product.
    dtype = np.result_type(x, y)
    x, y = np.asarray(x, dtype), np.asarray(y, dtype)
    with np.errstate(all="ignore"):
        value = x * logarithm(y)
    return np.where((x == 0) & ~np.isnan(y), np.zeros_like(value), value)


def _sinc(x: np.ndarray) -> np.ndarray:
    angle = np.pi * x
    return np.where(x == 0, 1.0, np.sin(angle) / angle)


erf = vectorised(_erf, single=_erf_single)
erfc = vectorised(erfc_formula)
erfcx = vectorised(_erfcx)
erfinv = vectorised(_erfinv)
ndtr = vectorised(_ndtr)
ndtri = vectorised(_ndtri)
log_ndtr = vectorised(_log_ndtr)
lgamma = vectorised(lgamma_formula)
digamma = vectorised(_digamma)
trigamma = vectorised(_trigamma)
zeta = vectorised(_zeta)
sinc = vectorised(_sinc)
