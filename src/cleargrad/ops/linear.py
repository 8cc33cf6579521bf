"""The linear layer, input @ weightᵀ + bias, as one op: the core of every model.

Arrays of one float type go straight to the product, and so do the gradients of a walk that nobody watches. Read
next: ops/contractions.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from cleargrad.autograd.node import edge_of, make_node
from cleargrad.core.device import Elsewhere
from cleargrad.core.dtype import NARROW, OF_NUMPY
from cleargrad.core.mode import SPECIAL, gate, mode, spared
from cleargrad.core.shape import Spec, broadcast, count
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.devices.cpu.arrays.sums import add_up
from cleargrad.devices.cpu.native import BETWEEN, next_call, notice
from cleargrad.devices.cpu.native import product as product_of_arrays
from cleargrad.errors import error
from cleargrad.ops.declare import face, fused
from cleargrad.ops.doors import F32, F64, NONE, place_of
from cleargrad.ops.matmul import check_dtypes, matmul_door, multiply, rows_of, transposed, unwatched
from cleargrad.ops.pointwise import conj
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor


def linear_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(2, 4, seed=1), real(2, seed=2))
    yield Sample(real(3, 4), real(2, 4, seed=1))
    yield Sample(real(2, 3, 4), real(5, 4, seed=1), real(5, seed=2))
    yield Sample(real(4), real(2, 4, seed=1), real(2, seed=2))
    yield Sample(real(4), real(2, 4, seed=1))
    yield Sample(real(0, 4), real(2, 4, seed=1), real(2, seed=2))
    yield Fails(RuntimeError, real(3, 4), real(4, 2), real(2))
    yield Fails(RuntimeError, real(3, 4), real(2, 4), real(3))
    yield Fails(TypeError, real(3, 4), None)


def linear_spec(bias: Tensor, x: Tensor, weight: Tensor) -> Spec:
    a, w, b = x._form.shape, weight._form.shape, bias._form.shape
    check_dtypes("linear", x, weight, bias)
    if len(w) != 2 or not a or a[-1] != w[1]:
        rule = "the last dimension of `input` must equal the last of `weight`, which is (out, in)"
        raise error(RuntimeError, "linear", rule, input=x, weight=weight)
    if broadcast("linear", (*a[:-1], w[0]), b) != (*a[:-1], w[0]):
        raise error(RuntimeError, "linear", f"`bias` cannot be expanded to {(*a[:-1], w[0])}", bias=bias)
    return Spec((*a[:-1], w[0]), OF_NUMPY[x._form.dtype])


def run_linear(bias: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    kind = x.dtype
    if not kind == weight.dtype == bias.dtype or weight.ndim != 2 or (kind.kind == "b" and x.size):
        raise TypeError("operands differ in dtype or rank")  # the spec says it in our words
    if kind in NARROW:
        bias, x, weight = (array.astype(F32) for array in (bias, x, weight))
    rows = x if x.ndim == 2 else x.reshape(count(x.shape[:-1]), x.shape[-1])
    value = product_of_arrays(rows, weight.T)
    if x.ndim != 2:
        value = value.reshape(*x.shape[:-1], weight.shape[0])
    value += bias
    return value if kind is value.dtype else value.astype(kind)


def linear_bias_gradient(g: Tensor, *, bias_shape: tuple[int, ...]) -> Tensor:
    """What the walk would sum up for every other op, summed at once."""
    form = g._form
    if not unwatched(g, g) or bias_shape != form.shape[-1:] or form.ndim < 2 or not form.size:
        return g
    data = g._data
    return wrap(add_up(data, tuple(range(data.ndim - 1))))


def linear_input_gradient(g: Tensor, weight: Tensor) -> Tensor:
    return wrap(multiply(g._data, weight._data)) if unwatched(g, weight) else g @ conj(weight)


def linear_weight_gradient(g: Tensor, x: Tensor) -> Tensor:
    if not unwatched(g, x) or not x._form.size:
        return transposed(rows_of(g)) @ conj(rows_of(x))
    left, right = g._data, x._data
    if left.ndim != 2:
        left, right = left.reshape(-1, left.shape[-1]), right.reshape(-1, right.shape[-1])
    return wrap(product_of_arrays(left.T, right))


linear_op = fused(
    "linear",
    lambda bias, x, weight: matmul_door(x, transposed(weight)) + bias,
    spec=linear_spec,
    run=run_linear,
    vjp=(linear_bias_gradient, linear_input_gradient, linear_weight_gradient),
    samples=linear_samples,
    node="AddmmBackward0",
    spec_first=False,
)
_linear = linear_op.op


@face(linear_op, spaces=("nn.functional",))
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weightᵀ + bias."""
    if bias is None:
        check_tensor("linear", input)
        check_tensor("linear", weight, "weight")
        return matmul_door(input, transposed(weight) if weight._form.ndim > 1 else weight)
    how = gate.how or mode.how
    if how == SPECIAL:
        how = spared()
    if how == SPECIAL or not (isinstance(input, Tensor) and isinstance(weight, Tensor)):
        if how == SPECIAL and (waiter := mode.simply) is not None:
            return waiter.call(_linear, (bias, input, weight), NONE)
        return linear_op(bias, input, weight)
    return linear_of_floats(input, weight, bias, how)


def linear_of_floats(input: Tensor, weight: Tensor, bias: Tensor, how: int) -> Tensor:
    """What `linear_op` does with operands of one float type, written out flat: the core of every model."""
    try:
        x, w, b = input._data, weight._data, bias._data
    except Elsewhere:
        return linear_op(bias, input, weight)
    kind = x.dtype
    plain = x.ndim >= 2 == w.ndim and w.dtype is kind and b.dtype is kind and (kind is F32 or kind is F64)
    if not plain or b.shape != w.shape[:1] or x.shape[-1] != w.shape[1] or not x.size:
        return linear_op(bias, input, weight)
    rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
    value = product_of_arrays(rows, w.T, b)
    if rows is not x:
        value = value.reshape(*x.shape[:-1], w.shape[0])
    if not next_call() % BETWEEN:
        notice(sys._getframe())
    tensor = wrap(value)
    if how:
        edges = edge_of(bias), edge_of(input), edge_of(weight)
        needs = edges[0] is not None, edges[1] is not None, edges[2] is not None
        if True in needs:
            plan = _linear.plan(needs)
            saved: tuple = ()  # a bias alone needs nothing
            if needs[1] or needs[2]:
                saved = (None, input if needs[2] else None, weight if needs[1] else None)
            tensor._edge = node = make_node(_linear.node, edges, saved, plan, value.shape, kind)
            node.place = place_of(sys._getframe(2))
    return tensor
