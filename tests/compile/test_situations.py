"""Compiled steps where things happen at the same time or go wrong: threads, forks, exceptions."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad import nn
from cleargrad.core.mode import mode
from cleargrad.devices.cpu.team import Team, team
from cleargrad.threads import chosen
from cleargrad.utils.data import DataLoader, Dataset
from tests.bits import same_bits
from tests.compile.world import runs

WIDTH = 256  # steps of this size are shared by all threads of the team


class Trainer:
    """A model with a step that is compiled or not."""

    def __init__(self, compiled: bool, width: int = 8) -> None:
        cg.manual_seed(0)
        inner = 2 * width
        self.model = nn.Sequential(nn.Linear(width, inner), nn.BatchNorm1d(inner), nn.Linear(inner, 4))
        self.optimizer = cg.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.step = cg.compile(self.train) if compiled else self.train
        self.width = width

    def train(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def batch(self, number: int) -> Any:
        return cg.as_tensor(
            np.random.default_rng(number).standard_normal((32, self.width)).astype(np.float32)
        )

    def run(self, numbers: range) -> list[float]:
        return [self.step(self.batch(number)).item() for number in numbers]

    def state(self) -> list[np.ndarray]:
        moments = [value for kept in self.optimizer.state.values() for value in kept.values()]
        return [
            cg.as_tensor(t).detach().numpy().copy() for t in (*self.model.state_dict().values(), *moments)
        ]


def same_state(one: Trainer, other: Trainer) -> None:
    for a, b in zip(one.state(), other.state(), strict=True):
        same_bits(a, b)


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Runs something in several threads and raises what they raise."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


# Threads ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [8, WIDTH])
def test_every_thread_trains_its_own_model(width: int) -> None:
    trainers = [Trainer(True, width) for _ in range(3)]
    expected = Trainer(False, width)
    expected.run(range(6))
    in_threads(lambda number: trainers[number].run(range(6)), 3)
    for trainer in trainers:
        same_state(trainer, expected)


def test_one_step_from_many_threads() -> None:
    """Each write is done as a whole: none is lost."""
    total = cg.zeros(64)

    @cg.compile
    def step(x: Any) -> Any:
        total.add_(x)
        return total.sum()

    for _ in range(3):
        step(cg.ones(64))
    in_threads(lambda number: [step(cg.ones(64)).item() for _ in range(200)], 4)
    assert step.programs
    assert total.tolist() == [803.0] * 64


def test_waiting_while_others_compute() -> None:
    """What waits belongs to its thread: what other threads compute has no part in it."""
    stop = threading.Event()
    noise = cg.ones(16)

    def disturb() -> None:
        while not stop.is_set():
            noise.mul_(1.5).sub_(0.5)

    other = threading.Thread(target=disturb)
    other.start()
    try:
        compiled, eager = Trainer(True), Trainer(False)
        assert compiled.run(range(5)) == eager.run(range(5))
        same_state(compiled, eager)
    finally:
        stop.set()
        other.join()
    assert compiled.step.programs


# Exceptions ------------------------------------------------------------------------------------------------


class Stumbling(Trainer):
    """Raises in the middle of a step, between backward and the optimizer."""

    stumbles = False

    def train(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        if self.stumbles:
            raise ZeroDivisionError
        self.optimizer.step()
        return loss


@pytest.mark.parametrize("call", [0, 1, 2, 3, 4])
def test_an_exception_in_the_middle(call: int) -> None:
    """In every call it leaves what it leaves in eager code, and later calls go on."""
    trainers = [Stumbling(True), Stumbling(False)]
    for trainer in trainers:
        for number in range(8):
            trainer.stumbles = number == call
            if trainer.stumbles:
                with pytest.raises(ZeroDivisionError):
                    trainer.run(range(number, number + 1))
            else:
                trainer.run(range(number, number + 1))
        assert mode.recorder is None and mode.waiter is None
        assert sys.getprofile() is None
    same_state(*trainers)
    assert trainers[0].step.programs


def test_compiling_that_fails_loses_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are made one by one, then."""

    def fail(graph: Any) -> None:
        raise OSError("no space left on device")

    compiled, eager = Trainer(True), Trainer(False)
    monkeypatch.setattr(compiled.step, "make", fail)
    monkeypatch.delenv("CLEARGRAD_VERIFY")
    assert compiled.run(range(5)) == eager.run(range(5))
    assert not compiled.step.programs and compiled.step.tree.alone >= 5
    same_state(compiled, eager)


