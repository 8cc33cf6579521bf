"""Arithmetic, element by element: the operators of Python and what PyTorch builds on them.

What limits and joins numbers (maximum, clamp, lerp) is in ops/bounds.py. Read next: ops/bounds.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops.comparison import choose, isfinite
from cleargrad.ops.creation import zeros_like
from cleargrad.ops.declare import NUMERIC, REAL, composite, elementwise, face
from cleargrad.ops.doors import F32, F64
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, binary, real, unary, whole
from cleargrad.ops.views import check_tensor

WHOLE_OR_FLOAT = (dtypes.INTEGER, dtypes.FLOAT)


def conj(x: Any) -> Any:
    """The conjugate of a complex tensor or number; everything else is its own."""
    if isinstance(x, Tensor):
        return x.conj() if x._form.dtype.kind == "c" else x
    return x.conjugate() if type(x) is complex else x


def category_of(operand: Any) -> int:
    """BOOL, INTEGER, FLOAT or COMPLEX, of a tensor, an array or a number."""
    if isinstance(operand, Tensor):
        operand = operand._form
    kind = dtypes.OF_NUMPY[operand.dtype] if isinstance(operand, np.ndarray) else dtypes.of_number(operand)
    return kind.category


def is_float(operand: Any) -> bool:
    """Whether it is a tensor of a plain float dtype: the short answer to most questions of category."""
    return isinstance(operand, Tensor) and operand._form.dtype.kind == "f"


def both_wide(x: Any, y: Any) -> bool:
    """Whether two tensors are of one dtype that rounds little: several roundings are then as good as one."""
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return False
    kind = x._form.dtype
    return (kind is F32 or kind is F64) and y._form.dtype is kind


def is_one(value: Any) -> bool:
    """Whether a scale changes nothing; of a tensor that is not known before it is looked at."""
    return not isinstance(value, Tensor) and value == 1


# Sums and products -----------------------------------------------------------------------------------------


def scaled_samples() -> Iterator[Sample]:
    yield from binary()()
    yield Sample(real(3, 4), real(3, 4, seed=1), alpha=2.5)
    yield Sample(whole(3, 4), whole(4, seed=1), alpha=2)
    yield Sample(whole(3, 4), 0.5)
    yield Fails(TypeError, real(3), None)
    yield Fails(RuntimeError, whole(3), whole(3), alpha=1.5)


def add_scaled_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, 4, seed=1), 0.3)
    yield Sample(real(3, 4), real(4, seed=1), -1.5)


def refuse_booleans(x: Any, y: Any) -> None:
    if dtypes.BOOL in (category_of(x), category_of(y)):
        rule = "subtraction, the `-` operator, with a bool tensor is not supported"
        raise error(
            RuntimeError, "sub", rule, fix="invert a mask with ~ or logical_not(), or use logical_xor()"
        )


add_op = elementwise(
    "add", lambda x, y: x + y, vjp=(lambda g: g, lambda g: g), samples=binary(), public=False
)
sub_op = elementwise(
    "sub",
    lambda x, y: x - y,
    vjp=(lambda g: g, lambda g: -g),
    samples=binary(),
    check=refuse_booleans,
    public=False,
)
mul = elementwise(
    "mul",
    lambda x, y: x * y,
    vjp=(lambda g, y: g * conj(y), lambda g, x: g * conj(x)),
    samples=binary(),
    aliases=("multiply",),
)
# What a sum in place with a scale is while calls wait, and no gradients are recorded: one write.
add_scaled = elementwise(
    "add_scaled",
    lambda x, y, alpha: x + y * alpha,
    vjp=(lambda g: g, lambda g, alpha: g * conj(alpha), lambda g, y: g * conj(y)),
    samples=add_scaled_samples,
    accepts=(dtypes.FLOAT, dtypes.COMPLEX),
    node="AddBackward0",
    public=False,
)
neg = elementwise(
    "neg", lambda x: -x, vjp=lambda g: -g, samples=unary(), accepts=NUMERIC, aliases=("negative",)
)


def check_alpha(op: str, alpha: Any, *operands: Any) -> None:
    """A scale may not lift its operands into a higher category: no 0.5 for integers."""
    highest = max(dtypes.INTEGER, *(category_of(operand) for operand in operands))
    if category_of(alpha) > highest:
        rule = "for integral input tensors, argument alpha must not be a floating point number"
        if highest == dtypes.FLOAT:
            rule = "for non-complex input tensors, argument alpha must not be a complex number"
        raise error(RuntimeError, op, rule, alpha=alpha)


def scaled(op: str, input: Any, other: Any, alpha: Any) -> Any:
    """alpha · other, for the sums that PyTorch scales."""
    if is_one(alpha):
        return other
    if type(alpha) is not float or not is_float(other):
        check_alpha(op, alpha, input, other)
    return other * alpha


def add_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    if type(alpha) is float and mode.simply is not None and not mode.grad and both_wide(self, other):
        return add_scaled.inplace(self, other, alpha)  # type: ignore[attr-defined]
    return add_op.inplace(self, scaled("add_", self, other, alpha))  # type: ignore[attr-defined]


def sub_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    return sub_op.inplace(self, scaled("sub_", self, other, alpha))  # type: ignore[attr-defined]


@composite(scaled_samples, method=True, inplace=add_, out=True)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha · other."""
    return add_op(input, scaled("add", input, other, alpha))


