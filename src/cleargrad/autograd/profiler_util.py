"""What a profile has measured: events, their averages by name, and the table of them.

Times are in microseconds, as in PyTorch. Read next: profiler/__init__.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any


class Event:
    """Something that ran: an op's kernel, a vjp, or a stretch that the program named."""

    def __init__(self, name: str, start: int, parent: Event | None, shapes: list, user: bool):
        self.name = self.key = name
        self.start = start
        self.stop: int | None = None
        self.cpu_parent = parent
        self.input_shapes = shapes
        self.is_user_annotation = user
        self.count = 1
        self.inside = 0  # nanoseconds that events inside this one took

    def close(self, now: int) -> None:
        if self.stop is None:
            self.stop = now
            if self.cpu_parent is not None:
                self.cpu_parent.inside += now - self.start

    @property
    def cpu_time_total(self) -> float:
        return ((self.stop or self.start) - self.start) / 1000

    @property
    def self_cpu_time_total(self) -> float:
        return self.cpu_time_total - self.inside / 1000

    cpu_time = cpu_time_total

    def __repr__(self) -> str:
        return f"<FunctionEvent name={self.name} cpu_time={shown(self.cpu_time_total)}>"


class Average:
    """All events of one name."""

    device_time_total = self_device_time_total = cuda_time_total = self_cuda_time_total = 0.0

    def __init__(self, key: str, shapes: list):
        self.key = key
        self.input_shapes = shapes
        self.count = 0
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0

    def add(self, event: Any) -> None:
        self.count += event.count
        # An event inside another of the same name is part of that one's time already.
        self.cpu_time_total += 0 if runs_inside(event, self.key) else event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={shown(self.self_cpu_time_total)} "
            f"cpu_time={shown(self.cpu_time)}>"
        )


def runs_inside(event: Any, key: str) -> bool:
    parent = event.cpu_parent
    while parent is not None:
        if parent.key == key:
            return True
        parent = parent.cpu_parent
    return False


class EventList(list):
    """Events, or averages of them."""

    def __init__(self, events: Iterable[Any] = ()):
        super().__init__(events)

    @property
    def self_cpu_time_total(self) -> float:
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shapes: bool = False, **options: Any) -> EventList:
        """One entry per name (and input shapes), in the order of their first events."""
        found: dict[Any, Average] = {}
        for event in self:
            key = (event.key, str(event.input_shapes)) if group_by_input_shapes else event.key
            shapes = event.input_shapes if group_by_input_shapes else []
            found.setdefault(key, Average(event.key, shapes)).add(event)
        return EventList(found.values())

    def total_average(self) -> Average:
        total = Average("Total", [])
        for event in self:
            total.count += event.count
            total.cpu_time_total += event.self_cpu_time_total
            total.self_cpu_time_total += event.self_cpu_time_total
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The entries as a table in PyTorch's layout."""
        rows = list(self)
        if sort_by is not None:
            rows.sort(key=sorter(sort_by), reverse=True)
        rows = rows if row_limit < 0 else rows[:row_limit]
        total = self.self_cpu_time_total
        columns: dict[str, Callable[[Any], str]] = {
            "Name": lambda row: row.key[:max_name_column_width],
            "Self CPU %": lambda row: share(row.self_cpu_time_total, total),
            "Self CPU": lambda row: shown(row.self_cpu_time_total),
            "CPU total %": lambda row: share(row.cpu_time_total, total),
            "CPU total": lambda row: shown(row.cpu_time_total),
            "CPU time avg": lambda row: shown(row.cpu_time_total / row.count),
            "# of Calls": lambda row: str(row.count),
        }
        if any(row.input_shapes for row in rows):
            columns["Input Shapes"] = lambda row: str(row.input_shapes)[:max_shapes_column_width]
        lines = laid_out(columns, rows)
        if header is not None:
            lines = [header, *lines]
        return "\n".join([*lines, f"Self CPU time total: {shown(total)}", ""])

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events in the trace format of Chrome."""
        events = [
            {"name": e.name, "ph": "X", "ts": e.start / 1000, "dur": e.cpu_time_total, "pid": os.getpid(), "tid": 0,
             "cat": "user_annotation" if e.is_user_annotation else "cpu_op", "args": {"Input Dims": e.input_shapes}}
            for e in self
        ]  # fmt: skip
        with open(path, "w") as stream:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, stream)


def sorter(sort_by: str) -> Callable[[Any], float]:
    """The time to sort by; times of GPUs are all zero."""
    names = {"cpu_time", "cpu_time_total", "self_cpu_time_total", "count"}
    if sort_by in names:
        return lambda row: getattr(row, sort_by)
    if "cuda" in sort_by or "device" in sort_by or "memory" in sort_by or "xpu" in sort_by:
        return lambda row: 0.0
    raise AttributeError(f"cannot sort by {sort_by!r}; choose from {', '.join(sorted(names))}")


def laid_out(columns: dict[str, Callable[[Any], str]], rows: list) -> list[str]:
    """Titles and rows, right-aligned under each other between three rules."""
    texts = [list(columns), *[[text(row) for text in columns.values()] for row in rows]]
    widths = [max(12, *[len(line[k]) for line in texts]) for k in range(len(columns))]
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(f"{text:>{width}}" for text, width in zip(line, widths, strict=True)) for line in texts
    ]
    return [rule, lines[0], rule, *lines[1:], rule]


def shown(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"


def share(part: float, total: float) -> str:
    return f"{100 * part / total:.2f}%" if total else "NaN"
