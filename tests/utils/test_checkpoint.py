"""Activation checkpointing: the same gradients as without, random numbers included, and memory saved."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
import warnings
from typing import Any

import pytest
import torch.utils.checkpoint  # noqa: F401  (torch does not import it by itself)

import cleargrad as cg
from cleargrad.core.mode import settle
from tests.oracle import failure, same


def model(T: Any) -> Any:
    T.manual_seed(0)
    layers = []
    for _ in range(3):
        layers += [T.nn.Linear(6, 6), T.nn.Dropout(0.3), T.nn.Tanh()]
    return T.nn.Sequential(*layers)


def grads(module: Any) -> list:
    return [parameter.grad for parameter in module.parameters()]


@pytest.mark.parametrize("reentrant", [False, True])
def test_same_gradients(reentrant: bool) -> None:
    def run(T: Any) -> Any:
        found = []
        for kept in (True, False):
            net = model(T)
            x = T.ones(4, 6, requires_grad=True)
            T.manual_seed(1)
            call = net if kept else lambda x: T.utils.checkpoint.checkpoint(net, x, use_reentrant=reentrant)  # noqa: B023
            out = call(x * 2)
            after = T.rand(2)
            out.sum().backward()
            found.append([out, after, x.grad, grads(net), T.rand(2)])
        return found

    kept, again = same(run)
    for a, b in zip(kept[3], again[3], strict=True):
        assert cg.equal(a, b)


def test_random_state_of_the_first_run() -> None:
    """Numbers drawn between forward and backward do not disturb the second run, nor the other way round."""

    def run(T: Any) -> Any:
        net, x = model(T), T.ones(4, 6, requires_grad=True)
        out = T.utils.checkpoint.checkpoint(net, x, use_reentrant=False)
        T.rand(7)
        out.sum().backward()
        return grads(net), T.rand(3)

    same(run)


@pytest.mark.parametrize("reentrant", [False, True])
def test_sequential(reentrant: bool) -> None:
    def run(T: Any) -> Any:
        net, x = model(T), T.ones(4, 6, requires_grad=True)
        out = T.utils.checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=reentrant)
        out.sum().backward()
        return out, x.grad, grads(net)

    same(run)


def test_second_gradient_and_retained_graph() -> None:
    def run(T: Any) -> Any:
        x = T.tensor([0.3, -1.2], requires_grad=True)
        out = T.utils.checkpoint.checkpoint(lambda x: (x.sin() * x.exp()).sum(), x, use_reentrant=False)
        (first,) = T.autograd.grad(out, x, create_graph=True)
        (second,) = T.autograd.grad(first.sum(), x, retain_graph=True)
        (again,) = T.autograd.grad(first.sum(), x)
        return first, second, again

    same(run)


def test_nested_and_keywords() -> None:
    def run(T: Any) -> Any:
        check = T.utils.checkpoint.checkpoint
        x = T.tensor([0.3, -1.2], requires_grad=True)

        def inner(x: Any, *, power: int) -> Any:
            return (x.sin() ** power).exp()

        def outer(x: Any) -> Any:
            return check(inner, x.cos(), power=2, use_reentrant=False).tanh()

        out = check(outer, x, use_reentrant=False)
        out.sum().backward()
        with T.no_grad():
            without = check(outer, x, use_reentrant=False)
        return out, x.grad, without

    same(run)


def test_contexts() -> None:
    seen = []

    @contextlib.contextmanager
    def note(word: str) -> Any:
        seen.append(word)
        yield

    x = cg.ones(2, requires_grad=True)
    contexts = lambda: (note("first"), note("second"))  # noqa: E731
    out = cg.utils.checkpoint.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False, context_fn=contexts)
    out.sum().backward()
    assert seen == ["first", "second"]


def test_errors_and_warnings() -> None:
    def run(T: Any) -> Any:
        check, sequential = T.utils.checkpoint.checkpoint, T.utils.checkpoint.checkpoint_sequential
        x = T.ones(2, requires_grad=True)
        runs: list = []

        def changes(x: Any) -> Any:
            runs.append(1)
            return (x.sin() if len(runs) == 1 else x[:1].exp()).exp().sum()

        found = [
            failure(lambda: check(changes, x, use_reentrant=False).backward()),
            failure(lambda: check(lambda x: x, x, use_reentrant=True, other=1)),
            failure(lambda: check(lambda x: x, x, use_reentrant=False, determinism_check="x")),
            failure(lambda: sequential(T.nn.Sequential(T.nn.Tanh()), 1, x, use_reentrant=False, other=1)),
        ]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check(lambda x: x.sin(), x)
            sequential(T.nn.Sequential(T.nn.Tanh()), 1, x)
            check(lambda x: x.sin(), x.detach(), use_reentrant=True)
        return found, [str(each.message) for each in caught]

    same(run)


def peak(run: Any) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        run()
        settle()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("reentrant", [False, True])
def test_memory_is_saved(reentrant: bool) -> None:
    """Twelve layers in four segments: a quarter of the activations at a time, and what lies between them."""
    layers = [cg.nn.Sequential(cg.nn.Linear(32, 32), cg.nn.Tanh(), cg.nn.Sigmoid()) for _ in range(12)]
    net = cg.nn.Sequential(*layers)
    x = cg.ones(2000, 32, requires_grad=True)

    def plain() -> None:
        net(x).sum().backward()

    def saving() -> None:
        cg.utils.checkpoint.checkpoint_sequential(net, 4, x, use_reentrant=reentrant).sum().backward()

    plain()
    whole, part = peak(plain), peak(saving)
    assert part < 0.6 * whole, (part, whole)
