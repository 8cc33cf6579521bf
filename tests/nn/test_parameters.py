"""Parameters and buffers, those without a shape yet, and modules that are made at the first call, as in PyTorch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same


def test_parameters() -> None:
    def run(T: Any) -> Any:
        P = T.nn.Parameter
        values = T.arange(3.0)
        p = P(values)
        values.add_(1)  # shares memory
        (p * 2).sum().backward()
        p.tag = 3
        again = copy.deepcopy(p)
        loaded = pickle.loads(pickle.dumps(p))
        return (
            p,
            repr(p),
            repr(P(T.ones(2), requires_grad=False)),
            repr(P()),
            str(P(T.tensor(1.5))),
            [type(x).__name__ for x in (p, p.data, p.detach(), p + 1, again, loaded)],
            again.grad,
            loaded.tag,
            p.is_leaf,
            P(p * 2).is_leaf,
            P(T.tensor([1, 2]), requires_grad=False),
            [failure(lambda: P([1.0])), failure(lambda: P(T.tensor([1]))), failure(lambda: P(3))],
            isinstance(p, T.Tensor),
            isinstance(p.data, P),
        )

    same(run)


def test_buffers() -> None:
    def run(T: Any) -> Any:
        b = T.nn.Buffer(T.ones(2), persistent=False)
        return b, repr(b), b.persistent, isinstance(b, T.nn.Buffer), isinstance(T.ones(1), T.nn.Buffer)

    same(run)


def test_uninitialized() -> None:
    def run(T: Any) -> Any:
        u, b = T.nn.UninitializedParameter(), T.nn.UninitializedBuffer()
        before = [
            repr(u),
            repr(b),
            u.requires_grad,
            b.requires_grad,
            str(u.dtype),
            failure(lambda: u + 1),
            failure(lambda: u.shape),
            failure(lambda: T.relu(u)),
            failure(lambda: u.detach()),
            repr(copy.deepcopy(u)),
            repr(pickle.loads(pickle.dumps(b))),
        ]
        u.materialize((2, 3))
        b.materialize((4,), dtype=T.float64)
        return before, type(u) is T.nn.Parameter, type(b) is T.Tensor, u.shape, b.shape, str(b.dtype)

    same(run)


# Lazy modules ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_modules() -> None:
    def run(T: Any) -> Any:
        def lazy() -> Any:
            return T.nn.Sequential(
                T.nn.LazyConv1d(4, 3), T.nn.LazyBatchNorm1d(), T.nn.Flatten(), T.nn.LazyLinear(2)
            )

        x = T.arange(30.0).reshape(2, 3, 5)
        T.manual_seed(0)
        m = lazy().double().float()
        before = repr(m), m[0].has_uninitialized_params(), list(m.state_dict())
        copied = copy.deepcopy(m[3])
        T.manual_seed(0)
        out = m(x)
        T.manual_seed(0)
        same_copy = copied(x[0])
        loaded = lazy()
        result = repr(loaded.load_state_dict(m.state_dict()))
        after = loaded.eval()(x), type(loaded[0]).__name__, repr(m), loaded[3].in_features
        unfinished = T.nn.Linear(2, 2)
        return (
            before,
            out,
            same_copy,
            result,
            after,
            failure(lambda: unfinished.load_state_dict(T.nn.LazyLinear(2).state_dict())),
        )

    same(run)


def test_lazy_modules_warn() -> None:
    with pytest.warns(UserWarning, match="Lazy modules are a new feature"):
        cg.nn.LazyLinear(2)


def test_inheritance() -> None:
    def run(T: Any) -> Any:
        class Mixin:
            def __init__(self, size: int) -> None:
                self.size = size

        class Cooperative(T.nn.Module, Mixin):
            call_super_init = True

            def __init__(self) -> None:
                super().__init__(7)

        class Property(T.nn.Module):
            @property
            def broken(self) -> Any:
                return self.missing

        return Cooperative().size, failure(lambda: Property().broken), hasattr(Property(), "broken")

    same(run)


def test_every_public_name_exists() -> None:
    missing = [name for name in torch.nn.modules.__all__ if name not in cg.nn.__all__]
    assert missing == []
    assert set(cg.nn.__all__) <= set(dir(cg.nn))
    with pytest.raises(AttributeError, match="Nonexistent"):
        _ = cg.nn.Nonexistent
