"""Special functions against PyTorch, and the common ones against exact values in units of the last place."""

import mpmath
import numpy as np
import pytest
import torch

from cleargrad.expr import special, special_more

EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, -0.5, 1e30, 1e-30])
TORCH_NAMES = {"lgamma": "gammaln", "igamma": "gammainc", "igammac": "gammaincc"}


def spread(low, high, count=3000, seed=0):
    return np.random.default_rng(seed).uniform(low, high, count)


def magnitudes(low, high, count=1000, seed=1):
    return 10.0 ** spread(low, high, count, seed)


WIDE = np.concatenate([spread(-5, 5), spread(-40, 40), magnitudes(-20, 2), -magnitudes(-20, 2)])

# name -> where it is sampled, and the absolute slack that zeros and slow decay call for
UNARY = {
    "erf": (WIDE, 0),
    "erfc": (WIDE, 1e-37),
    "erfinv": (np.concatenate([spread(-1.1, 1.1), 1 - magnitudes(-7, -1)]), 0),
    "lgamma": (WIDE, 1e-6),
    "digamma": (WIDE, 2e-5),
    "i0": (WIDE, 0),
    "i0e": (WIDE, 0),
    "i1": (WIDE, 0),
    "i1e": (WIDE, 0),
    "ndtr": (WIDE, 1e-7),
    "ndtri": (np.concatenate([spread(-0.1, 1.1), magnitudes(-30, -1), 1 - magnitudes(-7, -1)]), 0),
    "log_ndtr": (WIDE, 1e-37),
    "erfcx": (np.concatenate([spread(-9, 50), magnitudes(-20, 4)]), 0),
    "sinc": (WIDE, 1e-6),
    "entr": (WIDE, 0),
    "bessel_j0": (WIDE, 2e-6),
    "bessel_j1": (WIDE, 2e-6),
    "bessel_y0": (WIDE, 2e-6),
    "bessel_y1": (WIDE, 2e-6),
    "modified_bessel_i0": (WIDE, 0),
    "modified_bessel_i1": (WIDE, 0),
    "modified_bessel_k0": (WIDE, 1e-37),
    "modified_bessel_k1": (WIDE, 1e-37),
    "scaled_modified_bessel_k0": (WIDE, 0),
    "scaled_modified_bessel_k1": (WIDE, 0),
    "spherical_bessel_j0": (WIDE, 1e-7),
    "airy_ai": (spread(-20, 20), 5e-6),
}
POLYNOMIALS = [
    *(f"{prefix}chebyshev_polynomial_{kind}" for prefix in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]


def ours(name):
    return getattr(special, name, None) or getattr(special_more, name)


def theirs(name, *arrays):
    function = getattr(torch.special, TORCH_NAMES.get(name, name))
    return function(*[torch.from_numpy(np.array(array, order="C")) for array in arrays]).numpy()


def assert_close(actual, expected, rtol, atol=0.0):
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def units(function, exact, x):
    """The largest error in units of the last place."""
    with mpmath.workdps(40):
        truth = [exact(mpmath.mpf(float(value))) for value in x]
        spacing = np.spacing(np.abs(np.array([float(value) for value in truth])).astype(x.dtype))
        errors = [(float(y) - t) / float(s) for y, t, s in zip(function(x), truth, spacing, strict=True)]
        return max(abs(float(error)) for error in errors)


@pytest.mark.parametrize("name", UNARY)
def test_float32_agrees_with_torch(name):
    # PyTorch in float64 is the better witness: its float32 Bessel functions stray further than 1e-5.
    x, slack = UNARY[name]
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        expected = theirs(name, x.astype(np.float64)).astype(np.float32)
    assert_close(ours(name)(x), expected, rtol=1e-6, atol=slack)


@pytest.mark.parametrize("name", UNARY)
def test_float64_agrees_with_torch(name):
    x, slack = UNARY[name]
    # PyTorch joins its Bessel and Airy branches with errors near 1e-6, which the slack allows for.
    atol = slack if "bessel" in name or "airy" in name else min(slack, 1e-10)
    assert_close(ours(name)(x), theirs(name, x), rtol=1e-10, atol=atol)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_agree_with_torch(name, dtype):
    x = EDGES.astype(dtype)
    if "bessel" in name or "airy" in name or name == "sinc":
        x = x[x != dtype(1e30)]  # no digit of the angle is left there
    assert_close(ours(name)(x), theirs(name, x), rtol=2e-6, atol=5e-6)


EXACT = {
    "erf": (mpmath.erf, spread(-4, 4, 300)),
    "erfc": (mpmath.erfc, spread(-4, 9, 300)),
    "erfinv": (mpmath.erfinv, np.concatenate([spread(-0.99, 0.99, 200), 1 - magnitudes(-6, -1, 100)])),
    "lgamma": (mpmath.loggamma, np.concatenate([spread(0.01, 12, 300), magnitudes(-6, 6, 100)])),
    "digamma": (mpmath.digamma, np.concatenate([spread(0.01, 12, 300), magnitudes(-6, 6, 100)])),
}


@pytest.mark.parametrize("name", EXACT)
def test_common_functions_are_exact_to_the_last_digits(name):
    exact, x = EXACT[name]
    assert units(ours(name), exact, x) < 5
    assert units(ours(name), exact, x.astype(np.float32)) < 2


def test_erf_in_float32_over_all_magnitudes():
    # Every 997th positive float up to 5.
    x = np.arange(0, np.float32(5).view(np.uint32), 997, dtype=np.uint32).view(np.float32)
    actual = special.erf(x)
    expected = torch.erf(torch.from_numpy(x.astype(np.float64))).numpy()
    spacing = np.spacing(np.minimum(expected, 0.9999999).astype(np.float32))
    assert (np.abs(actual - expected) <= 2 * spacing).all()
    assert (actual <= 1).all()
    assert (actual[x > 4] == 1).all()
    np.testing.assert_array_equal(special.erf(-x), -actual)


def test_ndtr_keeps_its_left_tail():
    x = np.array([-10.0, -20.0, -37.0])
    expected = [float(mpmath.ncdf(value)) for value in x]
    np.testing.assert_allclose(special.ndtr(x), expected, rtol=1e-12)


@pytest.mark.parametrize("n", range(6))
def test_polygamma(n):
    x = np.concatenate([spread(-6, 12), magnitudes(-3, 3)])
    x = x[np.abs(x - np.rint(x)) > 1e-3]
    expected = torch.polygamma(n, torch.from_numpy(x)).numpy()
    assert_close(special.polygamma(n, x), expected, rtol=2e-9, atol=1e-9)
    assert special.polygamma(n, x.astype(np.float32)).dtype == np.float32


def test_polygamma_at_the_edges():
    x = np.array([0.0, -0.0, np.nan, -np.inf, np.inf])
    for n in range(4):
        assert_close(special.polygamma(n, x), torch.polygamma(n, torch.from_numpy(x)).numpy(), rtol=0)


def test_zeta():
    x, q = 1 + magnitudes(-3, 1.5, 3000), magnitudes(-2, 3, 3000, seed=5)
    assert_close(special.zeta(x, q), theirs("zeta", x, q), rtol=1e-13)
    x, q = np.meshgrid(
        [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0], [0.0, -0.0, -1.0, -1.5, -2.3, 0.5, 2.0, np.inf, np.nan]
    )
    assert_close(special.zeta(x, q), theirs("zeta", x, q), rtol=1e-13)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_a_logarithm(name, dtype):
    x, y = np.meshgrid(EDGES.astype(dtype), EDGES.astype(dtype))
    assert_close(ours(name)(x, y), theirs(name, x, y), rtol=1e-6)
    assert ours(name)(x, 2.0).dtype == dtype


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma(name):
    a = magnitudes(-3, 5, 6000)
    x = a * magnitudes(-0.6, 0.6, 6000, seed=2)
    x[:2000] = magnitudes(-3, 3, 2000, seed=3)
    assert_close(ours(name)(a, x), theirs(name, a, x), rtol=1e-8, atol=1e-300)
    single = ours(name)(a.astype(np.float32), x.astype(np.float32))
    expected = theirs(name, a.astype(np.float32).astype(np.float64), x.astype(np.float32).astype(np.float64))
    assert_close(single, expected.astype(np.float32), rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize(
    ("a", "x"), [(0.01, 0.1), (8.0, 7.0), (60.0, 60.0), (60.0, 50.0), (1e4, 1.01e4), (2.0, 30.0)]
)
def test_incomplete_gamma_against_exact_values(a, x):
    lower = float(mpmath.gammainc(a, 0, x, regularized=True))
    upper = float(mpmath.gammainc(a, x, regularized=True))
    np.testing.assert_allclose(special_more.igamma(np.array(a), np.array(x)), lower, rtol=3e-14)
    np.testing.assert_allclose(special_more.igammac(np.array(a), np.array(x)), upper, rtol=3e-14)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_at_the_edges(name):
    values = np.array([0.0, np.inf, -np.inf, -1.0, 0.5, 1.0, 60.0, 1e4])
    a, x = np.meshgrid(values, values)
    assert_close(ours(name)(a, x), theirs(name, a, x), rtol=1e-8)
    assert np.isnan(ours(name)(np.array([1.0, np.nan]), np.array([np.nan, 1.0]))).all()


@pytest.mark.parametrize("name", POLYNOMIALS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_orthogonal_polynomials(name, dtype):
    x, n = np.meshgrid(spread(-2, 2, 200).astype(dtype), np.arange(-1, 12).astype(dtype))
    with np.errstate(over="ignore"):
        expected = theirs(name, x.astype(np.float64), n.astype(np.float64)).astype(dtype)
    assert_close(ours(name)(x, n), expected, rtol=1e-5, atol=1e-6 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_orthogonal_polynomials_at_the_edges(name):
    x, n = np.meshgrid(
        [0.0, 1.0, -1.0, np.inf, -np.inf], [0.0, 1.0, 2.0, 3.0, 3.7, -0.5, -4.0, np.inf, np.nan]
    )
    assert_close(ours(name)(x, n), theirs(name, x, n), rtol=0)
    x = np.array([0.25, 0.75])
    assert_close(ours(name)(x, 3.0), theirs(name, x, np.full(2, 3.0)), rtol=1e-14)


@pytest.mark.parametrize("name", ["erf", "erfc", "lgamma", "i0"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4)])
def test_shapes(name, shape):
    x = np.full(shape, 0.3, np.float32)
    assert_close(ours(name)(x), theirs(name, x), rtol=1e-6)


def test_two_operands_broadcast():
    a, x = np.array([[0.5], [2.0]], np.float32), np.array([0.1, 1.0, 3.0], np.float32)
    expected = theirs("igamma", *np.broadcast_arrays(a, x))
    assert_close(special_more.igamma(a, x), expected, rtol=1e-6)
    zero_dimensional = special_more.igamma(np.float32(0.5), np.array(0.1, np.float32))
    assert zero_dimensional.shape == () and zero_dimensional.dtype == np.float32


def test_layouts():
    x = spread(-3, 3, 5 * 6 * 7 * 8).reshape(5, 6, 7, 8).astype(np.float32)
    repeated = np.broadcast_to(x[:1], x.shape)
    for view in (
        x.T,
        x.transpose(0, 3, 1, 2),
        x[::2, :, ::-1],
        x[:, 1:3, ::3].transpose(2, 0, 3, 1),
        repeated,
    ):
        assert_close(special.erf(view), theirs("erf", view), rtol=3e-7)
        assert_close(special.lgamma(view), theirs("lgamma", view), rtol=2e-6, atol=1e-6)
    assert special.erf(x.T).strides == x.T.strides


def test_many_pieces():
    x = spread(-3, 3, 3 * special.PIECE + 5)
    assert_close(special.erf(x), theirs("erf", x), rtol=1e-14)
    single = x.astype(np.float32)
    assert_close(special.erf(single), theirs("erf", single), rtol=3e-7)
