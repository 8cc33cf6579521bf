"""Measurement: the times of one task, and what they say. Read next: utils/benchmark/compare.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))


def select_unit(seconds: float) -> tuple[str, float]:
    """The largest unit in which a time is at least one, and its length in seconds."""
    return next((unit for unit in reversed(UNITS) if seconds >= unit[1]), UNITS[0])


@dataclass(frozen=True)
class TaskSpec:
    """What was measured."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.sub_label or self.stmt


@dataclass
class Measurement:
    """Times of a task: each of `raw_times` is for `number_per_run` runs."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec

    @property
    def times(self) -> list[float]:
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def median(self) -> float:
        return float(np.median(self.times))

    @property
    def mean(self) -> float:
        return float(np.mean(self.times))

    @property
    def iqr(self) -> float:
        """The distance between the quarters of the times."""
        return float(np.subtract(*np.percentile(self.times, [75, 25])))

    @property
    def title(self) -> str:
        return self.task_spec.title

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        lines = [object.__repr__(self), self.title]
        if self.task_spec.description is not None and self.task_spec.label is not None:
            lines.append(self.task_spec.description)
        several = len(self.raw_times) > 1
        lines.append(f"  {'Median: ' if several else ''}{self.median / scale:.2f} {unit}")
        if several:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit}")
        threads = f"{self.task_spec.num_threads} thread{'s' if self.task_spec.num_threads > 1 else ''}"
        per = "per measurement" if several else ""
        count = f"{len(self.raw_times)} measurement{'s' if several else ''}"
        return "\n".join([*lines, f"  {count}, {self.number_per_run} runs {per}, {threads}"])

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same task as one."""
        found: dict[TaskSpec, Measurement] = {}
        for each in measurements:
            if each.task_spec in found:
                whole = found[each.task_spec]
                whole.raw_times += [time * whole.number_per_run for time in each.times]
            else:
                found[each.task_spec] = Measurement(each.number_per_run, list(each.raw_times), each.task_spec)
        return list(found.values())
