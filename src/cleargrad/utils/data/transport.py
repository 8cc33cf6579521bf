"""Messages between the main process and a worker.

A message is pickled; the arrays in it are left out of the pickle and follow it. Small messages go through a
socket. Large ones are written into shared memory, and the socket says where; the receiver copies the arrays
out, so that the memory is used again for a later message: fresh pages cost more than a copy of warm ones. The
memory has no name and ends with the processes that hold it, however they die.
Read next: utils/data/worker.py.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import struct
import sys
import tempfile
import weakref
from contextlib import suppress
from itertools import accumulate
from typing import Any

# A sender may be this many messages ahead of its receiver. All of them fit into the socket, so that neither
# side ever waits for the other in `send`.
WINDOW = 8
SMALL = 8192
LENGTH = struct.Struct("<Q")
CAN_SHARE = sys.platform != "win32"


def pack(message: Any) -> list[memoryview]:
    """A message as blocks of bytes: its pickle, then its arrays; raises what pickling raises."""
    arrays: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
    return [memoryview(body), *(array.raw() for array in arrays)]


def unpack(blocks: list[bytearray]) -> Any:
    """The message again; its arrays use the blocks as their memory."""
    body, *arrays = blocks
    return pickle.loads(body, buffers=arrays)


_main_ends: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def line() -> tuple[socket.socket, socket.socket]:
    """The main process's end of a new line, and a worker's."""
    here, there = socket.socketpair()
    _main_ends.add(here)
    return here, there


def let_go() -> None:
    """In a forked child: only the main process may hold its ends, so that its death cuts the lines."""
    for end in list(_main_ends):
        end.close()


os.register_at_fork(after_in_child=let_go)


class Link:
    """One end of a line; `slots` is how far a sender may be ahead, at most WINDOW."""

    def __init__(self, end: socket.socket, slots: int) -> None:
        self._socket = end
        self._sent = 0
        self._outgoing: list[mmap.mmap | None] = [None] * slots
        self._incoming: list[mmap.mmap | None] = [None] * slots

    def send(self, blocks: list[memoryview]) -> None:
        """Sends a packed message; the receiver must have taken the one `slots` messages before."""
        sizes = [block.nbytes for block in blocks]
        if sum(sizes) <= SMALL or not CAN_SHARE:
            self._send_note((None, sizes, b"".join(blocks)))
        else:
            slot = self._sent % len(self._outgoing)
            handle = self._make_room(slot, sum(sizes))
            for block, place in zip(blocks, split(self._outgoing[slot], sizes)):
                place[:] = block
            self._send_note((slot, sizes, None), handle)
        self._sent += 1

    def receive(self, timeout: float | None = None) -> list[bytearray]:
        """The next message, still packed; TimeoutError if none comes, EOFError if the other side has gone."""
        (slot, sizes, small), handle = self._receive_note(timeout)
        if handle is not None:
            self._incoming[slot] = mapped(handle)
        # Each block is copied by itself: whoever keeps one array does not keep the whole message.
        return [bytearray(block) for block in split(small if slot is None else self._incoming[slot], sizes)]

    def hang_up(self) -> None:
        """Ends the line for both sides, also where a forked process holds a copy of this end."""
        with suppress(OSError):  # the other side may have gone already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def _make_room(self, slot: int, size: int) -> int | None:
        """A handle to fresh shared memory if the slot's is too small."""
        memory = self._outgoing[slot]
        if memory is not None and len(memory) >= size:
            return None
        # Untouched pages cost nothing, so a power of two is as cheap and lasts longer.
        handle = shared_memory(1 << (size - 1).bit_length())
        self._outgoing[slot] = mmap.mmap(handle, 0)
        return handle

    def _send_note(self, note: tuple, handle: int | None = None) -> None:
        body = pickle.dumps(note)
        head = LENGTH.pack(len(body))
        if handle is None:
            self._socket.sendall(head + body)
            return
        socket.send_fds(self._socket, [head], [handle])
        os.close(handle)
        self._socket.sendall(body)

    def _receive_note(self, timeout: float | None) -> tuple[tuple, int | None]:
        head, handles = self._receive_head(timeout)
        if len(head) < LENGTH.size:
            raise EOFError
        body = bytearray(LENGTH.unpack(head)[0])
        rest = memoryview(body)
        while rest:
            count = self._socket.recv_into(rest)
            if count == 0:
                raise EOFError
            rest = rest[count:]
        return pickle.loads(body), handles[0] if handles else None

    def _receive_head(self, timeout: float | None) -> tuple[bytes, list[int]]:
        self._socket.settimeout(timeout)
        try:
            if not CAN_SHARE:
                return self._socket.recv(LENGTH.size), []
            return socket.recv_fds(self._socket, LENGTH.size, 1)[:2]
        finally:
            self._socket.settimeout(None)


def split(whole: Any, sizes: list[int]) -> list[memoryview]:
    """Consecutive blocks of some memory."""
    view = memoryview(whole)
    return [view[stop - size : stop] for stop, size in zip(accumulate(sizes), sizes)]


def shared_memory(size: int) -> int:
    """A file that exists only in memory and has no name."""
    if sys.platform == "linux":
        handle = os.memfd_create("cleargrad batch")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, size)
    return handle


def mapped(handle: int) -> mmap.mmap:
    memory = mmap.mmap(handle, 0)
    os.close(handle)
    return memory
