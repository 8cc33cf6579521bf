"""Other names and orders that PyTorch takes for arguments.

NumPy's names are `axis` for `dim`, `keepdims` for `keepdim`, `x` for `input`. The older order of sums has the
scale in front of what it scales: `p.add_(-lr, grad)`. A call in PyTorch's own words is made as it is; only when
Python refuses it are its arguments looked at and the call made again. Read next: ops/declare.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Number
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.expr.expr import parameters

PYTORCH_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
}


# How many operands an op has, and the scales that were once given by position.
OLDER_ORDER: dict[str, tuple[int, tuple[str, ...]]] = {
    "add": (2, ("alpha",)),
    "sub": (2, ("alpha",)),
    "addcdiv": (3, ("value",)),
    "addcmul": (3, ("value",)),
    **dict.fromkeys(("addbmm", "addmm", "addmv", "addr", "baddbmm"), (3, ("beta", "alpha"))),
}
_warned: set[str] = set()


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


def scales_by_name(name: str, args: tuple) -> tuple[tuple, dict[str, Any]] | None:
    """The operands and the named scales of a call in the older order; None for any other call."""
    if name.rstrip("_") not in OLDER_ORDER:
        return None
    count, names = OLDER_ORDER[name.rstrip("_")]
    extra = len(args) - count
    if not 1 <= extra <= len(names):
        return None
    # A method's tensor comes first, then the scales; a function has beta before the tensor.
    if not isinstance(args[0], Tensor):
        args = (args[1], args[0], *args[2:])
    scales = args[1 : 1 + extra]
    if not all(
        isinstance(scale, Number) or (isinstance(scale, Tensor) and scale.ndim == 0) for scale in scales
    ):
        return None
    return (args[0], *args[1 + extra :]), dict(zip(names, scales, strict=False))


def warn_of_order(name: str, scales: dict[str, Any]) -> None:
    """Says once in a process, as PyTorch does, that the older order will go."""
    if not _warned:
        _warned.add(name)
        words = " and ".join(f"{scale}=" for scale in scales)
        rule = f"This overload of {name} is deprecated: give {words} by name, after the tensors."
        warnings.warn(rule, UserWarning, stacklevel=4)


def in_older_order(function: Callable, name: str) -> Callable:
    """The function, which takes its scales by position too."""

    def published(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            found = scales_by_name(name, args)
            if found is None:
                raise
        return call_again(function, name, found, kwargs)

    return standing_for(function, published)


def call_again(
    function: Callable, name: str, found: tuple[tuple, dict[str, Any]], kwargs: dict[str, Any]
) -> Any:
    operands, scales = found
    warn_of_order(name, scales)
    return function(*operands, **scales, **kwargs)


def standing_for(function: Callable, published: Callable) -> Callable:
    """Gives a function that calls another one its name and words."""
    published.__name__ = published.__qualname__ = function.__name__
    published.__doc__ = function.__doc__
    published.__wrapped__ = function
    return published


def method_of(function: Callable) -> Callable:
    """The method for a public function. Methods take no out=, so they skip the function that handles it."""
    plain = by_either_name(getattr(function, "__wrapped__", function))
    return in_older_order(plain, plain.__name__) if plain.__name__ in OLDER_ORDER else plain


def writing_method(function: Callable, name: str) -> Callable:
    """The method for an in-place form."""
    return in_older_order(function, name) if name.rstrip("_") in OLDER_ORDER else function
