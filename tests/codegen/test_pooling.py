"""Pooling kernels in machine code against the NumPy kernels: windows, ties, infinities and NaN."""

from __future__ import annotations

import numpy as np
import pytest

from cleargrad.devices.cpu.arrays import native
from cleargrad.devices.cpu.arrays import pooling as reference
from cleargrad.devices.cpu.kernels import pooling
from cleargrad.devices.cpu.launch import Launcher

# x shape, kernel, stride, padding, dilation, ceil_mode
CASES = [
    ((2, 3, 24, 24), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((2, 3, 9, 11), (3, 3), (2, 2), (1, 1), (1, 1), False),
    ((2, 3, 9, 11), (3, 3), (2, 2), (1, 1), (1, 1), True),
    ((2, 3, 9, 31), (3, 2), (1, 3), (1, 1), (2, 3), False),
    ((2, 3, 40), (3,), (1,), (1,), (1,), False),
    ((1, 1, 20_000), (4,), (3,), (2,), (1,), True),
    ((2, 3, 5, 6, 7), (2, 2, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1), False),
    ((1, 2, 7, 7), (2, 2), (3, 3), (0, 0), (1, 1), False),
    ((1, 2, 7, 7), (7, 7), (7, 7), (0, 0), (1, 1), False),
]


def numbers(*shape: int, kind: str = "float32", spoiled: bool = False) -> np.ndarray:
    """Random numbers; spoiled ones are full of ties, infinities and NaN."""
    source = np.random.default_rng(0)
    x = source.standard_normal(shape).astype(kind)
    if spoiled:
        x = np.round(x)
        x.flat[source.integers(x.size, size=x.size // 5)] = np.nan
        x.flat[source.integers(x.size, size=x.size // 3)] = -np.inf
        x[0, 0] = -np.inf
    return x


@pytest.mark.parametrize("spoiled", (False, True))
@pytest.mark.parametrize("kind", ("float32", "float64"))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_maxima(case: tuple, kind: str, spoiled: bool) -> None:
    shape, *settings = case
    x = numbers(*shape, kind=kind, spoiled=spoiled)
    values, indices = native.max_pool(x, *settings)
    expected, places = reference.max_pool(x, *settings)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_array_equal(native.max_values(x, *settings), expected)


@pytest.mark.parametrize("count_include_pad", (False, True))
@pytest.mark.parametrize("case", [case for case in CASES if set(case[4]) == {1}], ids=str)
def test_means_and_their_adjoint(case: tuple, count_include_pad: bool) -> None:
    shape, kernel, stride, padding, _, ceil_mode = case
    settings = (kernel, stride, padding, ceil_mode, count_include_pad, None)
    x = numbers(*shape)
    mean = native.avg_pool(x, *settings)
    np.testing.assert_allclose(mean, reference.avg_pool(x, *settings), rtol=1e-5, atol=1e-6)
    back = native.avg_pool_adjoint(mean, shape[2:], *settings)
    expected = reference.avg_pool_adjoint(mean, shape[2:], *settings)
    np.testing.assert_allclose(back, expected, rtol=1e-5, atol=1e-6)


def test_a_divisor_of_ones_own() -> None:
    x = numbers(2, 3, 9, 11)
    settings = ((3, 2), (2, 2), (1, 0), False, True, 5)
    np.testing.assert_allclose(
        native.avg_pool(x, *settings), reference.avg_pool(x, *settings), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("gate", (False, True))
def test_scatter(gate: bool) -> None:
    """Overlapping windows choose a place more than once."""
    x = numbers(2, 3, 9, 11)
    values, indices = reference.max_pool(x, (3, 3), (1, 1), (1, 1), (1, 1), False)
    expected = reference.scatter_plane(values, indices, (9, 11))
    expected = np.where(x <= 0, 0, expected) if gate else expected
    out, error = np.full_like(x, np.nan), np.zeros(1, np.int64)
    chosen = pooling.scatter(6, 99, 99, "float32", gate)
    Launcher(chosen).run_named(source=values, indices=indices, place=out, error=error, gate=x)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    assert error[0] == 0
    indices[1, 2, 3, 4] = 99
    Launcher(chosen).run_named(source=values, indices=indices, place=out, error=error, gate=x)
    assert error[0] == 1


def test_numpy_takes_integers() -> None:
    x = np.arange(2 * 3 * 8).reshape(2, 3, 8)
    values, indices = native.max_pool(x, (2,), (2,), (0,), (1,), False)
    np.testing.assert_array_equal(values, x[:, :, 1::2])
    np.testing.assert_array_equal(indices, np.broadcast_to([1, 3, 5, 7], (2, 3, 4)))
