"""Large arrays are computed piece by piece: the same values, without memory for what stands in between."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from cleargrad.expr import expr
from cleargrad.expr.numpy_reading import PIECE, read, specialise

SIZE = 4 * PIECE + 5
F32 = np.dtype(np.float32)


def smooth(x: expr.Expr, y: expr.Expr) -> expr.Expr:
    return expr.tanh(0.5 * x * (1 + y * y)) * expr.exp(-x * x) + y


@pytest.fixture
def formula():
    tree, names = expr.trace(smooth)
    return read(tree, len(names))


def whole(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.tanh(0.5 * x * (1 + y * y)) * np.exp(-x * x) + y


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize("typed", [False, True])
def test_pieces_give_the_same_values(formula, typed: bool) -> None:
    kernel = specialise(formula, F32) if typed else formula
    for shape in ((SIZE,), (SIZE // 7, 7)):
        x, y = numbers(*shape), numbers(*shape, seed=1)
        out = kernel(x, y)
        assert out.dtype == F32 and out.shape == shape
        np.testing.assert_allclose(out, whole(x, y), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "operands",
    [
        (numbers(300, 700).T, numbers(700, 300)),
        (numbers(700, 300), numbers(300)),
        (numbers(700, 1), numbers(1, 300)),
        (numbers(700, 300), np.float32(0.3).reshape(())),
        (numbers(700, 300), 0.3),
        (numbers(700, 300), numbers(700, 600)[:, ::2]),
    ],
    ids=["permuted", "row", "outer", "0-d", "number", "gaps"],
)
def test_other_layouts(formula, operands: tuple) -> None:
    np.testing.assert_allclose(formula(*operands), whole(*operands), rtol=1e-6, atol=1e-7)


def test_only_the_result_takes_memory(formula) -> None:
    x, y = numbers(64 * PIECE), numbers(64 * PIECE, seed=1)
    formula(x, y)
    tracemalloc.start()
    try:
        out = formula(x, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * out.nbytes
