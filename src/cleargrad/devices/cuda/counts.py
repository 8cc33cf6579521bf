"""How many bytes of the GPU tensors take, now and at most: kept by whoever gives memory out.

Memory comes back when the last array in it is gone, at any moment and in any thread, also in the middle of a line
that counts. So what comes back is only noted, and is counted by whoever counts next. Read next:
devices/cuda/queues.py.
"""

from __future__ import annotations

import threading
from collections import deque


class Counts:
    """Bytes and pieces of memory that were given out and came back."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.back: deque[int] = deque()  # sizes that came back and are not counted yet
        self.given = self.given_back = self.peak = 0  # bytes
        self.pieces = self.pieces_back = self.peak_pieces = 0
        self.retries = self.failures = 0
        self.peak_reserved = 0

    def take(self, size: int) -> Counts:
        """Notes memory that is given out. Whoever holds it appends its size to `back` in the end."""
        with self.lock:
            self.settle()
            self.given += size
            self.pieces += 1
            self.peak = max(self.peak, self.given - self.given_back)
            self.peak_pieces = max(self.peak_pieces, self.pieces - self.pieces_back)
        return self

    def settle(self) -> None:
        while self.back:
            self.given_back += self.back.popleft()
            self.pieces_back += 1

    @property
    def current(self) -> int:
        """Bytes that are in use."""
        with self.lock:
            self.settle()
            return self.given - self.given_back

    def reset_peak(self) -> None:
        with self.lock:
            self.settle()
            self.peak, self.peak_pieces = self.given - self.given_back, self.pieces - self.pieces_back
            self.peak_reserved = 0

    def reserved(self, now: int) -> int:
        """The most that was reserved. It falls only when a pool gives memory back, and is noted before."""
        self.peak_reserved = max(self.peak_reserved, now)
        return self.peak_reserved

    def restart(self) -> None:
        """Begins to count what is given out altogether; what is in use stays."""
        with self.lock:
            self.settle()
            self.given, self.given_back = self.given - self.given_back, 0
            self.pieces, self.pieces_back = self.pieces - self.pieces_back, 0
            self.retries = self.failures = 0
