"""torch.autograd.profiler: where the time of a program goes, op by op.

While a `profile` is open, an Observer stands behind the doors of this thread: every kernel, every vjp and every
`record_function` becomes an event, nested as they ran. Read next: autograd/profiler_util.py.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.profiler_util import Event, EventList
from cleargrad.core.mode import mode


class Observer:
    """Collects events; `open` is the one that others now run inside."""

    def __init__(self, shapes: bool):
        self.events: list[Event] = []
        self.open: Event | None = None
        self.shapes = shapes

    def begin(self, name: str, shapes: list | None = None, user: bool = False) -> Event:
        event = Event(name, time.perf_counter_ns(), self.open, shapes or [], user)
        self.events.append(event)
        self.open = event
        return event

    def end(self, event: Event) -> None:
        event.close(time.perf_counter_ns())
        self.open = event.cpu_parent

    def measure(self, name: str, call: Callable[[], Any], shapes: list | None = None) -> Any:
        event = self.begin(name, shapes)
        try:
            return call()
        finally:
            self.end(event)

    def around(self, op: Any) -> Callable:
        """An op's `run`, measured."""

        def run(*arrays: Any, **attrs: Any) -> Any:
            shapes = None
            if self.shapes:
                shapes = [list(x.shape) if isinstance(x, np.ndarray) else [] for x in arrays]
            return self.measure(f"aten::{op.name}", lambda: op.run(*arrays, **attrs), shapes)

        return run


class record_function:
    """A stretch of the program under a name of its own; also a decorator."""

    def __init__(self, name: str, args: str | None = None):
        self.name = name
        self.event: Event | None = None

    def __enter__(self) -> record_function:
        if mode.observer is not None:
            self.event = mode.observer.begin(self.name, user=True)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.event is not None and mode.observer is not None:
            mode.observer.end(self.event)
        self.event = None

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return named


class profile:
    """Measures what runs inside; afterwards key_averages() says where the time went."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        **options: Any,
    ):
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.function_events: EventList | None = None
        self.observer: Observer | None = None

    def __enter__(self) -> profile:
        if self.enabled:
            self.observer = Observer(self.record_shapes)
            self.before = mode.set(observer=self.observer)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.observer is not None:
            mode.set(**self.before)
            for event in self.observer.events:
                event.close(time.perf_counter_ns())
            self.function_events = EventList(self.observer.events)
            self.observer = None

    def events(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **options: Any
    ) -> EventList:
        """One row per name, with the times of all its events added up."""
        return self.events().key_averages(group_by_input_shape)

    def total_average(self) -> Any:
        return self.events().total_average()

    def table(self, **options: Any) -> str:
        return self.events().table(**options)

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events for the timeline of a browser (chrome://tracing)."""
        self.events().export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        return self.events().self_cpu_time_total


class emit_nvtx:
    """Marks for a GPU's profiler; there is none, so nothing is marked."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        self.enabled = enabled

    def __enter__(self) -> emit_nvtx:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
