"""What `cleargrad explain` notes, on both engines: the graph of the first step, and what each call changed."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from cleargrad.doctor.events import BackwardEnd, Step, Zero
from cleargrad.doctor.lesson import Lesson, Note
from cleargrad.doctor.reports.as_lesson import in_words
from tests.doctor.reports.runs import ENGINES, healthy, watch_script


def watched(folder: Path, text: str, engine: str) -> Lesson:
    lesson = Lesson(engine=engine)
    watch_script(folder, text, engine, lesson)
    return lesson


def notes(lesson: Lesson, kind: type) -> list[Note]:
    return [note for note in lesson.notes if isinstance(note.event, kind)]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_graph_has_leaves_and_saved_tensors(tmp_path: Path, engine: str) -> None:
    graph = watched(tmp_path, healthy(), engine).graph
    assert graph is not None
    leaves = {box.title: box.shape for box in graph.boxes if box.kind == "leaf"}
    assert leaves == {"0.weight": (4, 3), "0.bias": (4,), "2.weight": (1, 4), "2.bias": (1,)}
    (tanh,) = [box for box in graph.boxes if box.title == "1: tanh"]
    assert tanh.shape == (8, 4)
    assert [(saved.name, saved.shape, saved.size) for saved in tanh.saved] == [("result", (8, 4), 128)]
    assert graph.boxes[-1].kind == "loss"
    for position, box in enumerate(graph.boxes):
        assert all(source < position for source in box.inputs)
    assert graph.saved >= 128 + 8 * 3 * 4  # the hidden layer and the input of the first


@pytest.mark.parametrize("engine", ENGINES)
def test_set_to_none_gives_memory_back(tmp_path: Path, engine: str) -> None:
    first, second = notes(watched(tmp_path, healthy(), engine), Zero)
    parameters = 4 * (4 * 3 + 4 + 4 + 1)
    assert first.before.memory == first.after.memory == 0
    assert (second.before.memory, second.after.memory) == (parameters, 0)
    assert all(values.gradient is None for values in second.after.values)


@pytest.mark.parametrize("engine", ENGINES)
def test_zeros_keep_their_memory(tmp_path: Path, engine: str) -> None:
    lesson = watched(tmp_path, healthy(to_none=False), engine)
    _, second = notes(lesson, Zero)
    assert second.before.memory == second.after.memory > 0
    assert all(set(values.gradient or ()) == {0.0} for values in second.after.values)
    assert "set_to_none=False" in in_words(lesson)


@pytest.mark.parametrize("engine", ENGINES)
def test_backward_adds(tmp_path: Path, engine: str) -> None:
    first, second, *_ = notes(watched(tmp_path, healthy(parts=2), engine), BackwardEnd)
    for once, twice in zip(first.after.values, second.after.values, strict=True):
        assert twice.gradient == pytest.approx([2 * value for value in once.gradient or ()])


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_step_did(tmp_path: Path, engine: str) -> None:
    plain = watched(tmp_path, healthy(optimizer="SGD"), engine)
    (note, *_) = notes(plain, Step)
    for before, after in zip(note.before.values, note.after.values, strict=True):
        expected = [
            weight - 0.01 * slope for weight, slope in zip(before.weight, before.gradient or (), strict=True)
        ]
        assert after.weight == pytest.approx(expected, rel=1e-5)
        assert after.gradient == before.gradient
    assert "Each weight changed by -0.01 times its gradient." in in_words(plain).replace("\n", " ")

    adam = watched(tmp_path, healthy(), engine)
    (note, *_) = notes(adam, Step)
    assert note.state["exp_avg"] == note.state["exp_avg_sq"] == 84
    assert "Each weight changed" not in in_words(adam)


def test_large_graphs_are_gathered_by_module(tmp_path: Path) -> None:
    deep = healthy().replace(
        "nn.Linear(3, 4)",
        "nn.Linear(3, 4), nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(20)])",
    )
    graph = watched(tmp_path, deep, "cleargrad").graph
    assert graph is not None and graph.nodes > 80
    titles = [box.title for box in graph.boxes]
    assert len(titles) <= 36 and "1.19" in titles
    (block,) = [box for box in graph.boxes if box.title == "1.7"]
    assert block.kind == "module" and set(block.leaves) == {"1.7.0.weight", "1.7.0.bias"}
    assert [graph.boxes[source].title for source in block.inputs] == ["1.6"]


@pytest.mark.eager
@pytest.mark.parametrize("engine", ENGINES)
def test_no_graph_is_kept(tmp_path: Path, engine: str) -> None:
    lesson = watched(tmp_path, healthy(), engine)
    gone = [record.ref for record in lesson.registry.parameters]
    gc.collect()
    assert all(isinstance(ref, weakref.ref) and ref() is None for ref in gone)
