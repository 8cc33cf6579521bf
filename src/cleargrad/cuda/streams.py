"""torch.cuda.streams: queues of work on a GPU, and moments in them. Read next: cuda/graphs.py."""

from __future__ import annotations

from typing import Any

from cleargrad.core import device as devices
from cleargrad.cuda.refusal import gpu, index_of, is_available
from cleargrad.errors import error

DUMMY = "Tried to instantiate dummy base class"


class Stream:
    """A queue of work on a GPU: work of one queue is done in order, that of several at the same time."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        cuda = gpu("Stream", RuntimeError, f"{DUMMY} Stream").runtime.cupy.cuda
        self._stream = cuda.Stream(non_blocking=True, priority=min(priority, 0) or None)
        self.priority = min(priority, 0)

    @property
    def device(self) -> devices.device:
        return devices.check("cuda")

    device_index = property(lambda self: self.device.index)
    cuda_stream = property(lambda self: self._stream.ptr)
    stream_id = cuda_stream

    def query(self) -> bool:
        """Whether all that was asked for is done."""
        return bool(self._stream.done)

    def synchronize(self) -> None:
        """Waits until all that was asked for is done."""
        self._stream.synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """An event behind all that was asked for."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What is asked for later is done after an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """What is asked for later is done after all that another queue was asked for until now."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A queue that somebody else has made."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        cuda = gpu("ExternalStream", RuntimeError, f"{DUMMY} ExternalStream").runtime.cupy.cuda
        self._stream = cuda.ExternalStream(stream_ptr)
        self.priority = 0


def around(stream: Any) -> Stream:
    found = Stream.__new__(Stream)
    found._stream, found.priority = stream, stream.priority
    return found


class Event:
    """A moment in a queue; with enable_timing the time between two can be asked."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        cuda = gpu("Event", RuntimeError, f"{DUMMY} Event").runtime.cupy.cuda
        self._event = cuda.Event(block=blocking, disable_timing=not enable_timing, interprocess=interprocess)
        self._timed, self._recorded = enable_timing, False

    def record(self, stream: Stream | None = None) -> None:
        """This moment is when all is done that a queue was asked for until now."""
        self._event.record((current_stream() if stream is None else stream)._stream)
        self._recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        """What a queue is asked for later is done after this moment."""
        if self._recorded:
            (current_stream() if stream is None else stream)._stream.wait_event(self._event)

    def query(self) -> bool:
        """Whether the moment has come."""
        return not self._recorded or bool(self._event.done)

    def synchronize(self) -> None:
        """Waits for the moment."""
        if self._recorded:
            self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds until another event."""
        for event in (self, end_event):
            if not event._timed:
                rule = "Both events must be created with argument 'enable_timing=True'."
                raise error(ValueError, "elapsed_time", rule)
            if not event._recorded:
                rule = "Both events must be recorded before calculating elapsed time."
                raise error(ValueError, "elapsed_time", rule)
            if not event.query():
                rule = "Both events must be completed before calculating elapsed time."
                raise error(RuntimeError, "elapsed_time", rule, fix="call end_event.synchronize() first")
        cuda = gpu("elapsed_time").runtime.cupy.cuda
        return float(cuda.get_elapsed_time(self._event, end_event._event))

    @property
    def cuda_event(self) -> int:
        return self._event.ptr

    @property
    def device(self) -> devices.device:
        return devices.check("cuda")

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>"


class StreamContext:
    """`with torch.cuda.stream(s)`: what is asked for inside goes to another queue; None changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None and is_available():
            self.before = current_stream()
            set_stream(self.stream)

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None and is_available():
            set_stream(self.before)


def stream(stream: Stream | None) -> StreamContext:
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """From now on, this thread asks another queue."""
    if stream is not None and is_available():
        gpu("set_stream").runtime.queues.use(stream._stream)


def current_stream(device: Any = None) -> Stream:
    """The queue that this thread asks for work."""
    index_of("current_stream", device)
    return around(gpu("current_stream").runtime.queues.current)


def default_stream(device: Any = None) -> Stream:
    """The queue that threads ask that have not chosen another one."""
    index_of("default_stream", device)
    return around(gpu("default_stream").runtime.cupy.cuda.Stream.null)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A queue that somebody else has made."""
    gpu("get_stream_from_external")
    return ExternalStream(data_ptr, device)
