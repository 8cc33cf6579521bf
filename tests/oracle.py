"""Runs one function with cleargrad and with PyTorch and compares what comes back.

A test passes a function of the library `T`; everything it returns (numbers, tensors, None, tuples,
dictionaries, the failures that `failure` catches) must be equal under both.
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import cleargrad as cg
from cleargrad.core.mode import settle


class Failure:
    """An exception that a call raised: compared by its builtin type alone, since our words are our own."""

    def __init__(self, exception: Exception):
        kinds = type(exception).__mro__
        self.kind = next(kind for kind in kinds if getattr(builtins, kind.__name__, None) is kind)

    def __repr__(self) -> str:
        return self.kind.__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Failure) and issubclass(self.kind, other.kind)


def failure(call: Callable[[], Any]) -> Any:
    """The exception a call raises, at the latest when somebody looks; its result when it raises none."""
    try:
        result = call()
        settle()
        return result
    except Exception as exception:
        return Failure(exception)


def same(function: Callable[[Any], Any], rtol: float = 1e-5, atol: float = 1e-7) -> Any:
    """Asserts that a function of the library returns the same under both; returns ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = function(torch)
    actual = function(cg)
    compare(actual, expected, rtol, atol, "result")
    return actual


def compare(actual: Any, expected: Any, rtol: float, atol: float, where: str) -> None:
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, cg.Tensor), f"{where}: {actual!r} instead of {expected!r}"
        assert tuple(actual.shape) == tuple(expected.shape), where
        assert str(actual.dtype) == str(expected.dtype), where
        assert actual.requires_grad == expected.requires_grad, f"{where}: requires_grad"
        ours, theirs = actual.detach().numpy(), expected.detach().numpy()
        np.testing.assert_allclose(ours, theirs, rtol, atol, err_msg=where)
    elif isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected), f"{where}: {actual} instead of {expected}"
        for position, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
            compare(ours, theirs, rtol, atol, f"{where}[{position}]")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), where
        for key in expected:
            compare(actual[key], expected[key], rtol, atol, f"{where}[{key!r}]")
    elif isinstance(expected, np.ndarray):
        assert isinstance(actual, np.ndarray) and actual.dtype == expected.dtype, where
        np.testing.assert_allclose(actual, expected, rtol, atol, err_msg=where)
    elif isinstance(expected, torch.dtype):
        assert str(actual) == str(expected), f"{where}: {actual} instead of {expected}"
    elif isinstance(expected, float):
        np.testing.assert_allclose(actual, expected, rtol, atol, err_msg=where)
    else:
        assert actual == expected, f"{where}: {actual!r} instead of {expected!r}"
