"""How gamma and Dirichlet numbers move with their concentration: the gradients of reparameterised draws.

The exact derivative is −(∂F/∂α) / p for the distribution function F and the density p (Figurnov et al. 2018).
PyTorch approximates it piece by piece: series near the ends, Rice's saddle point for large concentrations, and
a fitted quotient of polynomials in between, good to about 1e-3. Since the same seed should give the same loss
curve, the pieces, their borders and the fitted numbers are PyTorch's. Arrays come in and go out as in
codegen/special.py. Read next: ops/gamma_draws.py.
"""

from __future__ import annotations

import numpy as np

from cleargrad.codegen.special import digamma, put, vectorised

Array = np.ndarray


def pieces(*cases: tuple) -> Array:
    """Fills an array from (mask, formula, operands): the first mask that holds decides."""
    first = cases[0][0]
    out, left = np.empty(first.shape), np.ones(first.shape, bool)
    for mask, formula, operands in cases:
        put(out, left & mask, formula, *operands)
        left &= ~mask
    return out


# Gamma -----------------------------------------------------------------------------------------------------


def _gamma(alpha: Array, x: Array) -> Array:
    both, always = (alpha, x), np.ones(x.shape, bool)
    large = alpha > 8
    near = large & (np.float32(0.9) * alpha <= x) & (x <= np.float32(1.1) * alpha)
    return pieces(
        (x < np.float32(0.8), _gamma_left, both),
        (near, _gamma_near_mean, both),
        (large, _gamma_saddle, both),
        (always, _gamma_fitted, both),
    )


def _gamma_left(alpha: Array, x: Array) -> Array:
    """Both F and ∂F/∂α are power series in x: six terms."""
    term = np.ones_like(x)
    series, slope = 1 / alpha, 1 / alpha**2
    for k in range(1, 6):
        term = term * (-x / k)
        series = series + term / (alpha + k)
        slope = slope + term / (alpha + k) ** 2
    power = x**alpha
    moved = (np.log(x) - digamma(alpha)) * power * series - power * slope
    result = -moved / (x ** (alpha - 1) * np.exp(-x))
    return np.where(np.isnan(result), 0.0, result)


def _gamma_near_mean(alpha: Array, x: Array) -> Array:
    """The saddle point's own series about x = α, where its formula is 0 / 0."""
    prefactor = 1 + 24 * alpha * (1 + 12 * alpha)
    inner = 1440 * alpha**2 + 6 * x * (53 - 120 * x) - 65 * x**2 / alpha + alpha * (107 + 3600 * x)
    return prefactor * inner / (1244160 * alpha**4)


def _gamma_saddle(alpha: Array, x: Array) -> Array:
    ratio = np.log(x / alpha)
    width = np.sqrt(8 * alpha)
    depth = (x - alpha - alpha * ratio) ** -1.5
    slope = width / (alpha - x) + np.where(x < alpha, -depth, depth)
    term = ratio * slope - np.sqrt(2 / alpha) * (alpha + x) / (alpha - x) ** 2
    stirling = 1 + (1 + 1 / (24 * alpha)) / (12 * alpha)
    return -stirling * x * term / width


# Rows: powers of log α; columns: powers of log(x / α).
GAMMA_ABOVE = (
    (0.16009398, 0.53487893, 0.040121004),
    (-0.094634809, 0.1298071, -0.0065914022),
    (0.025146376, 0.065735949, -0.0026286047),
    (-0.0030648343, -0.0015649758, -0.0013441777),
)
GAMMA_BELOW = (
    (1.0, 0.16639465, 0.017050642),
    (0.32668115, 0.020070113, -0.0021309326),
    (0.10406089, -0.0035938915, 0.00085092367),
    (0.0014179084, -0.00058392623, -1.5247877e-07),
)


def _gamma_fitted(alpha: Array, x: Array) -> Array:
    u, v = np.log(x / alpha), np.log(alpha)
    return np.exp(_surface(GAMMA_ABOVE, u, v) / _surface(GAMMA_BELOW, u, v))


def _surface(rows: tuple, u: Array, v: Array) -> Array:
    return sum((row[0] + u * (row[1] + u * row[2])) * v**k for k, row in enumerate(rows))


# Dirichlet -------------------------------------------------------------------------------------------------


def _dirichlet(x: Array, alpha: Array, total: Array) -> Array:
    """The gradient of one share with respect to its own concentration, divided by 1 − x."""
    beta = total - alpha
    boundary = total * x * (1 - x)
    always = np.ones(x.shape, bool)
    return pieces(
        ((x <= 0.5) & (boundary < 2.5), _beta_left, (x, alpha, beta)),
        ((x >= 0.5) & (boundary < 0.75), _beta_right, (x, alpha, beta)),
        ((alpha > 6) & (beta > 6), _beta_saddle, (x, alpha, beta)),
        (always, _beta_fitted, (x, alpha, total)),
    )


