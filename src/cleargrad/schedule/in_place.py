"""Writes in place: which results may lie in the memory of the outside tensors that they are to become.

A result does where nobody needs the old content any more, or just at the place where the new one is written. Read
next: schedule/text.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.schedule.formulas import Buffer, Load, Map
from cleargrad.schedule.fuse import Member, Nest, Ref
from cleargrad.schedule.lifetimes import reads_of, writes_of
from cleargrad.schedule.statements import Plan, plain


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
