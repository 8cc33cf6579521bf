"""Convolution kernels against PyTorch: values, both adjoints, half precision, and how blocks are cut."""

import ml_dtypes
import numpy as np
import pytest
import torch

from cleargrad.devices.cpu.arrays import convolution
from cleargrad.devices.cpu.arrays.convolution import convolve, convolve_input, convolve_weight

# x shape, w shape, stride, padding, dilation, groups
CASES = [
    ((2, 3, 10), (4, 3, 3), (1,), (0,), (1,), 1),
    ((2, 4, 11), (6, 2, 3), (2,), (1,), (2,), 2),
    ((3, 2, 9), (2, 2, 1), (3,), (2,), (1,), 1),
    ((2, 3, 8, 9), (4, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    ((2, 3, 8, 9), (2, 3, 3, 2), (1, 1), (1, 1), (1, 1), 1),
    ((2, 4, 8, 9), (6, 2, 3, 2), (2, 3), (1, 0), (1, 2), 2),
    ((2, 5, 7, 7), (3, 5, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 5, 7, 7), (5, 5, 1, 1), (2, 2), (1, 1), (1, 1), 1),
    ((2, 6, 7, 8), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1), 6),
    ((2, 3, 7, 8), (6, 1, 3, 3), (2, 1), (2, 1), (1, 2), 3),
    ((2, 3, 5, 5), (4, 3, 5, 5), (1, 1), (2, 2), (1, 1), 1),
    ((0, 3, 8, 8), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 4, 6, 5, 7), (4, 2, 3, 2, 3), (1, 2, 2), (1, 0, 1), (1, 2, 1), 2),
    ((1, 2, 4, 5, 6), (3, 2, 2, 2, 2), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
]
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-13}


def torch_convolve(x, w, stride, padding, dilation, groups):
    function = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    return function(x, w, None, stride, padding, dilation, groups)


def sample(shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def assert_near(actual, expected, tolerance):
    assert actual.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def check_all_three(x, w, settings, tolerance):
    tx = torch.tensor(np.ascontiguousarray(x), requires_grad=True)
    tw = torch.tensor(np.ascontiguousarray(w), requires_grad=True)
    expected = torch_convolve(tx, tw, *settings)
    actual = convolve(x, w, *settings)
    assert actual.dtype == x.dtype
    assert_near(actual, expected.detach().numpy(), tolerance)
    g = sample(actual.shape, x.dtype, seed=2)
    expected.backward(torch.tensor(g))
    assert_near(convolve_input(g, w, x.shape[2:], *settings), tx.grad.numpy(), tolerance)
    assert_near(convolve_weight(g, x, w.shape[2:], *settings), tw.grad.numpy(), tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_values_and_adjoints(case, dtype):
    x_shape, w_shape, *settings = case
    check_all_three(sample(x_shape, dtype), sample(w_shape, dtype, seed=1), settings, TOLERANCE[dtype])


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_any_size_give_the_same_result(case, monkeypatch):
    x_shape, w_shape, *settings = case
    for block_bytes in (1, 2000, 20000):
        monkeypatch.setattr(convolution, "BLOCK_BYTES", block_bytes)
        check_all_three(sample(x_shape), sample(w_shape, seed=1), settings, 1e-13)


@pytest.mark.parametrize("case", CASES)
def test_non_contiguous_arguments(case):
    x_shape, w_shape, *settings = case
    x = sample(x_shape[::-1]).transpose()
    w = sample((*w_shape[:-1], 2 * w_shape[-1]), seed=1)[..., ::-2]
    check_all_three(x, w, settings, 1e-13)


def test_broadcast_gradient_of_a_sum():
    x, w = sample((2, 3, 6, 6)), sample((4, 3, 3, 3), seed=1)
    g = np.broadcast_to(np.float64(1.0), (2, 4, 4, 4))
    settings = ((1, 1), (0, 0), (1, 1), 1)
    np.testing.assert_allclose(
        convolve_weight(g, x, (3, 3), *settings), convolve_weight(g.copy(), x, (3, 3), *settings)
    )
    np.testing.assert_allclose(
        convolve_input(g, w, (6, 6), *settings), convolve_input(g.copy(), w, (6, 6), *settings)
    )


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)])
def test_half_precision_rounds_once(dtype):
    x, w = sample((2, 4, 8, 8)).astype(dtype), sample((4, 2, 3, 3), seed=1).astype(dtype)
    settings = ((1, 1), (1, 1), (1, 1), 2)
    g = sample((2, 4, 8, 8), seed=2).astype(dtype)
    wide_x, wide_w, wide_g = (a.astype(np.float32) for a in (x, w, g))
    pairs = [
        (convolve(x, w, *settings), convolve(wide_x, wide_w, *settings)),
        (convolve_input(g, w, (8, 8), *settings), convolve_input(wide_g, wide_w, (8, 8), *settings)),
        (convolve_weight(g, x, (3, 3), *settings), convolve_weight(wide_g, wide_x, (3, 3), *settings)),
    ]
    for half, wide in pairs:
        assert half.dtype == dtype
        np.testing.assert_array_equal(half, wide.astype(dtype))


@pytest.mark.parametrize(
    "shape, w_shape, stride, padding, output_padding, dilation, groups",
    [
        ((2, 4, 5), (4, 3, 3), (2,), (1,), (1,), (1,), 1),
        ((2, 4, 5, 6), (4, 2, 3, 3), (2, 3), (1, 0), (1, 2), (1, 1), 2),
        ((2, 4, 5, 6), (4, 5, 3, 3), (1, 1), (1, 1), (1, 1), (2, 2), 1),
        ((2, 4, 5, 6), (4, 5, 3, 3), (1, 1), (3, 3), (0, 0), (1, 1), 1),
        ((1, 2, 3, 4, 3), (2, 2, 2, 3, 2), (2, 2, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1), 1),
    ],
)
def test_adjoint_in_x_is_the_transposed_convolution(
    shape, w_shape, stride, padding, output_padding, dilation, groups
):
    g, w = sample(shape), sample(w_shape, seed=1)
    function = getattr(torch.nn.functional, f"conv_transpose{g.ndim - 2}d")
    expected = function(
        torch.tensor(g), torch.tensor(w), None, stride, padding, output_padding, groups, dilation
    )
    actual = convolve_input(g, w, tuple(expected.shape[2:]), stride, padding, dilation, groups)
    assert_near(actual, expected.numpy(), 1e-13)