@composite(scaled_samples, method=True, inplace=sub_, out=True, aliases=("subtract",))
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input − alpha · other."""
    return sub_op(input, scaled("sub", input, other, alpha))


@composite(lambda: iter([Sample(real(3), real(3, seed=1)), Sample(real(3), 2.0, alpha=0.5)]))
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other − alpha · input."""
    return sub_op(other, scaled("rsub", other, input, alpha))


@composite(lambda: iter([Sample(real(3, 4)), Sample(whole(3)), Fails(TypeError, None)]), method=True)
def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
    check_tensor("positive", input)
    if input.dtype.category == dtypes.BOOL:
        raise error(
            RuntimeError, "positive", "the `+` operator, on a bool tensor is not supported", input=input
        )
    return input


def fused_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, 4, seed=1), real(3, 4, low=0.5, high=2.0, seed=2))
    yield Sample(real(3, 4), real(4, seed=1), real(3, 1, low=0.5, high=2.0, seed=2), value=0.3)
    yield Sample(real(3), real(3, seed=1), real(low=0.5, high=2.0), value=-2)
    yield Fails(RuntimeError, real(3), real(2), real(4, low=0.5, high=2.0))


def scaled_product(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any) -> Tensor:
    """value · tensor1 · tensor2; beside integers, value is cut to one."""
    if not is_float(tensor1) and max(map(category_of, (input, tensor1, tensor2))) <= dtypes.INTEGER:
        value = int(value)
    return (tensor1 if is_one(value) else tensor1 * value) * tensor2


def scaled_quotient(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any) -> Tensor:
    """value · tensor1 / tensor2."""
    if not is_float(tensor1) and max(category_of(tensor1), category_of(tensor2)) <= dtypes.INTEGER:
        rule = "integer division with addcdiv is not supported"
        fix = "convert an operand to a floating type, or use addcmul with the rounded quotient"
        raise error(RuntimeError, "addcdiv", rule, tensor1=tensor1, tensor2=tensor2, fix=fix)
    return (tensor1 if is_one(value) else tensor1 * value) / tensor2


def addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    return add_op.inplace(self, scaled_product(self, tensor1, tensor2, value))  # type: ignore[attr-defined]


def addcdiv_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    return add_op.inplace(self, scaled_quotient(self, tensor1, tensor2, value))  # type: ignore[attr-defined]


@composite(fused_samples, method=True, inplace=addcmul_, out=True)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value · tensor1 · tensor2; beside integers, value is cut to one."""
    return add_op(input, scaled_product(input, tensor1, tensor2, value))


@composite(fused_samples, method=True, inplace=addcdiv_, out=True)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value · tensor1 / tensor2."""
    return add_op(input, scaled_quotient(input, tensor1, tensor2, value))


# Division --------------------------------------------------------------------------------------------------


