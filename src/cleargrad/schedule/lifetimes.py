"""Liveness, aliasing and memory planning: where buffers lie in one block of memory, by when they are needed.

Buffers whose lifetimes do not meet share memory. A buffer that is to become the new content of an outside
tensor lies in that tensor's own memory, if nobody needs the old content any more. Large programs borrow their
block while they run, so that those of a function do not take memory each. Read next: schedule/schedule.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from cleargrad.schedule.formulas import Buffer, Load, Map
from cleargrad.schedule.fuse import Member, Nest, Ref
from cleargrad.schedule.statements import Plan, plain

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


def in_place(plan: Plan, entries: list[Any], sure: int) -> dict[Buffer, Any]:
    """Which buffers may lie in the memory of the outside tensor they are to become.

    Those that are written while something may still fail, before the entry `sure`, are copied at the end instead:
    a call that fails leaves everything as it was.
    """
    taken: dict[Buffer, Any] = {}
    outputs = set(plan.outputs)
    reads = [reads_of(entry) for entry in entries]
    writers: dict[Buffer, list[int]] = {}
    last_read: dict[Buffer, int] = {}
    for position, entry in enumerate(entries):
        for buffer in writes_of(entry):
            writers.setdefault(buffer, []).append(position)
        for load in reads[position]:
            last_read[load.buffer] = position
    for tensor, buffer in plan.writes:
        fits = tensor._form.dtype == buffer.dtype and tensor._form.flags.c_contiguous
        if not fits or buffer.role != "inside" or buffer in outputs or buffer in taken:
            continue
        if len(writers.get(buffer, ())) != 1:
            continue
        (position,) = writers[buffer]
        if position < sure:
            continue
        entry = entries[position]
        if not isinstance(entry, Nest) or entry.columns:
            continue
        (member,) = [m for m in entry.members if m.place.buffer is buffer and m.kept]
        old = plan.sharing(tensor)
        late = any(last_read.get(outside, -1) > position for outside in old)
        late = late or read_again(entry, member, old) or read_behind(entry, member, old)
        if not late and all(same_place(load, member.place) for load in reads[position] if load.buffer in old):
            taken[buffer] = tensor
    return taken


def read_again(nest: Nest, writer: Member, old: list[Buffer]) -> bool:
    """Whether a row may still be read after it was written: with reductions it is walked several times.

    Reductions that the writer itself waits for have done their reading.
    """
    if not any(member.reduce for member in nest.members):
        return False
    before = [member for member in members_behind(writer.formula) if member.reduce]
    others = [member for member in nest.members if member is not writer and member not in before]
    return any(load.buffer in old for member in others for load in member.formula.loads)


def read_behind(nest: Nest, writer: Member, old: list[Buffer]) -> bool:
    """Whether a member behind the writer reads what is gone by then; what was read before is still in registers.

    What is one number for a whole row is written before the row's columns are walked, so all others are behind it.
    """
    position = nest.members.index(writer)
    if nest.cols and not any(writer.place.strides[len(nest.rows) :]):
        others = [member for member in nest.members if member is not writer]
        return any(load.buffer in old for member in others for load in member.formula.loads)
    known = {id(load) for member in nest.members[: position + 1] for load in member.formula.loads}
    behind = [load for member in nest.members[position + 1 :] for load in member.formula.loads]
    return any(load.buffer in old and id(load) not in known for load in behind)


def members_behind(formula: Any) -> list[Member]:
    """The members of the nest that a formula refers to, itself or through others."""
    found: dict[int, Member] = {}
    stack = [formula]
    while stack:
        lazy = stack.pop()
        if isinstance(lazy, Map):
            stack += lazy.operands
        elif isinstance(lazy, Ref) and id(lazy.member) not in found:
            found[id(lazy.member)] = lazy.member
            stack.append(lazy.member.formula)
    return list(found.values())


def same_place(load: Load, place: Load) -> bool:
    """Whether a load reads just the elements that are written at the same point of the loops."""
    return (load.strides, load.offset, load.index) == (place.strides, place.offset, ()) and plain_memory(load)


def plain_memory(load: Load) -> bool:
    buffer = load.buffer
    whole = Load(buffer, buffer.shape, buffer.strides, 0, ())
    return plain(whole)
