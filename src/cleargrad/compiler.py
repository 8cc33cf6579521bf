"""torch.compiler: what a program says to a compiler around torch.compile. Read next: _dynamo/__init__.py."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


def is_compiling() -> bool:
    """Whether a graph is being recorded for torch.compile."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None) -> Callable:
    """Marks a function that is never compiled; also as a decorator with arguments."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    return fn


def assume_constant_result(fn: Callable) -> Callable:
    return fn


def reset() -> None:
    """Forgets what was compiled; nothing is kept here."""


def cudagraph_mark_step_begin() -> None:
    """Marks a step for GPUs."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The compilers that torch.compile can be asked for by name."""
    return []


@contextlib.contextmanager
def set_stance(stance: str = "default", **options: Any) -> Iterator[None]:
    """What to do with functions that are not compiled yet; accepted."""
    yield


def compile(*args: Any, **kwargs: Any) -> Any:
    """torch.compile."""
    return sys.modules["cleargrad"].compile(*args, **kwargs)
