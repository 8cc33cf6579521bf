"""How many threads compute: torch.get_num_threads and its kin.

The threads are those of NumPy's linear algebra library, which threadpoolctl finds, whichever it is, and those of
the team that runs machine code (devices/cpu/team.py), which reads `chosen`. Read next: torch_names/settings.py.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from cleargrad.errors import error

chosen: list[int] = []  # what set_num_threads was last called with
when_chosen: list[Callable[[], object]] = []  # called then, by those who have cut work for another number
_between: int | None = None  # what set_num_interop_threads was called with


@functools.cache
def controller() -> Any:
    """The linear algebra libraries of this process; looked up once, at about two milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def check_count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise error(RuntimeError, name, f"{name} expects an int, but got {type(value).__name__}")
    if value <= 0:
        raise error(RuntimeError, name, f"{name} expects a positive integer", value=value)
    return value


def get_num_threads() -> int:
    """The number of threads that matrix products use."""
    counts = [library["num_threads"] for library in controller().info()]
    return max(counts, default=1)


def set_num_threads(int: int, /) -> None:
    """Lets kernels use so many threads, from now on and in the whole process."""
    count = check_count("set_num_threads", int)
    chosen[:] = [count]
    for library in controller().lib_controllers:
        library.set_num_threads(count)
    for call in when_chosen:
        call()


def get_num_interop_threads() -> int:
    """The number of ops that run at once where a program asks for it; cleargrad runs one after the other."""
    return _between or max((os.cpu_count() or 1), 1)


def set_num_interop_threads(int: int, /) -> None:
    """Accepted once, as in PyTorch; it only changes what get_num_interop_threads says."""
    global _between
    count = check_count("set_num_interop_threads", int)
    if _between is not None:
        rule = "cannot set number of interop threads after set_num_interop_threads was called"
        raise error(RuntimeError, "set_num_interop_threads", rule)
    _between = count
