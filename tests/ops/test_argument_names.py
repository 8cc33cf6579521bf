"""Other names and orders of arguments, as PyTorch takes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import cleargrad as cg
from cleargrad.ops import argument_names
from tests.ops.cases import same

CALLS: list[Callable] = [
    lambda lib, x: lib.sum(x, axis=1),
    lambda lib, x: lib.sum(x=x, axis=1, keepdims=True),
    lambda lib, x: lib.mean(a=x),
    lambda lib, x: x.sum(axis=0),
    lambda lib, x: x.sum(axis=(0, 1), keepdims=True),
    lambda lib, x: x.mean(axis=-1, keepdims=True),
    lambda lib, x: x.std(axis=1),
    lambda lib, x: x.max(axis=1),
    lambda lib, x: x.unsqueeze(axis=0),
    lambda lib, x: x.softmax(axis=1),
    lambda lib, x: x.clone().cumsum_(axis=1),
    lambda lib, x: lib.softmax(x, axis=1),
    lambda lib, x: lib.stack([x, x], axis=1),
    lambda lib, x: lib.unbind(x, axis=1),
    lambda lib, x: lib.add(x1=x, x2=x),
    lambda lib, x: lib.matmul(x, x2=x.T),
    lambda lib, x: lib.linalg.vector_norm(x, axis=1, keepdims=True),
    lambda lib, x: lib.fft.irfft(x, axis=0),
]


@pytest.mark.parametrize("call", CALLS)
def test_same_as_pytorch(call: Callable) -> None:
    values = [[0.5, -1.0, 2.0], [3.0, 0.25, -0.75]]
    same(call(cg, cg.tensor(values)), call(torch, torch.tensor(values)), "call by NumPy's names")


def test_out_with_numpy_names() -> None:
    out = cg.empty(2)
    assert cg.mean(cg.ones(2, 3), axis=1, out=out) is out
    assert out.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: cg.mean(x, axes=1),
        lambda x: x.mean(1, axis=1),
        lambda x: x.mean(dim=1, axis=1),
        lambda x: cg.nn.functional.softmax(x, axis=1),
    ],
)
def test_other_names_are_refused(call: Callable) -> None:
    with pytest.raises(TypeError) as failure:
        call(cg.ones(2, 3))
    assert failure.value.__context__ is None


def test_an_error_of_the_second_call_stands_alone() -> None:
    with pytest.raises(IndexError) as failure:
        cg.ones(2, 3).mean(axis=5)
    assert failure.value.__context__ is None


OLDER_CALLS: list[Callable] = [
    lambda lib, x: x.add(2, x),
    lambda lib, x: x.add(2, 3),
    lambda lib, x: x.clone().add_(-0.5, x),
    lambda lib, x: lib.add(x, 0.5, x),
    lambda lib, x: lib.add(x, 0.5, x, out=lib.empty(2, 2)),
    lambda lib, x: x.clone().sub_(lib.tensor(2.0), x),
    lambda lib, x: lib.sub(x, 3, x),
    lambda lib, x: x.clone().addcmul_(2, x, x),
    lambda lib, x: lib.addcdiv(x, 0.5, x, x + 3),
    lambda lib, x: lib.addmm(2, x, 3, x, x),
    lambda lib, x: lib.addmm(2, x, x, x),
    lambda lib, x: x.addmm(2, 3, x, x),
    lambda lib, x: x.clone().addmm_(2, x, x),
    lambda lib, x: x[0].addmv(2, 3, x, x[0]),
    lambda lib, x: x.addr(2, 3, x[0], x[1]),
    lambda lib, x: lib.baddbmm(2, x[None], 3, x[None], x[None]),
    lambda lib, x: x.addbmm(2, x[None], x[None]),
]


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("call", OLDER_CALLS)
def test_scales_in_front(call: Callable) -> None:
    values = [[0.5, -1.0], [3.0, 0.25]]
    same(call(cg, cg.tensor(values)), call(torch, torch.tensor(values)), "call in the older order")


def test_warns_of_the_older_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argument_names, "_warned", set())
    x = cg.ones(2)
    with pytest.warns(UserWarning, match="alpha= by name") as seen:
        x.add_(2, x)
        cg.sub(x, 2, x)
    assert [warning.filename for warning in seen] == [__file__]


@pytest.mark.parametrize("call", [lambda x: x.add_(1, x, 2), lambda x: x.add(x, x), lambda x: x.mul(2, x)])
def test_other_orders_are_refused(call: Callable) -> None:
    with pytest.raises(TypeError):
        call(cg.ones(2))
