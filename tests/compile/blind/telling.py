"""What the programs are told apart by: every bit of what they give, what they print, and when it is looked at."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import cleargrad as torch

beside = importlib.import_module("cleargrad.compile.beside")


class Looking:
    """Whether values are looked at as soon as a step has been made."""

    on = False
    printed: list[str] = []


def look(*tensors: Any) -> None:
    """A step has been made: programs that are under way are waited for, so that the next step may use them."""
    if Looking.on:
        Looking.printed += [f"{tensor}" for tensor in tensors]
    beside.wait()


def T(tensor: Any) -> Any:
    """A tensor as it is now, though nobody looks at it yet."""
    return None if tensor is None else tensor.detach().clone()


def err(function: Callable[[], Any]) -> Any:
    """What a call gives, or the name of the exception that it raises."""
    try:
        return function()
    except Exception as exception:
        return type(exception).__name__


def told(value: Any) -> Any:
    """Everything about a result, as lists and text. Which NaN it is does not matter."""
    if isinstance(value, float):
        return "nan" if value != value else value.hex()
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if isinstance(value, dict):
        return [[str(key), told(each)] for key, each in value.items()]
    if isinstance(value, torch.Tensor):
        plain = value.detach().float() if value.dtype is torch.bfloat16 else value.detach()
        return [f"{value.dtype} {value.requires_grad}", told(plain.numpy())]
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.array(value)
        if array.dtype.kind in "fc":
            array[array != array] = np.nan
        return [f"{array.dtype} {array.shape}", array.tobytes().hex()]
    return (
        f"{type(value).__name__} {value}"
        if value is None or isinstance(value, (str, int))
        else type(value).__name__
    )
