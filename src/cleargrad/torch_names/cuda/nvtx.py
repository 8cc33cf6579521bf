"""torch.cuda.nvtx: marks for a profiler of GPUs, which raise without one. Read next: cuda/amp/__init__.py."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cleargrad.cuda.refusal import refusing

_rule = "NVTX functions not installed. Are you sure you have a CUDA build?"
range_push = refusing("nvtx.range_push", RuntimeError, _rule)
range_pop = refusing("nvtx.range_pop", RuntimeError, _rule)
range_start = refusing("nvtx.range_start", RuntimeError, _rule)
range_end = refusing("nvtx.range_end", RuntimeError, _rule)
mark = refusing("nvtx.mark", RuntimeError, _rule)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    range_push(msg.format(*args, **kwargs))
    yield
