"""Samples: calls of an op that must work, and calls that must fail and how. They live in the declaration.

The test matrix (tests/ops/test_matrix.py) is generated from them: values against the reference, specs,
gradients, replay, layouts, dtypes, in-place forms and errors. Arrays are float64 here and cast by the tests.
Read next: ops/pointwise.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


class Sample:
    """Arguments for one call; NumPy arrays stand for tensors."""

    __slots__ = ("args", "kwargs")

    def __init__(self, *args: Any, **kwargs: Any):
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        parts = [_brief(arg) for arg in self.args]
        parts += [f"{name}={_brief(value)}" for name, value in self.kwargs.items()]
        return f"({', '.join(parts)})"


class Conventional(Sample):
    """Arguments at which the gradient is a convention, not the derivative; it is compared with PyTorch's."""

    __slots__ = ()


class Fails(Sample):
    """Arguments that must raise `kind`, here and in PyTorch."""

    __slots__ = ("kind",)

    def __init__(self, kind: type[Exception], *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.kind = kind


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return type(value)(map(_brief, value)).__repr__().replace("'", "")
    return repr(value)


def real(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """Distinct numbers, spread over the interval, that gradient checks can step between."""
    generator = np.random.default_rng(seed + 7919 * len(shape) + sum(shape))
    total = int(np.prod(shape))
    steps = (generator.permutation(total) + 0.5 + 0.3 * generator.uniform(-1, 1, total)) / max(total, 1)
    return (low + (high - low) * steps).reshape(shape)


def whole(*shape: int, low: int = 0, high: int = 5, seed: int = 0) -> np.ndarray:
    """Integers in [low, high)."""
    return np.random.default_rng(seed + sum(shape)).integers(low, high, shape)


def truth(*shape: int, seed: int = 0) -> np.ndarray:
    """Booleans, both kinds present when there is room."""
    return np.random.default_rng(seed + sum(shape)).random(shape) < 0.5


def unary(low: float = -2.0, high: float = 2.0) -> Callable[[], Iterator[Sample]]:
    """One tensor, with values from an interval on which the op is smooth."""

    def samples() -> Iterator[Sample]:
        yield Sample(real(low=low, high=high))
        yield Sample(real(5, low=low, high=high))
        yield Sample(real(2, 3, 4, low=low, high=high))
        yield Sample(real(0, 3))
        yield Fails(TypeError, None)

    return samples


def binary(
    low: float = -2.0, high: float = 2.0, *, other: tuple[float, float] | None = None, numbers: bool = True
) -> Callable[[], Iterator[Sample]]:
    """Two tensors, equal shapes and broadcast ones, and a number on the right."""
    low2, high2 = other or (low, high)

    def samples() -> Iterator[Sample]:
        yield Sample(real(3, 4, low=low, high=high), real(3, 4, low=low2, high=high2, seed=1))
        yield Sample(real(3, 4, low=low, high=high), real(4, low=low2, high=high2, seed=1))
        yield Sample(real(2, 1, 4, low=low, high=high), real(3, 1, low=low2, high=high2, seed=1))
        yield Sample(real(low=low, high=high), real(3, low=low2, high=high2, seed=1))
        yield Sample(real(0, 4), real(4, seed=1, low=low2, high=high2))
        if numbers:
            yield Sample(real(3, 4, low=low, high=high), (low2 + 2 * high2) / 3)
        yield Fails(RuntimeError, real(3, 4), real(3, seed=1))
        yield Fails(TypeError, real(3), "a")

    return samples


def reductions(*, whole_tensor: bool = True, several: bool = True) -> Callable[[], Iterator[Sample]]:
    """A tensor reduced over everything, one dimension, several, and with keepdim."""

    def samples() -> Iterator[Sample]:
        if whole_tensor:
            yield Sample(real(3, 4))
            yield Sample(real())
        yield Sample(real(3, 4, 2), 1)
        yield Sample(real(3, 4, 2), -1, True)
        yield Sample(real(4), dim=0, keepdim=True)
        if several:
            yield Sample(real(3, 4, 2), (0, 2))
            yield Sample(real(2, 3), [0, -1], keepdim=True)
            yield Fails(RuntimeError, real(2, 3), (0, 0))
        yield Fails(IndexError, real(2, 3), 2)

    return samples
