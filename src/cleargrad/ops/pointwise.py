"""Arithmetic, element by element: the operators of Python and what PyTorch builds on them.

Elementary functions are in ops/elementary.py, comparisons and logic in ops/comparison.py. Read next: those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cleargrad.codegen import expr
from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.apply import NUMBERS
from cleargrad.ops.declare import NUMERIC, REAL, composite, elementwise
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, binary, real, unary


def scaled_samples() -> Iterator[Sample]:
    yield from binary()()
    yield Sample(real(3, 4), real(3, 4, seed=1), alpha=2.5)
    yield Fails(TypeError, real(3), None)


add_op = elementwise(
    "add", lambda x, y: x + y, vjp=(lambda g: g, lambda g: g), samples=scaled_samples, public=False
)
sub_op = elementwise(
    "sub",
    lambda x, y: x - y,
    vjp=(lambda g: g, lambda g: -g),
    samples=scaled_samples,
    accepts=NUMERIC,
    public=False,
)
mul = elementwise(
    "mul",
    lambda x, y: x * y,
    vjp=(lambda g, y: g * conj(y), lambda g, x: g * conj(x)),
    samples=binary(),
    aliases=("multiply",),
)
true_divide = elementwise(
    "div",
    lambda x, y: x / y,
    vjp=(lambda g, y: g / conj(y), lambda g, y, out: -g * conj(out / y)),
    samples=binary(other=(0.5, 3.0)),
    result="float",
    public=False,
)
neg = elementwise(
    "neg", lambda x: -x, vjp=lambda g: -g, samples=unary(), accepts=NUMERIC, aliases=("negative",)
)


def conj(x: Any) -> Any:
    """The conjugate of a complex tensor; everything else is its own."""
    return x.conj() if isinstance(x, Tensor) and x._data.dtype.kind == "c" else x


def check_alpha(op: str, alpha: Any, *operands: Any) -> None:
    integral = all(not isinstance(x, Tensor) or x.dtype.category <= dtypes.INTEGER for x in operands)
    if isinstance(alpha, float) and integral:
        rule = "for integral input tensors, argument alpha must not be a floating point number"
        raise error(RuntimeError, op, rule, alpha=alpha)


@composite(scaled_samples, method=True, inplace=True, out=True)
def add(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha · other."""
    if alpha != 1:
        check_alpha("add", alpha, input, other)
        other = other * alpha
    return add_op(input, other)


@composite(scaled_samples, method=True, inplace=True, out=True, aliases=("subtract",))
def sub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """input − alpha · other."""
    if alpha != 1:
        check_alpha("sub", alpha, input, other)
        other = other * alpha
    return sub_op(input, other)


@composite(lambda: iter([Sample(real(3), real(3, seed=1)), Sample(real(3), 2.0, alpha=0.5)]), reference=lambda torch: torch.rsub)
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other − alpha · input."""
    return sub_op(other, input if alpha == 1 else input * alpha)


# Division --------------------------------------------------------------------------------------------------

floor_divide_op = elementwise(
    "floor_divide",
    lambda x, y: expr.floor_divide(x, y),
    vjp=NO_GRAD,
    samples=binary(other=(0.5, 3.0)),
    accepts=REAL,
    public=False,
)


def div_samples() -> Iterator[Sample]:
    yield from binary(other=(0.5, 3.0))()
    for mode in ("floor", "trunc", None):
        yield Sample(real(3, 4), real(4, low=0.5, high=3.0), rounding_mode=mode)
    yield Fails(RuntimeError, real(3), real(3), rounding_mode="up")


@composite(div_samples, method=True, inplace=True, out=True, aliases=("divide", "true_divide"))
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; rounded towards minus infinity ("floor") or zero ("trunc") when asked."""
    if rounding_mode is None:
        return true_divide(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode == "trunc":
        return truncated_divide(input, other)
    rule = f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}"
    raise error(RuntimeError, "div", rule)



@composite(binary(other=(0.5, 3.0)), method=True, inplace=True, out=True)
def floor_divide(input: Any, other: Any) -> Tensor:
    """input / other rounded towards minus infinity, in the operands' own type."""
    check_integer_divisor("floor_divide", input, other)
    return floor_divide_op(input, other)


def truncated_divide(input: Any, other: Any) -> Tensor:
    check_integer_divisor("div", input, other)
    quotient = input / other
    kind = dtypes.promote_types(*(x.dtype if isinstance(x, Tensor) else dtypes.of_number(x) for x in (input, other)))
    if kind.category <= dtypes.INTEGER:
        return input.sub(input.fmod(other)).floor_divide(other)
    return quotient.trunc()


def check_integer_divisor(op: str, input: Any, other: Any) -> None:
    whole = all(
        x.dtype.category <= dtypes.INTEGER if isinstance(x, Tensor) else isinstance(x, int) for x in (input, other)
    )
    zero = not other._data.all() if isinstance(other, Tensor) else other == 0
    if whole and zero:
        raise error(RuntimeError, op, "ZeroDivisionError: integer division by zero")
