"""torch._dynamo: the part of PyTorch's compiler that programs set options of. Read next: _dynamo/config.py."""

from __future__ import annotations

from typing import Any

from cleargrad._dynamo import config as config
from cleargrad.compiler import allow_in_graph as allow_in_graph
from cleargrad.compiler import disable as disable
from cleargrad.compiler import is_compiling as is_compiling
from cleargrad.compiler import reset as reset


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Says that a dimension changes from call to call."""


mark_static = maybe_mark_dynamic = mark_dynamic


def graph_break(msg: str = "") -> None:
    """Asks that a graph end here."""