def _beta_left(x: Array, alpha: Array, beta: Array) -> Array:
    factor = digamma(alpha) - digamma(alpha + beta) - np.log(x)
    term = np.ones_like(x)
    series = (factor + 1 / alpha) / alpha
    for k in range(1, 11):
        term = term * (k - beta) * x / k
        series = series + term / (alpha + k) * (factor + 1 / (alpha + k))
    result = x * (1 - x) ** -beta * series
    return np.where(np.isnan(result), 0.0, result)


def _beta_right(x: Array, alpha: Array, beta: Array) -> Array:
    """A series in y = 1 − x whose factors (α − 1)…(α − k) are differentiated along."""
    y = 1 - x
    factor = digamma(alpha + beta) - digamma(alpha)
    term, product, slope = np.ones_like(y), np.ones_like(y), np.zeros_like(y)
    series = factor / beta
    for k in range(1, 9):
        term = term * (-y / k)
        slope = slope * (alpha - k) + product
        product = product * (alpha - k)
        series = series + term / (beta + k) * (slope + factor * product)
    result = x ** (1 - alpha) * series
    return np.where(np.isnan(result), 0.0, result)


def _beta_saddle(x: Array, alpha: Array, beta: Array) -> Array:
    total = alpha + beta
    mean = alpha / total
    deviation = np.sqrt(alpha * beta / (total + 1)) / total
    near = abs(x - mean) <= 0.1 * deviation
    return pieces(
        (near, _beta_near_mean, (x, alpha, beta)),
        (~near, _beta_far_from_mean, (x, alpha, beta)),
    )


def _beta_near_mean(x: Array, alpha: Array, beta: Array) -> Array:
    total, y = alpha + beta, 1 - x
    by_alpha = (
        47 * x * beta**4,
        (43 + 20 * (16 + 27 * beta) * x) * beta**3,
        3 * (59 + 180 * beta - 90 * x) * beta**2,
        (453 + 1620 * beta * y - 455 * x) * beta,
        8 * y * (135 * beta - 11),
    )
    inner = sum(coefficient * alpha**k for k, coefficient in enumerate(by_alpha))
    prefactor = (1 + 12 * alpha) * (1 + 12 * beta) / total**2
    return prefactor / y * inner / (12960 * alpha**3 * beta**2 * (1 + 12 * total))


def _beta_far_from_mean(x: Array, alpha: Array, beta: Array) -> Array:
    total = alpha + beta
    stirling = _stirling(alpha) * _stirling(beta) / _stirling(total)
    offset = beta * x - alpha * (1 - x)
    steep = 2 * alpha**2 * (x - 1) + alpha * beta * (x - 1) - x * beta**2
    steep = steep / (np.sqrt(2 * alpha / beta) * total**1.5 * offset**2)
    ratio = np.log(alpha / (total * x))
    depth = (beta * np.log(beta / (total * (1 - x))) + alpha * ratio) ** -1.5
    slope = np.sqrt(8 * alpha * beta / total) / offset + np.where(offset < 0, depth, -depth)
    return -x / np.sqrt(2 * alpha * beta / total) * stirling * (steep + 0.5 * ratio * slope)


def _stirling(z: Array) -> Array:
    return 1 + 1 / (12 * z) + 1 / (288 * z**2)


# Blocks: powers of log x; rows: powers of a; columns: powers of b (as named in _beta_fitted).
BETA_ABOVE = (
    ((1.003668233, -0.01061107488, -0.0657888334, 0.01201642863),
     (0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033),
     (-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013)),
    ((0.221950385, -0.3187676331, 0.01799915743, 0.01074823814),
     (-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057),
     (0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05)),
    ((-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565),
     (0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181),
     (0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05)),
)  # fmt: skip
BETA_BELOW = (
    ((1.0, -0.02924021934, -0.04438342661, 0.007285809825),
     (0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521),
     (-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149)),
    ((0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273),
     (0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956),
     (-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05)),
    ((0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05),
     (0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05),
     (-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06)),
)  # fmt: skip


def _beta_fitted(x: Array, alpha: Array, total: Array) -> Array:
    u = np.log(x)
    a = np.log(alpha) - u
    b = np.log(total) - a
    u_powers, a_powers, b_powers = (np.stack([np.ones_like(v), v, v * v, v * v * v]) for v in (u, a, b))
    fit = [
        np.einsum("ijk,in,jn,kn->n", np.array(table), u_powers[:3], a_powers[:3], b_powers)
        for table in (BETA_ABOVE, BETA_BELOW)
    ]
    return fit[0] / fit[1] * x * (digamma(total) - digamma(alpha)) / (total - alpha)


standard_gamma_gradient = vectorised(_gamma)
dirichlet_gradient = vectorised(_dirichlet)
