"""Runs kernels on arrays at once: the way in for eager ops.

`ready` takes a function that chooses steps, such as `kernels.convolution.forward`, and its arguments, and gives
back a `Launch`, from memory if it was asked for before; `run` takes the arrays by the names that the steps'
words use. What was never compiled is compiled first, in tens of milliseconds, and comes from the disk
afterwards. Read next: devices/cpu/team.py.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from cleargrad.devices.cpu.kernels.gemm import Steps
from cleargrad.devices.cpu.llvm.jit import addresses
from cleargrad.devices.cpu.team import ALONE, RECORD, WAIT, team

LINE = 64
SMALL = 2_000_000  # multiply-adds: with fewer, waking another thread takes longer than it saves


class Launch:
    """Steps that are ready to run: machine code, and arguments in which only addresses are missing."""

    def __init__(self, steps: Steps, alone: bool = False) -> None:
        chosen = [step for step in steps.steps if step.units]
        starts: list[int] = []
        words: list[int] = []
        self.patches: list[tuple[int, str, int]] = []
        for step in chosen:
            starts.append(len(words))
            for word in step.words:
                if isinstance(word, tuple):
                    self.patches.append((len(words), *word))
                words.append(0 if isinstance(word, tuple) else word)
        self.words = np.array(words, np.int64)
        self.work, self.alone = steps.work, alone
        self.lock = threading.Lock()
        code = addresses([step.kernel for step in chosen])
        flags = WAIT | (ALONE if alone else 0)
        base = address(self.words)
        rows = [
            [place, base + 8 * start, step.units, flags]
            for place, start, step in zip(code, starts, chosen, strict=True)
        ]
        self.records = np.array(rows, np.int64).reshape(-1, RECORD)

    def run(self, **arrays: np.ndarray) -> None:
        """Runs on arrays, which must lie in memory as the steps were told."""
        places = {name: address(array) for name, array in arrays.items()}
        if self.work:
            memory = np.empty(self.work + LINE, np.uint8)
            places["work"] = address(memory) + -address(memory) % LINE
        with self.lock:  # arguments are one piece of memory, also for two threads that call at once
            for position, name, shift in self.patches:
                self.words[position] = places[name] + shift
            if len(self.records):
                team().run(address(self.records), len(self.records), 1 if self.alone else 2)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@lru_cache(maxsize=1024)
def ready(choose: Callable[..., Steps], *arguments: Any, alone: bool = False) -> Launch:
    """What `choose` chooses, ready to run."""
    return Launch(choose(*arguments), alone)


def threads(products: int) -> int:
    """How many threads should share so many multiply-adds."""
    return 1 if products < SMALL else team().threads


os.register_at_fork(after_in_child=ready.cache_clear)  # a lock that another thread held would stay locked
