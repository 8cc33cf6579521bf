"""Machine code that binds arrays to a list of records and, where the list is short, runs it in the same call.

A job is one piece of memory: where its records and patches lie, and the ids of the arrays of this run. A patch is
the number of an array, a word among the arguments of kernels, and what to add to the array's address for it.
Python's lock is held meanwhile: to let go of it and to take it again costs more than a short list. Read next:
devices/cpu/team.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from cleargrad.core.address import DATA, address, lined_up
from cleargrad.devices.cpu.llvm.jit import Kernel, addresses
from cleargrad.devices.cpu.llvm.text import Val
from cleargrad.devices.cpu.team import SCRATCH, TeamCode

RECORDS, SURE, LENGTH, ERROR, PATCHES, COUNT, OWN, IDS = range(8)  # the words of a job; ids are the last
PATCH = 3  # words of a patch
JOB = Val("%job", "ptr")


@cache
def job_runner() -> int:
    """The address of the function `(job)`; it gives 1, and has run nothing behind the sure records, if an index
    failed."""
    code = TeamCode()

    def word(index: int, type: str = "i64") -> Val:
        return code.load(code.at(JOB, code.integer(index), "i64"), type)

    patches, ids = word(PATCHES, "ptr"), code.at(JOB, code.integer(IDS), "i64")
    with code.loop(code.integer(0), word(COUNT)) as number:
        patch = code.at(patches, code.mul(number, code.integer(PATCH)), "i64")
        source, shift = (code.load(code.at(patch, code.integer(k), "i64"), "i64") for k in (0, 2))
        place = code.load(code.at(patch, code.integer(1), "i64"), "ptr")
        array = code.load(code.at(ids, source, "i64"), "ptr")
        code.store(code.add(code.load(code.at(array, code.integer(DATA), "i8"), "i64"), shift), place)
    records, sure, length, error = word(RECORDS, "ptr"), word(SURE), word(LENGTH), word(ERROR, "ptr")
    scratch = word(OWN, "ptr")
    with code.loop(code.integer(0), sure) as index:
        kernel, arguments, units, _ = code.record(records, index)
        code.launch(kernel, arguments, code.integer(0), units, scratch)
    with code.when(code.now("i1", f"icmp ne {code.load(error, 'i64')}, 0")):
        code.store(code.integer(0), error)
        code.do("ret i64 1")
        code.label(f"unreached{code.count}")
    with code.loop(sure, length) as index:
        kernel, arguments, units, _ = code.record(records, index)
        code.launch(kernel, arguments, code.integer(0), units, scratch)
    code.do("ret i64 0")
    kernel_text = Kernel(code.function("kernel", [JOB], "i64"), tuple(code.declared))
    return addresses([kernel_text])[0]


@cache
def way_in() -> Any:
    """The same as a function of Python's."""
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(job_runner())


@cache
def scratch() -> np.ndarray:
    """Memory for whoever runs a short list: nobody else does so at the time."""
    return lined_up(SCRATCH)


class Job:
    """A list of records, and the arrays that are others at every run."""

    def __init__(
        self, count: int, patches: Sequence[tuple[int, int, int]], error: np.ndarray | None = None
    ) -> None:
        """For so many arrays; patches are the number of an array, the address of a word, and a shift."""
        self.patches = np.array(patches, np.int64).reshape(-1, PATCH)
        self.error = error = np.zeros(1, np.int64) if error is None else error
        self.words = np.zeros(IDS + count, np.int64)
        self.words[ERROR], self.words[OWN] = address(error), address(scratch())
        self.words[PATCHES], self.words[COUNT] = address(self.patches), len(self.patches)

    def records(self, start: int, sure: int, length: int) -> None:
        """Has these be run, too; what comes behind the sure ones is left out if an index was out of range."""
        self.words[RECORDS], self.words[SURE], self.words[LENGTH] = start, sure, length

    def ready(self) -> tuple[memoryview, Callable[[ctypes.c_void_p], int], ctypes.c_void_p]:
        """Where the ids of arrays are written, the native function, and what it is called with."""
        ids = memoryview(self.words)[IDS:]  # type: ignore[arg-type]
        return ids, way_in(), ctypes.c_void_p(address(self.words))
