"""Reductions: sums, means, products, truth and norms over dimensions.

Attributes are always a tuple `dim` counted from the front and a bool `keepdim`; the public functions bring
PyTorch's many spellings to that form. PyTorch prints another node name when dimensions are named
(SumBackward1), so sum, mean and prod are two ops each with the same rules. Read next: ops/extremes.py.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.core import dtype as dtypes
from cleargrad.core.device import Elsewhere
from cleargrad.core.dtype import NARROW
from cleargrad.core.dtype import dtype as Dtype
from cleargrad.core.mode import SPECIAL, gate, mode, spared
from cleargrad.core.shape import Spec, count, reduced, sizes_of, wrap_dims
from cleargrad.core.tensor import Tensor, new, tick
from cleargrad.devices.cpu.arrays.sums import add_up, joined
from cleargrad.devices.cpu.native import BETWEEN, next_call, notice
from cleargrad.errors import error
from cleargrad.ops.declare import F32, F64, composite, face, fused, reduction
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.pointwise import conj
from cleargrad.ops.samples import Fails, Sample, real, reductions, truth, whole
from cleargrad.ops.views import check_tensor, expand_to


def restore(g: Tensor, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """Puts reduced dimensions back as size-one dimensions, so that a gradient broadcasts to the input."""
    shape = g._form.shape
    if keepdim or not dim or not shape:  # a number broadcasts as it is
        return g
    rest = iter(shape)
    return g.reshape(tuple([1 if axis in dim else next(rest) for axis in range(len(shape) + len(dim))]))


def dims_of(op: str, input: Tensor, dim: Any) -> tuple[int, ...]:
    """The dimensions to reduce; none named means all of them."""
    check_tensor(op, input)
    rank = input._form.ndim
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(rank))
    return wrap_dims(op, dim, rank)


def extent_of(shape: tuple[int, ...], dim: tuple[int, ...]) -> int:
    """How many elements are joined into one."""
    return count(shape[axis] for axis in dim)


def dim_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4, 2), dim=(1,), keepdim=False)
    yield Sample(real(3, 4), dim=(0,), keepdim=True)


def in_float32(x: np.ndarray) -> np.ndarray:
    return x.astype(F32) if x.dtype in NARROW else x


# Sums ------------------------------------------------------------------------------------------------------


def sum_samples() -> Iterator[Sample]:
    yield from reductions()()
    yield Sample(real(150, 2), 0)
    yield Sample(real(0, 3), 0)
    yield Sample(whole(3, 4), 1)
    yield Sample(truth(5))
    yield Sample(real(3, 4), dtype=dtypes.int32)
    yield Fails(TypeError, 3.0)


total, total_by_dim = (
    reduction(
        name,
        lambda x, y: x + y,
        start=0,
        result="sum",
        vjp=lambda g, *, x_shape, dim, keepdim: expand_to(restore(g, dim, keepdim), shape=x_shape),
        samples=samples,
        node=node,
        join=add_up,
    )
    for name, samples, node in (
        ("sum", sum_samples, "SumBackward0"),
        ("sum_dim", dim_samples, "SumBackward1"),
    )
)


_plan = total.op.plan((True,))
_node = total.op.node
_all_dims = [{"dim": tuple(range(rank)), "keepdim": False} for rank in range(65)]  # attributes by rank


@face(total, method=True, out=True)
def sum(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Dtype | None = None,
    axis: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum of all elements, or over dimensions; integers sum to int64."""
    how = gate.how or mode.how
    plain = dim is None and dtype is None and axis is None and not keepdim and not keepdims
    if plain and how == SPECIAL:
        how = spared()
    if not plain or how == SPECIAL or not isinstance(input, Tensor):
        # NumPy's names are read here, since a function around this one would cost more than they do.
        dim, keepdim = dim if axis is None else axis, keepdim or keepdims
        dims = dims_of("sum", input, dim)
        return joined_in(dtype, total if dim is None else total_by_dim, input, dims, keepdim)
    # `loss.sum()` of something small is written out flat, as the doors of elementwise ops are.
    try:
        data = input._data
    except Elsewhere:
        return total(input, **_all_dims[input._form.ndim])
    kind, size = data.dtype, data.size
    if size > 1024 or size < 2 or not (kind is F32 or kind is F64):
        return total(input, **_all_dims[data.ndim])
    value = add_up(data, _all_dims[data.ndim]["dim"])
    if not next_call() % BETWEEN:
        notice(sys._getframe())
    tensor = new(Tensor)
    tensor._data = tensor._form = value
    tensor._edge = tensor._grad = tensor._ver = tensor._base = None
    if how:
        edge = input._edge if input._base is None else edge_of(input)
        if edge is not None:
            tensor._edge = node = _node()
            node.edges = (edge,)
            node.saved = node.shape = ()
            node.plan = _plan
            node.dtype = kind
            node.tick = tick()
            node.attrs = _all_dims[data.ndim]
            node.place = node.extra = None
    return tensor


