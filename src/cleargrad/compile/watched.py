"""Programs that keep an eye on themselves: which kernels they made, what those cost to make, and where their
time goes.

`watching()` collects every compiled function made meanwhile, and has their programs be `WatchedProgram`s. The
first few runs of such a program go kernel by kernel, on one thread, with a clock between them; the result is
the same. Read next: compile/report.py.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cleargrad.compile.capture import Compiled, watchers
from cleargrad.compile.names import names_of_arguments
from cleargrad.devices.cpu.llvm.jit import jit
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.devices.cpu.team import RECORD
from cleargrad.ops.record import Graph
from cleargrad.schedule.statements import Host

PROFILED = 5  # runs with a clock; the quickest time of each kernel counts
KEPT = 1000  # times of whole runs
LEAST = 1e-8  # seconds: less than that the clock cannot tell from nothing


class WatchedProgram(Program):
    """A program that knows where its time goes."""

    little = 0  # nothing is so short that it is not looked at
    by_rows = False  # chains have no times of their own for each entry

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.sources: list[Any] = []  # the entry behind each record
        self.costs: dict[int, float] = {}  # by the id of an entry, in seconds
        self.runs = 0
        self.times: list[float] = []  # of whole runs on all threads
        begin = time.perf_counter()
        super().__init__(graph)
        self.seconds = time.perf_counter() - begin
        self.whole = self.only_native

    def tasks(self, entry: Any) -> list | None:
        found = super().tasks(entry)
        self.sources += [entry] * len(found or ())
        return found

    def finish_records(self) -> None:
        """Notes where the machine code comes from."""
        modules = {kernel.identity for kernel in self.commands.kernels}
        self.known = len(modules & jit().linked.keys())
        compiled = jit().compiled
        super().finish_records()
        self.compiled = jit().compiled - compiled
        self.from_disk = len(modules) - self.known - self.compiled

    def forget_making(self, graph: Graph) -> None:
        """What it was made of is what is reported."""

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        self.runs += 1
        profiled = self.runs <= PROFILED
        self.only_native = None if profiled else self.whole
        begin = time.perf_counter()
        outputs = super().run(inputs)
        if not profiled and len(self.times) < KEPT:
            self.times.append(time.perf_counter() - begin)
        return outputs

    def run_segments(self, inputs: Sequence[np.ndarray], outputs: list[np.ndarray]) -> None:
        if self.runs > PROFILED:
            super().run_segments(inputs, outputs)
            return
        self.arrays.update(zip(self.plan.inputs, inputs, strict=True))
        self.arrays.update(zip(self.plan.outputs, outputs, strict=True))
        spent: dict[int, float] = {}
        for segment in self.segments:
            if isinstance(segment, tuple):
                first, count = segment
                self.run_slowly(first, count, spent)
                if self.failed[0]:
                    self.let_go()
                    self.refuse()
            else:
                self.note(segment, seconds(self.call, segment), spent)
        for key, cost in spent.items():
            self.costs[key] = min(cost, self.costs.get(key, cost))

    def run_slowly(self, first: int, count: int, spent: dict[int, float]) -> None:
        """Runs records one after the other; what it takes to run none is not counted."""
        idle = min(seconds(self.team.run, self.commands.at, 0, 1) for _ in range(3))
        for number in range(first, first + count):
            took = seconds(self.team.run, self.commands.at + number * RECORD * 8, 1, 1)
            self.note(self.sources[number], max(took - idle, LEAST), spent)

    @staticmethod
    def note(entry: Any, took: float, spent: dict[int, float]) -> None:
        spent[id(entry)] = spent.get(id(entry), 0.0) + took

    def cost(self, entry: Any) -> float:
        return self.costs.get(id(entry), 0.0)

    @property
    def host_calls(self) -> list[Host]:
        return [segment for segment in self.segments if isinstance(segment, Host)]


def seconds(action: Any, *arguments: Any) -> float:
    begin = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - begin


@contextmanager
def watching() -> Iterator[list[Compiled]]:
    """Collects the functions that are compiled meanwhile."""
    found: list[Compiled] = []

    def watch(compiled: Compiled) -> None:
        found.append(compiled)
        compiled.tree.ends = Counter()
        compiled.names = lambda args, kwargs: names_of_arguments(compiled.function, args, kwargs)
        if compiled.make is Program:
            compiled.make = WatchedProgram

    watchers.append(watch)
    try:
        yield found
    finally:
        watchers.remove(watch)