def test_wrong_shapes_after_compiling() -> None:
    compiled, eager = Trainer(True), Trainer(False)
    compiled.run(range(4))
    eager.run(range(4))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="linear"):
            compiled.step(cg.ones(32, 5))
    same_state(compiled, eager)
    assert compiled.run(range(4, 6)) == eager.run(range(4, 6))


# Forks -----------------------------------------------------------------------------------------------------


def in_child(action: Callable[[], list[float]]) -> list[float]:
    """The numbers that something gives in a forked child, which must end within half a minute."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            os.write(write, np.array(action(), np.float64).tobytes())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = np.frombuffer(pipe.read(), np.float64)
    os.waitpid(child, 0)
    return found.tolist()


def test_the_number_of_threads_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """More threads than before are started when they are needed, and work is cut for them."""
    crew = Team(3)
    monkeypatch.setattr("cleargrad.devices.cpu.team._team", [crew])
    compiled, eager = Trainer(True, WIDTH), Trainer(False, WIDTH)
    before, chosen_before = cg.get_num_threads(), list(chosen)
    try:
        for count in (1, 3, 2):
            cg.set_num_threads(count)
            assert compiled.run(range(4)) == eager.run(range(4))
            assert crew.threads == count and runs(compiled.step)
        assert len(crew.scratch) == 3
    finally:
        cg.set_num_threads(before)
        chosen[:] = chosen_before


needs_fork = pytest.mark.skipif(
    "fork" not in dir(os), reason="forked children are the subject, and this system cannot fork"
)


@needs_fork
@pytest.mark.parametrize("width", [8, WIDTH])
def test_a_step_in_a_forked_child(width: int) -> None:
    """A child has the programs, but not the threads; what it trains is its own."""
    compiled, eager = Trainer(True, width), Trainer(False, width)
    compiled.run(range(4))
    eager.run(range(4))
    assert team().threads
    expected = eager.run(range(4, 7))
    assert in_child(lambda: compiled.run(range(4, 7))) == expected
    assert compiled.run(range(4, 7)) == expected


@needs_fork
def test_a_child_may_compile() -> None:
    Trainer(True, WIDTH).run(range(3))
    expected = Trainer(False, 16).run(range(5))
    assert in_child(lambda: Trainer(True, 16).run(range(5))) == expected


@needs_fork
def test_a_fork_while_another_thread_runs_steps() -> None:
    """Locks that the other thread holds at that moment are not locked in the child."""
    busy, stop = Trainer(True, WIDTH), threading.Event()
    busy.run(range(3))
    x = busy.batch(0)

    def work() -> None:
        while not stop.is_set():
            busy.step(x)

    other = threading.Thread(target=work)
    other.start()
    compiled = Trainer(True, WIDTH)
    compiled.run(range(3))
    try:
        for _ in range(5):
            assert len(in_child(lambda: compiled.run(range(3, 5)))) == 2
    finally:
        stop.set()
        other.join()


class Computed(Dataset):
    """Samples that take tensor operations, of the size for which kernels are compiled."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> Any:
        noise = cg.as_tensor(np.random.default_rng(number).standard_normal((300, 300)).astype(np.float32))
        return (noise @ noise).tanh().mean(dim=0)[:WIDTH]


def test_loader_processes_beside_compiled_steps() -> None:
    compiled, eager = Trainer(True, WIDTH), Trainer(False, WIDTH)
    for _ in range(3):
        for trainer in (compiled, eager):
            loader = DataLoader(Computed(), batch_size=4, num_workers=2)
            for batch in loader:
                trainer.step(batch)
    assert compiled.step.programs
    same_state(compiled, eager)
