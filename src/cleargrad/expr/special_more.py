"""Rarer special functions: Bessel, Airy, incomplete gamma and the orthogonal polynomials.

The same contract as expr/special.py, whose `vectorised` wraps every formula: float32 or float64 arrays in,
the same shape and dtype out, computed in float64. Read next: expr/numpy_reading.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from cleargrad.expr.special import (
    erfc_formula,
    lgamma_formula,
    lgamma_right,
    polynomial,
    put,
    stirling_correction,
    vectorised,
)

# --- modified Bessel, first kind ------------------------------------------------------------------

# exp(-x) I(x) / x^order on [0, 8], then sqrt(x) exp(-x) I(x) over 8 / x
I0_SMALL = (
    4.394426308e-09, -1.6311306917e-08, 2.679771005e-08, -8.59460152603e-08, 3.65921673016e-07,
    -1.141949525905e-06, 3.232396382443e-06, -9.1839107947365e-06, 2.5198651465609e-05,
    -6.55678677969644e-05, 0.000162408455906142, -0.000382865413990596, 0.0008563135177565376,
    -0.001811902976412045, 0.003617127165427286, -0.006792394821044967, 0.011960077703464203,
    -0.019682655784004566, 0.03017791206221918, -0.04298594929673067, 0.05677703201501785,
    -0.06954119563154397, 0.07927522590752974, -0.08496338091542556, 0.08734341617550884,
    -0.08904344136077733, 0.09451562853995125, -0.11300432688620536, 0.2070019212239867,
)  # fmt: skip
I0_LARGE = (
    1.0881995e-10, 3.525321e-11, -7.47384462e-10, -2.74811164e-10, 2.398192723e-09, 1.09245272e-09,
    -4.848250922e-09, -3.118514561e-09, 6.789790404e-09, 7.323310735e-09, -5.162517881e-09,
    -1.3319798592e-08, -6.805980075e-09, 7.532386418e-09, 2.155681111e-08, 3.9329265711e-08,
    8.8721546189e-08, 2.97359565815e-07, 1.48384758631e-06, 1.114303380258e-05, 0.000136216074391872,
    0.003360551983667723, 0.4021765094450081,
)  # fmt: skip
I1_SMALL = (
    3.669675201e-10, -1.416598018e-09, 2.644330577e-09, -8.9868010132e-09, 3.79014046024e-08,
    -1.24240462956e-07, 3.761729281016e-07, -1.132719800825e-06, 3.2936151443567e-06, -9.136529630107e-06,
    2.42339875914983e-05, -6.14236140926704e-05, 0.000148421107580808, -0.0003411760229204836,
    0.0007445123998749739, -0.001538874564273584, 0.0030057624040464932, -0.005534567846988655,
    0.009583962153764291, -0.015571309244077562, 0.023686016957350876, -0.03367135552107505,
    0.044674572621282986, -0.05528003922699226, 0.06376740371340611, -0.0684826062058269,
    0.06805759990951162, -0.061124338029666284, 0.044687709875608835,
)  # fmt: skip
I1_LARGE = (
    -1.1328889e-10, -3.2677656e-11, 7.79067218e-10, 2.58216944e-10, -2.506216241e-09, -1.04761278e-09,
    5.094016302e-09, 3.071739565e-09, -7.222524179e-09, -7.432535336e-09, 5.722677527e-09,
    1.3952625102e-08, 6.79507349e-09, -8.40732684e-09, -2.3382691354e-08, -4.3132315624e-08,
    -1.0001220639e-07, -3.48385307137e-07, -1.834910153966e-06, -1.5038547211274e-05,
    -0.000219235763833829, -0.009749577193235609, 0.38939845902587233,
)  # fmt: skip


def _i0e(x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    out = x.copy()
    put(out, x <= 8, lambda x: polynomial(x / 4 - 1, I0_SMALL), x)
    put(out, x > 8, lambda x: polynomial(16 / x - 1, I0_LARGE) / np.sqrt(x), x)
    return out


def _i1e(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    out = size.copy()
    put(out, size <= 8, lambda x: x * polynomial(x / 4 - 1, I1_SMALL), size)
    put(out, size > 8, lambda x: polynomial(16 / x - 1, I1_LARGE) / np.sqrt(x), size)
    return np.copysign(out, x)


def _i0(x: np.ndarray) -> np.ndarray:
    # Half the exponent on each side: exp(x) overflows before I(x) does.
    half = np.exp(np.abs(x) / 2)
    return half * _i0e(x) * half


def _i1(x: np.ndarray) -> np.ndarray:
    half = np.exp(np.abs(x) / 2)
    return half * _i1e(x) * half


# --- modified Bessel, second kind -----------------------------------------------------------------

# K0(x) + log(x/2) I0(x) and x (K1(x) - log(x/2) I1(x)) over x^2 on [0, 4], then sqrt(x) exp(x) K(x) over 2/x
K0_SMALL = (
    1.83e-16, 3.5186e-14, 5.452108e-12, 6.62301327e-10, 6.0933619342e-08, 4.05450661995e-06,
    0.000182805558279013, 0.005053392643196092, 0.07177701034240512, 0.3404973210133806,
    -0.30362077291575545,
)  # fmt: skip
K0_LARGE = (
    9.815402e-11, -1.7415793e-10, -2.5115836e-10, 4.29782283e-10, 6.69690968e-10, -1.21546469e-09,
    2.3928248e-10, -6.90944553e-10, 3.6497042e-09, -8.004851516e-09, 1.713185601e-08, -4.1066580271e-08,
    1.0292557328e-07, -2.6897300719e-07, 7.42786224916e-07, -2.19116792522e-06, 7.002244891192e-06,
    -2.473520537448e-05, 9.956054746807e-05, -0.00047976905673535, 0.00303289181027414,
    -0.03107146182488986, 1.2185953385133905,
)  # fmt: skip
K1_SMALL = (
    -3.596e-15, -6.21427e-13, -8.5327351e-11, -9.032127502e-09, -7.08113377018e-07, -3.8918690643716e-05,
    -0.00138316884661531, -0.02785423521977184, -0.24383852886774365, -0.3322409552403131,
    0.8850882877295894,
)  # fmt: skip
K1_LARGE = (
    -1.0724392e-10, 1.90769e-10, 2.7260401e-10, -4.67158267e-10, -7.34780754e-10, 1.338585e-09,
    -2.9158897e-10, 8.25400261e-10, -4.15956404e-09, 9.191838294e-09, -1.990916913e-08, 4.8165011478e-08,
    -1.2200063909e-07, 3.230534912e-07, -9.06715391779e-07, 2.73003069116e-06, -8.961206568008e-06,
    3.284386644382e-05, -0.00013959021961463, 0.000735724154874511, -0.005566729880073309,
    0.1033497377538656, 1.363151890371342,
)  # fmt: skip


def _second_kind(near: Callable, far: tuple[float, ...], scaled: bool) -> Callable:
    def formula(x: np.ndarray) -> np.ndarray:
        out = np.full_like(x, np.nan)
        put(out, x == 0, lambda x: x + np.inf, x)
        put(out, (x > 0) & (x <= 2), lambda x: near(x) * (np.exp(x) if scaled else 1.0), x)
        put(
            out, x > 2, lambda x: polynomial(4 / x - 1, far) / np.sqrt(x) * (1.0 if scaled else np.exp(-x)), x
        )
        return out

    return formula


def _k0_near(x: np.ndarray) -> np.ndarray:
    return polynomial(x * x / 2 - 1, K0_SMALL) - np.log(x / 2) * _i0(x)


def _k1_near(x: np.ndarray) -> np.ndarray:
    return polynomial(x * x / 2 - 1, K1_SMALL) / x + np.log(x / 2) * _i1(x)


# --- Bessel ---------------------------------------------------------------------------------------

# J(x) / x^order over x^2 on [0, 64], and the part of Y(x) beside its logarithm
J0_SMALL = (
    2.88e-16, -1.138e-14, 3.99081e-13, -1.238464e-11, 3.36347186e-10, -7.915407738e-09, 1.5956108859e-07,
    -2.71774914502e-06, 3.8473197857391e-05, -0.000443545922472722, 0.00405807898914049,
    -0.02847271861086957, 0.14598884856759273, -0.507468045847102, 1.0383794611437211, -0.808088807669687,
    -0.6484692830871837, 0.9303012472958572, 0.04582966485981377,
)  # fmt: skip
Y0_SMALL = (
    -6.57e-16, 2.558e-14, -8.81053e-13, 2.681822e-11, -7.13051693e-10, 1.639106527e-08, -3.2185077885e-07,
    5.321318633735e-06, -7.2795418827846e-05, 0.000806158606055064, -0.007025741057269826,
    0.0463670476813471, -0.2189574709617165, 0.6721770783431723, -1.0775477338215995, 0.14412632369302442,
    1.6470964788745466, -0.8284358903604587, -0.382250654459425,
)  # fmt: skip
J1_SMALL = (
    7.74e-18, -3.24e-16, 1.2061e-14, -3.99081e-13, 1.1610655e-11, -2.94303788e-10, 6.431268732e-09,
    -1.19670816442e-07, 1.868452537234e-06, -2.404574866087e-05, 0.000249494581390896,
    -0.002029039494570245, 0.01245681439225544, -0.054745818212847276, 0.15858376432721938,
    -0.2595948652859303, 0.15151665143806634, 0.08105866038589796, -0.05814382795599107,
)  # fmt: skip
Y1_SMALL = (
    -1.78e-17, 7.34e-16, -2.6871e-14, 8.72881e-13, -2.488766e-11, 6.16974261e-10, -1.3153322399e-08,
    2.38049299137e-07, -3.600999874447e-06, 4.4674330129144e-05, -0.000443817343511468,
    0.003422490739918045, -0.01962875683309943, 0.07854786922242545, -0.19639839859930425,
    0.23507209206669755, 0.023367571720993584, -0.24337743079193114, 0.07075985882118005,
)  # fmt: skip
# Beyond 8, J + iY = sqrt(2 / (pi x)) exp(i (x - pi/4 - order pi/2)) (p + i q / x), with p and q over (8/x)^2
COSINE_PART0 = (
    -9.9568e-14, 3.45221e-13, -1.02383e-12, 4.674986e-12, -2.490342e-11, 1.5506349e-10, -1.21211332e-09,
    1.280374796e-08, -2.0527448199e-07, 6.137416081257e-06, -0.000536367319212998, 0.9994572757882519,
)  # fmt: skip
SINE_PART0 = (
    7.660589e-13, -2.495996e-12, 6.6077709e-12, -2.7923982e-11, 1.36413815e-10, -7.580593881e-10,
    5.1461893815e-09, -4.53496259538e-08, 5.684971918788e-07, -1.1817110670086e-05, 0.0005466519279474679,
    -0.12444091103610802,
)  # fmt: skip
COSINE_PART1 = (
    1.0611e-13, -3.69429e-13, 1.10404e-12, -5.072231e-12, 2.722599e-11, -1.7137216e-10, 1.36030063e-09,
    -1.470849868e-08, 2.4536766268e-07, -7.959694699657e-06, 0.000898804941670551, 1.0009070262780821,
)  # fmt: skip
SINE_PART1 = (
    -8.14351e-13, 2.66312e-12, -7.101699e-12, 3.017316e-11, -1.48354806e-10, 8.32059665e-10,
    -5.72084629e-09, 5.1360951419e-08, -6.63356860017e-07, 1.4569614819268e-05, -0.000769716705764309,
    0.3742149922195917,
)  # fmt: skip


def _wave(x: np.ndarray, cosine: tuple[float, ...], sine: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """J0 and Y0, or Y1 with its sign turned and J1, for x > 8: a quarter turn apart."""
    position = 128 / (x * x) - 1
    p = polynomial(position, cosine)
    q = polynomial(position, sine) / x
    # cos and sin of x - pi/4 by the addition theorem, because subtracting pi/4 from a large x loses digits.
    along = np.cos(x) + np.sin(x)
    across = np.sin(x) - np.cos(x)
    scale = 1 / np.sqrt(np.pi * x)
    return scale * (along * p - across * q), scale * (across * p + along * q)


def _j0(x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    out = np.full_like(x, np.nan)
    put(out, x <= 8, lambda x: polynomial(x * x / 32 - 1, J0_SMALL), x)
    put(out, (x > 8) & (x < np.inf), lambda x: _wave(x, COSINE_PART0, SINE_PART0)[0], x)
    return out


def _j1(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    out = np.full_like(x, np.nan)
    put(out, size <= 8, lambda x: x * polynomial(x * x / 32 - 1, J1_SMALL), size)
    put(out, (size > 8) & (size < np.inf), lambda x: _wave(x, COSINE_PART1, SINE_PART1)[1], size)
    return np.where(x < 0, -out, out)


def _y0(x: np.ndarray) -> np.ndarray:
    out = np.full_like(x, np.nan)
    put(out, (x > 0) & (x <= 8), _y0_near, x)
    put(out, (x > 8) & (x < np.inf), lambda x: _wave(x, COSINE_PART0, SINE_PART0)[1], x)
    out[x == 0] = -np.inf
    return out


def _y0_near(x: np.ndarray) -> np.ndarray:
    return polynomial(x * x / 32 - 1, Y0_SMALL) + 2 / np.pi * np.log(x) * _j0(x)


def _y1(x: np.ndarray) -> np.ndarray:
    out = np.full_like(x, np.nan)
    put(out, (x > 0) & (x <= 8), _y1_near, x)
    put(out, (x > 8) & (x < np.inf), lambda x: -_wave(x, COSINE_PART1, SINE_PART1)[0], x)
    out[x == 0] = -np.inf
    return out


def _y1_near(x: np.ndarray) -> np.ndarray:
    return x * polynomial(x * x / 32 - 1, Y1_SMALL) + 2 / np.pi * (np.log(x) * _j1(x) - 1 / x)


def _spherical_j0(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, 1.0, np.where(np.isinf(x), 0.0, np.sin(x) / x))


# --- Airy -----------------------------------------------------------------------------------------

# Ai on [-3, 2]; then, with z = 2/3 |x|^(3/2), 2 sqrt(pi) x^(1/4) exp(z) Ai(x) over 1/z on the right, and on
# the left the two parts of a wave over 1/z^2
AIRY_MIDDLE = (
    3.5847869e-10, 6.86262791e-10, -9.724369062e-09, 1.15262811e-08, 8.7101391496e-08, -3.7628364255e-07,
    2.2468513287e-07, 3.10435547781e-06, -1.133913877217e-05, 4.3944193944e-06, 8.4090742339688e-05,
    -0.00025896322274559, 4.455688393754e-05, 0.0016557512293889, -0.00417696200159049, -0.000151001007549,
    0.02222312360945301, -0.04420862811530726, -0.01034932599237042, 0.18567108296621535,
    -0.2740945243773446, -0.11443102258278375, 0.8326861457009067, -0.8158175462287212,
    -0.47075409794345663, 1.5046065801570636, -0.7433251431414681, -0.5102041758488685, 0.4757280916105396,
)  # fmt: skip
AIRY_RIGHT = (
    9.1503582e-11, -1.5866202e-10, -2.4743955e-10, 4.15833993e-10, 6.10681064e-10, -1.07679479e-09,
    5.9103841e-11, -2.9381014e-10, 2.61778496e-09, -5.557651608e-09, 1.123990761e-08, -2.622504834e-08,
    6.4030129182e-08, -1.6239999167e-07, 4.34765349503e-07, -1.24201112608e-06, 3.8390128596e-06,
    -1.310157452438e-05, 5.0904089140593e-05, -0.00023685600140531, 0.00145238426948787,
    -0.0148276716497423, 0.983413292928569,
)  # fmt: skip
AIRY_LEFT_COSINE = (
    2.3419804e-10, -3.50953769e-10, -5.7725896e-10, 8.34777941e-10, 1.00595363e-09, -1.53839508e-09,
    -1.228915e-11, -3.0317305e-10, 2.76677443e-09, -5.952150711e-09, 1.322592327e-08, -3.4438969732e-08,
    1.0009724305e-07, -3.34887106556e-07, 1.3648983722e-06, -7.433678890135e-06, 6.4766002652951e-05,
    -0.00139958501511052, 0.9985263570284568,
)  # fmt: skip
AIRY_LEFT_SINE = (
    1.708767533e-09, -2.5010599636e-09, -4.3982258907e-09, 6.2543431042e-09, 7.2509193382e-09,
    -1.0733092961e-08, -1.493157352e-09, 6.304071393e-10, 1.390609633e-08, -2.79327443107e-08,
    5.57546909378e-08, -1.34981961475e-07, 3.59697150455e-07, -1.076932235135e-06, 3.7990830581976e-06,
    -1.6931033852719e-05, 0.000108238009167029, -0.001303793534559232, 0.0680100041612061,
)  # fmt: skip


def _airy_ai(x: np.ndarray) -> np.ndarray:
    out = np.full_like(x, np.nan)
    put(out, (x >= -3) & (x <= 2), lambda x: polynomial((x + 0.5) / 2.5, AIRY_MIDDLE), x)
    put(out, (x > 2) & (x < np.inf), _airy_right, x)
    put(out, (x < -3) & (x > -np.inf), lambda x: _airy_left(-x), x)
    return out


def _airy_right(x: np.ndarray) -> np.ndarray:
    z = 2 / 3 * x * np.sqrt(x)
    scale = np.exp(-z) / (2 * math.sqrt(math.pi) * np.sqrt(np.sqrt(x)))
    return scale * polynomial((1 / z - 0.27) / 0.27, AIRY_RIGHT)


def _airy_left(x: np.ndarray) -> np.ndarray:
    z = 2 / 3 * x * np.sqrt(x)
    position = (1 / (z * z) - 0.042) / 0.042
    cosine = (np.cos(z) + np.sin(z)) * polynomial(position, AIRY_LEFT_COSINE)
    sine = (np.sin(z) - np.cos(z)) * polynomial(position, AIRY_LEFT_SINE) / z
    return (cosine + sine) / (math.sqrt(2 * math.pi) * np.sqrt(np.sqrt(x)))


# --- incomplete gamma -----------------------------------------------------------------------------

# From here on, and for x within 30 % of a, Temme's expansion replaces series that would need sqrt(a) terms.
UNIFORM_FROM = 50.0
MOST_STEPS = 1000


def _igamma(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _incomplete_gamma(a, x, lower=True)


def _igammac(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _incomplete_gamma(a, x, lower=False)


def _incomplete_gamma(a: np.ndarray, x: np.ndarray, lower: bool) -> np.ndarray:
    """The regularised P(a, x) when `lower`, else Q(a, x) = 1 - P(a, x)."""
    at_zero, at_infinity = (0.0, 1.0) if lower else (1.0, 0.0)
    out = np.full_like(x, np.nan)
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    uniform = inside & (a >= UNIFORM_FROM) & (np.abs(x - a) < 0.3 * a)
    corner = inside & (a < 1) & (x <= 1.1) & (not lower)
    rising = inside & ~uniform & ~corner & ((x < a + 1) | (x <= 1.1))
    falling = inside & ~uniform & ~corner & ~rising
    put(out, uniform, lambda a, x: _temme(a, x, lower), a, x)
    put(out, corner, _upper_corner, a, x)
    put(out, rising, lambda a, x: _lower_series(a, x) if lower else 1 - _lower_series(a, x), a, x)
    put(out, falling, lambda a, x: 1 - _upper_fraction(a, x) if lower else _upper_fraction(a, x), a, x)
    out[(a > 0) & (x == 0)] = at_zero
    out[(a == np.inf) & (x >= 0) & (x < np.inf)] = at_zero
    out[(a == 0) & (x > 0)] = at_infinity
    out[(a >= 0) & (a < np.inf) & (x == np.inf)] = at_infinity
    return out


def _density(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x^a exp(-x) / gamma(a + 1)."""
    out = np.empty_like(x)
    put(out, a < 10, lambda a, x: np.exp(a * np.log(x) - x - lgamma_formula(a + 1)), a, x)
    put(out, a >= 10, _density_high, a, x)
    return out


