"""Reparameterised gradients: how gamma and Dirichlet numbers move with their concentration.

A number x drawn from a distribution function F with density p moves by −(∂F/∂α) / p when α moves (Figurnov et
al. 2018). Here F is a power of x times a series or a continued fraction, whose derivative is taken with an
imaginary step: f'(α) = Im f(α + ih) / h, exact for tiny h because nothing is subtracted. PyTorch approximates
the same derivative to about 1e-3. Arrays come in and go out as in expr/special.py. Read next:
ops/gamma_draws.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cleargrad.expr.special import digamma, put, vectorised

Array = np.ndarray
STEP = 1e-30  # of the imaginary step
LARGE = 2000.0  # a concentration from which on x is a cubed normal number as exactly as we can compute


def with_slope(function: Callable[[Array], Array], at: Array) -> tuple[Array, Array]:
    """A function's value and derivative."""
    value = function(at + 1j * STEP)
    return value.real, value.imag / STEP


# Gamma -----------------------------------------------------------------------------------------------------


def _gamma(alpha: Array, x: Array) -> Array:
    out = np.zeros(x.shape)
    inside = (x > 0) & np.isfinite(x)
    large = alpha > LARGE
    tail = x > alpha + 4 * np.sqrt(alpha) + 4
    put(out, inside & large, _gamma_large, alpha, x)
    put(out, inside & ~large & tail, _gamma_tail, alpha, x)
    put(out, inside & ~large & ~tail, _gamma_body, alpha, x)
    return out


def _gamma_body(alpha: Array, x: Array) -> Array:
    """F = x^α e^−x / Γ(α + 1) · (1 + x/(α+1) + x²/((α+1)(α+2)) + …)."""

    def series(alpha: Array) -> Array:
        term = total = np.ones_like(alpha)
        for k in range(1, int(x.max() + 12 * np.sqrt(x.max())) + 40):
            term = term * (x / (alpha + k))
            total = total + term
        return total

    total, slope = with_slope(series, alpha)
    return -x / alpha * (total * (np.log(x) - digamma(alpha + 1)) + slope)


def _gamma_tail(alpha: Array, x: Array) -> Array:
    """1 − F = x^α e^−x / Γ(α) · 1 / (x + 1 − α − 1(1 − α) / (x + 3 − α − 2(2 − α) / (x + 5 − α − …)))."""

    def fraction(alpha: Array) -> Array:
        below = np.zeros_like(alpha)
        for k in range(300, 0, -1):
            below = k * (k - alpha) / (x + 2 * k + 1 - alpha - below)
        return 1 / (x + 1 - alpha - below)

    value, slope = with_slope(fraction, alpha)
    return x * (value * (np.log(x) - digamma(alpha)) + slope)


def _gamma_large(alpha: Array, x: Array) -> Array:
    """The cube root of x / α is nearly normal (Wilson and Hilferty 1931): α moves, the normal number stays."""
    root = np.cbrt(x / alpha)
    normal = (root - 1 + 1 / (9 * alpha)) * 3 * np.sqrt(alpha)
    return root**3 + 3 * alpha * root**2 * (1 / (9 * alpha**2) - normal / (6 * alpha**1.5))


# Dirichlet -------------------------------------------------------------------------------------------------


def _dirichlet(x: Array, alpha: Array, total: Array) -> Array:
    """The gradient of one share with respect to its own concentration, divided by 1 − x.

    A share is a beta number with concentrations α and β, the sum of the others.
    """
    beta = total - alpha
    out = np.zeros(x.shape)
    inside = (x > 0) & (x < 1)
    left = x < (alpha + 1) / (total + 2)
    put(out, inside & left, _beta_left, x, alpha, beta)
    put(out, inside & ~left, _beta_right, x, alpha, beta)
    return out


def _beta_left(x: Array, alpha: Array, beta: Array) -> Array:
    """F = x^α (1 − x)^β / (α B(α, β)) · a continued fraction."""
    value, slope = with_slope(lambda alpha: _beta_fraction(x, alpha, beta), alpha)
    powers = np.log(x) - digamma(alpha) + digamma(alpha + beta) - 1 / alpha
    return -x / alpha * (value * powers + slope)


def _beta_right(x: Array, alpha: Array, beta: Array) -> Array:
    """1 − F is the same with the two sides exchanged."""
    value, slope = with_slope(lambda alpha: _beta_fraction(1 - x, beta, alpha), alpha)
    powers = np.log(x) - digamma(alpha) + digamma(alpha + beta)
    return x / beta * (value * powers + slope)


def _beta_fraction(x: Array, a: Array, b: Array) -> Array:
    """1 / (1 + d₁ / (1 + d₂ / (1 + …))), the continued fraction of the incomplete beta function."""
    largest = max(np.max(a.real), np.max(b.real))
    below = np.zeros(np.broadcast(x, a, b).shape, np.complex128)
    for m in range(60 + int(3 * np.sqrt(largest)), -1, -1):
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        below = odd / (1 + below)
        if m:
            even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
            below = even / (1 + below)
    return 1 / (1 + below)


standard_gamma_gradient = vectorised(_gamma)
dirichlet_gradient = vectorised(_dirichlet)
