"""NumPy's names for arguments: PyTorch takes `axis` for `dim`, `keepdims` for `keepdim`, `x` for `input`.

A call with PyTorch's own names is made as it is; only when Python refuses it are the names looked at and the
call made again. Read next: ops/declare.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cleargrad.codegen.expr import parameters

PYTORCH_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
}


def pytorch_names(function: Callable, given: dict[str, Any]) -> dict[str, Any] | None:
    """Keyword arguments by the names the function knows; None when NumPy's names are not what it lacks."""
    positional, keywords, _ = parameters(function)
    known = {*positional, *keywords}
    renamed = {}
    for name, value in given.items():
        target = PYTORCH_NAMES.get(name, name)
        renamed[target if name not in known and target in known else name] = value
    return renamed if len(renamed) == len(given) and renamed.keys() != given.keys() else None


def lacks_axis(function: Callable) -> bool:
    """Whether a function takes `dim`, and by that name alone."""
    positional, keywords, _ = parameters(function)
    return ("dim" in positional or "dim" in keywords) and "axis" not in keywords


def with_numpy_names(function: Callable) -> Callable:
    """The function, called by either set of names."""

    def published(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        try:
            return function(*args, **kwargs)
        except TypeError:
            renamed = pytorch_names(function, kwargs)
            if renamed is None:
                raise
        return function(*args, **renamed)

    return standing_for(function, published)


def by_either_name(function: Callable) -> Callable:
    """The function itself where there is nothing to rename."""
    return with_numpy_names(function) if lacks_axis(function) else function


def standing_for(function: Callable, published: Callable) -> Callable:
    """Gives a function that calls another one its name and words."""
    published.__name__ = published.__qualname__ = function.__name__
    published.__doc__ = function.__doc__
    published.__wrapped__ = function
    return published


def method_of(function: Callable) -> Callable:
    """The method for a public function. Methods take no out=, so they skip the function that handles it."""
    return by_either_name(getattr(function, "__wrapped__", function))
