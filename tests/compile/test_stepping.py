"""All steps of a recurrent layer in one native call: what comes out is what single steps give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.compile import eager, stepping


def trained(library: Any, layer: Any, x: np.ndarray) -> list[np.ndarray]:
    """Results and gradients of a layer."""
    given = library.tensor(x, requires_grad=True)
    out, (h, c) = layer(given)
    ((out * out).sum() + h.sum() + (c * c).sum()).backward()
    values = [out, h, c, given.grad, *[p.grad for p in layer.parameters()]]
    found = [value.detach().numpy().copy() for value in values]
    layer.zero_grad()
    return found


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("batch", [1, 2, 5, 16, 33])
@pytest.mark.parametrize("hidden", [64, 131])
def test_lstm(batch: int, hidden: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.LSTM(7, hidden, bidirectional=True).to(getattr(torch, kind))
    ours = cg.nn.LSTM(7, hidden, bidirectional=True).to(getattr(cg, kind))
    ours.load_state_dict({name: cg.tensor(x.numpy()) for name, x in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((33, batch, 7)).astype(kind)
    made: list[bool] = []
    make_steps = eager.make_steps
    monkeypatch.setattr(eager, "make_steps", lambda *given: made.append(make_steps(*given)) or made[-1])
    found = trained(cg, ours, x)
    assert made == [True] * 4  # forward and backward in two directions
    monkeypatch.setattr(eager, "make_steps", lambda *given: False)
    for mine, stepwise, wanted in zip(found, trained(cg, ours, x), trained(torch, theirs, x), strict=True):
        limit = {"rtol": 1e-4, "atol": 2e-5} if kind == "float32" else {"rtol": 1e-10, "atol": 1e-11}
        np.testing.assert_allclose(mine, stepwise, **limit)
        np.testing.assert_allclose(mine, wanted, **limit)


def test_each_row_has_one_thread() -> None:
    for batch in (1, 2, 3, 7, 64):
        shares = stepping.shares_of(batch, 1 << 30)
        assert [row for low, high in shares for row in range(low, high)] == list(range(batch))
    assert stepping.shares_of(64, 1) == [(0, 64)]


def test_rows_that_are_spread_in_memory_are_left_to_others() -> None:
    states = np.zeros((8, 6), np.float32)[:, ::2]
    factors = (states, np.zeros((3, 3), np.float32), np.zeros((8, 3), np.float32))
    assert not stepping.make_steps(0, [states], factors, [0, 4], 4, True)
