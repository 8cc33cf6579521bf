"""Code of nests: vectors that are two in one give what short ones give, and other batches need no other code."""

from __future__ import annotations

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.devices.cpu.llvm.jit import jit, lanes
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.devices.cpu.programs.signature import BROAD, CHUNK, breadth
from cleargrad.ops.record import Recorder, replay
from cleargrad.schedule.fuse import Nest
from tests.bits import same_bits


def program_of(function, *arrays: np.ndarray) -> tuple[Nest, np.ndarray, np.ndarray]:
    """The one nest of a function, its result, and NumPy's."""
    tensors = [cg.tensor(array) for array in arrays]
    with Recorder() as recorder:
        graph = recorder.finish([function(*map(recorder.input, tensors))])
    program = Program(graph)
    (nest,) = program.entries
    inputs = [tensor._data for tensor in tensors]
    return nest, program.run(inputs)[0], replay(graph, inputs)[0]


def numbers(*shape: int, kind: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(kind)


@pytest.mark.parametrize("length", [1, 7, 8, 15, 16, 17, 31, 33, 64, 2047, 2048, 2049, 5000])
def test_flat_lengths(length: int) -> None:
    nest, found, expected = program_of(lambda x: x.tanh() * x.exp(), numbers(length))
    assert breadth(nest) == (BROAD if length >= CHUNK or length % (4 * lanes()) == 0 else 1)
    same_bits(found, expected)


@pytest.mark.parametrize("columns", [1, 4, 8, 12, 16, 31, 32, 64, 96])
def test_rows(columns: int) -> None:
    nest, found, expected = program_of(
        lambda x, y: cg.nn.functional.gelu(x + y), numbers(5, columns), numbers(columns)
    )
    assert breadth(nest) == (BROAD if columns % (4 * lanes()) == 0 else 1)
    same_bits(found, expected)


def test_a_mask_and_several_results() -> None:
    x = numbers(6, 64)
    nest, found, expected = program_of(lambda x: cg.where(x > 0, x.exp(), x.sigmoid() * 2), x)
    assert breadth(nest) == BROAD
    same_bits(found, expected)


@pytest.mark.parametrize("case", ["short", "double", "reduced", "looked up"])
def test_what_stays_as_it_was(case: str) -> None:
    table, places = numbers(9, 64), np.arange(6)
    nest, found, expected = {
        "short": lambda: program_of(lambda x: x * 2 + 1, numbers(6, 64)),
        "double": lambda: program_of(lambda x: x.exp().tanh(), numbers(6, 64, kind="float64")),
        "reduced": lambda: program_of(lambda x: x.exp().tanh().sum(1), numbers(6, 64)),
        "looked up": lambda: program_of(lambda x, i: x[i].exp().tanh(), table, places),
    }[case]()
    assert breadth(nest) == 1
    same_bits(found, expected)


def test_another_batch_needs_no_new_code(nothing_is_recalled):
    """How many elements a mean is of differs from batch to batch; the code that divides by it does not."""
    model = cg.nn.Sequential(
        cg.nn.Conv2d(3, 8, 3), cg.nn.BatchNorm2d(8), cg.nn.ReLU(), cg.nn.Flatten(1), cg.nn.Linear(288, 4)
    )
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = cg.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled, known = cg.compile(step), []
    for size in (12, 13, 14, 15):
        for _ in range(3):
            compiled(cg.randn(size, 3, 8, 8), cg.zeros(size, dtype=cg.int64))
        known.append(set(jit().linked))
    assert known[0] and known[-1] == known[1]
    assert len(compiled.programs) == 4
