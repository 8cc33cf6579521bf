"""Activation functions: smooth, piecewise linear, gated.

Rectifiers are in ops/rectifier.py; softmax, which looks at a whole dimension, is in ops/softmax.py. Read
next: ops/softmax.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from cleargrad.core.dtype import BOOL
from cleargrad.core.shape import wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops import elementary
from cleargrad.ops.comparison import choose
from cleargrad.ops.declare import composite, elementwise, face
from cleargrad.ops.rectifier import (
    BOTH,
    FUNCTIONAL,
    NUMBERS,
    activate,
    in_kind_of,
    with_parameters,
    working,
    writer,
)
from cleargrad.ops.samples import Fails, Sample, binary, real, unary, whole
from cleargrad.ops.views import check_tensor

# Smooth units ----------------------------------------------------------------------------------------------


def derivative(name: str, slope: Callable, curvature: Callable) -> Callable:
    """The op `grad · f′(x)`: one call in the backward pass. f′ is a scalar formula, f″ Tensor operations."""
    door = elementwise(
        name,
        lambda grad, x: grad * slope(x),
        vjp=(lambda g, x: door(g, x), lambda g, grad, x: g * grad * curvature(x)),
        samples=binary(numbers=False),
        public=False,
    )
    return door


DENSITY = 1 / math.sqrt(2 * math.pi)
GELU_INNER, GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


def gelu_slope(x: expr.Expr) -> expr.Expr:
    """Φ(x) + x·φ(x): the normal distribution and its density."""
    return expr.normal_below(x) + DENSITY * x * expr.exp(-0.5 * x * x)


def gelu_tanh(x: expr.Expr) -> expr.Expr:
    return expr.tanh(GELU_INNER * x * (1 + GELU_CUBIC * x * x))


def gelu_tanh_slope(x: expr.Expr) -> expr.Expr:
    tanh = gelu_tanh(x)
    inner_slope = GELU_INNER * (1 + 3 * GELU_CUBIC * x * x)
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * inner_slope


def gelu_tanh_curvature(x: Tensor) -> Tensor:
    tanh = elementary.tanh(GELU_INNER * x * (1 + GELU_CUBIC * x * x))
    inner_slope = GELU_INNER * (1 + 3 * GELU_CUBIC * x * x)
    inner_curvature = 6 * GELU_INNER * GELU_CUBIC * x
    return (1 - tanh * tanh) * (
        inner_slope + 0.5 * x * (inner_curvature - 2 * tanh * inner_slope * inner_slope)
    )


def silu_curvature(x: Tensor) -> Tensor:
    sigma = elementary.sigmoid(x)
    return sigma * (1 - sigma) * (2 + x * (1 - 2 * sigma))


gelu_backward = derivative(
    "gelu_backward", gelu_slope, lambda x: DENSITY * (2 - x * x) * elementary.exp(-0.5 * x * x)
)
gelu_tanh_backward = derivative("gelu_tanh_backward", gelu_tanh_slope, gelu_tanh_curvature)


def silu_slope(x: expr.Expr) -> expr.Expr:
    sigma = expr.sigmoid(x)
    return sigma * (1 + x * (1 - sigma))


silu_backward = derivative("silu_backward", silu_slope, silu_curvature)


def gelu_samples() -> Iterator[Sample]:
    yield from unary(-4, 4)()
    yield Sample(real(3, 4), approximate="tanh")
    yield Fails(RuntimeError, real(3), approximate="sine")


gelu_op = elementwise(
    "gelu",
    lambda x: x * expr.normal_below(x),
    vjp=lambda g, x: gelu_backward(g, x),
    samples=gelu_samples,
    public=False,
)
gelu_tanh_op = elementwise(
    "gelu_tanh",
    lambda x: 0.5 * x * (1 + gelu_tanh(x)),
    vjp=lambda g, x: gelu_tanh_backward(g, x),
    samples=unary(-4, 4),
    node="GeluBackward0",
    public=False,
)
silu_op = elementwise(
    "silu",
    lambda x: x * expr.sigmoid(x),
    vjp=lambda g, x: silu_backward(g, x),
    samples=unary(-4, 4),
    public=False,
)


@face(gelu_op, spaces=FUNCTIONAL)
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x·Φ(x), where Φ is the normal distribution, or an approximation of it by tanh."""
    if approximate not in ("none", "tanh"):
        rule = f"approximate argument must be either none or tanh, got {approximate!r}"
        raise error(RuntimeError, "gelu", rule)
    return activate(gelu_op if approximate == "none" else gelu_tanh_op, False, input)


