"""Comparisons, logic on booleans and bits, tests of single elements, and choosing by a condition.

Read next: ops/elementary.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor, check_values
from cleargrad.devices.cpu.native import quickened
from cleargrad.errors import error
from cleargrad.expr import expr, numpy_reading
from cleargrad.ops.apply import open_door
from cleargrad.ops.declare import (
    ANY,
    INTEGRAL,
    REAL,
    as_type,
    composite,
    elementwise,
    face,
    opaque,
    promoted,
)
from cleargrad.ops.op import NO_GRAD, Op, node_class, register
from cleargrad.ops.samples import Fails, Sample, binary, real, truth, whole
from cleargrad.ops.views import check_tensor

# Comparisons -----------------------------------------------------------------------------------------------


def comparison(name: str, formula: Callable, alias: str | None, accepts: tuple[int, ...] = REAL) -> Callable:
    return elementwise(
        name,
        formula,
        vjp=NO_GRAD,
        samples=comparison_samples,
        result="bool",
        accepts=accepts,
        aliases=(alias,) if alias else (),
    )


def comparison_samples() -> Iterator[Sample]:
    yield from binary()()
    yield Sample(whole(3, 4), whole(4, seed=1))
    yield Sample(whole(3, 4), 2.5)
    yield Sample(truth(4), truth(4, seed=1))


eq = comparison("eq", lambda x, y: expr.eq(x, y), None, ANY)
ne = comparison("ne", lambda x, y: expr.ne(x, y), "not_equal", ANY)
lt = comparison("lt", lambda x, y: x < y, "less")
le = comparison("le", lambda x, y: x <= y, "less_equal")
gt = comparison("gt", lambda x, y: x > y, "greater")
ge = comparison("ge", lambda x, y: x >= y, "greater_equal")


def close_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, 4) + 1e-9)
    yield Sample(real(3, 4), real(4))
    yield Sample(real(3), real(3) + 0.01, rtol=0.0, atol=0.1)
    yield Sample(np.array([1.0, math.inf, math.nan]), np.array([1.0, math.inf, math.nan]), equal_nan=True)
    yield Sample(whole(4), whole(4, seed=1))
    yield Fails(RuntimeError, real(3), real(3), rtol=-1.0)
    yield Fails(RuntimeError, real(3), whole(3))


@composite(close_samples, method=True, vjp=NO_GRAD)
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """|input − other| ≤ atol + rtol · |other|, element by element."""
    check_tensor("isclose", input)
    check_tensor("isclose", other, "other")
    if input._form.dtype != other._form.dtype:
        rule = "both tensors must have the same dtype"
        raise error(RuntimeError, "isclose", rule, input=input, other=other)
    if rtol < 0 or atol < 0:
        rule = "rtol and atol must be greater than or equal to zero"
        raise error(RuntimeError, "isclose", rule, rtol=rtol, atol=atol)
    input, other = input.detach(), other.detach()
    close: Any = input == other
    if equal_nan:
        close = close | (input != input) & (other != other)
    if rtol == 0 and atol == 0:
        return close
    if input.dtype.category == dtypes.BOOL:
        input, other = input.to(dtypes.uint8), other.to(dtypes.uint8)
    difference = (input - other).abs()
    return close | (difference <= atol + (rtol * other).abs()) & isfinite(difference)


@composite(close_samples, method=True, vjp=NO_GRAD)
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, as isclose() says."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, 4))
    yield Sample(real(3, 4), real(4))
    yield Sample(whole(3), whole(3).astype(np.float64))
    yield Fails(TypeError, real(3), 1.0)


@composite(equal_samples, method=True, vjp=NO_GRAD)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and the same elements."""
    check_tensor("equal", input)
    check_tensor("equal", other, "other")
    check_values("equal", input)
    return input._form.shape == other._form.shape and bool((input == other).all())


def isin_samples() -> Iterator[Sample]:
    yield Sample(whole(3, 4), whole(2, seed=1))
    yield Sample(whole(3, 4), whole(2, seed=1), invert=True)
    yield Sample(whole(5), 2)
    yield Sample(2, whole(5))
    yield Sample(whole(0, 2), whole(3))


isin_op = opaque(
    "isin",
    spec=lambda x, y, *, invert: Spec(x._form.shape if isinstance(x, Tensor) else (), dtypes.bool_),
    run=lambda x, y, *, invert: np.isin(x, y, invert=invert),
    vjp=NO_GRAD,
    samples=isin_samples,
)


