"""Elementary functions, element by element: powers, exponentials, logarithms, trigonometry, rounding.

Most are declared by `function` with their slope, the derivative as a formula in `x` or in the result `out`;
the gradient follows from it by the chain rule. Read next: ops/special_functions.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.dtype import NARROW
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.expr.expr import parameters
from cleargrad.ops.apply import NUMBERS
from cleargrad.ops.comparison import choose
from cleargrad.ops.creation import zeros_like
from cleargrad.ops.declare import ANY, F32, NUMERIC, REAL, composite, elementwise, face, opaque
from cleargrad.ops.pointwise import WHOLE_OR_FLOAT, category_of, conj
from cleargrad.ops.return_types import Named, named
from cleargrad.ops.samples import Fails, Sample, binary, real, unary, whole
from cleargrad.ops.views import check_tensor

LN2, LN10 = math.log(2), math.log(10)


def chain(slope: Callable) -> Callable:
    """The vjp g · conj(slope); what the slope is written in, `x` or `out`, is what is saved."""
    if parameters(slope)[0] == ("out",):
        return lambda g, out: g * conj(slope(out))
    return lambda g, x: g * conj(slope(x))


def function(
    name: str,
    formula: Callable,
    slope: Callable | None = None,
    *,
    vjp: Callable | None = None,
    low: float = -2.0,
    high: float = 2.0,
    accepts: tuple[int, ...] = ANY,
    **publishing: Any,
) -> Callable:
    """A smooth function of one number, from its slope or its vjp; `low` and `high` bound its samples."""
    vjp = vjp or chain(slope)  # type: ignore[arg-type]
    samples = unary(low, high)
    return elementwise(name, formula, vjp=vjp, samples=samples, result="float", accepts=accepts, **publishing)


# Exponentials and logarithms -------------------------------------------------------------------------------

exp = function("exp", lambda x: expr.exp(x), lambda out: out)
exp2 = function("exp2", lambda x: expr.exp2(x), lambda out: out * LN2)
expm1 = function("expm1", lambda x: expr.expm1(x), lambda out: out + 1)
log = function("log", lambda x: expr.log(x), vjp=lambda g, x: g / conj(x), low=0.2)
log2 = function("log2", lambda x: expr.log2(x), vjp=lambda g, x: g / conj(x * LN2), low=0.2)
log10 = function("log10", lambda x: expr.log10(x), vjp=lambda g, x: g / conj(x * LN10), low=0.2)
log1p = function("log1p", lambda x: expr.log1p(x), vjp=lambda g, x: g / conj(x + 1), low=-0.8)
sigmoid_backward = elementwise(
    "sigmoid_backward",
    lambda g, out: g * ((1 - out) * out),
    vjp=(
        lambda gg, out: gg * conj((1 - out) * out),
        lambda gg, g, out: gg * g * conj(1 - 2 * out),
    ),
    samples=binary(numbers=False),
    public=False,
)
sigmoid = function("sigmoid", lambda x: expr.sigmoid(x), vjp=lambda g, out: sigmoid_backward(g, conj(out)))
inverse_sigmoid = function(
    "logit",
    lambda x: expr.log(x / (1 - x)),
    vjp=lambda g, x: choose((x < 0) | (x > 1), math.nan, g / (x * (1 - x))),
    low=0.1,
    high=0.9,
    accepts=REAL,
    public=False,
)


def logit_samples() -> Iterator[Sample]:
    yield from unary(0.1, 0.9)()
    yield Sample(real(3, 4, low=-0.5, high=1.5), 0.2)
    yield Sample(real(3), eps=0.3)


@composite(logit_samples, method=True, inplace=True, out=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 − x)), with x limited to [eps, 1 − eps] first."""
    return inverse_sigmoid(input if eps is None else input.clamp(eps, 1 - eps))


logaddexp = elementwise(
    "logaddexp",
    lambda x, y: expr.logaddexp(x, y),
    vjp=(lambda g, x, y: g / (1 + exp(y - x)), lambda g, x, y: g / (1 + exp(x - y))),
    samples=binary(numbers=False),
    accepts=(dtypes.FLOAT,),
    inplace=False,
)
logaddexp2 = elementwise(
    "logaddexp2",
    lambda x, y: expr.logaddexp2(x, y),
    vjp=(lambda g, x, y: g / (1 + exp2(y - x)), lambda g, x, y: g / (1 + exp2(x - y))),
    samples=binary(numbers=False),
    accepts=(dtypes.FLOAT,),
    inplace=False,
)

# Powers ----------------------------------------------------------------------------------------------------

sqrt = function("sqrt", lambda x: expr.sqrt(x), vjp=lambda g, out: g / (2 * conj(out)), low=0.2)
rsqrt = function("rsqrt", lambda x: expr.rsqrt(x), lambda out: -0.5 * out * out * out, low=0.2)
reciprocal = function("reciprocal", lambda x: expr.reciprocal(x), lambda out: -out * out, low=0.3)


