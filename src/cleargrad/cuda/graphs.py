"""torch.cuda.graphs: what a GPU is asked for, recorded once and asked for again by one call.

Calls inside of a recording are not made; replays make them, on the same memory. Read next: cuda/nvtx.py.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from cleargrad.core.mode import settle
from cleargrad.cuda.refusal import gpu, is_available, refusing
from cleargrad.cuda.streams import DUMMY, Stream
from cleargrad.errors import error


class CUDAGraph:
    """A recording of work."""

    def __new__(cls, *args: Any, **kwargs: Any) -> CUDAGraph:
        gpu("CUDAGraph", RuntimeError, f"{DUMMY} CUDAGraph")
        return super().__new__(cls)

    def __init__(self, keep_graph: bool = False) -> None:
        self._recording: Any = None

    def capture_begin(
        self, pool: Any = None, capture_error_mode: str = "global", stream: Stream | None = None
    ) -> None:
        """Records what this thread asks for from now on."""
        from cleargrad.devices.cuda.queues import Recording

        settle("a CUDA graph is captured")
        runtime = gpu("CUDAGraph").runtime
        self._recording = Recording(runtime, pool, None if stream is None else stream._stream)
        self._recording.begin()

    def capture_end(self) -> None:
        """Ends the recording."""
        self._begun("capture_end")
        settle("the capture of a CUDA graph ends")
        self._recording.end()

    def replay(self) -> None:
        """Does again what was recorded, on the memory that it was recorded with."""
        if self._begun("replay").graph is None:
            raise error(RuntimeError, "replay", "the capture of this graph has not ended")
        self._recording.replay()

    def reset(self) -> None:
        """Forgets the recording, and gives its memory up."""
        self._recording = None

    def pool(self) -> Any:
        """The recording's memory, which another one may share that is never replayed at the same time."""
        return self._begun("pool").pool

    def _begun(self, function: str) -> Any:
        if self._recording is None:
            rule = f"{function} of a graph that was not captured"
            raise error(RuntimeError, function, rule, fix="capture it first, in `with torch.cuda.graph(g):`")
        return self._recording


class graph:
    """`with torch.cuda.graph(g)`: g records what is asked for inside."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        gpu("graph", RuntimeError, "torch.cuda.graph requires CUDA")
        self.cuda_graph, self.pool, self.stream = cuda_graph, pool, stream

    def __enter__(self) -> None:
        gc.collect()
        self.cuda_graph.capture_begin(self.pool, stream=self.stream)

    def __exit__(self, *exception: object) -> None:
        self.cuda_graph.capture_end()


def graph_pool_handle() -> Any:
    """Memory for several recordings that are never replayed at the same time."""
    return gpu("graph_pool_handle").runtime.cupy.cuda.MemoryPool()


def is_current_stream_capturing() -> bool:
    """Whether a recording is under way."""
    return gpu("is_current_stream_capturing", RuntimeError).runtime.queues.recording is not None


_absent = refusing("make_graphed_callables", RuntimeError)


def make_graphed_callables(
    callables: Any, sample_args: Sequence, num_warmup_iters: int = 3, **options: Any
) -> Callable:
    """PyTorch's way to record a module's passes; here cleargrad.compile does so, and the module stays as it is."""
    if not is_available():
        _absent()
    return callables
