"""Methods and functions that few programs call."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import cleargrad as cg
from cleargrad.rare_functions import METHODS
from tests.oracle import failure, same


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (7, 2), (2, 5), (3, 3, 3), (2, 3, 2), (4,)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape: tuple, wrap: bool) -> None:
    same(lambda T: failure(lambda: T.zeros(shape).fill_diagonal_(3, wrap)))


def test_fill_diagonal_has_a_gradient() -> None:
    def run(T: Any) -> Any:
        x = T.ones(3, 3, requires_grad=True)
        (x * 2).fill_diagonal_(0).sum().backward()
        return x.grad

    same(run)


def test_facts() -> None:
    def run(T: Any) -> Any:
        x = T.arange(6.0).reshape(2, 3)
        y = T.ones(2, dtype=T.uint8)
        said = [x.is_signed(), y.is_signed(), x.is_same_size(x.t()), x.is_set_to(x), x.is_set_to(x.clone())]
        said += [x.t().dim_order(), x.dim_order(), x.dense_dim(), x.sparse_dim(), x.is_conj(), x.is_neg()]
        said += [x.to_dense(), x.narrow_copy(1, 0, 2), x.is_distributed(), x.is_sparse_csr, x.name]
        said += [failure(lambda name=name: getattr(x, name)()) for name in ("values", "indices", "coalesce")]
        said += [failure(lambda name=name: getattr(x, name)()) for name in ("eig", "xpu")]
        return said

    same(run)


def test_python_functions_of_elements() -> None:
    def run(T: Any) -> Any:
        x, y = T.arange(3.0), T.tensor(2.0).expand(3)
        said = [x.clone().apply_(lambda a: a + 2), x.clone().map_(y, lambda a, b: a * b)]
        said.append(x.clone().map2_(y, y, lambda a, b, c: a + b + c))
        said.append(T.arange(3).apply_(lambda a: a * 2))
        said.append(failure(lambda: T.ones(2, requires_grad=True).apply_(lambda a: a)))
        return said

    same(run)


def test_functions_that_write_in_place() -> None:
    def run(T: Any) -> Any:
        said = []
        for name in ("exp_", "abs_", "sigmoid_", "zero_", "sqrt_", "log_", "neg_", "floor_"):
            x = T.tensor([0.5, 2.0])
            said.append((getattr(T, name)(x) is x, x))
        said += [
            T.clamp_(T.arange(4.0), 1, 2),
            T.vander(T.tensor([1, 2, 3])),
            T.vander(T.tensor([1.0, 2.0]), 3, True),
        ]
        said += [T.sym_max(1, 2), T.sym_int(2.5), T.newaxis, failure(lambda: T.symeig(T.eye(2)))]
        return said

    same(run)


def test_every_method_is_a_function() -> None:
    assert all(getattr(cg, name) is getattr(cg.Tensor, name) for name in METHODS)


def test_old_names_warn() -> None:
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert cg.ones(1).volatile is False
    with pytest.warns(UserWarning, match="non-inplace resize"):
        assert cg.ones(2).resize(1).shape == (1,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cg.autograd.variable.Variable is cg.autograd.Variable


def test_several_tensors_as_one() -> None:
    import torch._utils

    def run(T: Any) -> Any:
        tensors = [T.ones(2, 2), T.zeros(3)]
        flat = T._utils._flatten_dense_tensors(tensors)
        return flat, T._utils._unflatten_dense_tensors(T.arange(7.0), tensors)

    assert torch._utils is not None
    same(run)


def test_inplace_function() -> None:
    def run(T: Any) -> Any:
        class Sign(T.autograd.function.InplaceFunction):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x.sign()

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad

        x = T.tensor([-2.0, 3.0], requires_grad=True)
        y = Sign.apply(x)
        (y * 2).sum().backward()
        return y, x.grad

    same(run)
