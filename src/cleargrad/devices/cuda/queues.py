"""Work beside other work: memory of the CPU that a GPU reads by itself, several streams, and recordings.

Streams and events are CuPy's own objects; cuda/streams.py has PyTorch's names for them. Read next:
devices/cuda/nests.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

if TYPE_CHECKING:
    from cleargrad.devices.cuda.runtime import Runtime


class Pinned:
    """Memory of the CPU that stays where it is, so that a GPU copies it while Python goes on."""

    __slots__ = ("__array_interface__", "__weakref__", "event", "owner", "queues")

    def __init__(self, queues: Queues, owner: Any, nbytes: int) -> None:
        self.queues, self.owner, self.event = queues, owner, None
        self.__array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (owner.ptr, False), "version": 3,
        }  # fmt: skip

    def __del__(self) -> None:
        if self.event is not None:
            self.queues.resting.append((self.owner, self.event))  # until the last copy from it is made


def pinned_of(array: np.ndarray) -> Pinned | None:
    """The pinned memory in which an array lies."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner if isinstance(owner, Pinned) else None


class Queues:
    """The streams of one GPU."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.several = False  # whether any other stream than the default one was ever used
        self.turns: WeakKeyDictionary[Any, tuple[int, Any]] = WeakKeyDictionary()
        self.resting: list[tuple[Any, Any]] = []  # memory that nobody holds, and its last use
        self.recording: Recording | None = None
        self.recordings: WeakSet[Recording] = WeakSet()

    @property
    def current(self) -> Any:
        return self.cupy.cuda.get_current_stream()

    def use(self, stream: Any) -> None:
        """From now on, this thread asks for work on this stream."""
        self.several = True
        stream.use()

    def mark(self) -> Any:
        """An event behind all that this thread has asked for."""
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self.current)
        return event

    @contextlib.contextmanager
    def turn(self, program: Any) -> Iterator[None]:
        """A program has working memory, so its runs follow each other also when they are on several streams."""
        if self.recording is not None:
            self.recording.kept.append(program)
            yield
            return
        stream = self.current
        before = self.turns.get(program)
        if before is not None and before[0] != stream.ptr:
            stream.wait_event(before[1])
        yield
        self.turns[program] = stream.ptr, self.mark()

    def rest(self, owner: Any, streams: list) -> None:
        """Memory is given back when these streams have done what they were asked for."""
        for stream in streams:
            event = self.cupy.cuda.Event(disable_timing=True)
            event.record(stream)
            self.resting.append((owner, event))

    def look(self) -> None:
        """Gives back what has rested."""
        self.resting = [each for each in self.resting if not each[1].done]

    # Pinned memory -----------------------------------------------------------------------------------------

    def pin(self, array: np.ndarray) -> np.ndarray:
        """A copy of an array of the CPU in pinned memory, with the same order of dimensions."""
        self.look()
        nbytes = max(array.nbytes, 1)
        memory = np.asarray(Pinned(self, self.cupy.cuda.alloc_pinned_memory(nbytes), nbytes))
        order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        turned = array.transpose(order)
        target = np.ndarray(turned.shape, array.dtype, memory)
        target[...] = turned
        return target.transpose(np.argsort(order, kind="stable"))


class Recording:
    """What a thread asks a GPU for between `begin` and `end`, to be asked for again by `replay`.

    Meanwhile memory comes from a pool of its own: what is given back goes to later calls of the recording, and to
    nobody else, since a replay writes it again.
    """

    def __init__(self, runtime: Runtime, pool: Any = None, stream: Any = None) -> None:
        cuda = runtime.cupy.cuda
        self.runtime = runtime
        self.pool = cuda.MemoryPool() if pool is None else pool
        self.stream = cuda.Stream(non_blocking=True) if stream is None else stream
        self.kept: list[Any] = []  # programs, and arrays of the CPU that are copied
        self.graph: Any = None
        self.blocks = contextlib.ExitStack()

    def begin(self) -> None:
        queues = self.runtime.queues
        if queues.recording is not None:
            raise RuntimeError("a CUDA graph is being captured already")
        self.runtime.synchronize()
        self.outer = queues.current
        queues.use(self.stream)
        self.blocks.enter_context(self.runtime.cupy.cuda.using_allocator(self.pool.malloc))
        self.stream.begin_capture()
        queues.recording = self
        queues.recordings.add(self)

    def end(self) -> None:
        queues = self.runtime.queues
        queues.recording = None
        try:
            self.graph = self.stream.end_capture()
        finally:
            self.blocks.close()
            queues.use(self.outer)

    def replay(self) -> None:
        self.graph.launch(self.runtime.queues.current)
