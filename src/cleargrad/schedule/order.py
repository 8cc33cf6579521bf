"""The order of a program's entries: first all that may fail, then what changes tensors from outside.

An index may be out of range, and NumPy may refuse what a host call is given. A call that fails must leave
everything as it was, so nothing outside is written before the last of these. Numbers come
before arrays. Read next: schedule/in_place.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

from cleargrad.schedule.formulas import Buffer, Load
from cleargrad.schedule.fuse import Nest
from cleargrad.schedule.lifetimes import loads_in, reads_of, writes_of
from cleargrad.schedule.statements import AddRows, Host, Native, Plan, Statement, Store


def failing_first(plan: Plan, entries: list[Any]) -> tuple[list[Any], int]:
    """The entries with writes as late as that takes, and how many come until nothing can fail any more."""
    failing = failing_entries(entries)
    if not failing:
        return entries, 0
    needed = needed_for(failing, entries)
    final = {buffer for _, buffer in plan.writes}
    first: list[Any] = []
    later: list[Any] = []
    delayed: set[Buffer] = set()  # what is written later
    looked_at: set[Buffer] = set()  # and what is read later
    for position, entry in enumerate(entries[: failing[-1] + 1]):
        reads, writes = {load.buffer for load in reads_of(entry)}, set(writes_of(entry))
        tied = bool((reads | writes) & delayed or writes & looked_at)
        if position in needed:
            if tied:
                return entries, failing[-1] + 1
            first.append(entry)
        elif tied or writes & final:
            delayed |= writes
            looked_at |= reads
            later.append(entry)
        else:
            first.append(entry)
    return [*first, *later, *entries[failing[-1] + 1 :]], len(first)


def failing_entries(entries: list[Any]) -> list[int]:
    """The positions of entries that values may stop; an index that was looked at before does not count again."""
    known: set[tuple[Buffer, int]] = set()
    found = []
    for position, entry in enumerate(entries):
        checks = checks_of(entry)
        if checks is None or any(check is None or check not in known for check in checks):
            found.append(position)
        known.update(check for check in checks or () if check is not None)
    return found


def checks_of(entry: Any) -> list[tuple[Buffer, int] | None] | None:
    """Which buffers of indices an entry looks at, and below what they must be.

    None for an index that is computed, or for all of them: nothing is known about those.
    """
    if isinstance(entry, Nest):
        return [checked(place, extent) for load in loads_in(entry) for place, _, extent in load.index]
    if isinstance(entry, AddRows):
        return [checked(entry.places, entry.place.shape[0])]
    return None if isinstance(entry, Host) or (isinstance(entry, Native) and entry.can_fail) else []


def checked(index: Any, extent: int) -> tuple[Buffer, int] | None:
    """A whole buffer of indices."""
    if not isinstance(index, Load) or index.index:
        return None
    seen = prod(n for n, step in zip(index.shape, index.strides, strict=True) if step)
    return (index.buffer, extent) if seen == index.buffer.size else None


def needed_for(positions: list[int], entries: list[Any]) -> set[int]:
    """Some entries and all that they depend on."""
    found: set[int] = set()
    wanted: set[Buffer] = set()
    for position in range(positions[-1], -1, -1):
        entry = entries[position]
        if position in positions or any(buffer in wanted for buffer in writes_of(entry)):
            found.add(position)
            wanted.update(load.buffer for load in reads_of(entry))
            wanted.update(writes_of(entry))
    return found


def scalars_first(statements: list[Statement]) -> list[Statement]:
    """The statements with those of a single element moved forward as far as what they read allows.

    Step counts and learning rates are ready, then, before the large updates that use them begin.
    """
    keys: dict[int, tuple[float, int]] = {}
    written: dict[Buffer, float] = {}
    for number, statement in enumerate(statements):
        first = float(number)
        if isinstance(statement, Store) and statement.place.buffer.shape == ():
            loads = [load for formula in statement.formulas for load in formula.loads]
            first = max((written.get(load.buffer, -1.0) for load in loads), default=-1.0)
        keys[id(statement)] = (first, number)
        for buffer in statement.writes:
            written[buffer] = max(first, written.get(buffer, -1.0))
    return sorted(statements, key=lambda statement: keys[id(statement)])