@face(isin_op, out=True)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Which elements occur among the test elements."""
    return isin_op(elements, test_elements, invert=invert)


# Logic and bits --------------------------------------------------------------------------------------------


def logic_samples() -> Iterator[Sample]:
    yield Sample(truth(3, 4), truth(3, 4, seed=1))
    yield Sample(whole(3, 4, high=2), truth(4, seed=1))
    yield Sample(whole(3, high=2), real(2, 1))
    yield Fails(RuntimeError, truth(3, 4), truth(3))


def bit_samples() -> Iterator[Sample]:
    yield Sample(whole(3, 4, low=-9, high=9), whole(4, seed=1))
    yield Sample(whole(3, 4, low=-9, high=9), 3)
    yield Fails(RuntimeError, real(3), real(3))
    yield Fails(RuntimeError, whole(3), whole(4))


def truth_and_bit_samples() -> Iterator[Sample]:
    yield Sample(truth(3, 4), truth(4, seed=1))
    yield Sample(truth(4), whole(4))
    yield from bit_samples()


def logic(name: str, formula: Callable) -> Callable:
    return elementwise(name, formula, vjp=NO_GRAD, samples=logic_samples, result="bool")


def bits(name: str, formula: Callable, samples: Callable, accepts: tuple[int, ...] = INTEGRAL) -> Callable:
    return elementwise(name, formula, vjp=NO_GRAD, samples=samples, accepts=accepts)


logical_and = logic("logical_and", lambda x, y: expr.logical_and(x, y))
logical_or = logic("logical_or", lambda x, y: expr.logical_or(x, y))
logical_xor = logic("logical_xor", lambda x, y: expr.logical_xor(x, y))
logical_not = elementwise(
    "logical_not",
    lambda x: expr.logical_not(x),
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(truth(3, 4)), Sample(whole(5)), Sample(real(3)), Fails(TypeError, None)]),
    result="bool",
)
bitwise_and = bits("bitwise_and", lambda x, y: expr.bit_and(x, y), truth_and_bit_samples)
bitwise_or = bits("bitwise_or", lambda x, y: expr.bit_or(x, y), truth_and_bit_samples)
bitwise_xor = bits("bitwise_xor", lambda x, y: expr.bit_xor(x, y), truth_and_bit_samples)
bitwise_left_shift = bits(
    "bitwise_left_shift", lambda x, y: expr.shift_left(x, y), bit_samples, (dtypes.INTEGER,)
)
bitwise_right_shift = bits(
    "bitwise_right_shift", lambda x, y: expr.shift_right(x, y), bit_samples, (dtypes.INTEGER,)
)
bitwise_not = bits(
    "bitwise_not",
    lambda x: expr.bit_not(x),
    lambda: iter([Sample(whole(3, 4, low=-5)), Sample(whole(5)), Fails(RuntimeError, real(3))]),
)


def invert(self: Tensor) -> Tensor:
    """`~self`: logical for booleans, bitwise for integers."""
    if self.dtype.category > dtypes.INTEGER:
        rule = "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        raise error(TypeError, "invert", rule, input=self)
    return bitwise_not(self)


# Tests of single elements ----------------------------------------------------------------------------------


def odd_samples() -> Iterator[Sample]:
    yield Sample(np.array([[1.0, math.nan, math.inf], [-math.inf, 0.0, -0.0]]))
    yield Sample(np.array(math.nan))
    yield Sample(whole(4))
    yield Sample(real(0, 3))
    yield Fails(TypeError, None)


def element_test(
    name: str, formula: Callable, accepts: tuple[int, ...] = ANY, samples: Callable = odd_samples
) -> Callable:
    return elementwise(
        name, formula, vjp=NO_GRAD, samples=samples, result="bool", accepts=accepts, inplace=False
    )


isnan = element_test("isnan", lambda x: expr.isnan(x))
isinf = element_test("isinf", lambda x: expr.isinf(x))
isfinite = element_test("isfinite", lambda x: expr.isfinite(x))
isposinf = element_test("isposinf", lambda x: expr.eq(x, math.inf), REAL)
isneginf = element_test("isneginf", lambda x: expr.eq(x, -math.inf), REAL)
isreal = element_test("isreal", lambda x: expr.eq(expr.imag(x), 0))
# Without NaN, whose sign a conversion may lose.
signbit = element_test(
    "signbit",
    lambda x: expr.signbit(x),
    REAL,
    lambda: iter(
        [Sample(np.array([1.0, -0.0, 0.0, -math.inf])), Sample(real(2, 3)), Sample(whole(4, low=-2))]
    ),
)

# Choosing --------------------------------------------------------------------------------------------------


def where_spec(condition: Tensor, x: Any, y: Any) -> Spec:
    check_tensor("where", condition, "condition")
    if condition.dtype not in (dtypes.bool_, dtypes.uint8):
        rule = "expected condition to be a boolean tensor"
        raise error(RuntimeError, "where", rule, condition=condition)
    shapes = [operand._form.shape for operand in (condition, x, y) if isinstance(operand, Tensor)]
    return Spec(broadcast("where", *shapes), promoted("where", ("input", "other"), (x, y)))


PICK = expr.trace(lambda condition, x, y: expr.where(condition, x, y))[0]
pick = quickened(numpy_reading.where, PICK)


def run_where(condition: np.ndarray, x: Any, y: Any) -> np.ndarray:
    if condition.dtype.kind != "b":
        if condition.dtype != np.uint8:
            raise TypeError("the condition is not boolean")
        condition = condition.astype(np.bool_)
    target = promoted("where", ("input", "other"), (x, y)).numpy
    return pick(condition, as_type(x, target), as_type(y, target))


def where_samples() -> Iterator[Sample]:
    yield Sample(truth(3, 4), real(3, 4), real(3, 4, seed=1))
    yield Sample(truth(3, 1), real(4), real(2, 1, 1, seed=1))
    yield Sample(truth(3), real(3), 1.5)
    yield Sample(truth(3), 2, real(3))
    yield Sample(truth(3), real(), whole(3))
    yield Sample(truth(3), 1, 0.5)
    yield Fails(RuntimeError, truth(3, 4), real(3), real(4))
    yield Fails(RuntimeError, whole(3), real(3), real(3))


# A record of its own, because the condition takes no part in the promotion of the other two.
choose = open_door(
    register(
        Op(
            "where",
            where_spec,
            run_where,
            (
                None,
                lambda g, condition: choose(condition, g, 0),
                lambda g, condition: choose(condition, 0, g),
            ),
            PICK,
            where_samples,
            ("condition", "x", "y"),
            (),
            node=node_class("where"),
        )
    )
)


@face(choose, out=True)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition holds, else `other`; alone, the places where it holds."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return choose(condition, input, other)


@composite(
    lambda: iter([Sample(real(3), truth(3), real(3, seed=1)), Sample(real(3), truth(3), 0.5)]),
    spaces=(),
    method=True,
    reference=lambda torch: torch.Tensor.where,
)
def where_(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """The method form: the tensor itself where the condition holds."""
    return choose(condition, self, other)