def power_vjp(g: Tensor, x: Tensor, y: Any) -> Tensor:
    """y · x^(y − 1), and 0 where y is 0, even at x = 0."""
    if isinstance(y, expr.Expr):
        raise TypeError("what is computed depends on the exponent")  # so it has no formula of its own
    if isinstance(y, NUMBERS):
        return zeros_like(g) if y == 0 else g * conj(y * x ** (y - 1))
    return choose(y == 0, 0, g * conj(y * x ** (y - 1)))


def exponent_vjp(g: Tensor, x: Any, y: Tensor, out: Tensor) -> Tensor:
    """x^y · log(x), and 0 where x is 0 and x^y stays so."""
    if not isinstance(x, Tensor):
        x = y.new_full((), x, dtype=out.dtype)
    stays = (x == 0) & ((y.real if y.is_complex() else y) >= 0)
    return choose(stays, 0, g * conj(out * x.log()))


def power_samples() -> Iterator[Sample]:
    for exponent in (2, 3, 0, 1, 2.5, -1, 0.5):
        yield Sample(real(3, 4, low=0.2), exponent)
    yield Sample(real(3, 4, low=0.2), real(4, seed=1))
    yield Sample(2.5, real(3, 4))
    yield Sample(whole(3, 4, low=-3), 3)
    yield Sample(whole(3, 4), whole(4, low=-2, seed=1))
    yield Fails(RuntimeError, real(3), real(4))
    yield Fails(RuntimeError, whole(3, low=1), -1)
    yield Fails(TypeError, real(3), "a")


power = elementwise(
    "pow",
    lambda x, y: x**y,
    vjp=(power_vjp, exponent_vjp),
    samples=power_samples,
    accepts=NUMERIC,
    public=False,
)
# The exponents that formulas are full of, without a general power.
second_power = elementwise(
    "square", lambda x: x * x, vjp=chain(lambda x: 2 * x), samples=unary(), node="PowBackward0", public=False
)
third_power = elementwise(
    "cube",
    lambda x: x * x * x,
    vjp=chain(lambda x: 3 * x * x),
    samples=unary(),
    node="PowBackward0",
    public=False,
)
SMALL_POWERS: dict[float, Any] = {2: second_power, 3: third_power}


@face(power, method=True, inplace=True, out=True)
def pow(input: Any, exponent: Any) -> Tensor:
    """input^exponent; one of them may be a number."""
    if isinstance(exponent, (int, float)) and isinstance(input, Tensor):
        if input._form.dtype.kind in "fcV":
            door = SMALL_POWERS.get(exponent)
            if door is not None:
                return door(input)
        elif exponent < 0 and isinstance(exponent, int):
            rule = "integers to negative integer powers are not allowed"
            raise error(RuntimeError, "pow", rule, input=input, exponent=exponent)
    return power(input, exponent)


@composite(unary(), method=True, inplace=True, out=True)
def square(input: Tensor) -> Tensor:
    """input²."""
    check_tensor("square", input)
    return pow(input, 2)


def float_power_samples() -> Iterator[Sample]:
    yield Sample(real(3, low=0.2), 2)
    yield Sample(whole(3, low=1), real(3))
    yield Sample(2, real(3))
    yield Fails(RuntimeError, real(3), real(4))


@composite(float_power_samples, method=True, inplace=True, out=True)
def float_power(input: Any, exponent: Any) -> Tensor:
    """The power in double precision, whatever the operands are."""
    highest = max(category_of(input), category_of(exponent))
    kind = dtypes.complex128 if highest == dtypes.COMPLEX else dtypes.float64
    return pow(*(x.to(kind) if isinstance(x, Tensor) else x for x in (input, exponent)))


# Trigonometry ----------------------------------------------------------------------------------------------

sin = function("sin", lambda x: expr.sin(x), lambda x: cos(x))
cos = function("cos", lambda x: expr.cos(x), lambda x: -sin(x))
tan = function("tan", lambda x: expr.tan(x), lambda out: 1 + out * out, low=-1.2, high=1.2)
asin = function(
    "asin", lambda x: expr.asin(x), lambda x: rsqrt(1 - x * x), low=-0.9, high=0.9, aliases=("arcsin",)
)
acos = function(
    "acos", lambda x: expr.acos(x), lambda x: -rsqrt(1 - x * x), low=-0.9, high=0.9, aliases=("arccos",)
)
atan = function("atan", lambda x: expr.atan(x), vjp=lambda g, x: g / conj(x * x + 1), aliases=("arctan",))
sinh = function("sinh", lambda x: expr.sinh(x), lambda x: cosh(x))
cosh = function("cosh", lambda x: expr.cosh(x), lambda x: sinh(x))
tanh_backward = elementwise(
    "tanh_backward",
    lambda g, out: g * (1 - out * out),
    vjp=(lambda gg, out: gg * conj(1 - out * out), lambda gg, g, out: gg * g * conj(-2 * out)),
    samples=binary(numbers=False),
    public=False,
)
tanh = function("tanh", lambda x: expr.tanh(x), vjp=lambda g, out: tanh_backward(g, conj(out)))
asinh = function("asinh", lambda x: expr.asinh(x), lambda x: rsqrt(x * x + 1), aliases=("arcsinh",))
acosh = function(
    "acosh", lambda x: expr.acosh(x), lambda x: rsqrt(x * x - 1), low=1.2, high=3.0, aliases=("arccosh",)
)
atanh = function(
    "atanh",
    lambda x: expr.atanh(x),
    vjp=lambda g, x: g / conj(1 - x * x),
    low=-0.9,
    high=0.9,
    aliases=("arctanh",),
)
deg2rad = function("deg2rad", lambda x: x * (math.pi / 180), vjp=lambda g: g * (math.pi / 180), accepts=REAL)
rad2deg = function("rad2deg", lambda x: x * (180 / math.pi), vjp=lambda g: g * (180 / math.pi), accepts=REAL)


