"""Rectifiers and exponential units, and what all activation functions share.

An activation is a scalar formula, PyTorch's signature around it, and the forms that write in place. Read
next: ops/activation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.dtype import FLOAT, INTEGER
from cleargrad.core.generator import default_generator
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops.bounds import clamp_above
from cleargrad.ops.comparison import choose
from cleargrad.ops.declare import composite, elementwise, face, opaque
from cleargrad.ops.elementary import exp
from cleargrad.ops.op import FACES, NO_GRAD, Face
from cleargrad.ops.samples import Fails, Sample, binary, real, unary, whole
from cleargrad.ops.views import check_tensor

FUNCTIONAL = ("nn.functional",)
BOTH = ("nn.functional", "")
NUMBERS = (INTEGER, FLOAT)


def activate(door: Callable, inplace: bool, input: Tensor, *parameters: Any) -> Tensor:
    """One activation of a float tensor, into new memory or into its own."""
    if isinstance(input, Tensor) and input._form.dtype.kind not in "fVc":
        raise error(NotImplementedError, door.op.name, f"not implemented for {input.dtype}", input=input)
    return door.inplace(input, *parameters) if inplace else door(input, *parameters)


def writer(function: Callable, door: Callable, spaces: tuple[str, ...] = FUNCTIONAL) -> Callable:
    """Publishes `name_`: the function with `inplace=True`."""

    def write(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, **kwargs, inplace=True)

    name = function.__name__ + "_"
    write.__name__ = write.__qualname__ = name
    FACES.append(Face(name, write, spaces, False, None, None, working(door.op.samples), NO_GRAD))
    return write


def working(samples: Callable) -> Callable:
    """The samples that must not fail."""
    return lambda: (sample for sample in samples() if not isinstance(sample, Fails))


def with_parameters(*settings: tuple) -> Callable:
    """The samples of a function of one tensor, and calls with these positional parameters."""

    def samples() -> Iterator[Sample]:
        yield from unary()()
        for parameters in settings:
            yield Sample(real(3, 4, low=-5, high=5), *parameters)

    return samples


# Rectifiers ------------------------------------------------------------------------------------------------

threshold_backward = elementwise(
    "threshold_backward",
    lambda grad, out: expr.rectified(grad, out),
    vjp=(lambda g, out: threshold_backward(g, out), None),
    samples=binary(numbers=False),
    public=False,
)
relu_op = elementwise(
    "relu",
    lambda x: expr.maximum(x, 0),
    vjp=lambda g, out: threshold_backward(g, out),
    samples=unary(),
    accepts=NUMBERS,
)


@face(relu_op, spaces=FUNCTIONAL)
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The larger of x and zero."""
    return relu_op.inplace(input) if inplace else relu_op(input)


relu_ = writer(relu, relu_op, BOTH)

leaky_relu_op = elementwise(
    "leaky_relu",
    lambda x, slope: expr.maximum(x, 0) + slope * expr.minimum(x, 0),
    vjp=(lambda g, x, slope: choose(x > 0, g, g * slope), None),
    samples=with_parameters((0.2,), (-0.5,)),
    public=False,
)


@face(leaky_relu_op, spaces=FUNCTIONAL)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else negative_slope · x."""
    return activate(leaky_relu_op, inplace, input, negative_slope)


leaky_relu_ = writer(leaky_relu, leaky_relu_op)

threshold_op = elementwise(
    "threshold",
    lambda x, limit, value: expr.where(x <= limit, value, x),
    vjp=(lambda g, x, limit: choose(x > limit, g, 0), None, None),
    samples=lambda: iter(
        [Sample(real(3, 4), 0.1, 20.0), Sample(whole(5), 2, -1), Fails(TypeError, real(2), "a", 1)]
    ),
    accepts=NUMBERS,
    public=False,
)


def in_kind_of(input: Tensor, number: float) -> float:
    """A parameter as a number that leaves an integer tensor an integer tensor."""
    return int(number) if isinstance(input, Tensor) and input.dtype.category == INTEGER else number


@face(threshold_op, spaces=BOTH)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it exceeds `threshold`, else `value`."""
    door = threshold_op.inplace if inplace else threshold_op
    return door(input, in_kind_of(input, threshold), in_kind_of(input, value))


threshold_ = writer(threshold, threshold_op, BOTH)


def prelu_samples() -> Iterator[Sample]:
    for shape in ((4,), (3, 2), (2, 2, 3), (2, 2, 2, 2)):
        yield Sample(real(*shape), real(1, seed=1))
    yield Sample(real(3, 2), real(2, seed=1))
    yield Sample(real(2, 2, 3), real(2, seed=1))
    yield Sample(real(), real(seed=1))
    yield Fails(RuntimeError, real(3, 2), real(3))
    yield Fails(RuntimeError, real(3, 2), real(2, 2))


