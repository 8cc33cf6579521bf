"""One program, run under both libraries, must give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.utils.data

import cleargrad
import cleargrad.utils.data


def plain(value: Any) -> Any:
    """Tensors as (dtype, nested lists), so that results of the two libraries can be compared."""
    if isinstance(value, (torch.Tensor, cleargrad.Tensor)):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return str(value.dtype), value.tolist()
    return value


def outcome(program: Callable, library: Any, seed: int) -> Any:
    """What a program returns and how it leaves the generator, or the type of what it raises."""
    library.manual_seed(seed)
    try:
        result = plain(program(library))
    except Exception as failure:
        return type(failure)
    return result, library.rand(2).tolist()


def same(program: Callable, seed: int = 7) -> Any:
    """Asserts that a program of the library does the same under both; returns what it did."""
    theirs, ours = (outcome(program, library, seed) for library in (torch, cleargrad))
    assert ours == theirs
    return ours[0] if isinstance(ours, tuple) else ours


def fails(program: Callable) -> type:
    """Asserts that a program raises the same type under both."""
    kind = same(program)
    assert isinstance(kind, type) and issubclass(kind, Exception), kind
    return kind
