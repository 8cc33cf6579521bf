"""Graphs are freed by reference counting alone, however made, and long ones neither overflow nor leak."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import cleargrad as cg

pytestmark = pytest.mark.eager  # calls that wait hold what they are about


@pytest.fixture
def without_collector(nothing_is_recalled):
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def plain():
    x = cg.ones(3, requires_grad=True)
    y = (x * 2).exp()
    y.sum().backward()
    return x, y


def never_walked():
    x = cg.ones(3, requires_grad=True)
    y = (x * x).sigmoid().softmax(0)
    return x, y


def in_place():
    x = cg.ones(4, requires_grad=True)
    y = x * 2
    y.mul_(y.detach() + 1)
    y.exp_()
    y.sum().backward()
    return x, y


def through_views():
    x = cg.ones(2, 3, requires_grad=True)
    y = x * 2
    row, column = y[0], y[:, 1]
    row.mul_(3)
    column.add_(row.sum())
    y.view(6)[2:].tanh_()
    parts = y.split(1)
    (row.sum() + column.sum() + parts[1].sum()).backward()
    return x, y, row, column, *parts


def view_that_becomes_its_own_base():
    base = cg.zeros(4)
    w = cg.ones(2, requires_grad=True)
    view = base[1:3]
    view += w
    base.sum().backward()
    return base, w, view


class Square(cg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x * x
        ctx.save_for_backward(x, out)
        ctx.note = [1]
        return out

    @staticmethod
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        return grad * 2 * x


def user_functions():
    x = cg.ones(3, requires_grad=True)
    y = Square.apply(x * 1)
    z = Square.apply(y)
    z.sum().backward()
    return x, y, z


def user_functions_never_walked():
    x = cg.ones(3, requires_grad=True)
    y = Square.apply(x * 1)
    return x, y


def hooks():
    x = cg.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: grad * 2)
    x.register_hook(lambda grad: None)
    x.register_post_accumulate_grad_hook(lambda leaf: None)
    y.grad_fn.register_prehook(lambda grads: None)
    y.grad_fn.register_hook(lambda inputs, outputs: None)
    y.sum().backward()
    return x, y


def retained():
    x = cg.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.mul_(2)
    z = y.exp()
    z.retain_grad()
    z.sum().backward()
    return x, y, z


def double_backward():
    x = cg.ones(3, requires_grad=True)
    y = (x**3).sum()
    (first,) = cg.autograd.grad(y, x, create_graph=True)
    (first**2).sum().backward()
    return x, y, first


def gradients_with_a_graph():
    x = cg.ones(3, requires_grad=True)
    y = (x**3).sum()
    y.backward(create_graph=True)
    first = x.grad
    return x, y, first


def saved_hooks():
    x = cg.ones(3, requires_grad=True)
    with cg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x.exp()
        z = y * y
    z.sum().backward()
    return x, y, z


def several_outputs():
    x = cg.ones(3, 3, requires_grad=True)
    values, _ = (x * 2).sort()
    top, _ = values.topk(2)
    top.sum().backward()
    return x, values, top


def failed_backward():
    x = cg.ones(3, requires_grad=True)
    y = x * 1
    z = y * y
    y.add_(1)
    try:
        z.sum().backward()
    except RuntimeError as failure:
        failure.__traceback__ = None
    return x, y, z


def refused_write():
    x = cg.ones(3, requires_grad=True)
    y = x * 1
    try:
        y.add_(cg.ones(4))
    except RuntimeError as failure:
        failure.__traceback__ = None
    return x, y


def detached():
    x = cg.ones(3, requires_grad=True)
    y = x * 2
    return x, y, y.detach(), y.data, x.detach().requires_grad_()


GRAPHS = [
    plain, never_walked, in_place, through_views, view_that_becomes_its_own_base, user_functions,
    user_functions_never_walked, hooks, retained, double_backward, saved_hooks, several_outputs,
    failed_backward, refused_write, detached,
]  # fmt: skip


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_tensors_die_with_their_last_name(graph, without_collector):
    graph()  # the first call fills caches
    gc.collect()
    tensors = graph()
    watched = [weakref.ref(tensor) for tensor in tensors]
    arrays = [weakref.ref(tensor._data) for tensor in tensors]
    del tensors
    assert [each() for each in watched] == [None] * len(watched)
    assert [each() for each in arrays] == [None] * len(arrays)
    assert gc.collect() == 0


def test_a_leaf_whose_gradient_has_a_graph_is_the_one_cycle(without_collector):
    """`backward(create_graph=True)` ties a leaf to its gradient, as in PyTorch; deleting `.grad` frees it."""
    x, y, first = gradients_with_a_graph()
    watched = [weakref.ref(tensor) for tensor in (x, y, first)]
    x.grad = None
    del x, y, first
    assert [each() for each in watched] == [None] * 3


def test_backward_lets_saved_values_go(without_collector):
    x = cg.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    watched = weakref.ref(y)
    del y
    assert watched() is not None
    z.sum().backward()
    assert watched() is None


def test_values_that_are_not_needed_are_not_kept(without_collector):
    x = cg.ones(3, requires_grad=True)
    mask = cg.ones(3)
    y = x + 1
    watched = weakref.ref(y)
    z = y * mask
    del y
    assert watched() is None
    z.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_chain_of_200_000_ops(without_collector):
    x = cg.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y * 1.0
        y = y + 0.0
    y.backward()
    assert x.grad.item() == 1.0
    watched = weakref.ref(y)
    del y
    assert watched() is None
    assert gc.collect() == 0


def test_a_long_chain_that_was_never_walked_is_freed(without_collector):
    x = cg.tensor(1.0, requires_grad=True)
    y = x.sin()
    gc.collect()  # what was left of making the machine code of a sine
    for _ in range(200_000):
        y = y.sin()
    del y
    assert gc.collect() == 0


def test_a_long_chain_of_saved_values_is_walked_and_freed(without_collector):
    x = cg.tensor(1.0, requires_grad=True)
    w = cg.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(50_000):
        y = y * w
    cg.autograd.grad(x * w, w, create_graph=True)[0].item()
    gc.collect()  # what was left of making machine code
    (slope,) = cg.autograd.grad(y, w, create_graph=True)
    assert slope.item() == 50_000.0
    del y, slope
    assert gc.collect() == 0


def test_training_does_not_grow(without_collector):
    generator = np.random.default_rng(0)
    data = cg.from_numpy(generator.standard_normal((16, 4)).astype(np.float32))
    first = cg.ones(4, 8, requires_grad=True)
    second = cg.ones(8, 1, requires_grad=True)
    first.register_hook(lambda grad: grad * 1)

    def step() -> None:
        hidden = (data @ first).tanh() * 1
        hidden[:, 0] = 0.0
        loss = Square.apply(hidden @ second).mean()
        first.grad = second.grad = None
        loss.backward()
        with cg.no_grad():
            first.sub_(first.grad, alpha=1e-3)
            second.sub_(second.grad, alpha=1e-3)

    for _ in range(10):
        step()
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(100):  # the last few dozen passes are remembered, for errors
            step()
        assert gc.collect() == 0  # it also empties Python's lists of spare objects
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(1_000):
            step()
        assert gc.collect() == 0
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 5_000