@face(silu_op, spaces=FUNCTIONAL)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x·σ(x), also called swish."""
    return activate(silu_op, inplace, input)


def softplus_of(x: expr.Expr) -> expr.Expr:
    return expr.maximum(x, 0) + expr.log1p(expr.exp(-expr.abs(x)))


def mish_vjp(g: Tensor, x: Tensor) -> Tensor:
    outer = elementary.tanh(softplus_op(x, 1.0, 20.0))
    return g * (outer + x * elementary.sigmoid(x) * (1 - outer * outer))


mish_op = elementwise(
    "mish", lambda x: x * expr.tanh(softplus_of(x)), vjp=mish_vjp, samples=unary(-4, 4), public=False
)
softplus_op = elementwise(
    "softplus",
    lambda x, beta, threshold: expr.where(x * beta > threshold, x, softplus_of(x * beta) / beta),
    vjp=(
        lambda g, x, beta, threshold: choose(x * beta > threshold, g, g * elementary.sigmoid(x * beta)),
        None,
        None,
    ),
    samples=with_parameters((2.0,), (0.5, 1.0)),
    public=False,
)
logsigmoid_op = elementwise(
    "log_sigmoid",
    lambda x: -softplus_of(-x),
    vjp=lambda g, x: g * elementary.sigmoid(-x),
    samples=unary(-4, 4),
    public=False,
)


@face(mish_op, spaces=FUNCTIONAL)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x·tanh(softplus(x))."""
    return activate(mish_op, inplace, input)


@face(softplus_op, spaces=FUNCTIONAL)
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta · x)) / beta; x itself where beta · x exceeds the threshold."""
    return activate(softplus_op, False, input, beta, threshold)


@face(logsigmoid_op, spaces=FUNCTIONAL)
def logsigmoid(input: Tensor) -> Tensor:
    """log σ(x), exact far out on either side."""
    return activate(logsigmoid_op, False, input)


@composite(working(unary()), spaces=FUNCTIONAL)
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(−x))."""
    return input.sigmoid()


@composite(working(unary()), spaces=FUNCTIONAL)
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


@composite(lambda: iter([Sample(real(3, 4)), Sample(real())]), spaces=FUNCTIONAL)
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


@composite(lambda: iter([Sample(real(3, 4)), Sample(real())]), spaces=FUNCTIONAL)
def tanhshrink(input: Tensor) -> Tensor:
    """x − tanh(x)."""
    return input - input.tanh()


# Piecewise units -------------------------------------------------------------------------------------------


def hardtanh_samples() -> Iterator[Sample]:
    yield from with_parameters((-0.7, 1.3))()
    yield Sample(whole(5, low=-4, high=4), -2, 2)
    yield Fails(ValueError, real(3), 2.0, 1.0)


def shrink_samples() -> Iterator[Sample]:
    yield from with_parameters((0.7,), (0.0,))()


def softshrink_samples() -> Iterator[Sample]:
    yield from shrink_samples()
    yield Fails(RuntimeError, real(3), -1.0)


