"""A compiled call that fails leaves everything as it was, and says what an eager call says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad import nn


class Reader(nn.Module):
    """Every kind of state: weights, running statistics, and indices that may be wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 6)
        self.norm = nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.table(x)))


def trained() -> tuple[nn.Module, Any, Any]:
    cg.manual_seed(0)
    model = Reader()
    optimizer = cg.optim.Adam(model.parameters(), lr=0.01)

    @cg.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = cg.arange(8) % 10, cg.arange(8) % 4
    for _ in range(4):
        step(x, y)
    assert step.programs
    return model, optimizer, step


def state_of(model: nn.Module, optimizer: Any) -> list[np.ndarray]:
    moments = [value for state in optimizer.state.values() for value in state.values()]
    return [cg.as_tensor(t).detach().numpy().copy() for t in (*model.state_dict().values(), *moments)]


WRONG = {
    "input": (cg.tensor([0, 1, 2, 3, 4, 5, 6, 10]), cg.arange(8) % 4, "index out of range"),
    "label": (cg.arange(8), cg.tensor([0, 1, 2, 3, 0, 1, 2, 4]), "out of bounds"),
}


@pytest.mark.parametrize("what", WRONG)
def test_nothing_is_written(what: str) -> None:
    model, optimizer, step = trained()
    x, y, says = WRONG[what]
    before = state_of(model, optimizer)
    with pytest.raises(IndexError, match=says) as caught:
        step(x, y)
    assert __file__ in str(caught.value) or "test_failures.py" in str(caught.value)
    buffers = [name for name, _ in model.named_buffers()]
    for name, old, new in zip(model.state_dict(), before, state_of(model, optimizer), strict=False):
        if what == "label" and name in buffers:
            continue  # as in an eager call: the forward pass had been done when the loss refused the label
        np.testing.assert_array_equal(new, old, err_msg=name)


def test_it_goes_on_afterwards() -> None:
    (*_, step), (*_, other) = trained(), trained()
    with pytest.raises(IndexError):
        step(*WRONG["input"][:2])
    x, y = cg.arange(8), cg.arange(8) % 4
    np.testing.assert_array_equal(step(x, y).item(), other(x, y).item())
