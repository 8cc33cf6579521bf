"""What functions of torch.cuda raise on a machine without GPUs: PyTorch's exception types and meaning.

Read next: cuda/memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from cleargrad.errors import error

WITHOUT_CUDA = "Torch not compiled with CUDA enabled"
FIX = "ask torch.cuda.is_available() first"


def refusing(name: str, kind: type[Exception] = AssertionError, rule: str = WITHOUT_CUDA) -> Callable:
    """A function that raises, whatever it is called with."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise error(kind, f"torch.cuda.{name}", rule, fix=FIX)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def all_refusing(names: str, kind: type[Exception] = AssertionError, rule: str = WITHOUT_CUDA) -> dict:
    """Such functions by name, to be put into a module's namespace."""
    return {name: refusing(name, kind, rule) for name in names.split()}


def refusing_class(name: str) -> type:
    """A class that cannot be instantiated, but can be derived from and tested for."""
    rule = f"Tried to instantiate dummy base class {name}"
    make = refusing(name, RuntimeError, rule)
    return type(name, (), {"__new__": lambda cls, *args, **kwargs: make(), "__module__": "torch.cuda"})
