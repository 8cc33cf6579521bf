"""What lies behind a tensor: its leaves, and where a loss or a gradient stops being finite (the op that leaves its
domain, or whose slope is infinite).

Looks at what the nodes of the graph have saved: all of them once a loss turns out not to be finite, and before the
first backward passes those few ops that have a finite value where they have no slope. Read next: ledger.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cleargrad.doctor.places import Place

MOST_NODES = 20_000
NODES_WALKED = 256  # to find the leaves behind a tensor

# By the beginning of a node's name: what it saves, and which values lead out of its domain.
DOMAINS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Log1p": ("self", lambda x: x <= -1),
    "Log": ("self", lambda x: x <= 0),
    "Div": ("other", lambda x: x == 0),
    "Reciprocal": ("result", lambda x: ~x.isfinite()),
    "Sqrt": ("result", lambda x: ~x.isfinite()),
    "Rsqrt": ("result", lambda x: ~x.isfinite()),
    "Exp": ("result", lambda x: ~x.isfinite()),
    "Pow": ("self", lambda x: x <= 0),
}


# The same for slopes: the value may be finite there, or hidden by a mask, but the gradient is not.
SLOPES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Sqrt": ("result", lambda x: x == 0),
    "Rsqrt": ("result", lambda x: ~x.isfinite()),
    "Reciprocal": ("result", lambda x: ~x.isfinite()),
    "Log1p": ("self", lambda x: x == -1),
    "Log": ("self", lambda x: x == 0),
    "Div": ("other", lambda x: x == 0),
    "Acos": ("self", lambda x: x.abs() >= 1),
    "Asin": ("self", lambda x: x.abs() >= 1),
    "Atanh": ("self", lambda x: x.abs() >= 1),
    "Pow": ("self", lambda x: x == 0),
}
MOST_LOOKED_AT = 4096  # nodes of a graph whose slopes are looked at


def infinite_slope(root: Any) -> str | None:
    """The op nearest to a loss whose slope is infinite, with its line where the engine knows it."""
    for node in nodes_behind(root.grad_fn, MOST_LOOKED_AT):
        name = type(node).__name__.split("Backward")[0]
        domain = SLOPES.get(name.rstrip("0123456789"))
        if domain is None or (name.startswith("Pow") and not is_root(node)):
            continue
        if is_wrong(node, *domain):
            return described(name, node, "")
    return None


def is_root(node: Any) -> bool:
    """Whether a power has an exponent below 1, so that its slope at 0 is infinite."""
    exponent = getattr(node, "_saved_exponent", None)
    return isinstance(exponent, (int, float)) and exponent < 1 and exponent != 0


def first_not_finite(root: Any) -> str | None:
    """`log`, with its line where the engine knows it; None when no saved value tells."""
    for node in reversed(nodes_behind(root.grad_fn)):
        name = type(node).__name__.split("Backward")[0]
        for start, (saved, leaves_domain) in DOMAINS.items():
            if name.startswith(start) and is_wrong(node, saved, leaves_domain):
                return described(name, node, "")
        if any(
            is_wrong(node, saved, lambda x: ~x.isfinite())
            for saved in ("self", "mat1", "input", "other", "mat2")
        ):
            return described(name, node, "the input of ")
    return None


def nodes_behind(node: Any, most: int = MOST_NODES) -> list[Any]:
    """The nodes of a graph, from the loss on; those that feed a node come after it."""
    found: list[Any] = []
    seen: set[Any] = set()
    waiting = [node]
    for each in waiting:
        if each is None or each in seen or len(found) > most:
            continue
        seen.add(each)
        found.append(each)
        waiting += [inner for inner, _ in each.next_functions]
    return found


def is_wrong(node: Any, saved: str, leaves_domain: Callable[[Any], Any]) -> bool:
    try:
        value = getattr(node, f"_saved_{saved}", None)
    except RuntimeError:  # freed by an earlier pass, or changed since
        return False
    if value is None or not getattr(value, "is_floating_point", bool)():
        return False
    return bool(leaves_domain(value.detach()).any())


def described(name: str, node: Any, before: str) -> str:
    return f"{before}{name.lower()}{line_of(getattr(node, 'place', None))}"


def line_of(place: Any) -> str:
    """Where an op was recorded: cleargrad's nodes know the code and the instruction."""
    if place is None:
        return ""
    code, instruction = place
    for start, stop, line in code.co_lines():
        if start <= instruction < stop and line is not None:
            return f" at {Place(code.co_filename, line, code.co_name)}"
    return ""


def leaves_behind(tensors: Any) -> Iterator[Any]:
    """The leaves that a tensor, or several, depend on, as far as a short walk through their graph finds them."""
    tensors = tensors if isinstance(tensors, tuple) else (tensors,)
    yield from (tensor for tensor in tensors if tensor.grad_fn is None)
    waiting: list[Any] = [tensor.grad_fn for tensor in tensors]
    seen: set[Any] = set()
    for node in waiting:
        if node is None or node in seen or len(seen) >= NODES_WALKED:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            yield leaf
        waiting += [inner for inner, _ in node.next_functions]
