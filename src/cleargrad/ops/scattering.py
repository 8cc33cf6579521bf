"""Writing element by element at places along one dimension: scatter, scatter_add and the reductions.

These are the mirror of `gather`: where gather reads x[index[i][j]][j], scatter writes there.
Read next: ops/joining.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec, wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.arrays.precision import widen
from cleargrad.devices.cpu.arrays.scatter import join_flat, positions_along
from cleargrad.errors import error
from cleargrad.ops.apply import NUMBERS
from cleargrad.ops.declare import face, fused, opaque
from cleargrad.ops.gathering import as_line, check_index, check_places, check_rows, gather
from cleargrad.ops.masking import as_number
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# Checks ----------------------------------------------------------------------------------------------------


def check_scatter(op: str, x: Any, dim: int, index: Any, src: Any = None) -> int:
    """The dimension counted from the front, or the error PyTorch raises for these shapes and dtypes."""
    check_tensor(op, x)
    check_index(op, index, matrix=None)
    dim = wrap_dim(op, dim, x._form.ndim)
    if src is not None:
        check_tensor(op, src, "src")
        if src.dtype is not x.dtype:
            raise error(RuntimeError, op, "input and src must have the same dtype", input=x, src=src)
    if not index._form.size:
        return dim
    wanted = as_line(index)._form.shape
    limits = [(as_line(x)._form.shape, dim)] + ([] if src is None else [(as_line(src)._form.shape, None)])
    for shape, free in limits:
        if len(shape) != len(wanted):
            rule = "index must have the same number of dimensions as input and src"
            raise error(RuntimeError, op, rule, input=x, index=index, src=src)
        if any(axis != free and n > m for axis, (n, m) in enumerate(zip(wanted, shape, strict=True))):
            rule = f"index must be no larger than input apart from dimension {dim}, and no larger than src"
            raise error(RuntimeError, op, rule, input=x, index=index, src=src)
    return dim


def corner(src: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The part of `src` that an index of this shape reads."""
    return src if src._form.shape == shape else src[tuple(slice(0, extent) for extent in shape)]


def scatter_with(door: Callable, x: Tensor, index: Tensor, src: Any, **attrs: Any) -> Tensor:
    """Calls a scattering op with 0-d tensors as lines, and with no more of `src` than the index reads."""
    if not index._form.size:
        return x.clone()
    index = as_line(index)
    if isinstance(src, Tensor):
        src = corner(as_line(src), index._form.shape)
    result = door(as_line(x), index, src, **attrs)
    return result if x._form.ndim else result.reshape(())


# Assigning and adding --------------------------------------------------------------------------------------


def scatter_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), 0, np.array([[0, 1, 2], [3, 0, 1]]), real(2, 3, seed=1))
    yield Sample(real(4, 3), 1, np.array([[2, 0], [0, 1]]), real(3, 3, seed=1))
    yield Sample(real(2, 4, 3), -1, np.array([[[0], [1]]]), 2.5)
    yield Sample(real(4, 3), 0, index=np.array([[0, 1, 2]]), value=1)
    yield Sample(real(), 0, np.array(0), real(seed=1))
    yield Sample(real(4, 3), 0, np.zeros((0, 3), np.int64), real(2, 3, seed=1))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([[4]]), 1.0)
    yield Fails(RuntimeError, real(4, 3), 0, np.array([0]), real(1))
    yield Fails(RuntimeError, real(4, 3), 0, np.zeros((2, 3), np.int64), real(2, 2))
    yield Fails(RuntimeError, real(4, 3), 0, np.zeros((2, 3), np.int64), whole(2, 3))
    yield Fails(RuntimeError, real(4, 3), 0, np.zeros((2, 3), np.int64), real(2, 3), reduce="sum")
    yield Fails(IndexError, real(4, 3), 2, np.array([[0]]), 1.0)


def value_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), np.array([[0, 1, 2], [3, 0, 1]]), 2.5, dim=0)


def scatter_add_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), 0, whole(5, 3, high=4), real(5, 3, seed=1))
    yield Sample(real(4, 3), 1, whole(2, 2, high=3), real(3, 3, seed=1))
    yield Sample(real(), 0, np.array(0), real(seed=1))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([[4]]), real(1, 1))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([[0]]), whole(1, 1))


def scatter_spec(x: Tensor, index: Tensor, src: Any, *, dim: int) -> Spec:
    return Spec(x._form.shape, x.dtype)


def run_scatter(x: np.ndarray, index: np.ndarray, src: Any, *, dim: int) -> np.ndarray:
    check_places("scatter", RuntimeError, index, x.shape[dim], dim)
    result = x.copy(order="C")
    result.reshape(-1)[positions_along(index, x.shape, dim)] = src
    return result


def run_scatter_add(x: np.ndarray, index: np.ndarray, src: np.ndarray, *, dim: int) -> np.ndarray:
    check_places("scatter_add", RuntimeError, index, x.shape[dim], dim)
    result = np.array(widen(x), order="C")
    join_flat(np.add, result, positions_along(index, x.shape, dim), src)
    return result.astype(x.dtype, copy=False)


