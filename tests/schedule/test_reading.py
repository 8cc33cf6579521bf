"""Schedules that are read by NumPy compute what eager calls compute, after every pass, and mistakes in them show.

Random programs and the training steps that are measured run as compiled functions whose programs are read instead
of lowered: in the memory that is planned, with rows in any order. Compared are bits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.bench.architectures import EVERY
from cleargrad.bench.workloads import Setup
from cleargrad.compile.reference import Reading
from cleargrad.devices.cpu.programs.program import OutOfRange, Program
from cleargrad.devices.cpu.programs.target import TARGET
from cleargrad.graph.verify import GraphError
from cleargrad.ops.record import Graph, Recorder
from cleargrad.schedule.passes import PASSES, scheduled, stages
from cleargrad.schedule.reading import read
from cleargrad.schedule.schedule import Schedule
from cleargrad.schedule.verify import verify, verify_memory
from tests.bits import same_bits
from tests.compile import test_random_programs as programs

BATCH, BATCHES = 60, 6


class ReadSchedule(Reading):
    """The schedule of a graph after some of the passes, or all of them, with the face of a program."""

    def __init__(self, graph: Graph, passes: int | None = None) -> None:
        made = [schedule for _, schedule in stages(graph, TARGET)] if passes is None else first(graph, passes)
        self.schedule, self.random, self.runs = made[-1], random.Random(0), 0

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        self.runs += 1
        return read(self.schedule, inputs, random=self.random)


def first(graph: Graph, passes: int) -> list[Schedule]:
    return [schedule for _, (_, schedule) in zip(range(passes + 1), stages(graph, TARGET))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_programs(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batches are read before all passes are done: each of them leaves the same numbers."""
    passes = batch if batch < len(PASSES) else None
    monkeypatch.setattr("cleargrad.compile.reference.Reading", partial(ReadSchedule, passes=passes))
    programs.compiled.clear()
    for seed in range(50_000 + batch * BATCH, 50_000 + (batch + 1) * BATCH):
        found = programs.report(seed, native=10**9)
        assert found is None, found
    assert sum(programs.compiled) > 0.8 * BATCH


@pytest.mark.parametrize("name", EVERY)
def test_training_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ReadSchedule] = []

    def make(graph: Graph) -> ReadSchedule:
        made.append(ReadSchedule(graph))
        return made[-1]

    monkeypatch.setattr("cleargrad.compile.reference.Reading", make)
    values = []
    for wrap in (lambda step: step, partial(cg.compile, backend="aot_eager")):
        cg.manual_seed(0)
        task = EVERY[name].make(cg, Setup())
        step = wrap(task.step)
        values.append([task.value(step(*task.data(2, number))) for number in range(5)])
    assert values[0] == values[1]
    assert sum(program.runs for program in made) > 1


def recorded(step: Any, *like: cg.Tensor) -> Graph:
    with Recorder() as recorder:
        found = step(*map(recorder.input, like))
        return recorder.finish(found if isinstance(found, tuple) else (found,))


def instead(tensor: cg.Tensor, other: cg.Tensor) -> Callable[[cg.Tensor], np.ndarray]:
    """The memory of tensors, with that of another one for one of them."""
    return lambda given: (other if given is tensor else given)._data


@pytest.mark.eager  # a program that is run by hand writes memory that a call which waits would read later
def test_a_program_and_a_reading_give_the_same_bits() -> None:
    cg.manual_seed(0)
    table, w, mean = cg.randn(10, 6), cg.randn(6, 6), cg.zeros(6)
    places, x = cg.tensor([1, -1, 3, 1]), cg.randn(4, 6)

    def step(places: cg.Tensor, x: cg.Tensor) -> tuple[cg.Tensor, ...]:
        hidden = cg.nn.functional.gelu((table[places] + x) @ w)
        mean.mul_(0.9).add_(hidden.mean(0), alpha=0.1)
        return hidden.softmax(-1), hidden.sum((0, 1)), cg.linalg.inv(hidden.T @ hidden + 1)

    graph, old = recorded(step, places, x), mean.clone()
    expected = Program(graph).run([places._data, x._data])
    after = mean.clone()
    schedule = scheduled(graph, TARGET)
    found = read(schedule, [places._data, x._data], instead(mean, old), random.Random(1))
    for one, other in zip([*found, old._data], [*expected, after._data], strict=True):
        same_bits(cg.tensor(one), cg.tensor(other))
    assert cg.equal(mean, after)


