"""Liveness and memory planning: where buffers lie in one block of memory, by when they are needed.

Buffers whose lifetimes do not meet share memory. Large programs borrow their block while they run, so that those of
a function do not take memory each. Read next: schedule/order.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from cleargrad.schedule.formulas import Buffer, Load
from cleargrad.schedule.fuse import Nest

ALIGN = 64


def reads_of(entry: Any) -> list[Load]:
    """What an entry reads from memory."""
    if not isinstance(entry, Nest):
        return [load for formula in entry.formulas for load in formula.loads]
    return entry.reads


def loads_in(nest: Nest) -> list[Load]:
    """Every way by which a nest reaches memory."""
    return [*reads_of(nest), *(member.place for member in nest.members)]


def writes_of(entry: Any) -> list[Buffer]:
    """What an entry leaves in memory."""
    if isinstance(entry, Nest):
        return [member.place.buffer for member in entry.members if member.kept]
    return list(entry.writes)


def lifetimes(entries: list[Any]) -> dict[Buffer, tuple[int, int]]:
    """The first and last entry that touches each inside buffer."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for position, entry in enumerate(entries):
        for buffer in [*writes_of(entry), *(load.buffer for load in reads_of(entry))]:
            if buffer.role == "inside":
                spans[buffer] = (spans.get(buffer, (position, 0))[0], position)
    return spans


def arena(spans: dict[Buffer, tuple[int, int]], apart: Iterable[Buffer]) -> tuple[dict[Buffer, int], int]:
    """Offsets of buffers in one block, and its size; largest first, each at the lowest place that is free.

    Single numbers and the like, which are many, lie behind all others without being looked at.
    """
    apart = set(apart)
    every = {buffer: buffer.size * buffer.dtype.itemsize for buffer in spans if buffer not in apart}
    bytes_of = {buffer: size for buffer, size in every.items() if size >= ALIGN}
    begins, ends, lows, highs = placed = np.zeros((4, len(bytes_of) + 1), np.int64)  # in the order of lows
    offsets: dict[Buffer, int] = {}
    total = 0
    for count, buffer in enumerate(sorted(bytes_of, key=lambda b: (-bytes_of[b], b.number))):
        first, last = spans[buffer]
        size = -(-max(bytes_of[buffer], 1) // ALIGN) * ALIGN
        meeting = ((begins[:count] <= last) & (ends[:count] >= first)).nonzero()[0]
        offset = lowest_gap(lows[meeting], highs[meeting], size) if len(meeting) else 0
        position = int(lows[:count].searchsorted(offset))
        placed[:, position + 1 : count + 1] = placed[:, position:count]
        placed[:, position] = first, last, offset, offset + size
        offsets[buffer] = offset
        total = max(total, offset + size)
    for buffer in [buffer for buffer in every if buffer not in bytes_of]:
        offsets[buffer] = total
        total += ALIGN
    return offsets, total


def lowest_gap(lows: np.ndarray, highs: np.ndarray, size: int) -> int:
    """Where there is room for so many bytes between these places, which are in order, or behind all of them."""
    if lows[0] >= size:
        return 0
    reached = np.maximum.accumulate(highs)
    fits = lows[1:] - reached[:-1] >= size
    gap = int(fits.argmax()) if len(fits) else 0
    return int(reached[gap] if len(fits) and fits[gap] else reached[-1])