def _density_high(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    # Stirling's formula inside the exponent, so that its large terms cancel before they are rounded.
    exponent = -a * _log_gap((x - a) / a) - stirling_correction(a)
    return np.exp(exponent) / np.sqrt(2 * np.pi * a)


def _log_gap(u: np.ndarray) -> np.ndarray:
    """u - log(1 + u), by its series where the difference would cancel."""
    series = u * u * polynomial(u, (1 / 10, -1 / 9, 1 / 8, -1 / 7, 1 / 6, -1 / 5, 1 / 4, -1 / 3, 1 / 2))
    return np.where(np.abs(u) < 0.01, series, u - np.log1p(u))


def _lower_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    term = np.ones_like(x)
    total = np.ones_like(x)
    for k in range(1, MOST_STEPS):
        term *= x / (a + k)
        total += term
        if (term <= 1e-17 * total).all():
            break
    return _density(a, x) * total


def _upper_fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    # Lentz's way to evaluate Legendre's continued fraction from the front.
    b = x + 1 - a
    c = np.full_like(x, 1e300)
    d = 1 / b
    value = d.copy()
    for k in range(1, MOST_STEPS):
        numerator = k * (a - k)
        b = b + 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        value *= c * d
        if (np.abs(c * d - 1) < 1e-16).all():
            break
    return _density(a, x) * a * value


def _upper_corner(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    # Q is small here while P is near 1: expand 1 - P instead of subtracting.
    log_front = a * np.log(x) - lgamma_right(a + 1)
    term = np.ones_like(x)
    total = np.zeros_like(x)
    for k in range(1, 30):
        term *= -x / k
        total += term / (a + k)
    return -np.expm1(log_front) - np.exp(log_front) * a * total


def _temme(a: np.ndarray, x: np.ndarray, lower: bool) -> np.ndarray:
    gap = _log_gap((x - a) / a)
    eta = np.copysign(np.sqrt(2 * np.maximum(gap, 0)), x - a)
    correction = np.zeros_like(x)
    for row in reversed(_temme_rows()):
        correction = correction / a + polynomial(eta, row)
    correction *= np.exp(-a * gap) / np.sqrt(2 * np.pi * a)
    distance = eta * np.sqrt(a / 2)
    return 0.5 * erfc_formula(-distance) - correction if lower else 0.5 * erfc_formula(distance) + correction


@functools.cache
def _temme_rows(rows: int = 8, columns: int = 16) -> tuple[tuple[float, ...], ...]:
    """The coefficients of Temme's expansion, highest power of eta first, worked out in exact fractions.

    With eta^2 / 2 = u - log(1 + u), c0 = 1/u - 1/eta and c(k) = c(k-1)' / eta + g(k) / u, where g(k) is the
    number that cancels the pole.
    """
    length = columns + 2 * rows
    u = [Fraction(1)]
    for n in range(2, length + 2):
        products = sum(k * u[k - 1] * u[n - k] for k in range(2, n))
        u.append((u[n - 2] - products) / (n + 1))
    reciprocal = [Fraction(1)]
    for n in range(1, length + 1):
        reciprocal.append(-sum((u[k] * reciprocal[n - k] for k in range(1, n + 1)), Fraction(0)))
    first = reciprocal[1:]
    table = [first]
    for _ in range(rows - 1):
        last = table[-1]
        table.append([(n + 2) * last[n + 2] - last[1] * first[n] for n in range(len(last) - 2)])
    return tuple(tuple(float(value) for value in reversed(row[:columns])) for row in table)


# --- orthogonal polynomials -----------------------------------------------------------------------


def recurrence(first: Callable, step: Callable) -> Callable:
    """p(x, n) from p(0) = 1, p(1) = first(x) and p(k + 1) = step(k, x, p(k), p(k - 1)); 0 for negative n."""

    def formula(x: np.ndarray, n: np.ndarray) -> np.ndarray:
        degree = np.where(np.isfinite(n), np.trunc(n), -1)
        out = np.where(degree == 0, 1.0, 0.0)
        before, current = np.ones_like(x), first(x)
        for k in range(1, int(degree.max()) + 1):
            np.copyto(out, current, where=degree == k)
            before, current = current, step(k, x, current, before)
        return out

    return vectorised(formula)


def chebyshev(first: Callable) -> Callable:
    return recurrence(first, lambda k, x, p, before: 2 * x * p - before)


def shifted_chebyshev(first: Callable) -> Callable:
    return recurrence(lambda x: first(2 * x - 1), lambda k, x, p, before: 2 * (2 * x - 1) * p - before)


chebyshev_polynomial_t = chebyshev(lambda x: x)
chebyshev_polynomial_u = chebyshev(lambda x: 2 * x)
chebyshev_polynomial_v = chebyshev(lambda x: 2 * x - 1)
chebyshev_polynomial_w = chebyshev(lambda x: 2 * x + 1)
shifted_chebyshev_polynomial_t = shifted_chebyshev(lambda x: x)
shifted_chebyshev_polynomial_u = shifted_chebyshev(lambda x: 2 * x)
shifted_chebyshev_polynomial_v = shifted_chebyshev(lambda x: 2 * x - 1)
shifted_chebyshev_polynomial_w = shifted_chebyshev(lambda x: 2 * x + 1)
hermite_polynomial_h = recurrence(lambda x: 2 * x, lambda k, x, p, before: 2 * x * p - 2 * k * before)
hermite_polynomial_he = recurrence(lambda x: x, lambda k, x, p, before: x * p - k * before)
laguerre_polynomial_l = recurrence(
    lambda x: 1 - x, lambda k, x, p, before: ((2 * k + 1 - x) * p - k * before) / (k + 1)
)
legendre_polynomial_p = recurrence(
    lambda x: x, lambda k, x, p, before: ((2 * k + 1) * x * p - k * before) / (k + 1)
)

i0 = modified_bessel_i0 = vectorised(_i0)
i1 = modified_bessel_i1 = vectorised(_i1)
i0e = vectorised(_i0e)
i1e = vectorised(_i1e)
modified_bessel_k0 = vectorised(_second_kind(_k0_near, K0_LARGE, scaled=False))
modified_bessel_k1 = vectorised(_second_kind(_k1_near, K1_LARGE, scaled=False))
scaled_modified_bessel_k0 = vectorised(_second_kind(_k0_near, K0_LARGE, scaled=True))
scaled_modified_bessel_k1 = vectorised(_second_kind(_k1_near, K1_LARGE, scaled=True))
bessel_j0 = vectorised(_j0)
bessel_j1 = vectorised(_j1)
bessel_y0 = vectorised(_y0)
bessel_y1 = vectorised(_y1)
spherical_bessel_j0 = vectorised(_spherical_j0)
airy_ai = vectorised(_airy_ai)
igamma = vectorised(_igamma)
igammac = vectorised(_igammac)
