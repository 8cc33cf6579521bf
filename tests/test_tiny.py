"""The README in code: what cleargrad is, in seconds. Needs neither PyTorch nor anything but cleargrad."""

from __future__ import annotations

import pytest

import cleargrad as torch


def test_a_gradient() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
    assert repr(loss) == "tensor(14., grad_fn=<SumBackward0>)"


def test_gradients_accumulate_until_they_are_cleared() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    (2 * x).backward()
    first = x.grad
    (2 * x).backward()
    assert x.grad is first and x.grad.item() == 4.0
    x.grad = None
    (2 * x).backward()
    assert x.grad.item() == 2.0


def test_a_training_loop_learns() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1
    w, b = torch.zeros(3, requires_grad=True), torch.zeros((), requires_grad=True)
    for _ in range(200):
        loss = torch.nn.functional.mse_loss(x @ w + b, y)
        loss.backward()
        with torch.no_grad():
            for parameter in (w, b):
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    assert loss.item() < 1e-6
    assert w.tolist() == pytest.approx([1.0, -2.0, 0.5], abs=1e-3)


def test_views_share_memory_and_history() -> None:
    base = torch.zeros(2, 3)
    row = base[1]
    weight = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    row.copy_(weight * 2)
    assert base.tolist() == [[0, 0, 0], [2, 4, 6]]
    base.sum().backward()
    assert weight.grad.tolist() == [2, 2, 2]


def test_an_overwritten_value_is_named_with_both_lines() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.exp(x)  # saved here
    y.add_(1)  # changed here
    with pytest.raises(RuntimeError) as failure:
        y.sum().backward()
    message = str(failure.value)
    assert "modified by an inplace operation" in message
    assert "y = torch.exp(x)" in message and "y.add_(1)" in message


def test_gradients_of_gradients() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    (slope,) = torch.autograd.grad(x**3, x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, x)
    assert (slope.item(), curvature.item()) == (12.0, 12.0)


def test_same_seed_same_numbers_as_pytorch() -> None:
    torch.manual_seed(0)
    assert repr(torch.rand(2)) == "tensor([0.4963, 0.7682])"
    assert repr(torch.randn(2)) == "tensor([-0.2905, -1.0704])"