def test_a_call_that_fails_leaves_everything_as_it_was() -> None:
    table, total = cg.randn(5, 3), cg.zeros(3)

    def step(places: cg.Tensor) -> cg.Tensor:
        total.add_(1)
        return table[places] * 2

    schedule = scheduled(recorded(step, cg.tensor([0, 0])), TARGET)
    with pytest.raises(IndexError):
        read(schedule, [np.array([0, 5])])
    assert total.tolist() == [0, 0, 0] and issubclass(OutOfRange, IndexError)
    (found,) = read(schedule, [np.array([4, -5])])
    assert found.tolist() == (table[[4, 0]] * 2).tolist() and total.tolist() == [1, 1, 1]


# Mistakes --------------------------------------------------------------------------------------------------


@pytest.fixture
def good() -> tuple[Schedule, list[np.ndarray], list[np.ndarray]]:
    """A schedule with products, and so with memory in between; inputs, and what it gives."""
    cg.manual_seed(0)
    x, w = cg.randn(40, 30), cg.randn(30, 30)

    def step(x: cg.Tensor, w: cg.Tensor) -> cg.Tensor:
        y = x @ w
        z = y @ w
        return (z @ w).tanh() * y.sum(0)

    schedule = scheduled(recorded(step, x, w), TARGET)
    inputs = [x._data, w._data]
    return schedule, inputs, read(schedule, inputs)


def test_good_schedules(good: Any) -> None:
    schedule, inputs, outputs = good
    verify(schedule, "a test")
    verify_memory(schedule)
    assert read(schedule, inputs, random=random.Random(3))[0].tobytes() == outputs[0].tobytes()


def test_memory_that_is_taken_too_early(good: Any) -> None:
    """A lifetime that ends an entry too soon: the verifier knows nothing of it, the numbers do."""
    schedule, inputs, outputs = good
    longest = max(schedule.lifetimes, key=lambda b: schedule.lifetimes[b][1] - schedule.lifetimes[b][0])
    begin, end = schedule.lifetimes[longest]
    assert end > begin
    schedule.lifetimes[longest] = (begin, end - 1)
    assert not np.array_equal(read(schedule, inputs)[0], outputs[0])


def test_memory_that_two_need(good: Any) -> None:
    schedule, inputs, outputs = good
    offsets, size = schedule.arena
    offsets.update(dict.fromkeys(offsets, 0))
    with pytest.raises(GraphError, match="share memory"):
        verify_memory(schedule)
    assert not np.array_equal(read(schedule, inputs)[0], outputs[0])
    offsets[next(iter(offsets))] = size
    with pytest.raises(GraphError, match="bytes"):
        verify_memory(schedule)


def test_entries_in_a_wrong_order(good: Any) -> None:
    schedule, inputs, _ = good
    turned = replace(schedule, entries=schedule.entries[::-1])
    with pytest.raises(GraphError, match="read before it is written"):
        verify(turned, "a test")
    assert np.isnan(read(turned, inputs)[0]).any()


def test_a_store_that_is_left_out(good: Any) -> None:
    schedule, inputs, _ = good
    (nest,) = [entry for entry in schedule.entries if schedule.plan.outputs[0] in entry.writes]
    nest.members[-1].kept = False
    with pytest.raises(GraphError, match="never written"):
        verify(schedule, "a test")
    assert np.isnan(read(schedule, inputs)[0]).all()


