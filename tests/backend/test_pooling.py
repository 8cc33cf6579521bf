"""Pooling kernels against PyTorch: values, indices under ties and NaN, adjoints, unfold and fold."""

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cleargrad.devices.cpu.arrays import pooling

# x shape, kernel, stride, padding
WINDOWS = [
    ((2, 3, 10), (3,), (2,), (1,)),
    ((2, 3, 11), (2,), (3,), (0,)),
    ((2, 3, 8, 9), (2, 2), (2, 2), (0, 0)),
    ((2, 3, 8, 9), (3, 2), (2, 3), (1, 1)),
    ((1, 2, 7, 7), (4, 3), (3, 2), (2, 1)),
    ((2, 2, 5, 6, 7), (2, 3, 2), (2, 1, 3), (1, 1, 0)),
    ((2, 1, 20, 20), (17, 17), (1, 2), (8, 8)),
]
ADAPTIVE = [
    ((2, 3, 10), (3,)),
    ((2, 3, 8, 9), (1, 1)),
    ((2, 3, 8, 9), (4, 3)),
    ((2, 3, 8, 9), (5, 12)),
    ((1, 2, 3, 7, 5), (2, 4, 7)),
]
# avg_pool1d takes no divisor
AVERAGES = [(None, window) for window in WINDOWS] + [(5, window) for window in WINDOWS if len(window[1]) > 1]
FLOATS = [np.float32, np.float64]
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def sample(shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tied(shape, seed=0):
    """Few distinct values, so that almost every window has a tie, with infinities and NaN among them."""
    choices = np.array([-np.inf, -1.0, 0.0, 1.0, 2.0, np.inf, np.nan])
    weights = [0.3, 0.3, 0.2, 0.1, 0.05, 0.02, 0.03]
    return np.random.default_rng(seed).choice(choices, size=shape, p=weights)


def to_torch(x):
    return torch.tensor(np.ascontiguousarray(x))


def torch_function(name, x):
    return getattr(F, name.format(x.ndim - 2))


def assert_pairs_equal(actual, expected):
    values, indices = expected
    np.testing.assert_array_equal(actual[0], values.numpy())
    np.testing.assert_array_equal(actual[1], indices.numpy())
    assert actual[1].dtype == np.int64


def assert_linear_pair(forward, adjoint, x, expected):
    """`forward` gives torch's value and `adjoint` torch's gradient, up to rounding."""
    tolerance = 1e-5 if x.dtype == np.float32 else 1e-12
    tx = to_torch(x).requires_grad_()
    out = expected(tx)
    actual = forward(x)
    assert actual.dtype == x.dtype
    np.testing.assert_allclose(actual, out.detach().numpy(), rtol=tolerance, atol=tolerance)
    g = sample(actual.shape, x.dtype, seed=5)
    out.backward(to_torch(g))
    gradient = adjoint(g)
    assert gradient.dtype == x.dtype
    np.testing.assert_allclose(gradient, tx.grad.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("make", [sample, tied])
@pytest.mark.parametrize("shape, kernel, stride, padding", WINDOWS)
def test_max_pool(shape, kernel, stride, padding, make, ceil_mode):
    for dilation in (1, 2):
        dilations = (dilation,) * len(kernel)
        extents = zip(shape[2:], kernel, padding)
        if any(n + 2 * p < dilation * (k - 1) + 1 for n, k, p in extents):
            continue
        x = make(shape)
        actual = pooling.max_pool(x, kernel, stride, padding, dilations, ceil_mode)
        reference = torch_function("max_pool{}d", x)
        expected = reference(to_torch(x), kernel, stride, padding, dilations, ceil_mode, return_indices=True)
        assert_pairs_equal(actual, expected)


def test_max_pool_of_integers_and_of_an_empty_batch():
    x = np.random.default_rng(0).integers(-3, 3, (2, 3, 6, 6))
    settings = ((3, 3), (2, 2), (1, 1), (1, 1), False)
    expected = F.max_pool2d(to_torch(x), *settings, return_indices=True)
    assert_pairs_equal(pooling.max_pool(x, *settings), expected)
    values, indices = pooling.max_pool(np.zeros((0, 3, 6, 6)), *settings)
    assert values.shape == indices.shape == (0, 3, 3, 3)


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision(dtype):
    x = sample((2, 3, 7, 8)).astype(dtype)
    wide = x.astype(np.float32)
    for function, *settings in [
        (pooling.max_pool, (3, 3), (2, 2), (1, 1), (1, 1), False),
        (pooling.adaptive_max_pool, (3, 3)),
    ]:
        values, indices = function(x, *settings)
        wide_values, wide_indices = function(wide, *settings)
        assert values.dtype == dtype
        np.testing.assert_array_equal(values.astype(np.float32), wide_values)
        np.testing.assert_array_equal(indices, wide_indices)
    for function, *settings in [
        (pooling.avg_pool, (3, 3), (2, 2), (1, 1), False, True, None),
        (pooling.avg_pool_adjoint, (14, 16), (2, 2), (2, 2), (0, 0), False, True, None),
        (pooling.adaptive_avg_pool, (3, 3)),
        (pooling.adaptive_avg_pool_adjoint, (10, 20)),
    ]:
        result = function(x, *settings)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, function(wide, *settings).astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("divisor, window", AVERAGES)
def test_avg_pool(window, divisor, count_include_pad, ceil_mode, dtype):
    shape, kernel, stride, padding = window
    settings = (kernel, stride, padding, ceil_mode, count_include_pad)
    extra = () if len(kernel) == 1 else (divisor,)
    assert_linear_pair(
        lambda x: pooling.avg_pool(x, *settings, divisor),
        lambda g: pooling.avg_pool_adjoint(g, shape[2:], *settings, divisor),
        sample(shape, dtype),
        lambda x: torch_function("avg_pool{}d", x)(x, *settings, *extra),
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, size", ADAPTIVE)
def test_adaptive_avg_pool(shape, size, dtype):
    assert_linear_pair(
        lambda x: pooling.adaptive_avg_pool(x, size),
        lambda g: pooling.adaptive_avg_pool_adjoint(g, shape[2:]),
        sample(shape, dtype),
        lambda x: torch_function("adaptive_avg_pool{}d", x)(x, size),
    )


@pytest.mark.parametrize("make", [sample, tied])
@pytest.mark.parametrize("shape, size", ADAPTIVE)
def test_adaptive_max_pool(shape, size, make):
    x = make(shape)
    expected = torch_function("adaptive_max_pool{}d", x)(to_torch(x), size, return_indices=True)
    assert_pairs_equal(pooling.adaptive_max_pool(x, size), expected)


def test_adaptive_results_are_new_arrays():
    x = sample((1, 2, 4, 4))
    assert not np.shares_memory(pooling.adaptive_avg_pool(x, (4, 4)), x)
    assert pooling.adaptive_avg_pool(np.zeros((0, 2, 4, 4)), (1, 1)).shape == (0, 2, 1, 1)
    assert pooling.adaptive_max_pool(np.zeros((0, 2, 4, 4)), (3, 3))[0].shape == (0, 2, 3, 3)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("make", [sample, tied])
@pytest.mark.parametrize(
    "shape, kernel, size",
    [
        ((2, 3, 12, 15), (2, 3), (5, 4)),
        ((2, 3, 12, 15), (3, 3), (1, 13)),
        ((2, 3, 8, 9, 10), (2, 2, 3), (4, 3, 2)),
    ],
)
def test_fractional_max_pool(shape, kernel, size, make, dtype):
    x = make(shape).astype(dtype)
    samples = np.random.default_rng(3).random((*shape[:2], len(kernel))).astype(dtype)
    name = f"fractional_max_pool{len(kernel)}d_with_indices"
    expected = getattr(F, name)(to_torch(x), kernel, size, _random_samples=to_torch(samples))
    assert_pairs_equal(pooling.fractional_max_pool(x, kernel, size, samples), expected)


@pytest.mark.parametrize("shape, kernel, stride, padding", WINDOWS)
def test_gather_and_scatter_give_the_gradient_of_max_pool(shape, kernel, stride, padding):
    x = sample(shape)
    settings = (kernel, stride, padding, (1,) * len(kernel), False)
    values, indices = pooling.max_pool(x, *settings)
    np.testing.assert_array_equal(pooling.gather_plane(x, indices), values)
    tx = to_torch(x).requires_grad_()
    g = sample(values.shape, seed=1)
    torch_function("max_pool{}d", x)(tx, *settings).backward(to_torch(g))
    gradient = pooling.scatter_plane(g, indices, shape[2:])
    np.testing.assert_allclose(gradient, tx.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_non_contiguous_arguments():
    x = sample((9, 8, 3, 2)).transpose()[:, :, ::-1]
    copy = x.copy()
    settings = ((3, 2), (2, 1), (1, 1))
    for function, *arguments in [
        (pooling.avg_pool, *settings, False, True, None),
        (pooling.adaptive_avg_pool, (3, 4)),
        (pooling.im2col, *settings, (1, 1)),
    ]:
        np.testing.assert_array_equal(function(x, *arguments), function(copy, *arguments))
    for function, *arguments in [
        (pooling.max_pool, *settings, (1, 1), False),
        (pooling.adaptive_max_pool, (3, 4)),
    ]:
        actual, expected = function(x, *arguments), function(copy, *arguments)
        np.testing.assert_array_equal(actual[0], expected[0])
        np.testing.assert_array_equal(actual[1], expected[1])
        np.testing.assert_array_equal(pooling.gather_plane(x, actual[1]), actual[0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "kernel, stride, padding, dilation",
    [((2, 3), (1, 1), (0, 0), (1, 1)), ((3, 2), (2, 3), (1, 1), (1, 2)), ((1, 1), (2, 2), (0, 0), (1, 1))],
)
def test_im2col_and_col2im(kernel, stride, padding, dilation, dtype):
    shape = (2, 3, 8, 9)
    assert_linear_pair(
        lambda x: pooling.im2col(x, kernel, stride, padding, dilation),
        lambda g: pooling.col2im(g, shape[2:], kernel, stride, padding, dilation),
        sample(shape, dtype),
        lambda x: F.unfold(x, kernel, dilation, padding, stride),
    )
    columns = pooling.im2col(sample(shape, dtype), kernel, stride, padding, dilation)
    expected = F.fold(to_torch(columns), shape[2:], kernel, dilation, padding, stride).numpy()
    actual = pooling.col2im(columns, shape[2:], kernel, stride, padding, dilation)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
