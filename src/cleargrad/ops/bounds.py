"""Bounds: the larger and the smaller of two, limits on both sides, and points in between.

Where two operands are equal or an element lies on a bound, the gradients are PyTorch's. Read next:
ops/comparison.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops.comparison import choose
from cleargrad.ops.declare import REAL, composite, elementwise, face
from cleargrad.ops.pointwise import add_op, both_wide, category_of, conj
from cleargrad.ops.samples import Fails, Sample, binary, real, whole

INEXACT = (dtypes.FLOAT, dtypes.COMPLEX)

# The larger, the smaller, and what lies between ------------------------------------------------------------


def split_ties(g: Tensor, tie: Tensor, lost: Tensor) -> Tensor:
    """The gradient goes to the winner, and half of it to each of two equals."""
    return choose(tie, g / 2, choose(lost, 0, g))


def extreme(name: str, formula: Callable, vjp: tuple) -> Callable:
    return elementwise(
        name, formula, vjp=vjp, samples=binary(numbers=False), accepts=REAL, inplace=False, spaces=("",)
    )


maximum = extreme(
    "maximum",
    lambda x, y: expr.maximum(x, y),
    (lambda g, x, y: split_ties(g, x == y, x < y), lambda g, x, y: split_ties(g, x == y, x > y)),
)
minimum = extreme(
    "minimum",
    lambda x, y: expr.minimum(x, y),
    (lambda g, x, y: split_ties(g, x == y, x > y), lambda g, x, y: split_ties(g, x == y, x < y)),
)
# fmax and fmin pass over NaN, and a tie goes to the first operand.
fmax = extreme(
    "fmax",
    lambda x, y: expr.fmax(x, y),
    (
        lambda g, x, y: choose((x >= y) | (y != y), g, 0),
        lambda g, x, y: choose((x >= y) | (y != y), 0, g),
    ),
)
fmin = extreme(
    "fmin",
    lambda x, y: expr.fmin(x, y),
    (
        lambda g, x, y: choose((x <= y) | (y != y), g, 0),
        lambda g, x, y: choose((x <= y) | (y != y), 0, g),
    ),
)


def clamp_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), -0.5, 1)
    yield Sample(real(3, 4), max=0.7)
    yield Sample(real(3, 4), real(4, low=-1.0, high=0.0), real(3, 1, low=0.1, high=1.0))
    yield Sample(real(3, 4), min=real(4, seed=1))
    yield Sample(whole(5), 1, 3)
    yield Sample(whole(5), 1.5)
    yield Fails(RuntimeError, real(3))


def bound_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 0.5)
    yield Sample(real(3, 4), real(4, seed=1))
    yield Sample(whole(5), 2)
    yield Fails(RuntimeError, real(3), real(2))


def clamping(name: str, formula: Callable, vjp: tuple, samples: Callable, node: str) -> Callable:
    return elementwise(name, formula, vjp=vjp, samples=samples, accepts=REAL, node=node, public=False)


clamp_both = clamping(
    "clamp",
    lambda x, low, high: expr.minimum(expr.maximum(x, low), high),
    (
        lambda g, x, low, high: choose((x >= low) & (x <= high), g, 0),
        lambda g, x, low, high: choose((x < low) & (low < high), g, 0),
        lambda g, x, low, high: choose((x > high) | (high < low), g, 0),
    ),
    lambda: iter([Sample(real(3, 4), -0.5, 0.5), Sample(real(3), real(3, low=-1, high=0), real(low=0.1))]),
    "ClampBackward1",
)
clamp_below = clamping(
    "clamp_min",
    lambda x, low: expr.maximum(x, low),
    (lambda g, x, low: choose(x >= low, g, 0), lambda g, x, low: choose(x < low, g, 0)),
    bound_samples,
    "ClampMinBackward0",
)
clamp_above = clamping(
    "clamp_max",
    lambda x, high: expr.minimum(x, high),
    (lambda g, x, high: choose(x <= high, g, 0), lambda g, x, high: choose(x > high, g, 0)),
    bound_samples,
    "ClampMaxBackward0",
)


@composite(clamp_samples, method=True, inplace=True, out=True, aliases=("clip",))
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """The elements limited to [min, max]; bounds are numbers or tensors."""
    if min is None and max is None:
        raise error(RuntimeError, "clamp", "at least one of 'min' or 'max' must not be None")
    if max is None:
        return clamp_below(input, min)
    if min is None:
        return clamp_above(input, max)
    return clamp_both(input, min, max)


@face(clamp_below, method=True, inplace=True, out=True)
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """The larger of each element and the bound."""
    return clamp_below(input, min)


@face(clamp_above, method=True, inplace=True, out=True)
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """The smaller of each element and the bound."""
    return clamp_above(input, max)


def lerp_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, 4, seed=1), 0.3)
    yield Sample(real(3, 4), real(4, seed=1), 0.8)
    yield Sample(real(3, 4), real(3, 4, seed=1), real(4, low=0.0, high=1.0, seed=2))
    yield Sample(real(3), real(3, seed=1), real(low=0.0, high=1.0))
    yield Fails(RuntimeError, real(3), real(4), 0.5)
    yield Fails(RuntimeError, whole(3), whole(3), 0.5)


def check_ends(start: Any, end: Any, weight: Any) -> None:
    if start.dtype != end.dtype:
        raise error(RuntimeError, "lerp", "`end` must have the dtype of `input`", input=start, end=end)
    if category_of(start) < dtypes.FLOAT:
        raise error(
            RuntimeError, "lerp", "only floating-point and complex tensors have points between", input=start
        )


def interpolation(name: str, formula: Callable) -> Callable:
    return elementwise(
        name,
        formula,
        vjp=(
            lambda g, weight: g * conj(1 - weight),
            lambda g, weight: g * conj(weight),
            lambda g, start, end: g * conj(end - start),
        ),
        samples=lerp_samples,
        accepts=INEXACT,
        check=check_ends,
        node="LerpBackward0",
        public=False,
    )


# Measured from the nearer end, so that a weight of 1 gives exactly `end`.
from_start = interpolation("lerp_from_start", lambda start, end, weight: start + weight * (end - start))
from_end = interpolation("lerp_from_end", lambda start, end, weight: end - (end - start) * (1 - weight))
from_nearer = interpolation(
    "lerp",
    lambda start, end, weight: expr.where(
        expr.abs(weight) < 0.5, start + weight * (end - start), end - (end - start) * (1 - weight)
    ),
)


def lerp_(self: Tensor, end: Tensor, weight: Any) -> Tensor:
    """Without gradients, as in an optimizer, the way to `end` is added straight to the target.

    Calls that wait are one write, which gives the same bits.
    """
    if isinstance(weight, Tensor):
        return from_nearer.inplace(self, end, weight)  # type: ignore[attr-defined]
    if abs(weight) >= 0.5:
        return from_end.inplace(self, end, weight)  # type: ignore[attr-defined]
    if mode.grad or mode.simply is not None or not both_wide(self, end):
        return from_start.inplace(self, end, weight)  # type: ignore[attr-defined]
    return add_op.inplace(self, (end - self) * weight)  # type: ignore[attr-defined]


@face(from_nearer, method=True, inplace=lerp_, out=True)
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight · (end − input)."""
    if isinstance(weight, Tensor):
        return from_nearer(input, end, weight)
    return from_start(input, end, weight) if abs(weight) < 0.5 else from_end(input, end, weight)
