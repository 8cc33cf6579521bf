"""Views against PyTorch: what they share, what writing through them does to history, their names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg

BOTH = pytest.mark.parametrize("lib", [cg, torch], ids=["cleargrad", "torch"])

# Every kind of view of a (4, 4) matrix, one tensor each.
VIEWS: dict[str, Callable] = {
    "view": lambda x: x.view(2, 8),
    "reshape": lambda x: x.reshape(16),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "H": lambda x: x.H,
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "movedim": lambda x: x.movedim(0, 1),
    "select": lambda x: x.select(0, 2),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "slice": lambda x: x[1:, ::2],
    "item": lambda x: x[1, 2],
    "none": lambda x: x[:, None],
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "squeeze all": lambda x: x[:1].squeeze(),
    "squeeze several": lambda x: x[:1, :1].squeeze((0, 1)),
    "diagonal": lambda x: x.diagonal(1),
    "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 5),
    "unfold": lambda x: x.unfold(0, 2, 2),
    "tensor_split": lambda x: x.tensor_split(2)[1],
    "hsplit": lambda x: x.hsplit(2)[1],
    "expand": lambda x: x.expand(4, 4),
    "view of view": lambda x: x.t()[1:].diagonal(),
    "view_as": lambda x: x.view_as(x),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "adjoint": lambda x: x.adjoint(),
}
every_view = pytest.mark.parametrize("take", VIEWS.values(), ids=VIEWS)


def matrix(lib: Any, grad: bool = False) -> Any:
    return lib.arange(16, dtype=lib.float64).reshape(4, 4).clone().requires_grad_(grad)


def as_numpy(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy().copy()


def same_in_both(program: Callable) -> None:
    """Runs a program under both libraries; it returns tensors and plain facts, which must be equal."""
    ours, theirs = program(cg), program(torch)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, cg.Tensor):
            assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype)
            np.testing.assert_allclose(as_numpy(a), as_numpy(b))
        else:
            assert a == b


@every_view
def test_shape_and_place(take: Callable) -> None:
    """Shape, strides, offset, name of the node, and that it is a view of the right tensor."""

    def program(lib: Any) -> tuple:
        base = matrix(lib, grad=True) * 1
        view = take(base)
        facts = view._base is base, tuple(view.stride()), view.storage_offset(), type(view.grad_fn).__name__
        return (view, *facts)

    same_in_both(program)


@every_view
def test_shares_memory(take: Callable) -> None:
    """Writes are seen both ways, and both count the change."""

    def program(lib: Any) -> tuple:
        base = matrix(lib)
        view = take(base)
        view.add_(100)
        after_view = base.clone()
        base.mul_(2)
        return after_view, view, view._version, base._version

    same_in_both(program)


@every_view
def test_write_through_view(take: Callable) -> None:
    """The base's history contains what was written through the view, before and after."""

    def program(lib: Any) -> tuple:
        leaf = matrix(lib, grad=True)
        base = leaf * 2
        early = take(base)
        take(base).mul_(3)
        base.sin_()
        loss = (base * base).sum() + (early * 5).sum()
        loss.backward()
        return leaf.grad, base, early, base._version, base.requires_grad

    same_in_both(program)


@every_view
def test_write_of_a_graph(take: Callable) -> None:
    """A plain tensor that gets a differentiable value through a view becomes part of the graph."""

    def program(lib: Any) -> tuple:
        base = matrix(lib)
        view = take(base)
        leaf = lib.full(tuple(view.shape), 0.5, dtype=lib.float64).requires_grad_()
        view.copy_(leaf * leaf)
        (base * base).sum().backward()
        return leaf.grad, base.requires_grad, view.requires_grad, type(base.grad_fn).__name__

    same_in_both(program)


@every_view
def test_second_gradient(take: Callable) -> None:
    def program(lib: Any) -> tuple:
        leaf = matrix(lib, grad=True)
        (first,) = lib.autograd.grad((take(leaf) ** 3).sum(), leaf, create_graph=True)
        (second,) = lib.autograd.grad((first * first).sum(), leaf)
        return first, second

    same_in_both(program)


@BOTH
@pytest.mark.parametrize(
    "cut", [lambda x: x.split(2), lambda x: x.chunk(2), lambda x: x.unbind(), lambda x: x.split([1, 3])]
)
def test_pieces_of_one_call_cannot_be_written(lib: Any, cut: Callable) -> None:
    base = matrix(lib, grad=True) * 1
    with pytest.raises(RuntimeError):
        cut(base)[0].mul_(2)
    with lib.no_grad():
        cut(base)[0].mul_(2)
    plain = matrix(lib)
    cut(plain)[0].mul_(2)
    assert plain[0, 1].item() == 2.0


@BOTH
def test_leaf_cannot_be_written_through_a_view(lib: Any) -> None:
    with pytest.raises(RuntimeError):
        matrix(lib, grad=True).view(16).mul_(2)
    with pytest.raises(RuntimeError):
        matrix(lib, grad=True).t_()


@BOTH
def test_expanded_memory_cannot_be_written(lib: Any) -> None:
    with pytest.raises(RuntimeError):
        lib.zeros(1, 3).expand(2, 3).add_(1)
    row = lib.zeros(1, 3)
    row.expand(2, 3)[0].add_(1)
    assert row.tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.t_(),
        lambda x: x.transpose_(0, 1),
        lambda x: x.swapaxes_(0, 1),
        lambda x: x.unsqueeze_(1),
        lambda x: x.unsqueeze_(0).squeeze_(0),
        lambda x: x.as_strided_((2, 2), (4, 1), 1),
    ],
    ids=["t_", "transpose_", "swapaxes_", "unsqueeze_", "squeeze_", "as_strided_"],
)
def test_views_in_place(write: Callable) -> None:
    """The tensor becomes its own view; earlier views of it and its gradient stay right."""

    def program(lib: Any) -> tuple:
        leaf = matrix(lib, grad=True)
        x = leaf * 2
        early = x[0]
        returned = write(x)
        (x * x).sum().backward()
        return leaf.grad, x, early, returned is x, x._version, tuple(x.stride())

    same_in_both(program)


def test_view_that_needs_a_copy() -> None:
    turned = matrix(cg).t()
    with pytest.raises(RuntimeError, match="reshape"):
        turned.view(16)
    assert turned.reshape(16)._base is None


@BOTH
def test_reinterpreted_bytes(lib: Any) -> None:
    x = lib.tensor([1.0, -2.0])
    bits = x.view(lib.int32)
    bits[0] = 0
    assert x.tolist() == [0.0, -2.0]
    assert lib.zeros(2, 4).view(lib.float64).shape == (2, 2)
    with pytest.raises(RuntimeError):
        lib.zeros(3).view(lib.float64)
    with pytest.raises(RuntimeError):
        lib.tensor(1.0).view(lib.int64)


@BOTH
def test_unbind_in_a_loop_shares_memory(lib: Any) -> None:
    x = lib.zeros(3, 2)
    for number, row in enumerate(x):
        row += number
    assert x.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert lib.zeros(0, 3).unbind() == ()


@BOTH
def test_meshgrid_warns_without_indexing(lib: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(lib.meshgrid(lib.zeros(2), lib.zeros(3))) == 2
    if lib is cg:  # PyTorch warns once per process
        assert "indexing" in str(caught[0].message)


def test_broadcast_tensors_returns_tensors_that_fit_themselves() -> None:
    for library in (cg, torch):
        leaf, row = library.zeros(2, 3, requires_grad=True), library.zeros(3)
        same, wide = library.broadcast_tensors(leaf, row)
        assert same is leaf and wide.shape == (2, 3)
