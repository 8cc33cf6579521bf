"""A verifier of schedules: what is read was written, places are within their memory, none is needed twice at once.

It runs where that of graphs does, after each pass. Read next: schedule/reading.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cleargrad.graph.verify import broken
from cleargrad.schedule.formulas import Buffer, Lazy, Load, Map
from cleargrad.schedule.fuse import Nest, Ref, span_of
from cleargrad.schedule.lifetimes import reads_of, writes_of
from cleargrad.schedule.order import failing_entries
from cleargrad.schedule.schedule import Schedule


def verify(schedule: Schedule, stage: str) -> None:
    """Raises what is wrong with a schedule.

    Of a buffer without elements nothing is stored, as where empty tensors are joined, and nothing read.
    """
    filled: set[Buffer] = set()
    for number, entry in enumerate(schedule.entries):
        where = f"entry {number} after {stage}"
        filled.update(writes_of(entry))
        for load in places_of(entry):
            check_within(load, where)
        for load in reads_of(entry):
            if load.buffer.role == "inside" and load.buffer not in filled and load.buffer.size:
                raise broken(where, f"{load.buffer} is read before it is written")
        if isinstance(entry, Nest):
            check_members(entry, where)
    for buffer in (*schedule.plan.outputs, *(buffer for _, buffer in schedule.plan.writes)):
        if buffer.role == "inside" and buffer not in filled and buffer.size:
            raise broken(f"outputs after {stage}", f"{buffer} is never written")
    check_order(schedule, stage)
    check_in_place(schedule, stage)


def places_of(entry: Any) -> list[Load]:
    """Every way by which an entry reaches memory."""
    if isinstance(entry, Nest):
        return [*reads_of(entry), *(member.place for member in entry.members)]
    place = getattr(entry, "place", None)
    return reads_of(entry) if place is None else [*reads_of(entry), place]


def check_within(load: Load, where: str) -> None:
    """A load keeps within its buffer, whatever its index says."""
    buffer = load.buffer
    if 0 in load.shape:
        return
    first, last = span_of(Load(buffer, buffer.shape, buffer.strides, 0, ()))
    low, high = span_of(load)
    for _, stride, extent in load.index:
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    if buffer.size == 0 or low < first or high > last:
        raise broken(where, f"{load} reaches from {low} to {high} in a buffer from {first} to {last}")


def check_members(nest: Nest, where: str) -> None:
    """Members have the loops of their nest, and take only what earlier members have made."""
    made: set[int] = set()
    for member in nest.members:
        check_formula(member.formula, nest, made, where)
        made.add(id(member))


def check_formula(lazy: Lazy, nest: Nest, made: set[int], where: str) -> None:
    if isinstance(lazy, Ref) and id(lazy.member) not in made:
        raise broken(where, f"{lazy} is taken before it is made")
    if isinstance(lazy, Load) and lazy.shape != nest.space:
        raise broken(where, f"{lazy} has the loops {lazy.shape}, its nest {nest.space}")
    for part in lazy.operands if isinstance(lazy, Map) else [x for x, *_ in getattr(lazy, "index", ())]:
        check_formula(part, nest, made, where)


def check_order(schedule: Schedule, stage: str) -> None:
    """What may fail comes before all that writes tensors from outside."""
    failing = failing_entries(schedule.entries)
    if failing and failing[-1] >= schedule.sure:
        raise broken(f"entry {failing[-1]} after {stage}", f"it may fail, behind entry {schedule.sure}")


def check_in_place(schedule: Schedule, stage: str) -> None:
    """What lies in a tensor from outside is of its kind, written once, when nothing can fail any more."""
    writes = {id(tensor): buffer for tensor, buffer in schedule.plan.writes}
    for buffer, tensor in schedule.in_place.items():
        where = f"{buffer} in place after {stage}"
        form = tensor._form
        if writes.get(id(tensor)) is not buffer:
            raise broken(where, "it is not what the tensor is to become")
        if (form.size, form.dtype) != (buffer.size, buffer.dtype) or not form.flags.c_contiguous:
            raise broken(where, f"the tensor is {form.shape} {form.dtype}")
        writers = [k for k, entry in enumerate(schedule.entries) if buffer in writes_of(entry)]
        if len(writers) != 1 or writers[0] < schedule.sure:
            raise broken(where, f"written by {writers}, where entries may fail before {schedule.sure}")
        old = schedule.plan.sharing(tensor)
        for number, entry in enumerate(schedule.entries[writers[0] + 1 :], writers[0] + 1):
            if any(load.buffer in old for load in reads_of(entry)):
                raise broken(where, f"entry {number} reads what it has overwritten")


def verify_memory(schedule: Schedule) -> None:
    """Raises where two buffers that are needed at the same time share memory."""
    offsets, size = schedule.arena
    buffers = [buffer for buffer in offsets if buffer.size]
    starts = np.array([offsets[buffer] for buffer in buffers], np.int64)
    ends = starts + [buffer.size * buffer.dtype.itemsize for buffer in buffers]
    births, deaths = np.array([schedule.lifetimes[buffer] for buffer in buffers], np.int64).reshape(-1, 2).T
    if len(buffers) and (starts.min() < 0 or ends.max() > size):
        raise broken("the arena", f"buffers lie from {starts.min()} to {ends.max()} in {size} bytes")
    shared = (starts < ends[:, None]) & (starts[:, None] < ends)
    shared &= (births <= deaths[:, None]) & (births[:, None] <= deaths)
    for one, other in np.argwhere(np.triu(shared, 1)):
        raise broken("the arena", f"{buffers[one]} and {buffers[other]} share memory that both need")
