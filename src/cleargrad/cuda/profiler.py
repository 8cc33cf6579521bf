"""torch.cuda.profiler: a GPU's profiler, switched on and off. Read next: cuda/nvtx.py."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cleargrad.cuda.refusal import all_refusing, gpu


def start() -> None:
    """From now on, a profiler that watches the program takes notes."""
    gpu("start").runtime.runtime.profilerStart()


def stop() -> None:
    gpu("stop").runtime.runtime.profilerStop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A profiler takes notes of what is inside."""
    start()
    try:
        yield
    finally:
        stop()


globals().update(all_refusing("init"))
