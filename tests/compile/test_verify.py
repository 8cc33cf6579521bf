"""Graphs that contradict themselves are found out, and those that passes give are not among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import cleargrad as cg
from cleargrad.compile import beside
from cleargrad.core.shape import Spec
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.graph.passes import PASSES
from cleargrad.graph.verify import GraphError, is_on, verify
from cleargrad.ops.record import Graph, Recorder, Value
from cleargrad.schedule.verify import verify as verify_schedule

outside = cg.ones(3)


def recorded() -> Graph:
    with Recorder() as recorder:
        x = recorder.input(cg.zeros(2, 3))
        y = (x * outside).exp().sum(dim=0)
        outside.mul_(y)
        return recorder.finish([y, y.clone()])


def test_good_graphs() -> None:
    assert is_on()
    graph = recorded()
    verify(graph, "recording")
    for change in PASSES:
        graph = change(graph)
        verify(graph, change.__name__)


def backwards(graph: Graph) -> Graph:
    return replace(graph, calls=graph.calls[::-1])


def made_twice(graph: Graph) -> Graph:
    return replace(graph, calls=[graph.calls[0], *graph.calls])


def other_shape(graph: Graph) -> Graph:
    first = graph.calls[0]
    (result,) = first.results
    wrong = Value(result.index, Spec((4, 4), result.spec.dtype))
    return replace(graph, calls=[replace(first, results=(wrong,)), *graph.calls[1:]])


def other_dtype(graph: Graph) -> Graph:
    value = graph.outputs[0]
    return replace(graph, outputs=[Value(value.index, Spec(value.spec.shape, cg.float64))])


def unknown_output(graph: Graph) -> Graph:
    return replace(graph, outputs=[Value(graph.size - 1, graph.outputs[0].spec)], calls=graph.calls[:1])


def wrong_write(graph: Graph) -> Graph:
    return replace(graph, writes=[(cg.ones(5), graph.writes[0][1])])


def written_twice(graph: Graph) -> Graph:
    return replace(graph, writes=graph.writes * 2)


def wrong_input(graph: Graph) -> Graph:
    return replace(graph, input_arrays=[graph.input_arrays[0].T])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (backwards, "used before it is made"),
        (made_twice, "made twice"),
        (other_shape, "by the op's rule"),
        (other_dtype, "is used as"),
        (unknown_output, "used before it is made"),
        (wrong_write, "its memory"),
        (written_twice, "written twice"),
        (wrong_input, "its memory"),
    ],
)
def test_bad_graphs(spoil: Any, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        verify(spoil(recorded()), "a test")


def test_memory_that_nothing_was_stored_in() -> None:
    program = Program(recorded())
    verify_schedule(program.schedule, "a test")
    with pytest.raises(GraphError, match="never written"):
        verify_schedule(replace(program.schedule, entries=[]), "a test")


def test_buffers_without_elements_need_no_store() -> None:
    empty = cg.zeros(0, 3)
    step = cg.compile(lambda: cg.cat([empty, empty]) * 2)
    for _ in range(3):
        assert step().shape == (0, 3)
    assert step.programs


def test_sums_that_nobody_reads() -> None:
    """The sum over rows is written over as a whole."""

    @cg.compile
    def step(x: cg.Tensor) -> tuple[cg.Tensor, cg.Tensor]:
        total = x.sum(0)
        total[:] = 2.0
        return total, (x * x).sum(0)

    for _ in range(3):
        assert [row.tolist() for row in step(cg.ones(5, 3))] == [[2.0] * 3, [5.0] * 3]
    assert step.programs


def refuse(*_: Any) -> None:
    raise GraphError("no")


def test_a_refused_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleargrad.schedule.passes.verify", refuse)
    step = cg.compile(lambda x: x * 3)
    step(cg.ones(2))
    with pytest.raises(GraphError):
        step(cg.ones(2))


def test_so_is_one_that_was_made_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleargrad.schedule.passes.verify", refuse)
    with cg.waiting():
        for _ in range(3):
            (cg.ones(2) * 3).tolist()
    with pytest.raises(GraphError):
        beside.wait()
