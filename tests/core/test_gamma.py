"""Gamma and Dirichlet numbers, and how they move with their concentrations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special, stats

import cleargrad
from cleargrad.expr.gamma_gradient import dirichlet_gradient, standard_gamma_gradient


def concentrations(dtype: str, shape: tuple = (300, 4)) -> np.ndarray:
    return np.exp(np.random.default_rng(0).uniform(-4, 4, shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["_standard_gamma", "_sample_dirichlet"])
def test_draws_are_pytorchs(name: str, dtype: str) -> None:
    alpha = concentrations(dtype)
    alpha[0], alpha[1] = 1e-4, 5e-4  # the numbers vanish
    cleargrad.manual_seed(3)
    torch.manual_seed(3)
    cleargrad.randn(3), torch.randn(3)  # half a pair of normals waits in the stream
    ours = getattr(cleargrad, name)(cleargrad.from_numpy(alpha)).numpy()
    theirs = getattr(torch, name)(torch.from_numpy(alpha)).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=0 if dtype == "float32" else 1e-14)
    assert bytes(cleargrad.get_rng_state().numpy()) == bytes(torch.get_rng_state().numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    for library in (cleargrad, torch):
        ones = library.ones(2, dtype=getattr(library, dtype))
        for name in ("_standard_gamma", "_sample_dirichlet"):
            with pytest.raises(NotImplementedError):
                getattr(library, name)(ones)


def test_gradients_are_pytorchs_as_far_as_those_are_right() -> None:
    """PyTorch's approximation is good to about 1e-3, ours to 1e-6."""
    alpha = concentrations("float64", (4000, 2))
    x = torch._standard_gamma(torch.from_numpy(alpha))
    expected = torch._standard_gamma_grad(torch.from_numpy(alpha), x).numpy()
    np.testing.assert_allclose(standard_gamma_gradient(alpha, x.numpy()), expected, rtol=5e-3)
    shares = torch._sample_dirichlet(torch.from_numpy(alpha))
    total = np.broadcast_to(alpha.sum(-1, keepdims=True), alpha.shape).copy()
    expected = torch._dirichlet_grad(shares, torch.from_numpy(alpha), torch.from_numpy(total)).numpy()
    np.testing.assert_allclose(dirichlet_gradient(shares.numpy(), alpha, total), expected, rtol=1e-2)


def test_gradients_are_those_of_the_quantiles() -> None:
    """Independently of PyTorch: a number stays at its place among all while the concentration moves."""
    level = np.linspace(0.02, 0.98, 25)[:, None]
    alpha, step = np.geomspace(0.2, 40, 12), 1e-5

    def gamma(a: np.ndarray) -> np.ndarray:
        return special.gammaincinv(a, level)

    slope = (gamma(alpha + step) - gamma(alpha - step)) / (2 * step)
    np.testing.assert_allclose(standard_gamma_gradient(alpha, gamma(alpha)), slope, rtol=1e-5)

    def beta(a: np.ndarray) -> np.ndarray:
        return stats.beta.ppf(level, a, 3.0)

    slope = (beta(alpha + step) - beta(alpha - step)) / (2 * step)
    x = beta(alpha)
    np.testing.assert_allclose(dirichlet_gradient(x, alpha, alpha + 3.0) * (1 - x), slope, rtol=1e-5)
