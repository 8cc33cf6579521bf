"""Backward behind a look, as `loss.item()` before `loss.backward()`: the pass is known, with the bits of a walk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cleargrad as torch
from cleargrad import nn
from cleargrad.compile.waiting import Waiter
from tests.bits import same_bits

STEPS = 14


class Training:
    """A model that is trained with a look at every loss; `change` may do anything before a step."""

    def __init__(self, change: Callable[[Training, int], Any], layers: Callable[[], Any]) -> None:
        torch.manual_seed(0)
        self.change, self.model, self.factor = change, layers(), 1.0
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.retain, self.seen, self.between = False, [], lambda loss: None

    def run(self) -> list[Any]:
        for number in range(STEPS):
            self.change(self, number)
            x, y = torch.randn(5, 6), torch.randint(0, 3, (5,))
            self.optimizer.zero_grad()
            loss = self.factor * nn.functional.cross_entropy(self.model(x), y)
            self.seen.append(loss.item())
            self.between(loss)
            loss.backward(retain_graph=self.retain)
            if self.retain:
                loss.backward()
            self.optimizer.step()
            self.seen += [p.grad.detach().clone() for p in self.model.parameters() if p.grad is not None]
        return [*self.seen, *self.model.state_dict().values()]


def plain() -> Any:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))


def noisy() -> Any:
    return nn.Sequential(
        nn.Linear(6, 8), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.Softmax(1), nn.Sigmoid(), nn.Linear(8, 3)
    )


def tied() -> Any:
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.Linear(6, 3))
    model[2].weight = model[0].weight
    return model


def nothing(training: Training, number: int) -> None:
    pass


def scale(training: Training, number: int) -> None:
    training.factor = 1.0 + number / 7


def freeze(training: Training, number: int) -> None:
    training.model[0].weight.requires_grad_(number % 4 < 2)


def replace(training: Training, number: int) -> None:
    if number in (6, 9):
        training.model[0].weight = nn.Parameter(torch.full((8, 6), 0.1 * number))
        training.optimizer = torch.optim.AdamW(training.model.parameters(), lr=0.01)


def swap(training: Training, number: int) -> None:
    """Two models of one shape take turns: the leaves are others, and the trace is the same."""
    training.others = getattr(training, "others", None) or [plain(), training.model]
    training.model = training.others[number % 2]
    training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.1)


def hook(training: Training, number: int) -> None:
    if number == 7:
        training.handle = training.model[0].weight.register_hook(lambda grad: grad * 2)
    if number == 11:
        training.handle.remove()


def hook_results(training: Training, number: int) -> None:
    if number == 7:
        training.model[0].register_forward_hook(
            lambda m, i, out: out.register_hook(lambda grad: grad * 3) and None
        )


def keep_gradients(training: Training, number: int) -> None:
    if number > 6:
        training.optimizer.zero_grad = lambda: None


def retain(training: Training, number: int) -> None:
    training.retain = number % 3 == 2


def look_twice(training: Training, number: int) -> None:
    training.between = lambda loss: training.seen.append((loss * 2).item())


def work_between(training: Training, number: int) -> None:
    def work(loss: Any) -> None:
        training.seen.append((loss.detach() * number).item())
        training.waits = loss.detach() + 1

    training.between = work


CHANGES = [
    nothing, scale, freeze, replace, swap, hook, hook_results, keep_gradients, retain, look_twice, work_between,
]  # fmt: skip


@pytest.mark.parametrize("layers", [plain, noisy, tied])
@pytest.mark.parametrize("change", CHANGES)
def test_bits_are_those_of_single_calls(change: Callable, layers: Callable) -> None:
    if layers is tied and change is replace:
        pytest.skip("the weight is another one")
    with torch.eager():
        expected = Training(change, layers).run()
    with torch.waiting():
        found = Training(change, layers).run()
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        same_bits(one, other, number)


@pytest.mark.parametrize("change", [nothing, scale])
@pytest.mark.parametrize("layers", [plain, noisy, tied])
def test_a_known_pass_is_not_walked(change: Callable, layers: Callable, monkeypatch: Any) -> None:
    walked: list[int] = []
    walk, training = Waiter.walk, Training(change, layers)

    def counted(self: Waiter, *args: Any) -> None:
        walked.append(len(training.seen))
        walk(self, *args)

    monkeypatch.setattr(Waiter, "walk", counted)
    with torch.waiting():
        training.run()
    assert len(walked) < STEPS / 2, walked


def test_what_was_written_since_is_an_error() -> None:
    """The same error as call by call, at any step, and the steps before and after it are whole."""
    weight = torch.ones(3, requires_grad=True)
    with torch.waiting():
        for number in range(12):
            x = torch.full((3,), float(number))
            loss = (weight * x).sum()
            loss.item()
            if number % 5 == 4:
                x.add_(1)
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    loss.backward()
                assert weight.grad is None
            else:
                loss.backward()
                assert weight.grad.tolist() == [number] * 3
                weight.grad = None


def test_a_graph_that_is_gone_is_an_error() -> None:
    weight = torch.ones(3, requires_grad=True)
    with torch.waiting():
        for number in range(8):
            loss = (weight * weight).sum()
            loss.item()
            loss.backward()
            if number > 4:
                with pytest.raises(RuntimeError, match="second time"):
                    loss.backward()
            weight.grad = None
