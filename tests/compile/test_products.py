"""Products of arrays, k after k whoever multiplies them: the same bits for all layouts, sizes and threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.devices.cpu import native
from tests.bits import same_bits

random = np.random.default_rng(5)


def made(*shape: int, kind: Any = np.float32) -> np.ndarray:
    return random.standard_normal(shape).astype(kind)


def compare(value: np.ndarray | None, expected: np.ndarray) -> None:
    assert value is not None and value.shape == expected.shape
    scale = np.abs(expected).max(initial=0)
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
    "no rows": (made(2, 0, 50), made(2, 50, 45)),
    "no columns": (made(2, 40, 50), made(2, 50, 0)),
    "heads": (made(3, 40, 4, 16).transpose(0, 2, 1, 3), made(3, 40, 4, 16).transpose(0, 2, 3, 1)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_products_agree_with_numpy(name: str) -> None:
    x, y = PAIRS[name]
    compare(native.product(x, y), exact(x, y))


def in_order(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product of float32 matrices, each number multiplied and added with one rounding."""
    total: Any = np.float32(0)
    for k in range(x.shape[-1]):
        # The factors of float32 have an exact product here, so that only the last step rounds.
        term = x[..., :, k, None].astype(np.longdouble) * y[..., k, None, :].astype(np.longdouble)
        total = (total + term).astype(np.float32)
    return total


@pytest.mark.parametrize("name", PAIRS)
def test_bits_do_not_depend_on_layouts_or_neighbours(name: str) -> None:
    x, y = PAIRS[name]
    value = native.product(x, y)
    if x.dtype == np.float32:
        same_bits(value, in_order(x, y))
    same_bits(native.product(x.copy(), y.copy()), value)
    same_bits(native.product(np.asfortranarray(x), np.asfortranarray(y)), value)
    turned = native.product(y.swapaxes(-1, -2), x.swapaxes(-1, -2)).swapaxes(-1, -2)
    same_bits(turned, value)
    # small enough for the loop that needs no tiles
    same_bits(native.product(x[..., :3, :], y[..., :5]), value[..., :3, :5])
    same_bits(native.product(x[..., -1:, :], y), value[..., -1:, :])


@pytest.mark.parametrize("name", PAIRS)
def test_bits_do_not_depend_on_the_number_of_threads(name: str) -> None:
    before = cg.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            cg.set_num_threads(threads)
            found.append(native.product(*PAIRS[name]))
    finally:
        cg.set_num_threads(before)
    same_bits(found[1], found[0])
    same_bits(found[2], found[0])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_bias_is_added_to_every_row(kind: Any) -> None:
    x, y, bias = made(70, 64, kind=kind), made(67, 64, kind=kind).T, made(67, kind=kind)
    compare(native.product(x, y, bias), exact(x, y) + bias)


def test_products_go_where_they_are_told() -> None:
    x, y, whole = made(64, 70), made(70, 80), np.zeros((64, 100), np.float32)
    assert native.product(x, y, None, whole[:, 10:90]) is not None
    compare(whole[:, 10:90], exact(x, y))
    assert not whole[:, :10].any() and not whole[:, 90:].any()


STRANGE = {
    "every second column": (made(64, 128)[:, ::2], made(64, 80)[:, ::2]),
    "rows in reverse": (made(64, 128)[::-1], made(128, 64)),
    "columns in reverse": (made(64, 128)[:, ::-1], made(128, 64)[:, ::-1]),
    "one number everywhere": (np.broadcast_to(np.float32(0.1), (64, 128)), made(128, 64)),
    "one row for all": (np.broadcast_to(made(128), (64, 128)), np.broadcast_to(made(128, 1), (128, 64))),
    "not aligned": (
        np.frombuffer(b"." + made(64, 128).tobytes(), np.uint8)[1:].view(np.float32).reshape(64, 128),
        made(128, 64),
    ),
    "small": (made(6, 8)[::-1, ::2], made(4, 6)[:, ::-2]),
    "float64": (made(64, 128, kind=np.float64)[:, ::2], made(64, 80, kind=np.float64)[:, ::2]),
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_operands_are_multiplied_as_their_copies_are(name: str) -> None:
    x, y = STRANGE[name]
    value = native.product(x, y)
    same_bits(value, native.product(np.array(x, order="C"), np.array(y, order="C")))
    compare(value, exact(x, y))
    bias = made(y.shape[1], kind=x.dtype)
    same_bits(native.product(x, y, bias), value + bias)
    whole = np.zeros((x.shape[0], 2 * y.shape[1]), x.dtype)
    native.product(x, y, None, whole[::-1, ::2])
    same_bits(whole[::-1, ::2], value)
    assert not whole[:, 1::2].any()


def test_numbers_that_are_no_floats_of_one_kind_are_left_to_numpy() -> None:
    x = made(64, 128)
    mixed = native.product(x, made(128, 64, kind=np.float64))
    assert mixed.dtype == np.float64
    whole = np.arange(64 * 64).reshape(64, 64)
    np.testing.assert_array_equal(native.product(whole, whole), whole @ whole)
    with pytest.raises(ValueError):
        native.product(x, x)


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
