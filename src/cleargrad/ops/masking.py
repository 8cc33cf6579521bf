"""Choosing elements by a boolean mask: masked_fill, masked_scatter, masked_select; and nonzero.

Read next: ops/coordinates.py.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops.apply import NUMBERS, open_door
from cleargrad.ops.declare import as_type, composite, face, fused, opaque
from cleargrad.ops.op import NO_GRAD, Op, node_class, register
from cleargrad.ops.record import data_dependent
from cleargrad.ops.samples import Fails, Sample, real, truth, whole
from cleargrad.ops.views import check_tensor

LARGEST = {kind: dtypes.finfo(kind).max for kind in dtypes.ALL if kind.is_floating_point}


def as_number(op: str, number: Any, kind: dtypes.dtype) -> np.ndarray:
    """A Python number as a 0-d array, or PyTorch's error when the type cannot hold it."""
    if isinstance(number, int) and not -(2**63) <= number < 2**64:
        raise error(ValueError, op, "overflow when unpacking a long integer", value=number)
    if kind.category == dtypes.BOOL:
        fits, number = True, bool(number)
    elif kind.category < dtypes.COMPLEX and isinstance(number, complex):
        fits, number = number.imag == 0, number.real
    elif kind.category == dtypes.INTEGER:
        limits = np.iinfo(kind.numpy)
        fits = min(-limits.max, limits.min) <= number <= limits.max  # uint8 takes -1 as 255
    else:
        fits = not cmath.isfinite(number) or abs(number) <= LARGEST[kind.to_real()]
    if not fits:
        raise error(
            RuntimeError, op, f"value cannot be converted to type {kind} without overflow", value=number
        )
    return as_type(int(number) if kind.category == dtypes.INTEGER else number, kind.numpy)


# Filling ---------------------------------------------------------------------------------------------------


def fill_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), truth(3, 4), 2.5)
    yield Sample(real(3, 4), truth(4), real(seed=1))
    yield Sample(real(4), truth(3, 4), 1)
    yield Sample(whole(3, 4), truth(3, 4), 2.5)
    yield Sample(real(), np.array(True), 0.5)
    yield Sample(real(0, 2), truth(2), 0.5)
    yield Fails(RuntimeError, real(3, 4), truth(3), 1.0)
    yield Fails(RuntimeError, real(3, 4), whole(3, 4), 1.0)
    yield Fails(RuntimeError, real(3, 4), truth(3, 4), real(1))
    yield Fails(TypeError, real(3, 4), truth(3, 4), "a")


def fill_spec(x: Tensor, mask: Tensor, value: Tensor) -> Spec:
    return Spec(broadcast("masked_fill", x._form.shape, mask._form.shape), x.dtype)


def fill_op(name: str, node: str | None = None) -> Callable:
    """An op `(x, mask, value)`: value, a 0-d tensor of x's dtype, where the mask holds, else x.

    A record of its own, because the mask takes no part in the promotion of the other two.
    """

    def keep(g: Tensor, mask: Tensor) -> Tensor:
        return fill_where(g, mask, g.new_zeros(()))

    def pass_on(g: Tensor, mask: Tensor) -> Tensor:
        return fill_where(g, mask.logical_not(), g.new_zeros(()))

    tree, names = expr.trace(lambda x, mask, value: expr.where(mask, value, x))
    run: Callable = lambda x, mask, value: np.where(mask, value, x)  # noqa: E731
    vjp = (keep, None, pass_on)
    return open_door(
        register(Op(name, fill_spec, run, vjp, tree, door_samples, names, (), node=node_class(node or name)))
    )


def door_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), truth(4), real(seed=1))


fill_where = fill_op("masked_fill")


@composite(fill_samples, method=True, inplace=True)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where the mask holds, else `input`; the result keeps the input's dtype."""
    check_tensor("masked_fill", input)
    check_mask_kind("masked_fill", mask)
    return fill_where(input, mask, as_fill("masked_fill", value, input))


def check_mask_kind(op: str, mask: Any) -> None:
    check_tensor(op, mask, "mask")
    if mask.dtype is not dtypes.bool_:
        raise error(
            RuntimeError, op, "only boolean masks are supported", mask=mask, fix="compare it: mask != 0"
        )


def as_fill(op: str, value: Any, like: Tensor) -> Tensor:
    """The one value to write, as a 0-d tensor of the target's dtype."""
    if isinstance(value, NUMBERS):
        return wrap(as_number(op, value, like.dtype))
    if not isinstance(value, Tensor):
        raise error(TypeError, op, f"argument 'value' must be Number or Tensor, not {type(value).__name__}")
    if value._form.ndim:
        raise error(RuntimeError, op, "only a 0-dimensional value tensor is supported", value=value)
    return value.to(like.dtype)


fill_all = fused(
    "fill",
    lambda x, value: value.expand(x._form.shape),
    spec=lambda x, value: Spec(x._form.shape, x.dtype),
    run=lambda x, value: np.full_like(x, value),
    vjp=(lambda g: g.new_zeros(g._form.shape), lambda g: g),
    samples=lambda: iter(
        [Sample(real(3, 4), 2.5), Sample(real(3, 4), real(seed=1)), Fails(RuntimeError, real(3), real(3))]
    ),
    rounds=False,
)


