"""Convolution kernels in machine code against the NumPy kernels: all options, odd sizes, both adjoints."""

from __future__ import annotations

import numpy as np
import pytest

from cleargrad.devices.cpu.arrays import convolution as reference
from cleargrad.devices.cpu.arrays import native
from cleargrad.devices.cpu.kernels import convolution
from cleargrad.devices.cpu.launch import Launcher, _ready

# x shape, w shape, stride, padding, dilation, groups
CASES = [
    ((2, 3, 9, 11), (5, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    ((2, 3, 9, 11), (5, 3, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((2, 4, 9, 11), (6, 2, 3, 2), (2, 3), (1, 2), (2, 1), 2),
    ((2, 4, 13), (6, 2, 4), (3,), (2,), (2,), 2),
    ((2, 4, 5, 6, 7), (6, 2, 2, 2, 2), (1, 2, 1), (1, 1, 1), (2, 1, 1), 2),
    ((2, 4, 5, 6, 7), (16, 4, 1, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1),
    ((5, 32, 26, 26), (64, 32, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    ((2, 1, 28, 28), (32, 1, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    ((3, 8, 7, 7), (8, 1, 3, 3), (1, 1), (1, 1), (1, 1), 8),
    ((3, 8, 30, 30), (16, 1, 3, 3), (2, 1), (1, 1), (1, 1), 8),
    ((1, 3, 40), (7, 3, 1), (1,), (0,), (1,), 1),
    ((1, 100, 20, 20), (70, 100, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((2, 3, 9, 11), (1, 3, 5, 5), (1, 1), (2, 2), (1, 1), 1),
    ((1, 1, 20_000), (2, 1, 5), (1,), (2,), (1,), 1),
    ((1, 1, 20_000), (20, 1, 5), (1,), (2,), (1,), 1),
    ((1, 150, 10, 10), (100, 150, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 2, 4, 4), (2, 2, 1, 1), (3, 3), (0, 0), (1, 1), 1),
    ((2, 2, 6, 6), (2, 2, 2, 2), (1, 1), (0, 0), (5, 5), 1),
    ((1, 2, 3, 3), (3, 2, 3, 3), (1, 1), (5, 4), (1, 1), 1),
    ((7, 12, 8, 8), (12, 12, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((0, 3, 9, 9), (4, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
]


def numbers(*shape: int, kind: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    size = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(actual / size, expected / size, rtol=0, atol=30 * np.finfo(expected.dtype).eps)


@pytest.mark.parametrize("threads", (1, 3))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_agree_with_numpy(case: tuple, threads: int) -> None:
    x_shape, w_shape, stride, padding, dilation, groups = case
    x, w, bias = numbers(*x_shape), numbers(*w_shape, seed=1), numbers(w_shape[0], seed=2)
    rest = (stride, padding, dilation, groups)
    expected = reference.convolve(x, w, *rest, bias)
    out = np.full_like(expected, np.nan)
    chosen = convolution.forward(x_shape, w_shape, *rest, "float32", threads, bias=True)
    Launcher(chosen).run_named(source=x, weight=w, bias=bias, place=out)
    assert_close(out, expected)

    gradient = numbers(*expected.shape, seed=3)
    expected = reference.convolve_input(gradient, w, x_shape[2:], *rest)
    out = np.full_like(expected, np.nan)
    chosen = convolution.input_gradient(gradient.shape, w_shape, x_shape[2:], *rest, "float32", threads)
    Launcher(chosen).run_named(source=gradient, weight=w, place=out)
    assert_close(out, expected)

    expected = reference.convolve_weight(gradient, x, w_shape[2:], *rest)
    out = np.full_like(expected, np.nan)
    chosen = convolution.weight_gradient(gradient.shape, x_shape, w_shape[2:], *rest, "float32", threads)
    Launcher(chosen).run_named(source=x, gradient=gradient, place=out)
    assert_close(out, expected)


def test_float64() -> None:
    x, w = numbers(2, 3, 9, 11, kind="float64"), numbers(5, 3, 3, 3, kind="float64")
    rest = ((2, 1), (1, 1), (1, 1), 1)
    out = native.convolve(x, w, *rest)
    assert_close(out, reference.convolve(x, w, *rest))
    assert_close(
        native.convolve_input(out, w, (9, 11), *rest), reference.convolve_input(out, w, (9, 11), *rest)
    )
    assert_close(
        native.convolve_weight(out, x, (3, 3), *rest), reference.convolve_weight(out, x, (3, 3), *rest)
    )


def test_output_padding_leaves_room_that_only_the_bias_reaches() -> None:
    """A transposed convolution may have positions that no window covers."""
    g, w, bias = numbers(2, 3, 4, 4), numbers(3, 5, 2, 2, seed=1), numbers(5, seed=2)
    rest = ((3, 3), (0, 0), (1, 1), 1)
    out = native.convolve_input(g, w, (13, 12), *rest, bias)
    assert_close(out, reference.convolve_input(g, w, (13, 12), *rest, bias))


def test_relu_and_its_gradient_at_the_end() -> None:
    x, w, bias = numbers(2, 3, 9, 9), numbers(5, 3, 3, 3, seed=1), numbers(5, seed=2)
    x[0, 0, 4, 4] = np.nan
    rest = ((1, 1), (1, 1), (1, 1), 1)
    plain = reference.convolve(x, w, *rest, bias)
    out = np.empty_like(plain)
    chosen = convolution.forward(x.shape, w.shape, *rest, "float32", 1, bias=True, relu=True)
    Launcher(chosen).run_named(source=x, weight=w, bias=bias, place=out)
    expected = np.where(plain <= 0, 0, plain)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(out).sum() == 9 * 5

    gradient, gate = numbers(*plain.shape, seed=3), numbers(*x.shape, seed=4)
    out = np.empty_like(x)
    chosen = convolution.input_gradient(gradient.shape, w.shape, (9, 9), *rest, "float32", 1, gate=True)
    Launcher(chosen).run_named(source=gradient, weight=w, gate=gate, place=out)
    expected = np.where(gate <= 0, 0, reference.convolve_input(gradient, w, (9, 9), *rest))
    assert_close(out, expected.astype(np.float32))


def test_a_launch_is_made_once_and_serves_other_arrays() -> None:
    rest = ((1, 1), (0, 0), (1, 1), 1)
    before = len(_ready)
    for seed in range(3):
        x, w = numbers(2, 3, 8, 8, seed=seed)[:, :, ::-1], numbers(4, 3, 3, 3, seed=seed + 9)
        assert_close(native.convolve(x, w, *rest), reference.convolve(x, w, *rest))
    assert len(_ready) <= before + 1


def test_numpy_takes_what_kernels_do_not() -> None:
    rest = ((1,), (0,), (1,), 1)
    whole = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(
        native.convolve(whole, whole[:, :, :2], *rest), reference.convolve(whole, whole[:, :, :2], *rest)
    )
    long, wide = numbers(1, 1, 3_000_000), numbers(1, 1, 1_500_000)
    with pytest.raises(convolution.TooLarge):
        convolution.forward(long.shape, wide.shape, *rest, "float32", 1)
