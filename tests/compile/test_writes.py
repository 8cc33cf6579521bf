"""Writes into memory that is also read: the order of stores and loads in compiled programs is that of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.ops.record import Recorder, replay
from tests.bits import same_bits

COUNT = 24


def fill(w: Any, x: Any) -> list:
    old = w.clone()
    w.fill_(1)
    return [old + 1]


def replace(w: Any, x: Any) -> list:
    old = w.clone()
    w.copy_(x)
    return [old * 2 + x, old.sum()]


def reduce_then_write(w: Any, x: Any) -> list:
    """The row is walked twice for the sum of exponentials; the write does not wait for it."""
    total = w.logsumexp(dim=0)
    w.add_(1)
    return [total]


def write_by_what_was_reduced(w: Any, x: Any) -> list:
    total = (w * x).mean()
    w.mul_(total)
    return [total]


def softmax_then_write(w: Any, x: Any) -> list:
    shares = w.softmax(0)
    w.sub_(shares)
    return [shares.sum(), w * 2]


def window_twice(w: Any, x: Any) -> list:
    """The second write into a part comes after the copy that the whole is made of."""
    y = (x * 3).reshape(2, -1)
    y[0] = w[:1]
    y[0] *= 2
    return [y]


def turned_window(w: Any, x: Any) -> list:
    """The same elements in another order, in the same loops."""
    y = x.reshape(6, 2, 2) @ x.reshape(6, 2, 2).transpose(1, 2)
    y.transpose(0, 2).mul_(2)
    return [y, w + 1]


def parts_of_outside(w: Any, x: Any) -> list:
    w[::2] = x[::2]
    w[1::2] += w[::2]
    return [w.flip(0)]


def read_behind_the_write(w: Any, x: Any) -> list:
    """What is returned is computed last, in the loop that has overwritten what it reads."""
    part = w[:0]
    square = w.square()
    part.sub_(part)
    cube = square * w
    w.sub_(w)
    return [cube.square()]


CASES = [
    read_behind_the_write,
    fill,
    replace,
    reduce_then_write,
    write_by_what_was_reduced,
    softmax_then_write,
    window_twice,
    turned_window,
    parts_of_outside,
]


@pytest.mark.parametrize("case", CASES)
def test_order_of_reads_and_writes(case: Callable) -> None:
    rng = np.random.default_rng(0)
    start, x = rng.standard_normal((2, COUNT)).astype(np.float32)
    outside = cg.as_tensor(start.copy())
    with Recorder() as recorder:
        graph = recorder.finish(case(outside, recorder.input(cg.zeros(COUNT))))

    def run(how: Callable) -> list[np.ndarray]:
        outside.numpy()[...] = start
        return [*(np.array(out) for out in how([x])), outside.numpy().copy()]

    expected, program = run(lambda arrays: replay(graph, arrays)), Program(graph)
    for _ in range(2):
        for found, wanted in zip(run(program.run), expected, strict=True):
            same_bits(found, wanted)


def test_a_number_for_each_row_is_written_before_its_columns() -> None:
    index, mask = cg.zeros(3, 3, dtype=cg.int64), cg.zeros(3, dtype=cg.bool)

    def step(x: cg.Tensor) -> tuple[cg.Tensor, ...]:
        flat, old = x.reshape(-1), cg.take_along_dim(x, index, 1)
        x[1, 0] = 0.25
        flat[mask] = flat[2]
        return old, old.hypot(x + 3), x

    compiled = cg.compile(step)
    for _ in range(4):
        found, expected = compiled(cg.ones(3, 1)), step(cg.ones(3, 1))
        for one, other in zip(found, expected, strict=True):
            same_bits(one, other)
    assert compiled.programs