def sinc_slope(x: Tensor) -> Tensor:
    angle = math.pi * x
    return choose(x == 0, 0, (angle * cos(angle) - sin(angle)) / (angle * x))


sinc = function(
    "sinc",
    lambda x: expr.where(expr.eq(x, 0), 1, expr.sin(math.pi * x) / (math.pi * x)),
    sinc_slope,
    low=0.2,
)

# Parts of a number -----------------------------------------------------------------------------------------


def complex_sign_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Only the turning of a complex number changes its sign; a real one's stays."""
    if not x.is_complex():
        return zeros_like(g)
    return choose(x == 0, 0, (g - (g * out.conj()).real * out) / x.abs())


absolute = elementwise(
    "abs",
    lambda x: expr.abs(x),
    vjp=lambda g, x: g * sgn(x),
    samples=unary(),
    result="real",
    accepts=NUMERIC,
    aliases=("absolute",),
)
sgn = elementwise("sgn", lambda x: expr.sign(x), vjp=complex_sign_vjp, samples=unary())


def stepping(
    name: str, formula: Callable, accepts: tuple[int, ...] = WHOLE_OR_FLOAT, **publishing: Any
) -> Callable:
    """A piecewise constant function: its gradient is zero."""
    samples = unary(0.1, 0.4)
    return elementwise(
        name, formula, vjp=lambda g: zeros_like(g), samples=samples, accepts=accepts, **publishing
    )


sign = stepping("sign", lambda x: expr.sign(x), REAL)
ceil = stepping("ceil", lambda x: expr.ceil(x))
floor = stepping("floor", lambda x: expr.floor(x))
trunc = stepping("trunc", lambda x: expr.trunc(x), aliases=("fix",))
nearest = stepping("round", lambda x: expr.round(x), public=False)
frac = elementwise(
    "frac", lambda x: x - expr.trunc(x), vjp=lambda g: g, samples=unary(0.1, 0.9), accepts=(dtypes.FLOAT,)
)


def round_samples() -> Iterator[Sample]:
    yield Sample(np.array([0.6, 1.4, -0.6, 2.4, -2.6]))
    yield Sample(real(3, 4), decimals=1)
    yield Sample(real(3, low=-900, high=900), decimals=-2)
    yield Sample(whole(3))
    yield Fails(RuntimeError, whole(3), decimals=1)


@composite(round_samples, spaces=("", "special"), method=True, inplace=True, out=True)
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest whole number, or multiple of 10^−decimals; halves go to the even one."""
    if decimals == 0:
        return nearest(input)
    check_tensor("round", input)
    if input.dtype.category < dtypes.FLOAT:
        raise error(RuntimeError, "round", f"decimals are not implemented for {input.dtype}", input=input)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return nearest(input * scale) / scale
    return nearest(input / scale) * scale


Frexp = named("frexp", "mantissa", "exponent")


def run_frexp(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mantissa, exponent = np.frexp(x.astype(F32) if x.dtype in NARROW else x)
    # What an infinity or NaN has for an exponent is left open by the C library.
    return mantissa.astype(x.dtype), np.where(np.isfinite(mantissa), exponent, 0).astype(np.int32)


def frexp_spec(x: Tensor) -> list[Spec]:
    if x.dtype.category != dtypes.FLOAT:
        raise error(RuntimeError, "frexp", "only floating-point dtypes are supported", input=x)
    return [Spec(x._form.shape, x.dtype), Spec(x._form.shape, dtypes.int32)]


frexp_op = opaque(
    "frexp",
    spec=frexp_spec,
    run=run_frexp,
    vjp=lambda g, out1: g[0] / out1.exp2(),
    samples=lambda: iter([Sample(real(3, 4)), Sample(real()), Fails(RuntimeError, whole(3))]),
    outputs=2,
)


@face(frexp_op, method=True, out=True)
def frexp(input: Tensor) -> Named:
    """mantissa and exponent with input = mantissa · 2^exponent, 0.5 ≤ |mantissa| < 1."""
    check_tensor("frexp", input)
    return Frexp(frexp_op(input))