def joined_in(dtype: Dtype | None, door: Callable, input: Tensor, dims: tuple, keepdim: bool) -> Tensor:
    """A reduction of the input converted to `dtype`; integers are joined as int64 and converted back."""
    if dtype is None:
        return door(input, dim=dims, keepdim=keepdim)
    return door(input.to(dtype), dim=dims, keepdim=keepdim).to(dtype)


def sum_to_size_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), (1, 4))
    yield Sample(real(3, 4), (4,))
    yield Sample(real(2, 3, 4), (3, 1))
    yield Fails(RuntimeError, real(3, 4), (3,))


@composite(sum_to_size_samples, method=True, reference=lambda torch: torch.Tensor.sum_to_size)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sums what broadcasting `size` to this shape would repeat."""
    target = sizes_of(size)
    shape = input._form.shape
    if shape == target:
        return input
    lead = len(shape) - len(target)
    if lead < 0 or any(have not in (1, extent) for have, extent in zip(target, shape[lead:], strict=True)):
        rule = f"size {list(target)} is not expandable to size {list(shape)}"
        raise error(RuntimeError, "sum_to_size", rule, input=input)
    dims = tuple(k for k in range(len(shape)) if k < lead or (target[k - lead] == 1 and shape[k] != 1))
    result = total_by_dim(input, dim=dims, keepdim=True)
    return result.reshape(target) if lead else result


def nan_samples() -> Iterator[Sample]:
    some = real(3, 4)
    some[0, 1] = some[2] = np.nan
    yield Sample(some)
    yield Sample(some, 0)
    yield Sample(some, (0, 1), True)
    yield Fails(IndexError, some, 2)


@composite(nan_samples, method=True, out=True)
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """The sum of the elements that are numbers."""
    return sum(without_nan("nansum", input), dim, keepdim, dtype=dtype)


def without_nan(op: str, input: Tensor) -> Tensor:
    check_tensor(op, input)
    if input.dtype.category < dtypes.FLOAT:
        return input
    return input.masked_fill(input.isnan(), 0)


# Means and products ----------------------------------------------------------------------------------------


def check_float(op: str, input: Tensor) -> None:
    check_tensor(op, input)
    if input.dtype.category < dtypes.FLOAT:
        raise error(RuntimeError, op, "the input must be a floating point or complex tensor", input=input)


def mean_spec(x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> Spec:
    check_float("mean", x)
    return Spec(reduced(x._form.shape, dim, keepdim), x.dtype)


def run_mean(x: np.ndarray, *, dim: tuple[int, ...], keepdim: bool) -> np.ndarray:
    count = extent_of(x.shape, dim)
    sums = add_up(in_float32(x), dim, keepdim)
    return np.asarray(sums / count if count else sums * np.nan).astype(x.dtype, copy=False)


def mean_parts(x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    return total_by_dim(x, dim=dim, keepdim=keepdim) / extent_of(x._form.shape, dim)


def mean_vjp(g: Tensor, *, x_shape: tuple, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    return (restore(g, dim, keepdim) / extent_of(x_shape, dim)).expand(x_shape)


def mean_samples() -> Iterator[Sample]:
    yield from reductions()()
    yield Sample(real(0, 2), 1)
    yield Sample(whole(3), dtype=dtypes.float64)
    yield Fails(RuntimeError, whole(3))


average, average_by_dim = (
    fused(name, mean_parts, spec=mean_spec, run=run_mean, vjp=mean_vjp, samples=samples, node=node)
    for name, samples, node in (
        ("mean", mean_samples, "MeanBackward0"),
        ("mean_dim", dim_samples, "MeanBackward1"),
    )
)


@face(average, method=True, out=True)
def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """The mean of all elements, or over dimensions."""
    dims = dims_of("mean", input, dim)
    return joined_in(dtype, average if dim is None else average_by_dim, input, dims, keepdim)


@composite(nan_samples, method=True, out=True)
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """The mean of the elements that are numbers."""
    check_float("nanmean", input)
    numbers = input.isnan().logical_not()
    return nansum(input, dim, keepdim, dtype=dtype) / numbers.sum(dim, keepdim)


def prod_vjp(g: Tensor, x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """g · the product of the other elements, those before and those behind: dividing would fail at zero."""
    from cleargrad.ops.scans import running_product, shift

    line = x if len(dim) == 1 else x.reshape(-1)
    axis = dim[0] if len(dim) == 1 else 0
    before = shift(running_product(line, dim=axis, reverse=False), dim=axis, steps=1, fill=1)
    behind = shift(running_product(line, dim=axis, reverse=True), dim=axis, steps=-1, fill=1)
    return restore(g, dim, keepdim) * conj(before * behind).reshape(x._form.shape)


def prod_samples() -> Iterator[Sample]:
    yield Sample(real(3, 2))
    yield Sample(real())
    yield Sample(real(3, 4, 2), 1)
    yield Sample(real(3, 4, 2), -1, True)
    yield Sample(np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0], [1.0, 2.0, 3.0]]), dim=1)
    yield Sample(real(0, 2), 0)
    yield Sample(whole(3, 4), 1)
    yield Sample(whole(3, 4), dtype=dtypes.float64)
    yield Fails(IndexError, real(2, 3), 2)


product, product_by_dim = (
    reduction(
        name,
        lambda x, y: x * y,
        start=1,
        result="sum",
        vjp=prod_vjp,
        samples=samples,
        node=node,
        join=partial(joined, "mul", 1.0),
    )
    for name, samples, node in (
        ("prod", prod_samples, "ProdBackward0"),
        ("prod_dim", dim_samples, "ProdBackward1"),
    )
)


@face(product, method=True, out=True)
def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Tensor:
    """The product of all elements, or over one dimension; integers multiply to int64."""
    if isinstance(dim, (tuple, list)):
        raise error(TypeError, "prod", f"argument 'dim' must be int, not {type(dim).__name__}")
    dims = dims_of("prod", input, dim)
    return joined_in(dtype, product if dim is None else product_by_dim, input, dims, keepdim)


def logsumexp_spec(x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> Spec:
    return Spec(reduced(x._form.shape, dim, keepdim), x.dtype)


def logsumexp_parts(x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    if not extent_of(x._form.shape, dim):
        return total_by_dim(x, dim=dim, keepdim=keepdim).log()
    top = (x.real if x.is_complex() else x).amax(dim, True)
    top = top.masked_fill(top.isinf(), 0)
    result = total_by_dim((x - top).exp(), dim=dim, keepdim=True).log() + top
    return result if keepdim else result.squeeze(dim)


log_total = fused(
    "logsumexp",
    logsumexp_parts,
    spec=logsumexp_spec,
    vjp=lambda g, x, out, *, dim, keepdim: restore(g, dim, keepdim) * (x - restore(out, dim, keepdim)).exp(),
    samples=reductions(whole_tensor=False),
)


@face(log_total, method=True, out=True, spaces=("", "special"))
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log Σ exp(x) over dimensions, without overflow."""
    dims = dims_of("logsumexp", input, dim)
    if input.dtype.category < dtypes.FLOAT:
        input = input.to(dtypes.get_default_dtype())
    return log_total(input, dim=dims, keepdim=keepdim)