def divisor_samples() -> Iterator[Sample]:
    yield from binary(other=(0.5, 3.0))()
    yield Sample(whole(3, 4, low=-9, high=9), 3)
    yield Sample(whole(3, 4, low=-9, high=9), whole(4, low=-3, high=0))
    yield Sample(np.array([5.0, -5.0, 5.0, -5.0]), np.array([3.2, 3.2, -3.2, -3.2]))
    yield Fails(RuntimeError, whole(3), 0)


def rounded_divide(name: str, formula: Callable, node: str) -> Callable:
    """A quotient that is rounded: piecewise constant, so its gradient is zero."""
    return elementwise(
        name,
        formula,
        vjp=(lambda g: zeros_like(g), lambda g: zeros_like(g)),
        samples=divisor_samples,
        accepts=WHOLE_OR_FLOAT,
        node=node,
        public=False,
    )


def rest(name: str, formula: Callable, quotient: Callable) -> Callable:
    """What a rounded quotient leaves over: x − y · quotient(x, y)."""
    return elementwise(
        name,
        formula,
        vjp=(lambda g: g, lambda g, x, y: -g * quotient(x, y)),
        samples=divisor_samples,
        accepts=WHOLE_OR_FLOAT,
    )


true_divide = elementwise(
    "div",
    lambda x, y: x / y,
    vjp=(lambda g, y: g / conj(y), lambda g, x, y: -g * conj(x / y / y)),
    samples=binary(other=(0.5, 3.0)),
    result="float",
    public=False,
)
divide_floor = rounded_divide("floor_divide", lambda x, y: expr.floor_divide(x, y), "DivBackward2")
divide_trunc = rounded_divide("trunc_divide", lambda x, y: expr.trunc_divide(x, y), "DivBackward2")
remainder = rest("remainder", lambda x, y: expr.remainder(x, y), divide_floor)
fmod = rest("fmod", lambda x, y: expr.fmod(x, y), divide_trunc)


def div_samples() -> Iterator[Sample]:
    yield from binary(other=(0.5, 3.0))()
    for way in ("floor", "trunc", None):
        yield Sample(real(3, 4), real(4, low=0.5, high=3.0), rounding_mode=way)
        yield Sample(whole(3, 4, low=-9, high=9), 4, rounding_mode=way)
    yield Fails(RuntimeError, real(3), real(3), rounding_mode="up")
    yield Fails(RuntimeError, whole(3), 0, rounding_mode="trunc")


def div_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    return dividing_door(rounding_mode).inplace(self, other)  # type: ignore[attr-defined]


@composite(div_samples, method=True, inplace=div_, out=True, aliases=("divide",))
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; rounded towards minus infinity ("floor") or zero ("trunc") when asked."""
    return dividing_door(rounding_mode)(input, other)


def dividing_door(rounding_mode: str | None) -> Callable:
    doors = {None: true_divide, "floor": divide_floor, "trunc": divide_trunc}
    if rounding_mode not in doors:
        rule = "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        raise error(RuntimeError, "div", f"{rule}{rounding_mode!r}")
    return doors[rounding_mode]


@face(true_divide, method=True, inplace=True, out=True)
def true_divide_(input: Any, other: Any) -> Tensor:
    """input / other."""
    return true_divide(input, other)


@face(divide_floor, method=True, inplace=True, out=True)
def floor_divide(input: Any, other: Any) -> Tensor:
    """input / other rounded towards minus infinity, in the operands' own type."""
    return divide_floor(input, other)


def whole_samples() -> Iterator[Sample]:
    yield Sample(whole(3, 4, low=-20, high=20), whole(4, low=-20, high=20, seed=1))
    yield Sample(np.array([0, 0, 12]), np.array([0, 5, 18]))
    yield Fails(RuntimeError, real(3), real(3))


def whole_op(name: str, formula: Callable) -> Callable:
    return elementwise(name, formula, vjp=NO_GRAD, samples=whole_samples, accepts=(dtypes.INTEGER,))


gcd = whole_op("gcd", lambda x, y: expr.gcd(x, y))
lcm = whole_op("lcm", lambda x, y: expr.lcm(x, y))

# Two numbers at a time -------------------------------------------------------------------------------------


