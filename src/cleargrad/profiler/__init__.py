"""torch.profiler: profiles of chosen steps of a training loop. Read next: testing/__init__.py."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from cleargrad.autograd import profiler
from cleargrad.autograd.profiler import record_function as record_function
from cleargrad.autograd.profiler_util import EventList


class ProfilerActivity(Enum):
    """What to measure; there is only a CPU."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What to do in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """The action of every step: after skip_first steps, cycles of wait, warmup and active steps."""
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if skip_first_wait and step >= 0:
            step += wait  # the first cycle does not wait
        if step < 0 or (repeat and step >= length * repeat):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes each trace to a file of its own."""

    def write(finished: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        finished.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json"))

    return write


RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Measures what runs inside, or the steps that a schedule chooses; `step()` ends each step."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        **options: Any,
    ):
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.step_num = 0
        self.profiler: profiler.profile | None = None
        self.running = False

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        self.current_action = self.schedule(self.step_num)
        if self.current_action in RECORDING:
            self._begin()

    def stop(self) -> None:
        if self.running:
            self._finish()

    def step(self) -> None:
        """The next step begins."""
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if self.running and (
            before is ProfilerAction.RECORD_AND_SAVE or self.current_action not in RECORDING
        ):
            self._finish()
        if not self.running and self.current_action in RECORDING:
            self._begin()

    def _begin(self) -> None:
        self.profiler = profiler.profile(record_shapes=self.record_shapes)
        self.profiler.__enter__()
        self.running = True

    def _finish(self) -> None:
        if self.profiler is not None:
            self.profiler.__exit__(None, None, None)
        self.running = False
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _finished(self) -> profiler.profile:
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before getting key averages")
        return self.profiler

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **options: Any
    ) -> EventList:
        """One row per name, with the times of all its events added up."""
        return self._finished().key_averages(group_by_input_shape)

    def events(self) -> EventList:
        return self._finished().events()

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events for the timeline of a browser (chrome://tracing)."""
        self._finished().export_chrome_trace(path)


def kineto_available() -> bool:
    """Whether PyTorch's own recorder of traces is there: no."""
    return False