prelu_op = elementwise(
    "prelu",
    lambda x, weight: expr.maximum(x, 0) + weight * expr.minimum(x, 0),
    vjp=(lambda g, x, weight: choose(x > 0, g, g * weight), lambda g, x: choose(x > 0, 0, g * x)),
    samples=prelu_samples,
    node="PreluKernelBackward0",
    public=False,
)


@face(prelu_op, spaces=BOTH, method=True)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, else weight · x, with one weight or one for each channel (dimension 1)."""
    check_tensor("prelu", input)
    check_tensor("prelu", weight, "weight")
    if input._form.dtype != weight._form.dtype:
        raise error(RuntimeError, "prelu", "type promoting not supported", input=input, weight=weight)
    if weight._form.ndim > 1:
        raise error(RuntimeError, "prelu", "expected `weight` to be a scalar or 1D tensor", weight=weight)
    if weight._form.size == 1:
        return prelu_op(input, weight.reshape(()))
    shape = input._form.shape
    channels = shape[1] if len(shape) > 1 else 1
    if channels != weight._form.size:
        rule = f"{weight._form.size} parameters for {channels} channels (dimension 1 of `input`)"
        raise error(RuntimeError, "prelu", rule, input=input, weight=weight)
    return prelu_op(input, weight.reshape(-1, *[1] * (len(shape) - 2)))


def rrelu_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3, 4), 0.1, 0.4)
    yield Sample(real(5, 4), 0.1, 0.4, training=True)
    yield Fails(RuntimeError, real(3, 4), 0.5, 0.1, training=True)


def run_slopes(x: np.ndarray, *, lower: float, upper: float) -> np.ndarray:
    """A random slope for every element that is not positive, drawn in memory order; else one."""
    low = x <= 0
    slopes = np.ones(x.shape, x.dtype)
    slopes[low] = default_generator.uniform((int(low.sum()),), np.float64, lower, upper)
    return slopes


random_slopes = opaque(
    "rrelu_slopes",
    spec=lambda x, *, lower, upper: Spec(x._form.shape, x.dtype),
    run=run_slopes,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(real(3, 4), lower=0.1, upper=0.3)]),
)
rrelu_op = elementwise(
    "rrelu_with_noise",
    lambda x, slopes: x * slopes,
    vjp=(lambda g, slopes: g * slopes, None),
    samples=rrelu_samples,
    public=False,
)


@face(rrelu_op, spaces=BOTH)
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu with a slope drawn for each element while training, else with the middle of the range."""
    check_tensor("rrelu", input)
    if lower > upper:
        raise error(RuntimeError, "rrelu", "lower bound should be less than or equal to the upper bound")
    if not training:
        return activate(leaky_relu_op, inplace, input, (lower + upper) / 2)
    return activate(rrelu_op, inplace, input, random_slopes(input, lower=lower, upper=upper))


rrelu_ = writer(rrelu, rrelu_op, BOTH)

# Exponential units -----------------------------------------------------------------------------------------


def exponential_unit(name: str, samples: Callable) -> Callable:
    """scale · x for positive x, else scale · alpha · (exp(inner · x) − 1)."""
    return elementwise(
        name,
        lambda x, alpha, scale, inner: (
            scale * (expr.maximum(x, 0) + alpha * expr.expm1(inner * expr.minimum(x, 0)))
        ),
        vjp=(exponential_slope, None, None, None),
        samples=samples,
        public=False,
    )


def exponential_slope(g: Tensor, x: Tensor, alpha: float, scale: float, inner: float) -> Tensor:
    g = g * scale
    return choose(x > 0, g, g * exp(clamp_above(x, 0) * inner) * (alpha * inner))


def celu_samples() -> Iterator[Sample]:
    yield from with_parameters((0.5,), (2.0,))()
    yield Fails(RuntimeError, real(3), 0.0)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
elu_op = exponential_unit("elu", with_parameters((0.5,), (2.0,)))
celu_op = exponential_unit("celu", celu_samples)


@face(elu_op, spaces=FUNCTIONAL)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x for positive x, else alpha · (eˣ − 1)."""
    return activate(elu_op, inplace, input, alpha, 1.0, 1.0)


@face(celu_op, spaces=BOTH)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x for positive x, else alpha · (exp(x / alpha) − 1)."""
    if alpha == 0:
        raise error(RuntimeError, "celu", "ZeroDivisionError: alpha cannot be 0 for CELU")
    return activate(celu_op, inplace, input, alpha, 1.0, 1 / alpha)


@composite(unary(), spaces=BOTH)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu, scaled so that means and variances settle at zero and one."""
    return activate(elu_op, inplace, input, SELU_ALPHA, SELU_SCALE, 1.0)


elu_ = writer(elu, elu_op)
celu_ = writer(celu, celu_op, BOTH)


def selu_(input: Tensor) -> Tensor:
    """selu, written into its input."""
    return selu(input, inplace=True)


FACES.append(Face("selu_", selu_, BOTH, False, None, None, unary(), NO_GRAD))
