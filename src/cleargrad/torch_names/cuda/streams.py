"""torch.cuda.streams: queues of work on a GPU, which cannot be made here. Read next: cuda/nvtx.py."""

from __future__ import annotations

from typing import Any

from cleargrad.cuda.refusal import all_refusing, refusing_class

Stream = refusing_class("Stream")
ExternalStream = refusing_class("ExternalStream")
Event = refusing_class("Event")


class StreamContext:
    """`with torch.cuda.stream(s)`: no stream can be made, so s is None and nothing changes."""

    def __init__(self, stream: Any):
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)


def set_stream(stream: Any) -> None:
    pass


globals().update(all_refusing("current_stream default_stream get_stream_from_external"))
