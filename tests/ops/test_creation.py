"""Factories, old constructors and conversions against PyTorch, where the op matrix cannot see them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg

BOTH = pytest.mark.parametrize("lib", [cg, torch], ids=["cleargrad", "torch"])

MADE: list[Callable] = [
    lambda lib: lib.zeros(2, 3),
    lambda lib: lib.zeros((2, 3), dtype=lib.int64),
    lambda lib: lib.ones(size=(2,), dtype=lib.bfloat16),
    lambda lib: lib.zeros(2, out=lib.empty(0, dtype=lib.int64)),
    lambda lib: lib.full((2,), True),
    lambda lib: lib.full((2, 2), 1.5, dtype=lib.int64),
    lambda lib: lib.full((2,), lib.tensor(2)),
    lambda lib: lib.full_like(lib.zeros(2, 3).t(), 7),
    lambda lib: lib.ones_like(lib.zeros(4, 3, 5).permute(2, 0, 1)[::2], dtype=lib.float64),
    lambda lib: lib.zeros_like(lib.zeros(1).expand(2, 3)),
    lambda lib: lib.zeros(3, dtype=lib.float16).new_full((2,), 3),
    lambda lib: lib.zeros(3).new_tensor([1, 2]),
    lambda lib: lib.arange(5),
    lambda lib: lib.arange(1, 2.5),
    lambda lib: lib.arange(5, 0, -2),
    lambda lib: lib.arange(0, 1, 0.1),
    lambda lib: lib.arange(0, 1, 0.1, dtype=lib.float64),
    lambda lib: lib.arange(start=1, end=4),
    lambda lib: lib.arange(lib.tensor(3.0)),
    lambda lib: lib.arange(0.7, 3.7, dtype=lib.int64),
    lambda lib: lib.arange(0.7, 3.7, dtype=lib.int32),
    lambda lib: lib.arange(7, dtype=lib.float16),
    lambda lib: lib.range(0, 3, 0.5),
    lambda lib: lib.linspace(0, 10, 4, dtype=lib.int64),
    lambda lib: lib.linspace(-1, 1, 7),
    lambda lib: lib.linspace(lib.tensor(0.0), 1, 1),
    lambda lib: lib.linspace(3, 1, 0),
    lambda lib: lib.logspace(0, 3, 4, base=2),
    lambda lib: lib.logspace(-1, 2, 5, dtype=lib.float64),
    lambda lib: lib.eye(2, 3),
    lambda lib: lib.eye(3, 2, dtype=lib.int64),
    lambda lib: lib.tril_indices(3, 4, 1),
    lambda lib: lib.triu_indices(3, 3, -1),
    lambda lib: lib.scalar_tensor(True),
    lambda lib: lib.frombuffer(bytearray(b"abcdef"), dtype=lib.int16, count=2, offset=2),
    lambda lib: lib.asarray(np.arange(3.0), dtype=lib.float32),
    lambda lib: lib.as_tensor([1, 2], dtype=lib.float16),
    lambda lib: lib.tensor([[1, 2.5], [True, lib.tensor(4)]]),
    lambda lib: lib.tensor([]),
    lambda lib: lib.Tensor([1, 2]),
    lambda lib: lib.Tensor(),
    lambda lib: lib.Tensor(lib.tensor([1])),
    lambda lib: lib.LongTensor([1.5, 2]),
    lambda lib: lib.BoolTensor([1, 0]),
    lambda lib: lib.tensor([1.0]).new([1, 2]),
    lambda lib: lib.tensor([-1.5, 300.7]).char(),
    lambda lib: lib.tensor([-1.5, 300.7]).byte(),
    lambda lib: lib.tensor([0.0, 0.5]).bool(),
    lambda lib: lib.tensor([1.1], dtype=lib.bfloat16).to(lib.int32),
    lambda lib: lib.zeros(3).type("torch.DoubleTensor"),
    lambda lib: lib.zeros(3).type(lib.LongTensor),
    lambda lib: lib.zeros(3, 3).resize_(2, 2),
    lambda lib: lib.zeros(0).set_(lib.ones(3)),
]


@pytest.mark.parametrize("make", MADE)
def test_made(make: Callable) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = make(cg), make(torch)
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert not ours.numel() or tuple(ours.stride()) == tuple(theirs.stride())
    np.testing.assert_allclose(ours.double().numpy(), theirs.double().numpy(), rtol=1e-6)


REFUSED: list[tuple[type[Exception], Callable]] = [
    (RuntimeError, lambda lib: lib.zeros(-1)),
    (RuntimeError, lambda lib: lib.zeros(2**62, 4)),
    (RuntimeError, lambda lib: lib.empty(2**40, 2**40)),
    (RuntimeError, lambda lib: lib.full((2**50,), 1)),
    (RuntimeError, lambda lib: lib.eye(-1)),
    (TypeError, lambda lib: lib.zeros(2.0)),
    (TypeError, lambda lib: lib.zeros("a")),
    (TypeError, lambda lib: lib.zeros()),
    (TypeError, lambda lib: lib.zeros(2, dtype=3)),
    (TypeError, lambda lib: lib.full(2, 1)),
    (TypeError, lambda lib: lib.zeros_like([1])),
    (RuntimeError, lambda lib: lib.zeros(2, out=lib.empty(0, dtype=lib.int64), dtype=lib.float32)),
    (RuntimeError, lambda lib: lib.arange(5, 0)),
    (RuntimeError, lambda lib: lib.arange(0, 5, 0)),
    (RuntimeError, lambda lib: lib.arange(0, float("inf"))),
    (RuntimeError, lambda lib: lib.arange(0, 1e30)),
    (TypeError, lambda lib: lib.arange(1, step=2)),
    (RuntimeError, lambda lib: lib.linspace(0, 1, -1)),
    (RuntimeError, lambda lib: lib.linspace(lib.zeros(1), 1, 3)),
    (RuntimeError, lambda lib: lib.zeros(2, dtype=lib.int64, requires_grad=True)),
    (ValueError, lambda lib: lib.frombuffer(b"abc", dtype=lib.int16)),
    (ValueError, lambda lib: lib.tensor([[1, 2], [3]])),
    (ValueError, lambda lib: lib.tensor(["a"])),
    (RuntimeError, lambda lib: lib.tensor(None)),
    (RuntimeError, lambda lib: lib.tensor([object()])),
    (TypeError, lambda lib: lib.tensor("a")),
    (TypeError, lambda lib: lib.Tensor(3.5)),
    (RuntimeError, lambda lib: lib.Tensor(-1)),
    (TypeError, lambda lib: lib.FloatTensor(lib.tensor([1]))),
    (ValueError, lambda lib: lib.zeros(2).type("foo")),
    (RuntimeError, lambda lib: lib.zeros(2, requires_grad=True).resize_(3)),
    (RuntimeError, lambda lib: lib.zeros(4, 4).view(-2, 8)),
    (RuntimeError, lambda lib: lib.zeros(4, 4).reshape(-2, 8)),
    (ValueError, lambda lib: lib.broadcast_shapes((-1,), (3,))),
]


@pytest.mark.parametrize(("kind", "make"), REFUSED)
@BOTH
def test_refused(lib: Any, kind: type[Exception], make: Callable) -> None:
    with pytest.raises(kind), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(lib)


@BOTH
def test_sharing(lib: Any) -> None:
    array = np.zeros(3)
    lib.from_numpy(array)[0] = 1
    lib.as_tensor(array)[1] = 2
    lib.asarray(array)[2] = 3
    lib.tensor(array)[0] = 9
    lib.asarray(array, copy=True)[0] = 9
    assert array.tolist() == [1, 2, 3]
    x = lib.zeros(2)
    assert lib.as_tensor(x) is x and lib.asarray(x) is x and x.float() is x and x.to("cpu") is x
    assert x.to(lib.float32, copy=True) is not x and x.to(lib.float32, False, True) is not x
    with pytest.raises(ValueError):
        lib.asarray([1, 2], copy=False)


@BOTH
def test_old_types(lib: Any) -> None:
    x = lib.zeros(2)
    assert isinstance(x, lib.Tensor) and isinstance(x, lib.FloatTensor) and not isinstance(x, lib.LongTensor)
    assert x.type() == "torch.FloatTensor" and x.long().type() == "torch.LongTensor"
    assert lib.Tensor(2, 3).shape == (2, 3) and lib.Tensor(lib.Size([2, 3])).shape == (2, 3)

    class Mine(lib.Tensor):
        pass

    assert type(Mine([1, 2])) is Mine and Mine([1, 2]).tolist() == [1, 2]


@BOTH
def test_facts(lib: Any) -> None:
    x = lib.zeros(2, 3)
    assert lib.is_tensor(x) and not lib.is_tensor(3) and lib.numel(x) == 6
    assert lib.is_floating_point(x) and not lib.is_complex(x) and lib.is_nonzero(lib.tensor(2))
    assert lib.broadcast_shapes((2, 1), (3,), 1) == (2, 3)
    assert x.layout is lib.strided and repr(lib.strided) == "torch.strided"
    assert lib.empty(2, 3, 4, 5, memory_format=lib.channels_last).stride() == (60, 1, 15, 3)


@BOTH
def test_gradient_keeps_the_leaf_dtype(lib: Any) -> None:
    x = lib.ones(3, requires_grad=True)
    (x.double() * 2).sum().backward()
    assert x.grad.dtype is lib.float32 and type(x.double().grad_fn).__name__ == "ToCopyBackward0"
