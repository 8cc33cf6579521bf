"""Whether calls wait is decided by what steps cost either way, and cannot be seen in any number."""

from __future__ import annotations

import time
from typing import Any

import pytest

import cleargrad as torch
from cleargrad import nn
from cleargrad.compile import trial
from cleargrad.core.mode import mode
from tests.bits import same_bits

pytestmark = pytest.mark.eager  # how calls are made is the subject
STEPS = 1000


def train(slow: str, monkeypatch: Any) -> tuple[list[str], list[Any]]:
    """How calls were made in each step, and the results; in the slow way the clock runs faster."""
    clock = [0.0]

    def now() -> float:
        clock[0] += 3.0 if slow == ("waiting" if mode.waiter is not None else "eager") else 1.0
        return clock[0]

    monkeypatch.setattr(trial, "perf_counter", now)
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    ways, losses = [], []
    for _ in range(STEPS):
        ways.append("waiting" if mode.waiter is not None else "eager")
        loss = model(torch.randn(4, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return ways, [*losses, *model.parameters()]


@pytest.mark.parametrize("slow", ["waiting", "eager"])
def test_the_quicker_way_goes_on(slow: str, monkeypatch: Any) -> None:
    with torch.eager():
        _, expected = train(slow, monkeypatch)
    with torch.waiting():
        ways, found = train(slow, monkeypatch)
        assert mode.resting is None or slow == "waiting"
    assert mode.resting is None and mode.waiter is None
    assert set(ways) == {"waiting", "eager"}  # both were tried
    assert ways.count(slow) < STEPS / 2
    for one, other in zip(found, expected, strict=True):
        same_bits(one, other)


def test_nothing_rests_outside(monkeypatch: Any) -> None:
    """A rest ends with the `with` statement that it began in, and a statement inside of it has none."""
    with torch.waiting():
        while mode.resting is None:
            train_once()
            time.sleep(0.001)
        with torch.eager():
            train_once()
            assert mode.resting is None and mode.waiter is None
        with torch.waiting():
            assert mode.waiter is not None
        assert mode.resting is not None and mode.waiter is None
    assert mode.resting is None and mode.waiter is None


def train_once() -> None:
    weight = torch.ones(2, requires_grad=True)
    (weight * 2).sum().backward()
    torch.optim.SGD([weight], lr=0.1).step()
