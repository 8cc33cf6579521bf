"""A device of its own, whole: NumPy's arrays behind a counter, as a second implementation of `Driver`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from cleargrad.core.device import Driver, Held, device


class Memory:
    """An array that nobody takes for one."""

    def __init__(self, array: np.ndarray):
        self.array = array


class Counting(Driver):
    """Runs every op by NumPy, and counts them."""

    type = "counting"

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()

    def place(self, asked: device) -> device:
        return device("counting", asked.index or 0)

    def allocate(self, form: np.ndarray) -> Memory:
        return Memory(np.full_like(form, 77))

    def receive(self, array: np.ndarray) -> Memory:
        return Memory(array.copy(order="K"))

    def give(self, memory: Memory, form: np.ndarray) -> np.ndarray:
        return memory.array.copy(order="K")

    def write(self, target: Memory, form: np.ndarray, source: Memory) -> None:
        np.copyto(target.array, source.array, casting="unsafe")

    def run(self, op: Any, operands: Sequence, attrs: dict[str, Any], forms: Sequence[np.ndarray]) -> list:
        self.ran[op.name] += 1
        results = op.run(*[x.memory.array if isinstance(x, Held) else x for x in operands], **attrs)
        several = results if isinstance(results, (list, tuple)) else [results]
        return [Memory(np.asarray(result)) for result in several]
