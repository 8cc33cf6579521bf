"""saved_tensors_hooks: what is packed, how it comes back, and how blocks nest."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import cleargrad as cg
from tests.oracle import failure, same


def test_pack_and_unpack():
    def run(T):
        packed, unpacked = [], []

        def pack(tensor):
            packed.append(tensor.tolist())
            return ("box", tensor.detach().clone())

        def unpack(box):
            unpacked.append(box[0])
            return box[1]

        x, y = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([3.0, 4.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(pack, unpack):
            z = (x * y).exp()
        z.sum().backward()
        return sorted(packed), len(unpacked), x.grad, y.grad

    same(run)


def test_what_unpack_returns_is_used():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 10):
            y = x * x
            z = x.exp()
        y.sum().backward()
        first = x.grad.clone()
        z.sum().backward()
        return first, x.grad

    same(run)


def test_blocks_nest_and_the_innermost_counts():
    def run(T):
        seen = []
        hooks = T.autograd.graph.saved_tensors_hooks

        def named(name):
            def note(what):
                return lambda t: seen.append((what, name)) or t

            return note("pack"), note("unpack")

        x = T.tensor([1.0, 2.0], requires_grad=True)
        with hooks(*named("outer")):
            a = x.exp()
            with hooks(*named("inner")):
                b = x.exp()
            c = x.exp()
        d = x.exp()
        (a + b + c + d).sum().backward()
        return sorted(seen), x.grad

    same(run)


def test_double_backward():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), T.from_numpy):
            y = (x * x).exp()
        (first,) = T.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = T.autograd.grad(first.sum(), x)
        return first, second

    same(run)


def test_functions_of_the_user():
    def run(T):
        class Square(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                out = x * x
                ctx.save_for_backward(x, out)
                return out

            @staticmethod
            def backward(ctx, grad):
                x, out = ctx.saved_tensors
                return grad * 2 * x + 0 * out

        packed = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.tolist()) or t, lambda t: t):
            y = Square.apply(x)
        y.sum().backward()
        return packed, x.grad

    same(run)


def test_refusals():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        hooks = T.autograd.graph.saved_tensors_hooks
        with hooks(lambda t: t, lambda t: "nothing"):
            y = x.exp()
        with hooks(lambda t: t * 1, lambda t: t):
            z = x.exp()
        z.sum().backward()

        def failing():
            with hooks(lambda t: [][0], lambda t: t):
                x.exp()

        def disabled():
            with T.autograd.graph.disable_saved_tensors_hooks("not here"), hooks(lambda t: t, lambda t: t):
                x.exp()

        return failure(y.sum().backward), failure(failing), failure(disabled), T.is_grad_enabled(), x.grad

    same(run)


def test_nothing_is_packed_without_recording():
    def run(T):
        packed = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
            with T.no_grad():
                x.exp()
            T.ones(2).exp()
        return packed

    same(run)


def test_save_on_cpu():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        with T.autograd.graph.save_on_cpu():
            y = (x * x).exp()
        y.sum().backward()
        return x.grad

    same(run)


def test_packed_values_free_the_tensor():
    x = cg.ones(3, requires_grad=True)

    def pack(tensor):
        return np.asarray(tensor.detach()).astype("f2")

    with cg.autograd.graph.saved_tensors_hooks(pack, lambda a: cg.from_numpy(a).float()):
        y = x * 2
        z = y * y
    seen = weakref.ref(y)
    del y
    gc.collect()
    assert seen() is None
    z.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0, 8.0]


@pytest.mark.parametrize("write", [lambda y: y.add_(1), lambda y: y.detach().zero_()])
def test_a_packed_copy_may_outlive_a_write(write):
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        with T.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            z = y * y
        write(y)
        z.sum().backward()
        return x.grad

    same(run)
