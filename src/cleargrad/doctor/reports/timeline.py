"""The gradient buckets over the steps: events come in, columns of moments and lanes of parameters go out.

A column is something that happened to gradients; a lane is a set of parameters to which the same happened, with
what was in their buckets after each column. Drawn by reports/buckets_figure.py, written out by as_json.py.
Read next: doctor/reports/buckets_figure.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cleargrad.doctor.events import (
    Accumulate,
    Backward,
    Clip,
    Event,
    GradWrite,
    HandStep,
    Skip,
    Step,
    Unscale,
    Zero,
)
from cleargrad.doctor.places import Place
from cleargrad.doctor.sentences import counted
from cleargrad.doctor.story import Window

MOST_LANES = 16
MOST_COLUMNS = 360
MOST_LIVE = 24  # contributions of a bucket that are told apart
MOST_PASSES = 10  # backward passes of one step that are shown one by one
KINDS: dict[type[Event], str] = {
    Accumulate: "backward",
    Zero: "zero",
    GradWrite: "write",
    Clip: "clip",
    Unscale: "unscale",
    Step: "step",
    HandStep: "step",
    Skip: "skip",
}


@dataclass(slots=True)
class Column:
    """One moment. `after_gap` says that events before it are missing, so that buckets begin anew."""

    kind: str
    number: int
    step: int
    place: Place | None
    parameters: frozenset[int]
    what: str
    passes: tuple[Backward, ...] = ()  # backward: the passes that added; more than one where they are merged
    to_none: bool = False
    after_gap: bool = False


@dataclass(slots=True)
class Cell:
    """What is in the bucket of a lane after a column: the newest contributions as numbers of their passes, and how
    many there are besides. The oldest `used` of all were used by a step."""

    live: tuple[int, ...]
    older: int
    used: int
    concerned: bool
    reused: int = 0  # step: contributions that it used although an earlier step had


@dataclass(slots=True)
class Lane:
    parameters: list[int]
    cells: list[Cell] = field(default_factory=list)


@dataclass(slots=True)
class Timeline:
    columns: list[Column]
    lanes: list[Lane]
    left_out: int  # parameters with a history of their own that found no lane


def make_timeline(session: Any, first: Iterable[str] = ()) -> Timeline:
    """The buckets of a session. Lanes with parameters named in `first` come first."""
    windows = session.story.windows()
    columns = merge_passes(columns_of(windows, session))
    if len(columns) > MOST_COLUMNS:
        half = MOST_COLUMNS // 2
        columns = columns[:half] + columns[-half:]
        columns[half].after_gap = True
    lanes = group(columns)
    wanted = set(first)
    names = session.registry.name
    lanes.sort(key=lambda lane: not wanted.intersection(map(names, lane.parameters)))
    left_out = sum(len(lane.parameters) for lane in lanes[MOST_LANES:])
    del lanes[MOST_LANES:]
    earlier = starts(windows)
    for lane in lanes:
        fill(lane, columns, earlier)
    return Timeline(columns, lanes, left_out)


# Columns ---------------------------------------------------------------------------------------------------


def columns_of(windows: list[Window], session: Any) -> list[Column]:
    events = {event.number: event for window in windows for event in window.events}
    columns: list[Column] = []
    previous, gap = 0, False
    for number in sorted(events):
        gap = gap or number != previous + 1
        previous = number
        kind = KINDS.get(type(events[number]))
        if kind is not None:
            column = column_of(events[number], kind, session)
            if columns and not gap:
                column.step = max(column.step, columns[-1].step)  # an optimizer that has made fewer steps
            column.after_gap = gap
            columns.append(column)
            gap = False
    return columns


def column_of(event: Any, kind: str, session: Any) -> Column:
    if kind in ("step", "skip"):
        parameters = event.with_gradient
    elif kind == "unscale":
        parameters = [record.number for record in session.registry.optimizers[event.optimizer].parameters]
    elif kind == "clip":
        parameters = event.with_gradient
    else:
        parameters = event.parameters
    column = Column(
        kind, event.number, event.step, event.place, frozenset(parameters), sentence(event, kind, session)
    )
    if kind == "backward":
        column.passes = (event.backward,)
        column.step = event.backward.step
    if kind == "zero":
        column.to_none = event.to_none
    return column


def sentence(event: Any, kind: str, session: Any) -> str:
    """What happened, in a few words."""
    if kind == "backward":
        return "backward() added a contribution"
    if kind == "zero":
        left = "set to None" if event.to_none else "filled with zeros"
        by = {"optimizer": "optimizer.zero_grad()", "module": "model.zero_grad()"}.get(event.by)
        return (
            f"{by} emptied the bucket: .grad was {left}"
            if by
            else f"the program emptied the bucket: .grad was {left}"
        )
    if kind == "write":
        return f"the program {'assigned' if event.how == 'assigned' else 'changed'} .grad itself"
    if kind == "clip":
        return f"gradients were clipped to {'norm' if event.how == 'norm' else 'value'} {event.limit:g}"
    if kind == "unscale":
        return "scaler.unscale_() gave gradients their true size"
    if isinstance(event, HandStep):
        return "the program used what is in the bucket, by hand"
    name = session.registry.optimizers[event.optimizer].kind
    if kind == "skip":
        return f"the scaler left out a step of {name}: gradients were not finite"
    return f"{name} step {event.count} used what is in the bucket"


def merge_passes(columns: list[Column]) -> list[Column]:
    """In a step with very many backward passes, those in the middle become one column."""
    counts: dict[int, int] = {}
    for column in columns:
        if column.kind == "backward":
            counts[column.step] = counts.get(column.step, 0) + 1
    seen: dict[int, int] = {}
    merged: list[Column] = []
    for column in columns:
        if column.kind == "backward" and counts[column.step] > MOST_PASSES:
            position = seen[column.step] = seen.get(column.step, 0) + 1
            in_middle = MOST_PASSES // 2 < position <= counts[column.step] - MOST_PASSES // 2
            last = merged[-1] if merged else column
            if in_middle and last is not column and is_same(last, column):
                last.passes += column.passes
                last.what = f"{counted(len(last.passes), 'backward call')} added contributions"
                continue
        merged.append(column)
    return merged


def is_same(one: Column, other: Column) -> bool:
    return (one.kind, one.step, one.place, one.parameters) == (
        other.kind,
        other.step,
        other.place,
        other.parameters,
    )


# Lanes -----------------------------------------------------------------------------------------------------


def group(columns: list[Column]) -> list[Lane]:
    """Parameters to which the same columns happened are one lane."""
    signatures: dict[int, list[int]] = {}
    for position, column in enumerate(columns):
        for parameter in column.parameters:
            signatures.setdefault(parameter, []).append(position)
    lanes: dict[tuple[int, ...], Lane] = {}
    for parameter in sorted(signatures):
        lanes.setdefault(tuple(signatures[parameter]), Lane([])).parameters.append(parameter)
    return list(lanes.values())


def starts(windows: list[Window]) -> list[tuple[int, dict[int, list[Backward]]]]:
    """What was in buckets before each window, with the number of its first event."""
    return [(window.events[0].number, window.earlier) for window in windows if window.events]


def fill(lane: Lane, columns: list[Column], earlier: list[tuple[int, dict[int, list[Backward]]]]) -> None:
    """Replays the columns on one bucket."""
    parameter = lane.parameters[0]
    live: list[int] = []
    used = 0
    for column in columns:
        if column.after_gap:
            live, used = state_at(column.number, parameter, earlier)
        concerned = parameter in column.parameters
        reused = 0
        if concerned and column.kind == "backward":
            live = live + [backward.number for backward in column.passes]
        elif concerned and column.kind == "zero":
            live, used = [], 0
        elif concerned and column.kind in ("step", "skip"):
            reused, used = used if column.kind == "step" else 0, len(live)
        older = max(0, len(live) - MOST_LIVE)
        lane.cells.append(Cell(tuple(live[older:]), older, used, concerned, reused))


def state_at(
    number: int, parameter: int, earlier: list[tuple[int, dict[int, list[Backward]]]]
) -> tuple[list[int], int]:
    """A bucket at the beginning of a window; what is in it from before was used if steps lie in between."""
    before = [(start, held) for start, held in earlier if start <= number]
    if not before:
        return [], 0
    _, held = max(before, key=lambda pair: pair[0])
    found = [backward.number for backward in held.get(parameter, ()) if backward.number < number]
    return found, len(found)


# As data ---------------------------------------------------------------------------------------------------


def as_data(timeline: Timeline, names: Any) -> dict[str, Any]:
    """The timeline for JSON."""
    return {
        "moments": [
            {
                "kind": column.kind,
                "step": column.step,
                "what": column.what,
                "file": None if column.place is None else column.place.file,
                "line": None if column.place is None else column.place.line,
                "passes": [backward.number for backward in column.passes],
                "after_gap": column.after_gap,
            }
            for column in timeline.columns
        ],
        "buckets": [
            {
                "parameters": [names(number) for number in lane.parameters],
                "moments": [
                    {
                        "live": list(cell.live),
                        "older": cell.older,
                        "used": cell.used,
                        "concerned": cell.concerned,
                        "reused": cell.reused,
                    }
                    for cell in lane.cells
                ],
            }
            for lane in timeline.lanes
        ],
        "left_out": timeline.left_out,
    }