def over_square(numerator: Any, x: Any, y: Any) -> Tensor:
    """numerator / (x² + y²), and 0 at the origin."""
    square = x * x + y * y
    return choose(square == 0, 0, numerator / square)


atan2 = elementwise(
    "atan2",
    lambda x, y: expr.atan2(x, y),
    vjp=(lambda g, x, y: g * over_square(y, x, y), lambda g, x, y: g * over_square(-x, x, y)),
    samples=binary(other=(0.5, 3.0), numbers=False),
    result="float",
    accepts=REAL,
    aliases=("arctan2",),
)
hypot = elementwise(
    "hypot",
    lambda x, y: expr.hypot(x, y),
    vjp=(lambda g, x, out: g * (x / out), lambda g, y, out: g * (y / out)),
    samples=binary(other=(0.5, 3.0), numbers=False),
    accepts=(dtypes.FLOAT,),
)
copysign = elementwise(
    "copysign",
    lambda x, y: expr.copysign(x, y),
    vjp=(lambda g, x, out: g * choose(x == 0, 0, out / x), lambda g: zeros_like(g)),
    samples=binary(0.5, 3.0, other=(-2.0, -0.5)),
    result="float",
    accepts=REAL,
)
nextafter = elementwise(
    "nextafter",
    lambda x, y: expr.nextafter(x, y),
    vjp=(lambda g, x, y: choose(x == y, 0, g), lambda g: zeros_like(g)),
    samples=binary(numbers=False),
    accepts=(dtypes.FLOAT,),
)


def refuse_other_values(x: Any, y: Any) -> None:
    if x.dtype != y.dtype:
        raise error(RuntimeError, "heaviside", "`values` must have the dtype of `input`", input=x, values=y)


step = elementwise(
    "heaviside",
    lambda x, y: expr.where(expr.eq(x, 0), y, x > 0),
    vjp=NO_GRAD,
    samples=lambda: iter(
        [
            Sample(np.array([-1.5, 0.0, 2.0]), np.array([0.5])),
            Sample(whole(3, 4, low=-1, high=2), whole(4)),
            Fails(RuntimeError, real(3), whole(3)),
        ]
    ),
    accepts=REAL,
    check=refuse_other_values,
    public=False,
)


@face(step, method=True, inplace=True, out=True)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 for negative elements, 1 for positive ones, `values` at zero."""
    check_tensor("heaviside", values, "values")
    return step(input, values)


ldexp = elementwise(
    "ldexp",
    lambda x, y: x * expr.exp2(y),
    vjp=(lambda g, y: g * conj(2.0**y), lambda g, out: g * conj(out * math.log(2))),
    samples=lambda: iter(
        [
            Sample(real(3, 4), whole(4)),
            Sample(real(3), real(3)),
            Sample(whole(3), whole(3)),
            Fails(RuntimeError, real(3), whole(4)),
        ]
    ),
    result="float",
)


def nan_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3), nan=0.5, posinf=3.0, neginf=-4)
    yield Sample(whole(4), 2.5)
    yield Fails(TypeError, None)


replace_odd = elementwise(
    "nan_to_num",
    lambda x, nan, high, low: expr.where(
        expr.isnan(x), nan, expr.where(expr.eq(x, math.inf), high, expr.where(expr.eq(x, -math.inf), low, x))
    ),
    vjp=(lambda g, x: choose(isfinite(x), g, 0), None, None, None),
    samples=lambda: iter([Sample(real(3), 0.0, 1e3, -1e3)]),
    accepts=REAL,
    public=False,
)


@composite(nan_samples, method=True, inplace=True, out=True)
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Finite numbers in the place of NaN and the infinities; by default 0 and the largest ones."""
    check_tensor("nan_to_num", input)
    if input.dtype.category < dtypes.FLOAT:
        return input.clone()
    if input.dtype.is_complex:
        return nan_to_num(input.view_as_real(), nan, posinf, neginf).view_as_complex()
    limits = dtypes.finfo(input.dtype)
    return replace_odd(
        input,
        0.0 if nan is None else nan,
        limits.max if posinf is None else posinf,
        limits.min if neginf is None else neginf,
    )
