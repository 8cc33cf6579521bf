"""What is done to statements before a device lowers them: a list of functions, each from schedule to schedule.

`Builder` has made the statements: parts of a concatenation lie where the whole will, products add to what is there,
and slopes are kept for the backward pass. After each pass a schedule computes the same, to the bit; reading it with
NumPy (schedule/reading.py) says so. Read next: schedule/verify.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cleargrad.core.pace import give_way
from cleargrad.graph.passes import name_of, prepared
from cleargrad.graph.verify import is_on
from cleargrad.ops.record import Graph
from cleargrad.schedule.formulas import Formulas
from cleargrad.schedule.fuse import Fuser, Nest
from cleargrad.schedule.in_place import in_place
from cleargrad.schedule.lifetimes import reads_of
from cleargrad.schedule.order import failing_first, scalars_first
from cleargrad.schedule.schedule import Schedule
from cleargrad.schedule.statements import Builder, Target
from cleargrad.schedule.verify import verify, verify_memory


def scheduled(graph: Graph, target: Target) -> Schedule:
    """The schedule of a recorded graph, for a device."""
    checked = is_on()
    for stage, schedule in stages(graph, target):
        give_way()
        if checked:
            verify(schedule, stage)
    if checked:
        verify_memory(schedule)
    return schedule


def stages(graph: Graph, target: Target) -> Iterator[tuple[str, Schedule]]:
    """The schedule of a graph, first as statements and then after every pass."""
    builder = Builder(prepared(graph), target)
    plan = builder.build()
    schedule = Schedule(plan, plan.statements, len(plan.statements), {})
    yield "lower calls to statements", schedule
    for change in PASSES:
        schedule = change(schedule, builder.formulas)
        yield name_of(change), schedule


def move_scalars_first(schedule: Schedule, formulas: Formulas) -> Schedule:
    """Step counts and learning rates are ready before the large updates that use them begin."""
    return replace(schedule, entries=scalars_first(schedule.entries))


def fuse_loops(schedule: Schedule, formulas: Formulas) -> Schedule:
    """Statements that walk the same memory become one nest of loops."""
    entries = Fuser(formulas).fuse(schedule.entries)
    return replace(schedule, entries=entries, sure=len(entries))


def eliminate_dead_stores(schedule: Schedule, formulas: Formulas) -> Schedule:
    """What only its own nest reads need not reach memory; what nobody reads need not be computed."""
    wanted = {*schedule.plan.outputs, *(buffer for _, buffer in schedule.plan.writes)}
    for entry in schedule.entries:
        wanted.update([load.buffer for load in reads_of(entry)])
    entries = []
    for entry in schedule.entries:
        if isinstance(entry, Nest):
            for member in entry.members:
                member.kept = member.place.buffer in wanted
            if not any(member.kept for member in entry.members):
                continue
            if entry.columns:  # their sums are of no use to each other
                entry = replace(entry, members=[member for member in entry.members if member.kept])
        entries.append(entry)
    return replace(schedule, entries=entries, sure=len(entries))


def order_failing_first(schedule: Schedule, formulas: Formulas) -> Schedule:
    """What values may stop comes before all that writes tensors from outside."""
    entries, sure = failing_first(schedule.plan, schedule.entries)
    return replace(schedule, entries=entries, sure=sure)


def write_in_place(schedule: Schedule, formulas: Formulas) -> Schedule:
    """Results lie in the outside tensors they are to become, where nobody needs the old content any more."""
    found = in_place(schedule.plan, schedule.entries, schedule.sure)
    return replace(schedule, in_place=found)


PASSES: list[Callable[[Schedule, Formulas], Schedule]] = [
    move_scalars_first,
    fuse_loops,
    eliminate_dead_stores,
    order_failing_first,
    write_in_place,
]
