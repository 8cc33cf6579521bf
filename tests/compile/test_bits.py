"""The workloads train to the same bits, however their calls are made, on how many threads, and by how many runs.

One run is the measure: every call at its line, on two threads, nobody looks before the end. The others differ from
it in what must not matter. `CLEARGRAD_BITS_STEPS=200` takes more steps than a test can wait for.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from inspect import getclosurevars
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.bench import workloads
from cleargrad.bench.workloads import WORKLOADS, Setup, Task
from cleargrad.doctor.session import Session
from tests.bits import same_bits
from tests.compile.world import runs

STEPS = int(os.environ.get("CLEARGRAD_BITS_STEPS", "6"))  # the third is a program's
AFTER = STEPS // 2  # those behind a stop
TENSORS = 20  # that Adam updates
BATCH = {
    "cnn": 24,
    "lstm": 8,
    "gpt": 4,
    "gpt4": 2,
}  # smaller than what is measured, but still work for two threads
beside = importlib.import_module("cleargrad.compile.beside")
pytestmark = pytest.mark.eager  # how calls are made is the subject


@dataclass(frozen=True)
class Way:
    """How a workload is run."""

    how: str = "eager"
    threads: int = 2
    looks: bool = False  # at every loss, when it has been computed
    watched: bool = False  # by the doctor
    stopped: bool = False  # in the middle, to go on from a checkpoint with a new model

    def __str__(self) -> str:
        said = [name for name in ("looks", "watched", "stopped") if getattr(self, name)]
        return ", ".join([self.how, f"{self.threads} threads", *said])


WAYS = [
    Way(threads=1, looks=True),
    Way(watched=True, looks=True),
    Way(stopped=True),
    Way("waiting"),
    Way("waiting", threads=1, looks=True),
    Way("waiting", watched=True),
    Way("waiting", stopped=True, looks=True),
    Way("compiled"),
    Way("compiled", threads=1, looks=True),
    Way("compiled", watched=True),
    Way("compiled", threads=1, stopped=True, watched=True),
]


class Training:
    """A workload, with the model and the optimizer that its step holds."""

    def __init__(self, name: str, compiles: bool) -> None:
        self.task: Task = WORKLOADS[name].make(cg, Setup())
        self.batch = BATCH.get(name, self.task.batch)
        held = getclosurevars(self.task.step).nonlocals
        self.optimizer, self.model = held["optimizer"], held.get("run")
        self.step = cg.compile(self.task.step) if compiles else self.task.step

    def parameters(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def take(self, number: int) -> Any:
        return self.step(*self.task.data(self.batch, number))

    def save(self, path: Path) -> None:
        model = self.parameters() if self.model is None else self.model.state_dict()
        cg.save({"model": model, "optimizer": self.optimizer.state_dict()}, path)

    def load(self, path: Path) -> None:
        found = cg.load(path, weights_only=False)
        self.optimizer.load_state_dict(found["optimizer"])
        if self.model is not None:
            self.model.load_state_dict(found["model"])
            return
        with cg.no_grad():
            for p, kept in zip(self.parameters(), found["model"], strict=True):
                p.copy_(kept)

    def state(self) -> dict[str, np.ndarray]:
        """What training has changed, by name."""
        named = {f"parameter {number}": p for number, p in enumerate(self.parameters())}
        for number, p in enumerate(self.parameters()):
            kept = {f"{name} of parameter {number}": value for name, value in self.optimizer.state[p].items()}
            named |= kept | {f"gradient of parameter {number}": p.grad}
        return {name: cg.as_tensor(t).detach().numpy().copy() for name, t in named.items() if t is not None}


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = cg.get_num_threads()
    cg.set_num_threads(count)
    try:
        yield
    finally:
        cg.set_num_threads(before)


def trained(name: str, way: Way, path: Path | None = None) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The losses of all steps, and the state after the last."""
    session = Session(engine="cleargrad")
    losses: list[Any] = []
    with threads(way.threads), cg.waiting() if way.how == "waiting" else cg.eager() as switch:
        if way.watched:
            session.attach()
        try:
            training = Training(name, way.how == "compiled")
            for number in range(STEPS):
                if way.stopped and number == STEPS - AFTER:
                    assert path is not None
                    training.save(path)
                    training = Training(name, way.how == "compiled")
                    training.load(path)
                losses.append(training.take(number))
                if way.looks and losses[-1] is not None:
                    losses[-1].item()
                beside.wait()  # or all steps might be over before there is a program
        finally:
            session.detach()
        state = training.state()
        losses = [loss.detach().numpy().copy() for loss in losses if loss is not None]
        if way.how == "waiting":
            assert sum(ending.runs for ending in switch.waiter.tree.endings)
        assert way.how != "compiled" or runs(training.step)
    # Of the optimizer that stepped most.
    assert session.ledger.steps == (0 if not way.watched else AFTER if way.stopped else STEPS)
    return losses, state


@cache
def expected(name: str) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    return trained(name, Way())


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_train_to_the_same_bits(
    name: str, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "TENSORS", TENSORS)
    losses, state = trained(name, way, tmp_path / "checkpoint.pt")
    wanted, last = expected(name)
    for number, (loss, other) in enumerate(zip(losses, wanted, strict=True)):
        same_bits(loss, other, f"loss of step {number}")
    assert list(state) == list(last)
    for what, value in state.items():
        same_bits(value, last[what], what)
