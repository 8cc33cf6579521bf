"""torch.compiler: what a program says to a compiler around torch.compile. Read next: _dynamo/__init__.py."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from cleargrad.core.mode import at_once, mode, settle


def is_compiling() -> bool:
    """Whether a graph is being recorded for torch.compile."""
    return mode.waiter is not None and mode.waiter.compiled


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether torch.export is at work."""
    return False


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None) -> Callable:
    """Marks a function that is never compiled, nor is what calls it; also as a decorator with arguments."""
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if not isinstance(fn, types.FunctionType):
        return fn

    @functools.wraps(fn)
    def eager(*args: Any, **kwargs: Any) -> Any:
        settle()
        with at_once():
            return fn(*args, **kwargs)

    return eager


def allow_in_graph(fn: Any) -> Any:
    return fn


def assume_constant_result(fn: Callable) -> Callable:
    return fn


def reset() -> None:
    """Forgets what was compiled."""
    traces = sys.modules.get("cleargrad.compile.traces")
    if traces is not None:
        traces.forget_all()


def cudagraph_mark_step_begin() -> None:
    """Marks a step for GPUs."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The compilers that torch.compile can be asked for by name."""
    return ["inductor"]


@contextlib.contextmanager
def set_stance(stance: str = "default", **options: Any) -> Iterator[None]:
    """What to do with functions that are not compiled yet; accepted."""
    yield


def compile(*args: Any, **kwargs: Any) -> Any:
    """torch.compile."""
    return sys.modules["cleargrad"].compile(*args, **kwargs)