@face(fill_all)
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like `input` with one value everywhere."""
    check_tensor("fill", input)
    return fill_all(input, as_fill("fill", value, input))


# Scattering and selecting ----------------------------------------------------------------------------------


def masked_scatter_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), truth(3, 4), real(12, seed=1))
    yield Sample(real(3, 4), truth(4), real(5, 4, seed=1))
    yield Sample(real(4), truth(3, 4), real(12, seed=1))
    yield Fails(RuntimeError, real(3, 4), np.ones((3, 4), np.bool_), real(3))
    yield Fails(RuntimeError, real(3, 4), whole(3, 4), real(12))
    yield Fails(RuntimeError, real(3, 4), truth(3, 4), whole(12))


def masked_scatter_spec(x: Tensor, mask: Tensor, source: Tensor) -> Spec:
    check_mask_kind("masked_scatter", mask)
    if source.dtype is not x.dtype:
        raise error(
            RuntimeError,
            "masked_scatter",
            "expected input and source to have the same dtype",
            input=x,
            source=source,
        )
    return Spec(broadcast("masked_scatter", x._form.shape, mask._form.shape), x.dtype)


def run_masked_scatter(x: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, mask.shape)
    result = np.array(np.broadcast_to(x, shape))
    mask = np.broadcast_to(mask, shape)
    wanted = np.count_nonzero(mask)
    if wanted > source.size:
        rule = f"the source has {source.size} elements, the mask wants {wanted}"
        raise error(RuntimeError, "masked_scatter", rule)
    result[mask] = source.reshape(-1)[:wanted]
    return result


def run_masked_collect(x: np.ndarray, mask: np.ndarray, *, shape: tuple) -> np.ndarray:
    chosen = x[np.broadcast_to(mask, x.shape)]
    result = np.zeros(shape, x.dtype)
    result.reshape(-1)[: chosen.size] = chosen
    return result


def masked_scatter_parts(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The k-th place of the mask takes the k-th element: a running count of the places is their index."""
    shape = broadcast("masked_scatter", x._form.shape, mask._form.shape)
    if not source._form.size:
        return x.expand(shape)
    mask = mask.expand(shape)
    order = (mask.reshape(-1).cumsum(0) - 1).clamp(0, source._form.size - 1)
    return source.reshape(-1).index_select(0, order).reshape(shape).where(mask, x)


masked_write = fused(
    "masked_scatter",
    masked_scatter_parts,
    spec=masked_scatter_spec,
    run=run_masked_scatter,
    vjp=(
        lambda g, mask: masked_fill(g, mask, 0),
        None,
        lambda g, mask, *, source_shape: masked_collect(g, mask, shape=source_shape),
    ),
    samples=masked_scatter_samples,
    rounds=False,
)
# The elements a mask chooses, in order, at the front of zeros of a known shape: what masked_scatter undoes.
masked_collect = opaque(
    "masked_collect",
    spec=lambda x, mask, *, shape: Spec(shape, x.dtype),
    run=run_masked_collect,
    vjp=(lambda g, mask, *, x_shape: masked_write(g.new_zeros(x_shape), mask, g), None),
    samples=lambda: iter(
        [Sample(real(3, 4), truth(3, 4), shape=(4, 3)), Sample(real(3, 4), truth(4), shape=(15,))]
    ),
)


@face(masked_write, method=True, inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of `source`, in order, where the mask holds, else `input`."""
    return masked_write(input, mask, source)


def masked_select_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), truth(3, 4))
    yield Sample(real(3, 1), truth(4))
    yield Sample(real(), np.array(True))
    yield Fails(RuntimeError, real(3, 4), whole(3, 4))
    yield Fails(RuntimeError, real(3, 4), truth(3))


masked_read = opaque(
    "masked_select",
    spec=data_dependent("masked_select"),
    run=lambda x, mask: x[mask],
    vjp=(lambda g, mask, *, x_shape: masked_write(g.new_zeros(x_shape), mask, g), None),
    samples=masked_select_samples,
)


@face(masked_read, method=True, out=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as one line."""
    check_tensor("masked_select", input)
    check_mask_kind("masked_select", mask)
    shape = broadcast("masked_select", input._form.shape, mask._form.shape)
    return masked_read(input.expand(shape), mask.expand(shape))


# Where a tensor is not zero --------------------------------------------------------------------------------


def nonzero_samples() -> Iterator[Sample]:
    yield Sample(truth(3, 4))
    yield Sample(whole(5, high=2))
    yield Sample(real(2, 3))
    yield Sample(np.array(3))
    yield Sample(np.zeros((0, 2)))


def run_nonzero(x: np.ndarray) -> np.ndarray:
    if not x.ndim:
        return np.zeros((int(bool(x)), 0), np.int64)
    return np.argwhere(x)


places = opaque(
    "nonzero", spec=data_dependent("nonzero"), run=run_nonzero, vjp=NO_GRAD, samples=nonzero_samples
)


@face(places, method=True, out=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of all elements that are not zero: one row each, or one tensor per dimension."""
    check_tensor("nonzero", input)
    if not as_tuple:
        return places(input)
    return places(input if input._form.ndim else input.reshape(1)).unbind(1)


@composite(nonzero_samples, method=True, vjp=NO_GRAD)
def argwhere(input: Tensor) -> Tensor:
    """The indices of all elements that are not zero, one row each."""
    return nonzero(input)
