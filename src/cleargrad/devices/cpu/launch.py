"""Launches: kernels with their arguments and units of work, and all that has them run.

Whatever computes with machine code says so in a `Launch`: `kernels/` choose some for an operation (`Launches`), and
programs write hundreds. A `CommandList` is launches as the team reads them, with addresses still to be bound. A
`Launcher` binds arrays to one and has the team run it: the way in for single calls. Programs run their command
lists themselves (devices/cpu/programs/program.py). Read next: devices/cpu/short.py.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleargrad.core.address import address, lined_up
from cleargrad.devices.cpu.llvm.jit import Kernel, addresses
from cleargrad.devices.cpu.short import Job
from cleargrad.devices.cpu.team import RECORD, WAIT, team
from cleargrad.threads import when_chosen

SMALL = 2_000_000  # multiply-adds: with fewer, waking another thread takes longer than it saves
KEPT = 1024  # launchers of a kind that are kept ready


@dataclass(frozen=True)
class Launch:
    """A kernel with its arguments: each a number, or (what lies there, bytes behind where that begins)."""

    kernel: Kernel
    arguments: Sequence[Any]
    units: int


@dataclass(frozen=True)
class Launches:
    """What an operation takes: launches one after the other, and bytes of memory between them, called "work"."""

    launches: list[Launch]
    work: int


class CommandList:
    """Launches as the team reads them: a table of records, and the words that are the kernels' arguments."""

    PARTS = "parts"  # what arguments call the table of launches that others make

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.rows: list[list[int]] = []  # number of a kernel, first word, units, flags
        self.part_rows: list[list[int]] = []  # number of a kernel, first word, first unit, where units end
        self.numbers: list[int] = []
        self.placed: dict[
            int, tuple[Sequence[Any], int]
        ] = {}  # arguments, which launches may share, and where
        self.patches: dict[Any, list[tuple[int, int]]] = {}  # by what lies there: words, and bytes behind

    def add(self, launch: Launch, flags: int) -> None:
        self.rows.append([*self.named(launch), launch.units, flags])

    def add_part(self, launch: Launch, first: int, end: int) -> None:
        """Some units of a launch, for a kernel that makes them (devices/cpu/kernels/sequence.py)."""
        self.part_rows.append([*self.named(launch), first, end])

    def next_part(self) -> tuple[str, int]:
        """An argument: where the part that is added next will lie."""
        return self.PARTS, 8 * RECORD * len(self.part_rows)

    def named(self, launch: Launch) -> tuple[int, int]:
        self.kernels.append(launch.kernel)
        arguments = launch.arguments
        if id(arguments) not in self.placed:
            numbers = self.numbers
            self.placed[id(arguments)] = arguments, len(numbers)
            for word in arguments:
                if isinstance(word, tuple):
                    self.patches.setdefault(word[0], []).append((len(numbers), word[1]))
                    word = 0
                numbers.append(int(word))
        return len(self.kernels) - 1, self.placed[id(arguments)][1]

    def finish(self) -> None:
        """Compiles what is missing, and puts code and words where the team finds them."""
        code = addresses(self.kernels)
        self.words = np.array(self.numbers, np.int64)
        self.slots = memoryview(self.words)  # type: ignore[arg-type]
        self.base = address(self.words)
        self.records, self.parts = (
            np.array([[code[k], self.base + 8 * first, *rest] for k, first, *rest in rows], np.int64).reshape(
                -1, RECORD
            )
            for rows in (self.rows, self.part_rows)
        )
        self.at, self.length = address(self.records), len(self.records)
        self.bind(self.PARTS, address(self.parts))
        self.kernels, self.numbers, self.rows, self.part_rows, self.placed = [], [], [], [], {}

    def bind(self, what: Any, start: int) -> None:
        """Writes where something lies into the arguments that ask for it."""
        for position, shift in self.patches.get(what, ()):
            self.slots[position] = start + shift

    def moving(self, names: Sequence[Any]) -> list[tuple[int, int, int]]:
        """A `Job`'s patches for arrays of these names: number of an array, address of a word, bytes behind."""
        return [
            (number, self.base + 8 * position, shift)
            for number, name in enumerate(names)
            for position, shift in self.patches.get(name, ())
        ]


class Launcher:
    """Launches that are ready to run on arrays of one layout; only where those lie is missing."""

    def __init__(self, needed: Launches, alone: bool = False, names: Sequence[Any] | None = None) -> None:
        """`names` are what arguments call the arrays that `run` is given, in their order."""
        self.commands = commands = CommandList()
        for launch in needed.launches:
            if launch.units:
                commands.add(launch, WAIT)
        commands.finish()
        self.threads, self.work = 1 if alone else 2, needed.work
        self.names = [name for name in commands.patches if name != "work"] if names is None else names
        every = [*self.names, *(["work"] if self.work else [])]
        self.job = Job(len(every), commands.moving(every))
        self.ids, self.enter, self.job_at = self.job.ready()
        self.pack = struct.Struct(f"{len(every)}q").pack_into
        self.lock = (
            threading.Lock()
        )  # arguments are one piece of memory, also for two threads that call at once
        self.team, self.at, self.length = team(), commands.at, commands.length

    def run(self, *arrays: np.ndarray) -> None:
        """Runs on arrays, which must lie in memory as the launches were chosen for."""
        if self.work:
            arrays = (*arrays, lined_up(self.work))
        with self.lock:
            self.pack(self.ids, 0, *map(id, arrays))
            self.enter(self.job_at)
            if self.length:
                self.team.run(self.at, self.length, self.threads)

    def run_named(self, **arrays: np.ndarray) -> None:
        self.run(*[arrays[name] for name in self.names])


class Prepared(OrderedDict):
    """What was prepared for calls that may come again, by all that decides it; the oldest are given up."""

    every: list[Prepared] = []
    lock = threading.RLock()

    def __init__(self, most: int = KEPT) -> None:
        super().__init__()
        self.most = most
        self.every.append(self)
        when_chosen.append(self.clear)

    def made(self, key: Hashable, make: Callable[..., Any], *arguments: Any) -> Any:
        with self.lock:
            if key not in self:
                self[key] = make(*arguments)
                while self.too_large():
                    self.popitem(last=False)
            return self[key]

    def too_large(self) -> bool:
        return len(self) > self.most


def forget_all() -> None:
    """In a forked child: locks may be held by threads that it does not have, and the team is its own."""
    Prepared.lock = threading.RLock()
    for prepared in Prepared.every:
        prepared.clear()


os.register_at_fork(after_in_child=forget_all)

_ready = Prepared()


def ready(choose: Callable[..., Launches], *arguments: Any, alone: bool = False) -> Launcher:
    """What `choose` chooses, ready to run."""
    key = (choose, arguments, alone)
    found = _ready.get(key)
    return _ready.made(key, lambda: Launcher(choose(*arguments), alone)) if found is None else found


def threads(products: int) -> int:
    """How many threads should share so many multiply-adds."""
    return 1 if products < SMALL else team().threads
