"""Kernels that are written by hand: rows added into a table in their order, and several copies by one kernel.

Read next: devices/cuda/runtime.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any
from weakref import ref

import numpy as np

from cleargrad.core.address import address
from cleargrad.devices.cuda.nests import Launch
from cleargrad.devices.cuda.text import STORED
from cleargrad.schedule.formulas import kind_of
from cleargrad.schedule.statements import AddRows

THREADS = 128
LOOK = 1024  # places that a block looks at before it adds those that are its own

# What all threads have read may be written again only after they have met once more: hence the empty phase.
# Each block looks whether its row is the first for its place in the table. If so, it adds all rows for that place,
# one after the other, so that the sum is the same in every run; no other block writes there.
ADD_ROWS = """
SHARED(int, earlier, 1)
SHARED(int, wanted, {look})
SHARED(int, hits, 1)
SHARED(i64, target, 1)
const i64* places = (const i64*)words.w[0];
const {T}* rows = (const {T}*)words.w[1];
{T}* table = ({T}*)words.w[2];
const int me = blockIdx.x;
PHASE
if (threadIdx.x == 0) {{ earlier[0] = hits[0] = 0; target[0] = place_in(places[me], {extent}, (i64*)words.w[3]); }}
END
PHASE
const i64 mine = target[0];
for (int j = threadIdx.x; j < me; j += {threads}) {{
  i64 other = places[j];
  if (other == mine || other + {extent} == mine) {{ earlier[0] = 1; break; }}
}}
END
if (earlier[0]) return;
for (int first = me; first < {count}; first += {look}) {{
PHASE
const i64 mine = target[0];
for (int k = threadIdx.x; k < {look}; k += {threads}) {{
  int j = first + k;
  i64 other = j < {count} ? places[j] : -1 - {extent};
  wanted[k] = other == mine || other + {extent} == mine;
  if (wanted[k]) hits[0] = 1;
}}
END
const int some = hits[0];
PHASE
END
if (some) {{
PHASE
for (int k = 0; k < {look} && first + k < {count}; k++) if (wanted[k])
  for (int c = threadIdx.x; c < {width}; c += {threads})
    table[target[0] * {width} + c] += rows[(i64)(first + k) * {width} + c];
END
PHASE
if (threadIdx.x == 0) hits[0] = 0;
END
}}
}}
"""

COPIES = 128  # that one kernel makes
COPY_MANY = """
PHASE
const i64* source = (const i64*)words.w[3 * blockIdx.y];
i64* target = (i64*)words.w[3 * blockIdx.y + 1];
const i64 size = words.w[3 * blockIdx.y + 2];
const i64 whole = (((i64)source | (i64)target) & 7) ? 0 : size / 8;
for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < whole; i += (i64)gridDim.x * 256) target[i] = source[i];
for (i64 i = 8 * whole + (i64)blockIdx.x * 256 + threadIdx.x; i < size; i += (i64)gridDim.x * 256)
  ((char*)target)[i] = ((const char*)source)[i];
END
"""
COPYING = Launch(COPY_MANY, (1, COPIES, 1), (256, 1, 1), [("number", 0)] * 3 * COPIES, parted=False)


def add_rows(entry: AddRows) -> list[Launch]:
    """table[places[i]] += rows[i], for i after i."""
    count, shape = prod(entry.places.shape), entry.place.shape
    if not count or not prod(shape):
        return []
    facts = {"extent": shape[0], "count": count, "width": prod(shape[1:]), "threads": THREADS, "look": LOOK}
    body = ADD_ROWS.format(T=STORED[kind_of(entry.place.dtype)], **facts)
    words: list[Any] = [("address", load) for load in (entry.places, entry.rows, entry.place)]
    return [Launch(body, (count, 1, 1), (THREADS, 1, 1), [*words, ("error",)], parted=False)]


class Copies:
    """Copies to arrays that are always the same, from arrays of the same layouts that often are, too."""

    def __init__(self, runtime: Any, targets: Sequence[np.ndarray], sources: Sequence[np.ndarray]) -> None:
        self.runtime, self.count = runtime, len(targets)
        self.last: list[Callable[[], Any]] = [nobody] * self.count  # weak references to sources
        spans = [span_of(source) for source in sources]
        self.shifts = [low - address(source) for (low, _), source in zip(spans, sources)]
        self.spans = [
            [0, size if source.size else 0, span_of(target)[0]]
            for (_, size), source, target in zip(spans, sources, targets)
        ]
        self.starts: list[tuple] = []

    def make(self, sources: Sequence[np.ndarray]) -> None:
        for k, (source, last) in enumerate(zip(sources, self.last)):
            if last() is not source:
                self.spans[k][0] = address(source) + self.shifts[k]
                self.last[k] = ref(source)
                self.starts = []
        if not self.starts:
            self.starts = starts_of([span for span in self.spans if span[1]])
        ask(self.runtime, self.starts)


def nobody() -> None:
    """What a weak reference gives to what is gone."""


def copy_many(runtime: Any, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    """Copies arrays to others of the same layout."""
    ask(
        runtime,
        starts_of([(*span_of(source), span_of(target)[0]) for target, source in pairs if source.size]),
    )


def starts_of(spans: Sequence[Sequence[int]]) -> list[tuple]:
    """What a GPU is asked for that copies spans of memory, given by where from, how many bytes and where to: words
    of a kernel for many of them, or single copies."""
    if len(spans) < 3:
        return [(None, target, source, size) for source, size, target in spans]
    starts = []
    for first in range(0, len(spans), COPIES):
        some = spans[first : first + COPIES]
        words = np.zeros(3 * COPIES, np.int64)
        words[: 3 * len(some)] = [word for source, size, target in some for word in (source, target, size)]
        largest = max([size for _, size, _ in some])
        starts.append((words, address(words), max(1, min(1024, -(-largest // (8 * 256 * 4)))), len(some)))
    return starts


def ask(runtime: Any, starts: list[tuple]) -> None:
    """Has memory copied."""
    for words, *facts in starts:
        if words is None:
            runtime.copy(*facts)
            continue
        at, blocks, count = facts
        runtime.load([(COPYING.name, COPYING.source)])
        runtime.launch(COPYING.name, (blocks, count, 1), (256, 1, 1), at)


def span_of(array: np.ndarray) -> tuple[int, int]:
    """Where an array begins in memory, and how many bytes it spans."""
    if array.flags.c_contiguous:
        return address(array), array.nbytes
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high - low
