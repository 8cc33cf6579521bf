"""Hooks on tensors, leaves and nodes: when they run, what they see, and what they may change."""

from __future__ import annotations

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

LIBRARIES = pytest.mark.parametrize("T", (cg, torch), ids=("cleargrad", "torch"))


def test_hooks_run_in_order_and_may_replace_the_gradient():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        y.register_hook(lambda grad: seen.append(("first", grad.tolist())))
        y.register_hook(lambda grad: grad * 2)
        y.register_hook(lambda grad: seen.append(("third", grad.tolist())))
        x.register_hook(lambda grad: grad + 100)
        x.register_hook(lambda grad: seen.append(("leaf", grad.tolist())))
        y.sum().backward()
        return seen, x.grad

    same(run)


def test_a_leaf_hook_runs_once_with_the_whole_gradient():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        x.register_hook(lambda grad: seen.append(grad.tolist()))
        (x * 3 + x * x).sum().backward()
        (x * 2).sum().backward()
        return seen, x.grad

    same(run)


def test_removed_hooks_do_not_run():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        handle = x.register_hook(lambda grad: seen.append("removed"))
        with x.register_hook(lambda grad: seen.append("inside")):
            handle.remove()
            handle.remove()
            (x * 2).sum().backward()
        (x * 2).sum().backward()
        return seen

    same(run)


def test_a_hook_may_remove_itself():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)

        def once(grad):
            seen.append("once")
            handle.remove()

        handle = x.register_hook(once)
        x.register_hook(lambda grad: seen.append("always"))
        (x * 2).sum().backward()
        (x * 2).sum().backward()
        return seen

    same(run)


def test_hooks_run_in_grad_too():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        y.register_hook(lambda grad: grad * 2)
        x.register_hook(lambda grad: grad * 10)
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append("accumulated"))
        found = T.autograd.grad(y.sum(), [x, y])
        return found, seen, x.grad

    same(run)


def test_hooks_see_the_graph_of_the_gradient():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * x
        y.register_hook(lambda grad: seen.append((grad.requires_grad, T.is_grad_enabled())))
        T.autograd.grad(y.pow(2).sum(), x, create_graph=True)
        T.autograd.grad((x * x).pow(2).sum(), x)
        z = x * 2
        z.register_hook(lambda grad: seen.append((grad.requires_grad, T.is_grad_enabled())))
        z.pow(2).sum().backward()
        return seen

    same(run)


def test_retained_gradients_are_those_after_the_hooks():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        y.retain_grad()
        y.register_hook(lambda grad: grad * 2)
        y.sum().backward()
        return y.grad, x.grad

    same(run)


@pytest.mark.parametrize(
    "result",
    [
        lambda T: 1.0,
        lambda T: T.ones(3),
        lambda T: "no",
        lambda T: T.ones(2, dtype=T.float64),
        lambda T: (T.ones(2),),
    ],
)
def test_what_a_hook_may_not_return(result):
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        y.register_hook(lambda grad: result(T))
        return failure(y.sum().backward)

    same(run)


def test_registering_refusals():
    def run(T):
        x = T.ones(2)
        y = T.ones(2, requires_grad=True) * 2
        return (
            failure(lambda: x.register_hook(print)),
            failure(lambda: x.register_post_accumulate_grad_hook(print)),
            failure(lambda: y.register_post_accumulate_grad_hook(print)),
        )

    same(run)


def test_post_accumulate_hooks_run_as_soon_as_the_leaf_is_ready():
    def run(T):
        seen = []
        weights = [T.full((2,), float(k + 2), requires_grad=True) for k in range(3)]
        for k, w in enumerate(weights):
            w.register_post_accumulate_grad_hook(
                lambda leaf, k=k: seen.append((k, leaf.grad.tolist(), leaf is weights[k]))
            )
        x = T.ones(2)
        for k, w in enumerate(weights):
            x = x * w
            if k:
                x.register_hook(lambda grad, k=k: seen.append(f"at {k}"))
        x.sum().backward()
        return seen

    same(run)


@LIBRARIES
def test_post_accumulate_hooks_may_free_the_gradient(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)

    def step(leaf):
        with T.no_grad():
            leaf.sub_(leaf.grad, alpha=0.5)
        leaf.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert x.grad is None
    assert x.tolist() == [0.0, 1.0]
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_post_accumulate_hooks_see_one_call_per_backward():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
        (x * x + x).sum().backward()
        (x * 2).sum().backward()
        return seen

    same(run)


def test_node_hooks():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        w = T.tensor([5.0, 6.0])
        y = x * w

        def before(grads):
            seen.append(("pre", [g.tolist() for g in grads]))
            return (grads[0] * 10,)

        def after(inputs, outputs):
            seen.append(
                ("post", [None if g is None else g.tolist() for g in inputs], [g.tolist() for g in outputs])
            )
            return (inputs[0] + 1, None)

        handles = y.grad_fn.register_prehook(before), y.grad_fn.register_hook(after)
        y.sum().backward(retain_graph=True)
        for handle in handles:
            handle.remove()
        y.sum().backward()
        return seen, x.grad

    same(run)


def test_hooks_on_the_node_of_a_leaf():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        node = (x * 2).grad_fn.next_functions[0][0]
        node.register_prehook(lambda grads: seen.append(("pre", [g.tolist() for g in grads])))
        node.register_hook(
            lambda inputs, outputs: seen.append(("post", len(inputs), [g.tolist() for g in outputs]))
        )
        x.register_hook(lambda grad: seen.append("tensor"))
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append("accumulated"))
        (x * 3).sum().backward()
        return seen

    same(run)


def test_tensor_hooks_run_before_node_prehooks():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        y.grad_fn.register_prehook(lambda grads: seen.append("node"))
        y.register_hook(lambda grad: seen.append("tensor"))
        y.sum().backward()
        return seen

    same(run)


def test_hooks_on_one_of_several_outputs():
    def run(T):
        seen = []
        x = T.arange(6.0).requires_grad_()
        a, b, _ = (x * 1).split(2)
        b.register_hook(lambda grad: seen.append(("b", grad.tolist())) or grad * 10)
        (a.sum() + (b * 3).sum()).backward()
        return seen, x.grad

    same(run)


def test_a_hook_before_an_in_place_write_sees_the_old_value():
    def run(T):
        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        y.register_hook(lambda grad: seen.append(("before", grad.tolist())))
        y.mul_(5)
        y.register_hook(lambda grad: seen.append(("after", grad.tolist())))
        y.sum().backward()
        return seen, x.grad

    same(run)


def test_a_failing_hook_leaves_the_mode_as_it_was():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2

        def fail(grad):
            raise ValueError("from the hook")

        y.register_hook(fail)
        return failure(y.sum().backward), T.is_grad_enabled(), x.grad

    same(run)


def test_a_failing_hook_comes_after_the_leaves_that_were_complete():
    def run(T):
        a, b, c = (T.tensor([1.0, 2.0], requires_grad=True) for _ in range(3))
        hidden = a * b

        def fail(grad):
            raise KeyError

        hidden.register_hook(fail)
        with pytest.raises(KeyError):
            ((hidden * c).exp() + b * c).sum().backward()
        return a.grad, b.grad, c.grad

    same(run)
