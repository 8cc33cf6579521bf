"""What a worker reports of a task."""

from __future__ import annotations

import time

import pytest

from cleargrad.bench.runner import environment
from cleargrad.bench.worker import CALLS, LATER, Worker
from cleargrad.bench.workloads import Task


def worker_of(task: Task) -> Worker:
    worker = object.__new__(Worker)  # without a library
    worker.task = task
    return worker


def test_until_it_is_ready_for_another_batch() -> None:
    calls: list[int] = []
    longer = {9: 0.05, 10: 0.2, 11: 0.1}  # by size, of each of the first two calls

    def step(size: int) -> None:
        calls.append(size)
        time.sleep(longer[size] if calls.count(size) <= 2 else 0.01)

    found = worker_of(Task(step, lambda size, number: (size,), 8)).other_batch()
    assert calls == [9] * (CALLS + LATER) + [10] * (CALLS + LATER) + [11] * (CALLS + LATER)
    assert found == pytest.approx(
        0.18, abs=0.08
    )  # the one in the middle: two calls were 0.09 longer than the rest


def test_a_task_without_batches_has_no_other() -> None:
    assert worker_of(Task(lambda: None, lambda size, number: (), 0)).other_batch() is None


def test_every_library_gets_the_same_threads_and_caches_of_its_own(tmp_path) -> None:
    found = environment(3, str(tmp_path))
    assert found["OMP_NUM_THREADS"] == found["NUM_CPU_THREADS"] == "3"
    for name in ("CLEARGRAD_CACHE", "TORCHINDUCTOR_CACHE_DIR", "CACHEDB"):
        assert found[name].startswith(str(tmp_path))
