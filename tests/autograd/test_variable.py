"""Variable, the name that tensors with gradients once had."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import cleargrad as cg


@pytest.mark.parametrize(
    "make",
    [
        lambda lib: lib.autograd.Variable(lib.LongTensor([1, 2])),
        lambda lib: lib.autograd.Variable(lib.ones(2), requires_grad=True),
        lambda lib: lib.autograd.Variable(lib.ones(2), True),
        lambda lib: lib.autograd.Variable(data=lib.ones(2, requires_grad=True) * 3),
        lambda lib: lib.autograd.Variable(lib.nn.Parameter(lib.ones(2))),
        lambda lib: lib.autograd.Variable(),
    ],
)
def test_makes_a_leaf(make: Callable) -> None:
    ours, theirs = make(cg), make(torch)
    assert type(ours) is cg.Tensor
    assert str(ours) == str(theirs)
    assert (ours.requires_grad, ours.is_leaf) == (theirs.requires_grad, theirs.is_leaf)


def test_shares_memory() -> None:
    data = cg.zeros(2)
    cg.autograd.Variable(data).add_(1)
    assert data.tolist() == [1.0, 1.0]


def test_every_tensor_is_one() -> None:
    assert isinstance(cg.ones(1), cg.autograd.Variable)
    assert isinstance(cg.nn.Parameter(cg.ones(1)), cg.autograd.Variable)
    assert not isinstance(1.0, cg.autograd.Variable)
    assert cg.autograd.variable.Variable is cg.autograd.Variable


def test_refusals() -> None:
    with pytest.raises(TypeError, match="has to be a tensor"):
        cg.autograd.Variable([1.0])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="floating point"):
        cg.autograd.Variable(cg.ones(1).long(), requires_grad=True)
    with pytest.warns(UserWarning, match="volatile"):
        cg.autograd.Variable(cg.ones(1), volatile=True)
