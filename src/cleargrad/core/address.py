"""Where arrays lie in memory: the address of the first element, and memory that begins with a cache line.

NumPy's ways of asking (`__array_interface__`, `ctypes.data`) make a dictionary or an object each time and take ten
times as long as to read the word of the array object in which the address stands. Read next: core/dtype.py.
"""

from __future__ import annotations

import ctypes

import numpy as np

LINE = 64  # bytes of a cache line
pointer = ctypes.c_void_p.from_address


def find_data() -> int:
    """Where in an array object its address stands."""
    probe = np.zeros(3)
    wanted = probe.__array_interface__["data"][0]
    return next(k for k in range(8, 96, 8) if pointer(id(probe) + k).value == wanted)


DATA = find_data()


def address(array: np.ndarray) -> int:
    """Where the first element of an array lies."""
    return pointer(id(array) + DATA).value or 0


def lined_up(size: int) -> np.ndarray:
    """New memory of so many bytes, which begins with a cache line."""
    memory = np.empty(size + LINE, np.uint8)
    start = -address(memory) % LINE
    return memory[start : start + size]
