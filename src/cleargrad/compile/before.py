"""What a call is about to change, as it was: a call that was heard while it ran can be taken back.

A watched call has to run while it is recorded, for its values are looked at. An unwatched one is made by the
program where that is possible, and both must give the same numbers: so the watched one is taken back, and the
program makes it too. Read next: compile/capture.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Before:
    """Memory and random streams that were there before a call, kept when they are first changed."""

    def __init__(self) -> None:
        self.arrays: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.streams: dict[int, tuple[Any, np.ndarray]] = {}

    def keep(self, data: np.ndarray) -> None:
        if id(data) not in self.arrays:
            self.arrays[id(data)] = data, data.copy()

    def keep_stream(self, stream: Any) -> None:
        if id(stream) not in self.streams:
            self.streams[id(stream)] = stream, stream.get_state()

    def put_back(self) -> None:
        for data, values in self.arrays.values():
            np.copyto(data, values)
        for stream, state in self.streams.values():
            stream.set_state(state)