# Truth -----------------------------------------------------------------------------------------------------


def truth_samples() -> Iterator[Sample]:
    yield Sample(truth(3, 4))
    yield Sample(truth(3, 4), 1)
    yield Sample(whole(3, 4, high=2), -1, True)
    yield Sample(truth(3, 4, 2), (0, 2))
    yield Sample(real(0, 3), 0)
    yield Fails(IndexError, truth(3, 4), 2)


every = reduction("all", lambda x, y: x & y, start=1, vjp=NO_GRAD, samples=truth_samples, result="bool")
some = reduction("any", lambda x, y: x | y, start=0, vjp=NO_GRAD, samples=truth_samples, result="bool")


@face(every, method=True, out=True)
def all_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether every element is true."""
    check_tensor("all", input)
    return every(input, dim=wrap_dims("all", dim, input._form.ndim), keepdim=keepdim)


@face(some, method=True, out=True)
def any_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether some element is true."""
    check_tensor("any", input)
    return some(input, dim=wrap_dims("any", dim, input._form.ndim), keepdim=keepdim)


def count_samples() -> Iterator[Sample]:
    yield Sample(whole(3, 4, high=2))
    yield Sample(whole(3, 4, high=2), 1)
    yield Sample(truth(3, 4), (0, -1))
    yield Fails(IndexError, truth(3, 4), 2)


@composite(count_samples, method=True, vjp=NO_GRAD)
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero."""
    dims = dims_of("count_nonzero", input, dim)
    return total_by_dim(input != 0, dim=dims, keepdim=False)


# Norms -----------------------------------------------------------------------------------------------------


def norm_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3, 4), 1, 0)
    yield Sample(real(3, 4), 3.0, (0, 1), True)
    yield Sample(real(3, 4), math.inf, dim=1)
    yield Sample(real(3, 4), "fro", (0, 1))
    yield Fails(RuntimeError, whole(3, 4))
    yield Fails(IndexError, real(3), 2, 1)


@composite(norm_samples, method=True, out=True)
def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Dtype | None = None
) -> Tensor:
    """The p-norm of the elements over dimensions; "fro" is p = 2, "nuc" the sum of the singular values."""
    from cleargrad.ops.norms import matrix_norm, vector_norm

    check_float("norm", input)
    if p == "nuc":
        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise error(RuntimeError, "norm", f"order {p} is not supported", input=input)
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)