def erase(g: Tensor, index: Tensor, *, dim: int) -> Tensor:
    """The gradient of what was overwritten: none at the places, all elsewhere."""
    return scatter_value(g, index, 0, dim=dim)


def collect(g: Tensor, index: Tensor, *, dim: int) -> Tensor:
    return gather(g, dim, index)


scatter_src = opaque(
    "scatter",
    spec=scatter_spec,
    run=run_scatter,
    vjp=(erase, None, collect),
    samples=scatter_samples,
    spec_first=False,
)
scatter_value = fused(
    "scatter_value",
    lambda x, index, value, *, dim: scatter_src(
        x, index, x.new_full((), value).expand(index._form.shape), dim=dim
    ),
    spec=lambda x, index, value, *, dim: Spec(x._form.shape, x.dtype),
    run=lambda x, index, value, *, dim: run_scatter(x, index, value, dim=dim),
    vjp=(erase, None, None),
    samples=value_samples,
    node="ScatterBackward1",
    spec_first=False,
    rounds=False,
)
scatter_sum = opaque(
    "scatter_add",
    spec=scatter_spec,
    run=run_scatter_add,
    vjp=(lambda g: g, None, collect),
    samples=scatter_add_samples,
    spec_first=False,
)


@face(scatter_src, method=True, inplace=True, out=True)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """A copy of `input` with elements of `src`, or one value, at places named along a dimension."""
    src = value if src is None else src
    number = isinstance(src, NUMBERS)
    dim = check_scatter("scatter", input, dim, index, None if number else src)
    if src is None:
        raise error(TypeError, "scatter", "argument 'src' must be Tensor or Number, not NoneType")
    if reduce is not None:
        return scatter_reduced(input, dim, index, src, reduce)
    if number:
        return scatter_with(
            scatter_value, input, index, as_number("scatter", src, input.dtype).item(), dim=dim
        )
    return scatter_with(scatter_src, input, index, src, dim=dim)


def scatter_reduced(input: Tensor, dim: int, index: Tensor, src: Any, reduce: str) -> Tensor:
    """The old spelling of scatter_reduce."""
    if reduce not in ("add", "multiply"):
        raise error(RuntimeError, "scatter", "reduce argument must be either add or multiply", reduce=reduce)
    if isinstance(src, Tensor):
        rule = "The reduce argument of scatter with Tensor src is deprecated. Use scatter_reduce instead."
        warnings.warn(rule, UserWarning, stacklevel=3)
    else:
        src = input.new_full(index._form.shape, src)
    return scatter_reduce(input, dim, index, src, "sum" if reduce == "add" else "prod")


@face(scatter_sum, method=True, inplace=True, out=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of `input` with elements of `src` added at the named places, repetitions counted."""
    check_tensor("scatter_add", src, "src")
    dim = check_scatter("scatter_add", input, dim, index, src)
    return scatter_with(scatter_sum, input, index, src, dim=dim)


# Reductions ------------------------------------------------------------------------------------------------

JOINS = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def start_of(reduce: str, dtype: np.dtype) -> Any:
    """The value that does not change a reduction."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def reduce_places(
    x: np.ndarray, positions: np.ndarray, src: np.ndarray, reduce: str, include_self: bool
) -> np.ndarray:
    result = np.array(widen(x), order="C")
    if not include_self:
        result.reshape(-1)[positions] = start_of(reduce, result.dtype)
    join_flat(JOINS[reduce], result, positions, src)
    if reduce == "mean":
        counts = np.full(x.shape, int(include_self))
        join_flat(np.add, counts, positions, np.ones(positions.shape, counts.dtype))
        np.maximum(counts, 1, out=counts)
        result = result // counts if x.dtype.kind in "iu" else result / counts.astype(result.dtype)
    return result.astype(x.dtype, copy=False)


def reduce_vjp(
    g: Tensor,
    x: Tensor,
    index: Tensor,
    src: Tensor,
    out: Tensor,
    *,
    dim: int,
    reduce: str,
    include_self: bool,
) -> tuple:
    """Gradients of x and src. A tie for the extreme shares the gradient evenly."""

    def pick(values: Tensor) -> Tensor:
        return gather(values, dim, index)

    def kept(values: Tensor) -> Tensor:
        """The values of x that took part in the reduction; the others count as zero."""
        return values if include_self else erase(values, index, dim=dim)

    if reduce == "sum":
        return kept(g), None, pick(g)
    if reduce == "mean":
        ones = g.new_ones(x._form.shape)
        counts = scatter_add(kept(ones), dim, index, g.new_ones(src._form.shape))
        share = g / counts.maximum(ones)
        return kept(share), None, pick(share)
    if reduce == "prod":
        return prod_vjp(g, x, index, src, out, dim=dim, include_self=include_self)
    in_x = kept((x == out).to(g.dtype))
    in_src = (src == pick(out)).to(g.dtype)
    share = g / scatter_add(in_x, dim, index, in_src)
    return share * in_x, None, pick(share) * in_src


