"""Which statements share a nest: those that write into one buffer, and those that have a number in common."""

from __future__ import annotations

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.ops.record import Recorder, replay
from cleargrad.schedule.formulas import Buffer, Load
from cleargrad.schedule.fuse import LARGE, Nest, apart
from tests.bits import same_bits

BUFFER = Buffer(0, (400,), np.dtype(np.float32), "inside", (1,))


def part(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Load:
    return Load(BUFFER, shape, strides, offset, ())


def elements(load: Load) -> set[int]:
    memory = np.arange(BUFFER.size)[load.offset :]
    steps = [step * memory.itemsize for step in load.strides]
    return set(np.lib.stride_tricks.as_strided(memory, load.shape, steps).ravel().tolist())


PAIRS = {
    "one behind the other": (part((5,), (1,), 0), part((5,), (1,), 5), True),
    "the same": (part((5,), (1,), 0), part((5,), (1,), 0), False),
    "columns side by side": (part((4, 3), (12, 1), 0), part((4, 3), (12, 1), 3), True),
    "columns that overlap": (part((4, 3), (12, 1), 0), part((4, 3), (12, 1), 2), False),
    "columns that go on in the next row": (part((4, 3), (12, 1), 8), part((4, 6), (12, 1), 16), False),
    "the end of a row and the begin of the next": (part((4, 3), (12, 1), 8), part((4, 3), (12, 1), 12), True),
    "columns of another width": (part((4, 3), (12, 1), 0), part((4, 9), (12, 1), 3), True),
    "columns of columns": (part((4, 2, 3), (24, 6, 1), 0), part((4, 2, 3), (24, 6, 1), 12), True),
    "turned around": (part((3, 4), (1, 12), 0), part((3, 4), (1, 12), 3), True),
    "backwards": (part((4, 3), (-12, 1), 36), part((4, 3), (-12, 1), 39), True),
    "rows of other lengths": (part((4, 3), (12, 1), 0), part((4, 3), (10, 1), 3), False),
    "single elements": (part((), (), 0), part((), (), 1), True),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_apart(pair: str) -> None:
    one, other, expected = PAIRS[pair]
    assert apart(one, other) == apart(other, one) == expected
    if expected:
        assert not elements(one) & elements(other)


def test_columns_of_one_matrix_are_written_by_one_nest() -> None:
    """As the gradients of an LSTM's gates are."""
    cg.manual_seed(0)
    a, b = cg.randn(4, 6), cg.randn(4, 6)
    with Recorder() as recorder:
        x, y = recorder.input(a), recorder.input(b)
        graph = recorder.finish([cg.cat([x * y, x * (1 - y), x - y], 1)])
    program = Program(graph)
    assert [type(entry) for entry in program.entries] == [Nest]
    (found,) = program.run([a._data, b._data])
    same_bits(found, replay(graph, [a._data, b._data])[0])


@pytest.mark.parametrize(("size", "nests"), [(100, 1), (LARGE - 1, 1), (LARGE, 3)])
def test_large_arrays_with_a_number_in_common_stay_apart(size: int, nests: int) -> None:
    """As the parameters of a model and the learning rate."""
    arrays = [cg.full((size,), float(k)) for k in range(3)]
    with Recorder() as recorder:
        rate, *parameters = (recorder.input(tensor) for tensor in (cg.tensor(0.5), *arrays))
        graph = recorder.finish([parameter * rate for parameter in parameters])
    program = Program(graph)
    assert len(program.entries) == nests
    found = program.run([np.array(0.5, np.float32), *(tensor._data for tensor in arrays)])
    assert [array[-1] for array in found] == [0.0, 0.5, 1.0]
