"""torch.cuda.nvtx: marks for a profiler of GPUs, which raise without one. Read next: cuda/amp/__init__.py."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cleargrad.cuda.refusal import gpu

RULE = "NVTX functions not installed. Are you sure you have a CUDA build?"


def marks(name: str) -> Any:
    return gpu(f"nvtx.{name}", RuntimeError, RULE).runtime.cupy.cuda.nvtx


def range_push(msg: str) -> int:
    """A range begins inside of the last one."""
    marks("range_push").RangePush(msg)
    return 0


def range_pop() -> int:
    """The range ends that began last."""
    marks("range_pop").RangePop()
    return 0


def range_start(msg: str) -> int:
    """A range begins; its number is for range_end. Ranges of CuPy are nested, and so are these."""
    marks("range_start").RangePush(msg)
    return 0


def range_end(range_id: int) -> None:
    marks("range_end").RangePop()


def mark(msg: str) -> None:
    """A moment."""
    marks("mark").Mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """What is inside is one range."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