def prod_vjp(
    g: Tensor, x: Tensor, index: Tensor, src: Tensor, out: Tensor, *, dim: int, include_self: bool
) -> tuple:
    """The product of all others; instead of dividing by a factor that is zero, it is left out."""

    def product(first: Tensor, others: Tensor) -> Tensor:
        return scatter_reduce_op(first, index, others, dim=dim, reduce="prod", include_self=include_self)

    not_zero = x.masked_fill(x == 0, 1)
    grad_x = g * product(not_zero, src) / not_zero
    zero = src == 0
    zeros = gather(scatter_add(g.new_zeros(x._form.shape), dim, index, zero.to(g.dtype)), dim, index)
    lone = zero.logical_and(zeros == 1)
    without_lone = gather(g * product(x, src.masked_fill(lone, 1)), dim, index)
    divided = gather(g * out, dim, index) / src.masked_fill(zero, 1)
    grad_x = grad_x if include_self else erase(grad_x, index, dim=dim)
    return grad_x, None, without_lone.where(lone, divided)


def reducing_op(name: str, samples: Callable, kind: type[Exception]) -> Callable:
    """An op `(x, index, src, dim, reduce, include_self)`; `kind` is raised for places outside."""

    def run(
        x: np.ndarray, index: np.ndarray, src: np.ndarray, *, dim: int, reduce: str, include_self: bool
    ) -> np.ndarray:
        check_places(name, kind, index, x.shape[dim], dim)
        return reduce_places(x, positions_along(index, x.shape, dim), src, reduce, include_self)

    return opaque(
        name,
        spec=lambda x, index, src, *, dim, reduce, include_self: Spec(x._form.shape, x.dtype),
        run=run,
        vjp=reduce_vjp,
        samples=samples,
        spec_first=False,
    )


def scatter_reduce_samples() -> Iterator[Sample]:
    for reduce in JOINS:
        yield Sample(real(4, 3), 0, whole(5, 3, high=4), real(5, 3, seed=1), reduce)
        yield Sample(
            real(4, 3), 1, whole(2, 2, high=3), real(3, 3, seed=1), reduce=reduce, include_self=False
        )
    yield Sample(whole(4, low=-9, high=9), 0, whole(6, high=4), whole(6, low=-9, high=9), "mean")
    yield Sample(real(), 0, np.array(0), real(seed=1), "sum")
    yield Fails(RuntimeError, real(4, 3), 0, np.array([[4]]), real(1, 1), "sum")
    yield Fails(RuntimeError, real(4, 3), 0, np.array([[0]]), real(1, 1), "median")


def index_reduce_samples() -> Iterator[Sample]:
    for reduce in ("prod", "mean", "amax", "amin"):
        yield Sample(real(4, 3), 0, np.array([3, 0, 3]), real(3, 3, seed=1), reduce)
        yield Sample(real(2, 4, 3), -1, np.array([2, 0]), real(2, 4, 2, seed=1), reduce, include_self=False)
    yield Fails(IndexError, real(4, 3), 0, np.array([4]), real(1, 3), "prod")
    yield Fails(RuntimeError, real(4, 3), 0, np.array([0]), real(1, 3), "sum")
    yield Fails(RuntimeError, real(4, 3), 0, np.array([0, 1]), real(3, 3), "prod")


scatter_reduce_op = reducing_op("scatter_reduce", scatter_reduce_samples, RuntimeError)
index_reduce_op = reducing_op("index_reduce", index_reduce_samples, IndexError)


def check_reduce(op: str, reduce: str, known: tuple[str, ...]) -> None:
    if reduce not in known:
        raise error(RuntimeError, op, f"expected reduce to be one of {', '.join(known)}, got {reduce!r}")


@face(scatter_reduce_op, method=True, inplace=True, out=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of `input` with the elements of `src` joined into the named places by a reduction."""
    check_tensor("scatter_reduce", src, "src")
    check_reduce("scatter_reduce", reduce, ("sum", "prod", "mean", "amax", "amin"))
    dim = check_scatter("scatter_reduce", input, dim, index, src)
    attrs = {"dim": dim, "reduce": reduce, "include_self": include_self}
    return scatter_with(scatter_reduce_op, input, index, src, **attrs)


@face(index_reduce_op, method=True, inplace=True, out=True)
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of `input` with slices of `source` joined into the named parts of a dimension by a reduction."""
    check_tensor("index_reduce", input)
    check_index("index_reduce", index)
    check_reduce("index_reduce", reduce, ("prod", "mean", "amax", "amin"))
    dim = wrap_dim("index_reduce", dim, input._form.ndim)
    check_rows("index_reduce", input, dim, index, source, RuntimeError)
    shape = as_line(source)._form.shape
    column = index.reshape([-1 if axis == dim else 1 for axis in range(len(shape))]).expand(shape)
    attrs = {"dim": dim, "reduce": reduce, "include_self": include_self}
    return scatter_with(index_reduce_op, input, column, source, **attrs)
