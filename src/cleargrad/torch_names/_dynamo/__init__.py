"""torch._dynamo: the part of PyTorch's compiler that programs set options of. Read next: _dynamo/config.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cleargrad._dynamo import config as config
from cleargrad.compiler import allow_in_graph as allow_in_graph
from cleargrad.compiler import disable as disable
from cleargrad.compiler import is_compiling as is_compiling
from cleargrad.compiler import reset as reset
from cleargrad.nn.module import Module


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Says that a dimension changes from call to call."""


mark_static = maybe_mark_dynamic = mark_dynamic


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Says that a tensor stays where it is."""


def assume_constant_result(fn: Callable) -> Callable:
    """Says that a function always gives the same."""
    return fn


class OptimizedModule(Module):
    """The type of a module that the compiler made; nothing is one."""


def graph_break(msg: str = "") -> None:
    """Asks that a graph end here."""
