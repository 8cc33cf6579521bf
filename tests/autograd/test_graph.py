"""torch.autograd.graph, and what a graph shows of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same


def test_all_gradients_together() -> None:
    def run(T: Any) -> Any:
        a, b, c = (T.ones(2, requires_grad=True) for _ in range(3))
        seen: list = []

        def note(grads: Any) -> None:
            seen.append([None if grad is None else grad.tolist() for grad in grads])

        handle = T.autograd.graph.register_multi_grad_hook((a, b, c), note)
        (a * 2 + b * 3).sum().backward()
        (a * 2 + b * 3 + c * 4).sum().backward()
        loss = (a * b).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        (c * 5).sum().backward()
        handle.remove()
        (a + b).sum().backward()
        return seen

    same(run)


def test_intermediate_tensors() -> None:
    def run(T: Any) -> Any:
        x = T.ones(2, requires_grad=True)
        y, z = x * 2, x * 3
        seen: list = []
        T.autograd.graph.register_multi_grad_hook(
            (y, z), lambda grads: seen.append([g.tolist() for g in grads])
        )
        (y * z).sum().backward()
        return seen, x.grad

    same(run)


def test_the_first_gradient() -> None:
    def run(T: Any) -> Any:
        a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
        seen: list = []
        T.autograd.graph.register_multi_grad_hook((a, b), lambda grad: seen.append(grad.shape[0]), mode="any")
        (a + b).sum().backward()
        (a + b).sum().backward()
        wrong = failure(lambda: T.autograd.graph.register_multi_grad_hook((a,), print, mode="some"))
        return seen, wrong

    same(run)


def test_only_what_grad_was_asked_for() -> None:
    a, b = cg.ones(2, requires_grad=True), cg.ones(2, requires_grad=True)
    seen: list = []
    cg.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append([g is None for g in grads]))
    cg.autograd.grad((a * b).sum(), [a])
    assert seen == [[False, True]]


def test_a_tensor_without_gradient_is_refused() -> None:
    with pytest.raises(RuntimeError):
        cg.autograd.graph.register_multi_grad_hook((cg.ones(1),), print)


@pytest.mark.parametrize("make", [lambda x: 2 * x, lambda x: 2 + x, lambda x: x * 2])
def test_a_number_is_the_second_operand(make: Callable) -> None:
    def names(x: Any) -> list[str]:
        return [type(node).__name__ for node, _ in make(x).grad_fn.next_functions]

    assert names(cg.ones(2, requires_grad=True)) == names(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize("torch", [torch, cg])
def test_saved_values_have_their_names(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    square = x.pow(2)
    assert square.grad_fn._saved_self is x
    result = x.exp()
    assert result.grad_fn._saved_result.equal(result) and result.grad_fn._saved_result is not result
    product = x * square
    assert product.grad_fn._saved_self is x and product.grad_fn._saved_other.equal(square)
    with pytest.raises(AttributeError, match="_saved_weight_of_the_world"):
        product.grad_fn._saved_weight_of_the_world  # noqa: B018
    product.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        product.grad_fn._saved_self  # noqa: B018
