"""torch.multiprocessing: Python's multiprocessing, with tensors that processes can share, and spawn.

A tensor in shared memory (Tensor.share_memory_) is sent by reference, any other as a copy. Read next:
multiprocessing/shared.py.
"""

from __future__ import annotations

import multiprocessing as _std
from multiprocessing import *  # noqa: F403

from cleargrad.multiprocessing import shared as reductions
from cleargrad.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_std.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The ways to share memory that a program may ask for; here both are one."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Remembered; shared memory is always passed as a file descriptor."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}")
    _strategy = new_strategy


reductions.register()
