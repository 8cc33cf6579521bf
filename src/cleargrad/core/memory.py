"""The C allocator, told to keep what is freed.

A training step allocates and frees the same large arrays again and again. By default glibc hands each of them back
to the system, and every first touch of new memory is a page fault: up to 20 times the cost of the arithmetic. The
price of keeping it is that a process's resident size stays at its peak. For the same reason there is one heap for
all threads: by default each gets its own, and cannot take what another has freed. Read next: core/address.py.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # from glibc's malloc.h


def keep_freed_memory() -> bool:
    """Asks glibc to reuse freed memory, up to 1 GiB a piece, in whatever thread; False where there is no glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(
        mallopt(M_MMAP_THRESHOLD, 2**30) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1) and mallopt(M_ARENA_MAX, 1)
    )


def give_back_freed_memory() -> None:
    """Hands freed memory back to the system, for once: what single calls took is free when a program takes over."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
