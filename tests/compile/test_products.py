"""Products of large arrays by the compiler's tiles: what NumPy would give, for all layouts of eager calls."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.codegen import native

random = np.random.default_rng(5)


def made(*shape: int, kind: Any = np.float32) -> np.ndarray:
    return random.standard_normal(shape).astype(kind)


def compare(value: np.ndarray | None, expected: np.ndarray) -> None:
    assert value is not None and value.shape == expected.shape
    scale = np.abs(expected).max()
    np.testing.assert_allclose(value, expected, atol=scale * (1e-5 if value.dtype == np.float32 else 1e-13))


def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) @ y.astype(np.float64)


PAIRS = {
    "rows and columns": (made(65, 70), made(70, 71)),
    "a layer": (made(96, 128), made(33, 128).T),
    "the gradient of a weight": (made(200, 48).T, made(200, 40)),
    "both turned": (made(70, 65).T, made(71, 70).T),
    "parts of larger matrices": (made(80, 200)[:, 20:110], made(90, 300)[:, 7:77]),
    "few rows": (made(2, 700), made(700, 300)),
    "float64": (made(64, 70, kind=np.float64), made(70, 66, kind=np.float64)),
    "stacks": (made(6, 40, 50), made(6, 50, 45)),
    "stacks that broadcast": (made(2, 1, 40, 50), made(3, 50, 45)),
    "heads": (made(3, 40, 4, 16).transpose(0, 2, 1, 3), made(3, 40, 4, 16).transpose(0, 2, 3, 1)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_products_agree_with_numpy(name: str) -> None:
    x, y = PAIRS[name]
    compare(native.product(x, y), exact(x, y))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_bias_is_added_to_every_row(kind: Any) -> None:
    x, y, bias = made(70, 64, kind=kind), made(67, 64, kind=kind).T, made(67, kind=kind)
    compare(native.product(x, y, bias), exact(x, y) + bias)


def test_products_go_where_they_are_told() -> None:
    x, y, whole = made(64, 70), made(70, 80), np.zeros((64, 100), np.float32)
    assert native.product(x, y, None, whole[:, 10:90]) is not None
    compare(whole[:, 10:90], exact(x, y))
    assert not whole[:, :10].any() and not whole[:, 90:].any()


def test_strange_operands_are_left_to_numpy() -> None:
    x = made(64, 128)
    assert native.product(x[:, ::2], made(64, 80)[:, ::2]) is None
    assert native.product(x[::-1], made(128, 64)) is None
    assert native.product(x, made(128, 64, kind=np.float64)) is None
    assert native.product(np.broadcast_to(np.float32(1), (64, 128)), made(128, 64)) is None


def test_threads_that_multiply_at_once_do_not_mix_their_operands() -> None:
    pairs = [(made(80, 64), made(64, 96)) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            values = list(pool.map(lambda pair: native.product(*pair), pairs))
            for value, (x, y) in zip(values, pairs, strict=True):
                compare(value, exact(x, y))


@pytest.mark.parametrize("shape", [(128, 64), (4, 32, 64)])
def test_large_layers_and_their_gradients_agree_with_torch(shape: tuple[int, ...]) -> None:
    arrays = [made(*shape), made(80, 64), made(80), made(*shape[:-1], 80)]
    found = []
    for library in (torch, cg):
        x, weight, bias, slope = (library.tensor(array) for array in arrays)
        leaves = [each.requires_grad_() for each in (x, weight, bias)]
        out = library.nn.functional.linear(*leaves)
        (out * slope).sum().backward()
        found.append([out.detach().numpy(), *[leaf.grad.numpy() for leaf in leaves]])
    for ours, theirs in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_gradients_of_layers_can_be_differentiated() -> None:
    x, weight = (cg.tensor(made(128, 64)).double().requires_grad_() for _ in range(2))
    bias = cg.zeros(128, dtype=cg.float64, requires_grad=True)
    out = cg.nn.functional.linear(x, weight, bias)
    (slope,) = cg.autograd.grad(out.pow(2).sum(), weight, create_graph=True)
    (second,) = cg.autograd.grad(slope.sum(), weight)
    expected = 2 * (x.detach().T @ x.detach()).sum(0)
    assert cg.allclose(second, expected.expand(128, 64))


@pytest.mark.parametrize("library", [torch, cg])
def test_a_backward_under_autocast_is_cast(library: Any) -> None:
    weight = library.tensor(made(64, 64)).requires_grad_()
    x = library.tensor(made(80, 64)).requires_grad_()
    loss = library.nn.functional.linear(x, weight, library.zeros(64)).sum()
    with library.autocast("cpu", library.bfloat16):
        loss.backward()
    assert library.equal(x.grad, x.grad.bfloat16().float())
