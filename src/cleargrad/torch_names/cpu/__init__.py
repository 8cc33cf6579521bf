"""torch.cpu: the CPU as a device, in the words of torch.cuda. Read next: cpu/amp/__init__.py."""

from __future__ import annotations

import time
from typing import Any


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def device_count() -> int:
    """The number of CPUs, which count as one device."""
    return 1


def is_initialized() -> bool:
    return True


def current_device() -> str:
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing to choose."""


def synchronize(device: Any = None) -> None:
    """Nothing to wait for: ops run at once."""


class Stream:
    """A queue of work; on the CPU there is no queue."""

    def __init__(self, priority: int = -1):
        pass

    def wait_stream(self, stream: Stream) -> None:
        pass

    def record_event(self) -> None:
        pass

    def wait_event(self, event: Event) -> None:
        pass


class Event:
    """A moment in a queue; with enable_timing the time between two can be asked."""

    def __init__(self, enable_timing: bool = False):
        self.moment = 0.0

    def query(self) -> bool:
        return True

    def record(self, stream: Stream | None = None) -> None:
        self.moment = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Stream | None = None) -> None:
        pass

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds until another event."""
        return (end_event.moment - self.moment) * 1000


_stream = Stream()


def current_stream(device: Any = None) -> Stream:
    return _stream


class StreamContext:
    """`with torch.cpu.stream(s)`: changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def stream(stream: Stream | None) -> StreamContext:
    return StreamContext(stream)


def __getattr__(name: str) -> object:
    if name == "amp":
        import importlib

        return importlib.import_module("cleargrad.cpu.amp")
    raise AttributeError(f"module 'torch.cpu' has no attribute {name!r}")
