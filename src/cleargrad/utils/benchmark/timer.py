"""Timer: timeit that warms up, fixes the number of threads and repeats until the times can be trusted.

Read next: utils/benchmark/measurement.py.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from typing import Any

from cleargrad.threads import get_num_threads, set_num_threads
from cleargrad.utils.benchmark.measurement import Measurement, TaskSpec


class Timer:
    """A statement to be timed, with `setup` run once before it."""

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "py",
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if str(language).lower() not in ("py", "python", "language.python"):
            raise NotImplementedError("cleargrad does not time C++ statements.")
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)
        self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}, **torch_name(globals)))

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, measure: Callable[[], Measurement]) -> Measurement:
        before = get_num_threads()
        set_num_threads(self._task_spec.num_threads)
        try:
            return measure()
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of so many runs, after a short warm-up."""

        def measure() -> Measurement:
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

        return self._measured(measure)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    autorange = repeat

    def _number(self, min_run_time: float) -> int:
        """So many runs that the clock's own cost does not count."""
        number = 1
        while (taken := self._timeit(number)) < max(min_run_time / 1000, 1e-4):
            number *= 10
        return number if taken else 1

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measurements of equally many runs until they took min_run_time seconds."""

        def measure() -> Measurement:
            number = self._number(min_run_time)
            times: list[float] = []
            while not times or sum(times) < min_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
            return Measurement(number, times, self._task_spec)

        return self._measured(measure)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Measurements until their quarters lie within `threshold` of the median, or max_run_time is over."""

        def measure() -> Measurement:
            number = self._number(0.05)
            times: list[float] = []
            while sum(times) < max_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                found = Measurement(number, times, self._task_spec)
                if sum(times) > min_run_time and len(times) > 3 and found.iqr < threshold * found.median:
                    break
            return Measurement(number, times, self._task_spec)

        return self._measured(measure)


def torch_name(names: dict[str, Any] | None) -> dict[str, Any]:
    """Statements may say `torch` without importing it, as with PyTorch's timer."""
    if names is not None and "torch" in names:
        return {}
    return {"torch": sys.modules["cleargrad"]}
