"""backward() and grad(): what arrives where, when it adds, and when it refuses."""

from __future__ import annotations

import warnings

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

LIBRARIES = pytest.mark.parametrize("T", (cg, torch), ids=("cleargrad", "torch"))


@LIBRARIES
def test_grad_is_none_first_and_keeps_its_identity(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    assert x.grad is None
    (x * x).sum().backward()
    first = x.grad
    version = first._version
    (x * 3).sum().backward()
    assert x.grad is first
    assert first.tolist() == [5.0, 7.0]
    assert first._version == version + 1
    assert not first.requires_grad


@LIBRARIES
def test_create_graph_accumulates_out_of_place(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    (x * 2).sum().backward()
    first = x.grad
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x**3).sum().backward(create_graph=True)
    assert x.grad is not first
    assert first.tolist() == [2.0, 2.0]
    assert x.grad.requires_grad
    assert x.grad.tolist() == [5.0, 14.0]
    x.grad = None


@LIBRARIES
def test_the_callers_gradient_is_not_taken_over(T):
    x = T.zeros(3, requires_grad=True)
    g = T.ones(3)
    (x + 1).backward(g)
    g.zero_()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    y = T.zeros(3, requires_grad=True)
    h = T.ones(3)
    y.backward(h)
    h.mul_(5)
    assert y.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_gradient_with_a_graph_has_memory_of_its_own():
    def run(T):
        x = T.ones(3, requires_grad=True)
        given = T.ones(3)
        x.backward(given, create_graph=True)
        given.zero_()
        y = T.ones(3, requires_grad=True)
        y.sum().backward(create_graph=True)
        (y[1] * 5).backward()
        kept = y.grad.detach().clone(), y.grad.stride(), x.grad.detach().clone()
        x.grad = y.grad = None
        return kept

    same(run)


@LIBRARIES
def test_two_leaves_never_share_a_gradient(T):
    x = T.zeros(3, requires_grad=True)
    y = T.zeros(3, requires_grad=True)
    (x + y).sum().backward()
    x.grad.add_(10)
    assert y.grad.tolist() == [1.0, 1.0, 1.0]
    x.grad = y.grad = None
    (x + y).backward(T.ones(3))
    x.grad.add_(10)
    assert y.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_second_backward_is_refused_once_values_are_freed():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = (x * x).sum()
        y.backward()
        return failure(y.backward), x.grad

    same(run)


def test_nodes_that_saved_nothing_may_be_walked_again():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = (x + x).sum()
        y.backward()
        y.backward()
        return x.grad

    same(run)


def test_retain_graph():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        return x.grad, failure(y.backward)

    same(run)


def test_freed_error_names_the_line():
    x = cg.tensor([1.0], requires_grad=True)
    y = x.exp()  # the line that saved
    y.backward()
    with pytest.raises(RuntimeError, match="second time") as caught:
        y.backward()
    assert "the line that saved" in str(caught.value)
    assert "test_backward.py" in str(caught.value)


def test_gradient_argument():
    def run(T):
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = x * x
        y.backward(T.tensor([[1.0, 0.0], [0.5, 2.0]]))
        z = T.tensor(2.0, requires_grad=True)
        (z * z).backward(T.tensor(3.0))
        return x.grad, z.grad

    same(run)


@pytest.mark.parametrize(
    "call",
    [
        lambda T, x: (x * 2).backward(),
        lambda T, x: (x * 2).backward(T.ones(3)),
        lambda T, x: (x * 2).backward(1.0),
        lambda T, x: (x * 2).sum().backward(T.ones(2)),
        lambda T, x: x.detach().sum().backward(),
        lambda T, x: (x * 2).sum().backward(inputs=[]),
        lambda T, x: (x * 2).sum().backward(inputs=[T.ones(2)]),
        lambda T, x: T.autograd.backward([x.sum(), x.sum()], [None]),
        lambda T, x: T.autograd.grad((x * 2).sum(), []),
        lambda T, x: T.autograd.grad((x * 2).sum(), T.ones(2)),
        lambda T, x: T.autograd.grad((x * 2).sum(), T.ones(2, requires_grad=True)),
        lambda T, x: T.autograd.grad((x * 2).sum(), T.ones(2, requires_grad=True), allow_unused=False),
        lambda T, x: T.autograd.grad((x * 2).sum(), x, materialize_grads=True, allow_unused=False),
        lambda T, x: T.autograd.grad(x * 2, x),
        lambda T, x: (x * 2).argmax().backward(),
        lambda T, x: T.autograd.backward(x.sum(), T.ones(()), grad_variables=T.ones(())),
        lambda T, x: (x * 2).backward(T.ones(2, dtype=T.complex64)),
    ],
)
def test_refusals(call):
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        return failure(lambda: call(T, x)), x.grad

    actual = same(run)
    assert "Error" in repr(actual[0])


def test_inputs_names_the_leaves_that_accumulate():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = T.tensor([3.0, 4.0], requires_grad=True)
        (x * y).sum().backward(inputs=[x])
        return x.grad, y.grad

    same(run)


def test_inputs_may_be_single_and_not_leaves():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * x
        z = y * 3
        z.sum().backward(inputs=y, retain_graph=True)
        first = y.grad.clone()
        z.sum().backward(inputs=[y, x])
        return first, y.grad, x.grad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(run)


def test_grad_leaves_grad_alone():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * x
        found = T.autograd.grad(y.sum(), [x, y], retain_graph=True)
        single = T.autograd.grad(y.sum(), x)
        return found, single, x.grad

    same(run)


def test_grad_of_unused_inputs():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        u = T.tensor([[1.0], [2.0]], requires_grad=True)
        none = T.autograd.grad((x * x).sum(), [x, u], allow_unused=True)
        zeros = T.autograd.grad((x * x).sum(), [x, u], materialize_grads=True)
        return none, zeros

    same(run)


def test_batched_gradients():
    def run(T):
        x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x**2
        rows = T.autograd.grad(y, x, T.eye(3), is_grads_batched=True, retain_graph=True)
        z = x.sum() * x
        both = T.autograd.grad([y, z], x, [T.eye(3), T.ones(3, 3)], is_grads_batched=True)
        return rows, both

    same(run)


def test_grad_of_a_tensor_with_respect_to_itself():
    def run(T):
        x = T.tensor(3.0, requires_grad=True)
        y = x * 2
        return T.autograd.grad(x, x), T.autograd.grad(y, y), T.autograd.grad([y, y], [x])

    same(run)


def test_roots_may_repeat_and_depend_on_each_other():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * x
        z = y.sum()
        T.autograd.backward([z, y, z], [None, T.tensor([1.0, 10.0]), T.tensor(2.0)])
        return x.grad

    same(run)


def test_retained_gradients_of_other_tensors():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * x
        y.retain_grad()
        y.retain_grad()
        z = y * 3
        before = y.retains_grad, z.retains_grad, x.retains_grad
        z.sum().backward(retain_graph=True)
        first = y.grad.clone()
        z.sum().backward()
        x.retain_grad()
        return before, first, y.grad, failure(lambda: T.ones(2).retain_grad())

    same(run)


@LIBRARIES
def test_a_retained_gradient_is_of_the_value_after_an_in_place_write(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.mul_(10)
    assert y.retains_grad
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [60.0, 60.0]


@LIBRARIES
def test_retain_grad_of_one_of_several_outputs(T):
    x = T.arange(6.0).requires_grad_()
    parts = (x * 2).split(2)
    parts[1].retain_grad()
    parts[2].retain_grad()
    (parts[0].sum() + (parts[1] * 5).sum()).backward()
    assert parts[1].grad.tolist() == [5.0, 5.0]
    assert x.grad.tolist() == [2.0, 2.0, 10.0, 10.0, 0.0, 0.0]


@LIBRARIES
def test_reading_grad_of_a_non_leaf_warns(T):
    x = T.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None
        assert x.grad is None
        assert T.ones(2).grad is None


def test_assigning_grad():
    def run(T):
        x = T.ones(2, requires_grad=True)
        x.grad = T.tensor([1.0, 2.0])
        (x * 3).sum().backward()
        refused = [
            failure(lambda value=value: setattr(x, "grad", value))
            for value in (1.0, T.ones(3), T.ones(2, dtype=T.float64), x)
        ]
        kept = x.grad
        del x.grad
        return kept, refused, x.grad

    same(run)


def test_gradients_in_other_dtypes_and_shapes():
    def run(T):
        x = T.tensor([1.0, 2.0], dtype=T.float16, requires_grad=True)
        w = T.tensor([[1.0], [2.0]], dtype=T.float64, requires_grad=True)
        (x * w).sum().backward()
        return x.grad, w.grad

    same(run)


def test_gradients_of_complex_leaves():
    def run(T):
        z = T.tensor([1 + 2j, 3 - 1j], requires_grad=True)
        x = T.tensor([2.0, 3.0], requires_grad=True)
        (z * x).abs().sum().backward()
        return z.grad, x.grad, failure(lambda: (z * x).sum().backward())

    same(run)


def test_a_broadcast_leaf_gets_a_gradient_of_its_own_layout():
    def run(T):
        x = T.ones(3, 2).t().requires_grad_()
        (x * T.arange(6.0).reshape(2, 3)).sum().backward()
        y = T.ones(1, 3, requires_grad=True)
        y.expand(4, 3).sum().backward()
        return x.grad, x.grad.stride(), y.grad, y.grad.stride()

    same(run)


def test_double_and_triple_backward():
    def run(T):
        x = T.tensor([0.5, -1.5], dtype=T.float64, requires_grad=True)
        first = T.autograd.grad((x**4).sum() + x.sin().sum(), x, create_graph=True)[0]
        second = T.autograd.grad(first.sum(), x, create_graph=True)[0]
        third = T.autograd.grad(second.sum(), x)[0]
        return first, second, third

    same(run)


def test_a_gradient_penalty_reaches_the_weights():
    def run(T):
        w = T.tensor([[0.1, 0.2], [0.3, -0.4]], requires_grad=True)
        x = T.tensor([[1.0, 2.0], [3.0, -1.0]], requires_grad=True)
        out = T.tanh(x @ w).sum()
        (slope,) = T.autograd.grad(out, x, create_graph=True)
        (out + (slope**2).sum()).backward()
        return w.grad, x.grad

    same(run)


def test_requires_grad_of_leaves_and_others():
    def run(T):
        x = T.ones(2, requires_grad=True)
        y = x * 2
        return (
            failure(lambda: setattr(y, "requires_grad", False)),
            failure(lambda: T.ones(2, dtype=T.int64).requires_grad_()),
            failure(lambda: T.ones(2, dtype=T.int64, requires_grad=True)),
            y.is_leaf, x.is_leaf, T.ones(2).is_leaf, y.detach().is_leaf,
            x.requires_grad_(False).requires_grad, (x * 2).requires_grad,
        )  # fmt: skip

    same(run)


def test_grad_fn_and_its_neighbours():
    def run(T):
        x = T.ones(2, requires_grad=True)
        y = T.ones(2)
        z = (x * y).exp().sum()
        names, node = [], z.grad_fn
        while node is not None:
            names.append((node.name(), [number for _, number in node.next_functions]))
            node = node.next_functions[0][0] if node.next_functions else None
        product = (x * y).grad_fn
        leaf = product.next_functions[0][0]
        product.metadata["key"] = 1
        return (
            names, product.next_functions[1], leaf.variable is x, x.grad_fn, product.metadata,
            (x * y).grad_fn.metadata, z.output_nr, x.split(1)[1].output_nr,
        )  # fmt: skip

    same(run)


@LIBRARIES
def test_a_leaf_has_one_node_for_life(T):
    x = T.ones(2, requires_grad=True)
    first = (x * 2).grad_fn.next_functions[0][0]
    second = (x * 3).grad_fn.next_functions[0][0]
    assert first is second


@LIBRARIES
def test_nodes_can_be_called(T):
    x = T.tensor([2.0, 3.0], requires_grad=True)
    y = x * x
    first, second = y.grad_fn(T.ones(2))
    assert first.tolist() == second.tolist() == [2.0, 3.0]


def test_backward_during_backward():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        w = T.tensor([3.0, 4.0], requires_grad=True)

        def inner(grad):
            with T.enable_grad():
                (w * w * grad).sum().backward()

        y = x * 2
        y.register_hook(inner)
        (y * w.detach()).sum().backward()
        return x.grad, w.grad

    same(run)


def test_dead_leaves_receive_nothing():
    def run(T):
        x = T.ones(2, requires_grad=True)
        y = x * T.ones(2, requires_grad=True)  # the second leaf has no name and is kept by the graph alone
        y.sum().backward()
        return x.grad

    same(run)


def test_autograd_backward_on_a_leaf():
    def run(T):
        x = T.tensor(2.0, requires_grad=True)
        x.backward()
        x.backward(T.tensor(5.0))
        return x.grad

    same(run)


def test_a_second_backward_names_the_first() -> None:
    x = cg.ones(3, requires_grad=True)
    loss = (x * x).exp().sum()
    loss.backward()  # the first
    for _ in range(3):
        (x * 2).exp().sum().backward()
    with pytest.raises(RuntimeError, match=r"first backward .*loss\.backward\(\)  # the first"):
        loss.backward()


def test_a_second_backward_names_the_first_also_when_its_loss_is_gone() -> None:
    state, weight = cg.ones(3), cg.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"first backward .*state\.sum\(\)\.backward\(\)"):
        for _ in range(2):
            state = cg.tanh(state * weight)
            state.sum().backward()
