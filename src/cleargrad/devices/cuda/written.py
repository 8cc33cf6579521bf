"""Kernels written by hand: their text, arguments and start. Read next: devices/cuda/draws.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cleargrad.devices.cuda.nests import Launch
from cleargrad.devices.cuda.runtime import Runtime

THREADS = 256  # of a block, unless a kernel says otherwise
MASK = (1 << 32) - 1


@lru_cache(maxsize=4096)
def source_of(body: str, words: int, threads: int, functions: str) -> tuple[str, str]:
    """The name of a kernel, and its text behind the functions that it needs, which name themselves only once."""
    launch = Launch(body, (1, 1, 1), (threads, 1, 1), [("number", 0)] * words, functions)
    return launch.name, launch.source


def start(
    runtime: Runtime,
    body: str,
    blocks: int | tuple[int, int],
    words: Sequence[Any],
    threads: int = THREADS,
    functions: str = "",
) -> None:
    """Has a kernel run on so many blocks; its words are arrays on the GPU and numbers below 2**40."""
    grid = (blocks, 1, 1) if isinstance(blocks, int) else (*blocks, 1)
    found = np.array([word_of(x) for x in words], np.int64)
    name, text = source_of(body, len(found), threads, functions)
    runtime.load([(name, text)])
    runtime.launch(name, grid, (threads, 1, 1), found.__array_interface__["data"][0])


def word_of(argument: Any) -> int:
    """A number, or the address of memory."""
    return argument if isinstance(argument, int) else argument.__array_interface__["data"][0]


def start_each(runtime: Runtime, count: int, line: str, words: Sequence[Any], functions: str = "") -> None:
    """Has a thread compute `line` for every i below `count`, which is the last word."""
    if count:
        last = len(words)
        body = (
            f"PHASE\nconst i64 i = (i64)blockIdx.x * {THREADS} + threadIdx.x;\n"
            f"if (i < words.w[{last}]) {{\n{line}\n}}\nEND\n"
        )
        start(runtime, body, -(-count // THREADS), [*words, count], functions=functions)


def halves(value: float | int) -> list[int]:
    """A number as two words of 32 bits: a float's bits, or a whole number's."""
    if isinstance(value, float):
        bits = int(np.array(value, np.float64).view(np.uint64))
    else:
        bits = int(value) % 2**64
    return [bits >> 32, bits & MASK]


def number(first: int) -> str:
    """C++ of the float in two words."""
    return f"double_of({whole(first)})"


def whole(first: int) -> str:
    """C++ of the whole number in two words."""
    return f"(i64)(((unsigned long long)words.w[{first}] << 32) | (unsigned long long)words.w[{first + 1}])"
