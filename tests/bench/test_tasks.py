"""What is measured is the same everywhere: the workloads of each library give the same losses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cleargrad
import cleargrad.optim
from cleargrad.bench.architectures import EVERY, MORE
from cleargrad.bench.variants import WRITTEN_FOR
from cleargrad.bench.weights import SHAPES, random_weights
from cleargrad.bench.workloads import WORKLOADS, Setup, Task, make_gpt

STEPS = 3  # a compiled step is run, recorded, and then a program


def losses(task: Task, size: int) -> list[float]:
    return [task.value(task.step(*task.data(size, number % 2))) for number in range(STEPS)]


@pytest.mark.parametrize("name", MORE)
def test_architectures_train_alike(name: str) -> None:
    theirs = losses(MORE[name].make(torch, Setup()), 2)
    assert losses(MORE[name].make(cleargrad, Setup()), 2) == pytest.approx(theirs, rel=2e-3)
    task = MORE[name].make(cleargrad, Setup())
    task.step = cleargrad.compile(task.step)  # what cannot be compiled warns, and warnings are errors here
    assert losses(task, 2) == pytest.approx(theirs, rel=2e-3)


def test_shapes_are_those_of_the_models() -> None:
    model = make_gpt(cleargrad, 65, 64, 128, 4, 4)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == SHAPES["gpt"]
    assert list(dict(model.named_parameters())) == list(SHAPES["gpt"])  # they are drawn in turn
    drawn = random_weights(SHAPES["gpt"])
    assert (drawn["norm.weight"] == 1).all() and (drawn["norm.bias"] == 0).all()


def compare_alone(library: str, name: str) -> None:
    """In a process of its own, which does not share its threads and settings with the tests."""
    peer = pytest.importorskip(
        library,
        reason="peers are no dependency; with them (pip install 'cleargrad[peers]') they are compared",
    )
    assert peer.__name__ == library
    code = f"""
import cleargrad, cleargrad.optim
from cleargrad.bench.{library}_tasks import TASKS
from cleargrad.bench.workloads import WORKLOADS, Setup
from tests.bench.test_tasks import losses
task = TASKS["{name}"]()
size = min(task.batch, 4)
print(*losses(task, size))
print(*losses(WORKLOADS["{name}"].make(cleargrad, Setup()), size))
"""
    command = [sys.executable, "-c", code]
    folder = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr
    theirs, ours = ([float(word) for word in line.split()] for line in done.stdout.splitlines())
    assert len(ours) == STEPS and theirs == pytest.approx(ours, rel=1e-4)


@pytest.mark.parametrize("name", WRITTEN_FOR["jax"])
def test_jax_trains_the_same(name: str) -> None:
    compare_alone("jax", name)


@pytest.mark.parametrize("name", ("linear", "mlp", "adam"))  # the others take a minute to compile
def test_tinygrad_trains_the_same(name: str) -> None:
    if shutil.which("clang") is None:
        pytest.skip("tinygrad compiles with clang, which is not installed (on Debian: apt-get install clang)")
    compare_alone("tinygrad", name)


def test_every_workload_has_one_name() -> None:
    assert list(EVERY) == [*WORKLOADS, *MORE]
    assert set(WRITTEN_FOR["jax"]) == set(WORKLOADS) and set(WRITTEN_FOR["tinygrad"]) < set(WORKLOADS)


@pytest.mark.parametrize("library", WRITTEN_FOR)
def test_what_is_said_to_be_written_is(library: str) -> None:
    path = Path(cleargrad.__file__).parent / "bench" / f"{library}_tasks.py"
    _, _, table = path.read_text().partition("\nTASKS = {")  # without the library, which may not be there
    assert tuple(re.findall(r'"(\w+)":', table)) == WRITTEN_FOR[library]
