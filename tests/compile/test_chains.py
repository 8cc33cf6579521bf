"""Chains of entries that each thread runs for rows of its own: found where rows are independent, nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad import nn
from cleargrad.devices.cpu.programs.chains import Access, Chain, keeps_apart
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.ops.record import Recorder, replay
from cleargrad.schedule.formulas import Buffer
from tests.bits import same_bits

BUFFER = Buffer(0, (100,), np.dtype(np.float32), "inside", (1,))


def programs(model: nn.Module, x: Any) -> tuple[Program, Program, list[np.ndarray]]:
    """A model's outputs and gradients as a program with chains, as one without, and as NumPy reads them."""
    with Recorder() as recorder:
        out = model(recorder.input(x))
        out = out[0] if isinstance(out, tuple) else out
        grads = cg.autograd.grad(out.square().sum(), list(model.parameters()))
        graph = recorder.finish([out, *grads])
    without = type("Without", (Program,), {"by_rows": False})
    return Program(graph), without(graph), replay(graph, [x._data])


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("batch", [2, 7, 16])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_networks(kind: Any, batch: int, bidirectional: bool) -> None:
    cg.manual_seed(0)
    model = kind(5, 6, 2, bidirectional=bidirectional)
    x = cg.randn(4, batch, 5)
    chained, plain, expected = programs(model, x)
    assert sum(isinstance(entry, Chain) for entry in chained.entries) >= 2
    assert not any(isinstance(entry, Chain) for entry in plain.entries)
    for found, other, numbers in zip(chained.run([x._data]), plain.run([x._data]), expected, strict=True):
        same_bits(found, numbers)
        same_bits(other, numbers)


def test_sums_over_rows_end_a_chain() -> None:
    """Each product needs all rows of the one before: nothing can be cut."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(cg.randn(8, 8))

        def forward(self, x: Any) -> Any:
            for _ in range(4):
                x = (x.T @ self.weight).tanh()
            return x

    cg.manual_seed(0)
    x = cg.randn(8, 8)
    chained, _, expected = programs(Mixed(), x)
    assert not any(isinstance(entry, Chain) for entry in chained.entries)
    for found, numbers in zip(chained.run([x._data]), expected, strict=True):
        same_bits(found, numbers)


def test_what_rows_touch() -> None:
    whole_rows = Access.of(BUFFER, 0, 9, 10, 4)
    assert keeps_apart(whole_rows, Access.of(BUFFER, 3, 5, 10, 4))  # a part of the same row
    assert keeps_apart(whole_rows, Access.of(BUFFER, 40, 49, 10, 4))  # behind all rows
    assert not keeps_apart(whole_rows, Access.of(BUFFER, 5, 14, 10, 4))  # reaches into the next row
    assert not keeps_apart(whole_rows, Access.of(BUFFER, 0, 39, 0, 4))  # every row looks at all of them
    assert not keeps_apart(whole_rows, Access.of(BUFFER, 0, 0, 1, 4))  # columns