def test_places_out_of_memory(good: Any) -> None:
    schedule, _, _ = good
    product = next(entry for entry in schedule.entries if hasattr(entry, "left"))
    product.left.offset += 1
    with pytest.raises(GraphError, match="in a buffer from 0 to"):
        verify(schedule, "a test")


def test_members_in_a_wrong_order(good: Any) -> None:
    graph = recorded(lambda x: (x - x.amax(1, keepdim=True)).exp(), cg.randn(3, 4))
    schedule = scheduled(graph, TARGET)
    (nest,) = schedule.entries
    nest.members.reverse()
    with pytest.raises(GraphError, match="taken before it is made"):
        verify(schedule, "a test")


def in_place(step: Any, state: cg.Tensor) -> tuple[Schedule, Any, Any]:
    """A schedule, its one write, and the schedule with that write in place."""
    schedule = scheduled(recorded(step, cg.randn(*state.shape)), TARGET)
    ((tensor, buffer),) = schedule.plan.writes
    return schedule, buffer, replace(schedule, in_place={buffer: tensor})


def test_a_write_in_place_under_what_is_still_read() -> None:
    state = cg.randn(6, 6)

    def step(x: cg.Tensor) -> cg.Tensor:
        old = state @ x
        state.add_(x)
        return old

    schedule, buffer, wrong = in_place(step, state)
    assert buffer in schedule.in_place  # behind the product that reads what was there before
    entries = sorted(schedule.entries, key=lambda entry: buffer not in entry.writes)
    wrong = replace(wrong, entries=entries)
    with pytest.raises(GraphError, match="reads what it has overwritten"):
        verify(wrong, "a test")
    x, own, other = cg.randn(6, 6), state.clone(), state.clone()
    (expected,) = read(schedule, [x._data], instead(state, own))
    (found,) = read(wrong, [x._data], instead(state, other))
    assert not np.array_equal(found, expected)


def test_rows_that_write_where_others_read() -> None:
    """In one nest, rows that are turned around: read in another order, they give other numbers."""
    state = cg.randn(9, 4)

    def step(x: cg.Tensor) -> cg.Tensor:
        state.copy_(state.flip(0) + x)
        return x * 2

    schedule, buffer, wrong = in_place(step, state)
    assert buffer not in schedule.in_place
    x = cg.randn(9, 4)
    found = []
    for each in (schedule, wrong):
        own = state.clone()
        read(each, [x._data], instead(state, own), random.Random(0))
        found.append(own)
    assert not cg.equal(*found)


def test_failing_behind_what_is_written() -> None:
    table, total = cg.randn(5, 3), cg.zeros(3)

    def step(places: cg.Tensor) -> cg.Tensor:
        total.add_(1)
        return table[places] * 2

    schedule = scheduled(recorded(step, cg.tensor([0, 0])), TARGET)
    with pytest.raises(GraphError, match="it may fail"):
        verify(replace(schedule, sure=0), "a test")


def test_a_schedule_as_text() -> None:
    table, total = cg.randn(5, 3), cg.zeros(3)

    def step(places: cg.Tensor) -> cg.Tensor:
        total.add_(1)
        return (table[places] @ table.T).softmax(1)

    text = str(scheduled(recorded(step, cg.tensor([0, 0])), TARGET))
    for line in (
        "input0 = input int64[2]",
        "outside1 = from outside float32[5, 3]",
        "        t4 = outside1[input0]",
        "nothing can fail from here on, and tensors from outside may be written",
        "        t5 [2, 5] = t4 [2, 3] @ outside1.T [3, 5]",
        "        (t6) = maximum over cols of t5",
        "output output0 float32[2, 5]",
        "new outside0 float32[3] is written where it lies",
        "one block of 128 B for 2 buffers",
        "       24 B at          0, entries 0 to 2: t4 float32[2, 3]",
    ):
        assert line in text.splitlines(), text