hardtanh_op = elementwise(
    "hardtanh",
    lambda x, low, high: expr.minimum(expr.maximum(x, low), high),
    vjp=(lambda g, x, low, high: choose((x > low) & (x < high), g, 0), None, None),
    samples=hardtanh_samples,
    accepts=NUMBERS,
    public=False,
)
hardsigmoid_op = elementwise(
    "hardsigmoid",
    lambda x: expr.minimum(expr.maximum(x + 3, 0), 6) / 6,
    vjp=lambda g, x: choose((x > -3) & (x < 3), g / 6, 0),
    samples=unary(-5, 5),
    public=False,
)
hardswish_op = elementwise(
    "hardswish",
    lambda x: x * expr.minimum(expr.maximum(x + 3, 0), 6) / 6,
    vjp=lambda g, x: g * choose(x >= 3, 1, choose(x > -3, x / 3 + 0.5, 0)),
    samples=unary(-5, 5),
    public=False,
)
hardshrink_op = elementwise(
    "hardshrink",
    lambda x, limit: expr.where(expr.abs(x) <= limit, 0, x),
    vjp=(lambda g, x, limit: choose((x > limit) | (x < -limit), g, 0), None),
    samples=shrink_samples,
    public=False,
)
softshrink_op = elementwise(
    "softshrink",
    lambda x, limit: x - expr.minimum(expr.maximum(x, -limit), limit),
    vjp=(lambda g, x, limit: choose((x > limit) | (x < -limit), g, 0), None),
    samples=softshrink_samples,
    public=False,
)


@face(hardtanh_op, spaces=FUNCTIONAL)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x, cut off at min_val and max_val."""
    if min_val > max_val:
        raise error(
            ValueError, "hardtanh", f"min_val cannot be greater than max_val, got {min_val} > {max_val}"
        )
    low, high = in_kind_of(input, min_val), in_kind_of(input, max_val)
    check_limit_sign("hardtanh", input, low)
    return hardtanh_op.inplace(input, low, high) if inplace else hardtanh_op(input, low, high)


def check_limit_sign(op: str, input: Tensor, low: float) -> None:
    check_tensor(op, input)
    if input.dtype.category == BOOL:
        raise error(RuntimeError, op, "bool inputs are not supported", input=input)
    if low < 0 and not input.dtype.is_signed:
        raise error(RuntimeError, op, "an unsigned type cannot have negative limits", input=input)


hardtanh_ = writer(hardtanh, hardtanh_op)


@composite(unary(-4, 8), spaces=FUNCTIONAL)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x, cut off at zero and six."""
    return hardtanh(input, 0.0, 6.0, inplace)


@face(hardsigmoid_op, spaces=FUNCTIONAL)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """A straight line from 0 at −3 to 1 at 3."""
    return activate(hardsigmoid_op, inplace, input)


@face(hardswish_op, spaces=FUNCTIONAL)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x·hardsigmoid(x)."""
    return activate(hardswish_op, inplace, input)


@face(hardshrink_op, spaces=BOTH, method=True)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Zero within lambd of zero, else x."""
    return activate(hardshrink_op, False, input, lambd)


@face(softshrink_op, spaces=FUNCTIONAL)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Zero within lambd of zero, else x moved towards zero by lambd."""
    if lambd < 0:
        raise error(RuntimeError, "softshrink", f"lambda must not be negative, got {lambd}")
    return activate(softshrink_op, False, input, lambd)


# Gated units -----------------------------------------------------------------------------------------------


def glu_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(2, 4, 3), 1)
    yield Sample(real(2, 3), dim=0)
    yield Fails(RuntimeError, real(3, 3))
    yield Fails(RuntimeError, real())
    yield Fails(IndexError, real(2, 2), 2)


def gate_slope(g: Tensor, value: Tensor, gate: Tensor) -> Tensor:
    sigma = elementary.sigmoid(gate)
    return g * value * sigma * (1 - sigma)


gated = elementwise(
    "glu",
    lambda value, gate: value * expr.sigmoid(gate),
    vjp=(lambda g, gate: g * elementary.sigmoid(gate), gate_slope),
    samples=glu_samples,
    public=False,
)


@face(gated, spaces=FUNCTIONAL)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along a dimension, times σ of the second."""
    check_tensor("glu", input)
    if not input._form.ndim:
        raise error(RuntimeError, "glu", "glu does not support scalars because halving size must be even")
    axis = wrap_dim("glu", dim, input._form.ndim)
    size = input._form.shape[axis]
    if size % 2:
        raise error(
            RuntimeError,
            "glu",
            f"halving dimension must be even, but dimension {axis} has {size}",
            input=input,
        )
    value, gate = input.narrow(axis, 0, size // 2), input.narrow(axis, size // 2, size // 2)
    return activate(gated, False, value, gate)
