"""A worker: one workload in one variant, in a process of its own that answers requests, a line of JSON each.

Imports here are relative: start_worker.py opens this folder without importing cleargrad, which would otherwise
set the allocator of a process that measures PyTorch. Read next: bench/runner.py.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

from .architectures import EVERY
from .machine import resident, seconds
from .variants import VARIANTS, WRITTEN_FOR, Variant
from .workloads import Setup, Task, adam_bytes

LOSSES = 8  # steps whose losses are compared
CALLS = 3  # the first calls, of which the first two differ from the rest
SIZES = (1, 2, 3)  # by how much batches of another size are larger
LATER = 5  # calls behind those, which are taken for what a step costs


def run_worker(workload: str, name: str, threads: int) -> None:
    """Answers requests until there are no more."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # no library may use more
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes where errors go

    def answer(**facts: Any) -> None:
        print(json.dumps(facts), file=answers, flush=True)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        worker = Worker(workload, VARIANTS[name], threads)
        facts = worker.first_calls()
    answer(**facts, warnings=sorted({str(w.message).splitlines()[0] for w in heard if is_news(w)}))
    for line in sys.stdin:
        request = json.loads(line)
        answer(answer=getattr(worker, request.pop("ask"))(**request))


def is_news(warning: warnings.WarningMessage) -> bool:
    """Whether it is one of cleargrad's, such as a step that could not be compiled."""
    text = str(warning.filename) + str(warning.message)
    return issubclass(warning.category, UserWarning) and "cleargrad" in text


class Worker:
    """A task in its own process."""

    def __init__(self, workload: str, variant: Variant, threads: int) -> None:
        self.base = 0.0
        self.ready: Callable[[], None] = lambda: None  # waits for programs that are being made
        self.task = self.make_task(workload, variant, threads)
        self.batches = [self.task.data(self.task.batch, number) for number in range(4)]
        self.count = 0

    def make_task(self, workload: str, variant: Variant, threads: int) -> Task:
        if variant.library == "bytes":
            importlib.import_module("cleargrad").set_num_threads(threads)
            self.base = resident()
            return adam_bytes()
        library = importlib.import_module(variant.library)
        if variant.library in WRITTEN_FOR:
            self.base = resident()
            return importlib.import_module(f".{variant.library}_tasks", __package__).TASKS[workload]()
        importlib.import_module(f"{variant.library}.optim")
        library.set_num_threads(threads)
        self.base = resident()
        setup = Setup(dict(variant.optimizer))
        if variant.compiles == "model":
            setup.model = library.compile
        task = EVERY[workload].make(library, setup)
        if variant.compiles == "step":
            task.step = library.compile(task.step)
        elif variant.compiles == "script":
            library.waiting()
            self.ready = importlib.import_module(f"{variant.library}.compile.beside").wait
        return task

    def step(self) -> Any:
        self.count += 1
        return self.task.step(*self.batches[self.count % len(self.batches)])

    def first_calls(self) -> dict[str, Any]:
        losses, times = [], []
        for _ in range(LOSSES):
            begin = time.perf_counter()
            loss = self.step()
            times.append(time.perf_counter() - begin)
            losses.append(self.task.value(loss))
        return {"calls": times, "losses": losses}

    def turn(self, steps: int) -> float:
        """The median time of some steps, after some that bring caches and threads back."""
        for _ in range(max(1, steps // 4)):
            self.step()
        self.ready()
        return median(seconds(self.step) for _ in range(steps))

    def other_batch(self) -> float | None:
        """How much longer the first calls with a batch of another size take than as many later ones, in seconds.

        The median for three sizes, one after the other.
        """
        if not self.task.batch:
            return None
        return median(self.readiness(self.task.batch + more) for more in SIZES)

    def readiness(self, batch: int) -> float:
        arguments = self.task.data(batch, 0)
        times = [seconds(lambda: self.task.step(*arguments)) for _ in range(CALLS + LATER)]
        return max(0.0, sum(times[:CALLS]) - CALLS * median(times[CALLS:]))

    def memory(self) -> dict[str, float]:
        peak = resident("VmHWM")
        return {"peak": peak, "grown": peak - self.base}
