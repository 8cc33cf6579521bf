"""Who keeps a graph alive: the user's variable that holds a loss of the past, and the line that puts it there.

Looks at the variables of the program while it stands in a call of the engine's, and at its source. Read next:
rules/sizes.py.
"""

from __future__ import annotations

import ast
import linecache
from collections import deque
from collections.abc import Iterable
from typing import Any

from cleargrad.doctor.observers.gradients import user_frame
from cleargrad.doctor.places import Place, belongs_to_library

DEEPEST = 6  # frames of the user's program that are looked at
LONGEST = 64  # things in one container that are looked at


def find_holder() -> tuple[str, Place | None] | None:
    """The name of a variable that holds tensors with a history, and the line that fills it."""
    frame, seen = user_frame(), 0
    while frame is not None and seen < DEEPEST:
        if not belongs_to_library(frame.f_code):
            seen += 1
            found = holder_in(frame)
            if found is not None:
                return found
        frame = frame.f_back
    return None


def holder_in(frame: Any) -> tuple[str, Place | None] | None:
    candidates = list(names_of_holders(frame.f_locals))
    if frame.f_code.co_name != "<module>":
        candidates += names_of_holders(frame.f_globals)
    for name in candidates:
        line = line_that_fills(frame.f_code.co_filename, name)
        if line is not None:
            return name, Place(frame.f_code.co_filename, line, frame.f_code.co_name)
    return None


def names_of_holders(variables: dict[str, Any]) -> Iterable[str]:
    """`total`, `losses`, `self.history`: what holds tensors with a history, containers first."""
    single = []
    for name, value in list(variables.items()):
        if name.startswith("__"):
            continue
        if holds_history(value):
            yield name
        elif has_history(value):
            single.append(name)
        elif name == "self":
            for field, inner in list(getattr(value, "__dict__", {}).items()):
                if holds_history(inner):
                    yield f"self.{field}"
                elif has_history(inner):
                    single.append(f"self.{field}")
    yield from single


def has_history(value: Any) -> bool:
    return getattr(type(value), "grad_fn", None) is not None and value.grad_fn is not None


def holds_history(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_history(part) or holds_history(part) for part in list(value.values())[:LONGEST])
    if isinstance(value, (list, tuple, deque)):
        return any(has_history(part) or holds_history(part) for part in list(value)[:LONGEST])
    return False


def line_that_fills(file: str, name: str) -> int | None:
    """The line that adds to a variable: `x += ...`, `x = x + ...`, `x.append(...)`, `x[...] = ...`."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and base_of(node.target) == name:
            return node.lineno
        if isinstance(node, ast.Assign) and any(grows(target, node.value, name) for target in node.targets):
            return node.lineno
        if isinstance(node, ast.Call) and adds_to(node.func, name):
            return node.lineno
    return None


def adds_to(function: ast.AST, name: str) -> bool:
    """`x.append`, `x["loss"].append`."""
    if not isinstance(function, ast.Attribute) or function.attr not in (
        "append",
        "extend",
        "appendleft",
        "add",
    ):
        return False
    return base_of(function.value) == name


def base_of(node: ast.AST) -> str:
    """`x` of `x`, `x[...]` and `x[...].y`; `self.x` of `self.x[...]`."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    if isinstance(node, ast.Attribute):
        return base_of(node.value)
    return node.id if isinstance(node, ast.Name) else ""


def grows(target: ast.AST, value: ast.AST, name: str) -> bool:
    if base_of(target) != name:
        return False
    return isinstance(target, ast.Subscript) or any(base_of(part) == name for part in ast.walk(value))
