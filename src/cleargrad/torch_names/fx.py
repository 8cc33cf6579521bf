"""torch.fx: modules as graphs of Python code, which cleargrad does not trace. Read next: export.py."""

from __future__ import annotations

from collections.abc import Callable

from cleargrad.missing import all_missing

# A package to Python, so that a program may import the modules that are stood in for.
__path__: list[str] = []


def wrap(fn_or_name: Callable | str) -> Callable | str:
    """Marks a function that tracing would not look into."""
    return fn_or_name


globals().update(
    all_missing(
        "torch.fx",
        "symbolic_trace Tracer GraphModule Graph Node Proxy Interpreter Transformer replace_pattern CodeGen "
        "node proxy graph graph_module experimental passes",
        "trace modules into torch.fx graphs",
    )
)
