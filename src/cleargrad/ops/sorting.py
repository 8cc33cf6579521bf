"""Sorting: orders, the k largest, distinct values, and places in a sorted sequence.

NaN counts as the largest value, and equal elements keep their order, as in PyTorch. Gradients go back by
index: every output element is one input element. Read next: ops/matmul.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops import return_types
from cleargrad.ops.declare import REAL, as_type, composite, face, opaque, promoted
from cleargrad.ops.extremes import place_back, run_selection, selection_spec
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.record import data_dependent
from cleargrad.ops.reductions import in_float32
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.scans import checked_dim, from_line, line_of
from cleargrad.ops.statistics import ORDERED
from cleargrad.ops.views import check_tensor

# Orders ----------------------------------------------------------------------------------------------------


def order_of(line: np.ndarray, descending: bool) -> np.ndarray:
    """The stable order of the last axis."""
    if not descending:
        return np.argsort(line, axis=-1, kind="stable")
    backwards = np.argsort(line[..., ::-1], axis=-1, kind="stable")
    return line.shape[-1] - 1 - backwards[..., ::-1]


def taken(x: np.ndarray, dim: int, choose: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Elements of every line along `dim` by the indices that `choose(line)` gives, and those indices."""
    line = line_of(x, dim)
    index = choose(in_float32(line))
    values = np.take_along_axis(line, index, -1)
    return from_line(values, x.shape, dim), from_line(index, x.shape, dim)


def scatter_back(g: list, out1: Tensor, *, x_shape: tuple, dim: int) -> Tensor:
    """Each output's gradient goes to the element it was; no element was taken twice."""
    return g[0].new_zeros(x_shape).scatter(dim, out1, g[0])


def sort_spec(x: Tensor, *, dim: int, descending: bool) -> list[Spec]:
    if x.dtype.category not in REAL:
        raise error(RuntimeError, "sort", f"not implemented for {x.dtype}", input=x)
    return [Spec(x._form.shape, x.dtype), Spec(x._form.shape, dtypes.int64)]


def sort_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3, 4), 0)
    yield Sample(real(2, 3, 4), -2, True)
    yield Sample(real(), 0)
    yield Sample(real(0, 3), 1)
    yield Sample(np.array([2, 1, 2, 1, 3]), descending=True, stable=True)
    yield Fails(IndexError, real(3), 1)


sorted_op = opaque(
    "sort",
    spec=sort_spec,
    run=lambda x, *, dim, descending: taken(x, dim, lambda line: order_of(line, descending)),
    vjp=scatter_back,
    samples=sort_samples,
    outputs=2,
)


@face(sorted_op, method=True, out=True)
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> return_types.Named:
    """The elements in order along a dimension, and the index each came from; always stable."""
    return return_types.sort(sorted_op(input, dim=checked_dim("sort", input, dim), descending=descending))


@composite(sort_samples, method=True, vjp=NO_GRAD)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that put a dimension in order."""
    return sort(input, dim, descending)[1]


@composite(lambda: iter([Sample(real(3, 4)), Sample(real()), Fails(TypeError, 3)]), method=True, out=True)
def msort(input: Tensor) -> Tensor:
    """The elements in order along the first dimension."""
    return sort(input, 0)[0]


# The k largest ---------------------------------------------------------------------------------------------


def first_of_order(line: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """The indices of the k first elements of the order, without ordering the rest."""
    size = line.shape[-1]
    if k == 0 or k * 4 > size:
        return order_of(line, largest)[..., :k]
    if largest:
        chosen = np.argpartition(line, size - k, axis=-1)[..., size - k :]
    else:
        chosen = np.argpartition(line, k - 1, axis=-1)[..., :k]
    chosen = np.sort(chosen, axis=-1)
    order = order_of(np.take_along_axis(line, chosen, -1), largest)
    return np.take_along_axis(chosen, order, -1)


def topk_spec(x: Tensor, *, k: int, dim: int, largest: bool) -> list[Spec]:
    shape = x._form.shape
    if x.dtype.category not in ORDERED:
        raise error(RuntimeError, "topk", f"not implemented for {x.dtype}", input=x)
    if not 0 <= k <= (shape[dim] if shape else 1):
        raise error(RuntimeError, "topk", f"selected index k out of range: {k}", input=x)
    final = (*shape[:dim], k, *shape[dim + 1 :]) if shape else ()
    return [Spec(final, x.dtype), Spec(final, dtypes.int64)]


def spaced(*shape: int) -> np.ndarray:
    """Numbers that stay distinct as integers: PyTorch's choice among equals follows no rule."""
    return real(*shape, low=0.0, high=100.0)


def topk_samples() -> Iterator[Sample]:
    yield Sample(spaced(3, 5), 2)
    yield Sample(spaced(9, 3), 1, 0)
    yield Sample(spaced(3, 9), 2, 1, False)
    yield Sample(spaced(3, 4), 4, -1, True, True)
    yield Sample(real(3, 4), 0)
    yield Sample(real(), 1)
    yield Sample(spaced(12).astype(int), 3)
    yield Fails(RuntimeError, real(3), 4)
    yield Fails(IndexError, real(3), 1, 1)


topk_op = opaque(
    "topk",
    spec=topk_spec,
    run=lambda x, *, k, dim, largest: taken(x, dim, lambda line: first_of_order(line, k, largest)),
    vjp=scatter_back,
    samples=topk_samples,
    outputs=2,
)


@face(topk_op, method=True, out=True)
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> return_types.Named:
    """The k largest (or smallest) elements along a dimension, in order, and their indices."""
    axis = checked_dim("topk", input, dim)
    if not input._form.ndim:
        k = max(k, 1)  # PyTorch gives the number back for k = 0 too
    return return_types.topk(topk_op(input, k=k, dim=axis, largest=largest))


def kth_spec(x: Tensor, *, k: int, dim: int, keepdim: bool) -> list[Spec]:
    specs = selection_spec("kthvalue", x, dim, keepdim, ORDERED)
    if not 1 <= k <= (x._form.shape[dim] if x._form.ndim else 1):
        rule = f"selected number k out of range for dimension {dim}: {k}"
        raise error(RuntimeError, "kthvalue", rule, input=x)
    return specs


def kth_samples() -> Iterator[Sample]:
    yield Sample(spaced(3, 5), 2)
    yield Sample(spaced(4, 3), 4, 0, True)
    yield Sample(spaced(9).astype(int), 3)
    yield Fails(RuntimeError, real(3), 0)
    yield Fails(RuntimeError, real(3), 4)
    yield Fails(IndexError, real(3), 1, 1)


kth_op = opaque(
    "kthvalue",
    spec=kth_spec,
    run=lambda x, *, k, dim, keepdim: run_selection(
        lambda line, axis: np.argpartition(line, k - 1, axis=axis).take(k - 1, axis=axis), x, dim, keepdim
    ),
    vjp=place_back,
    samples=kth_samples,
    outputs=2,
)


@face(kth_op, method=True, out=True)
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> return_types.Named:
    """The k-th smallest element along a dimension, counted from 1, and its index."""
    axis = checked_dim("kthvalue", input, dim)
    return return_types.kthvalue(kth_op(input, k=k, dim=axis, keepdim=keepdim))


# Distinct values -------------------------------------------------------------------------------------------


def as_rows(x: np.ndarray, dim: int | None) -> np.ndarray:
    """What is compared, one per row: elements, or parts along `dim`."""
    if dim is None:
        return x.reshape(-1, 1)
    if x.size == 0 and x.shape[dim]:
        rule = "there are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        raise error(RuntimeError, "unique", rule, input=x)
    return np.moveaxis(x, dim, 0).reshape(x.shape[dim], x.size // max(x.shape[dim], 1))


def from_rows(x: np.ndarray, rows: np.ndarray, dim: int | None) -> np.ndarray:
    """The rows with these numbers, in the shape of x."""
    return x.reshape(-1)[rows] if dim is None else np.take(x, rows, axis=dim)


def grouped(x: np.ndarray, rows: np.ndarray, order: np.ndarray, dim: int | None) -> tuple:
    """Runs of equal rows in an order: one row each, the run every row belongs to, and the runs' lengths."""
    in_order = rows[order]
    starts = np.ones(len(rows), bool)
    starts[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    run = np.cumsum(starts) - 1
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = run
    shape = x.shape if dim is None else (x.shape[dim],)
    counts = np.bincount(run, minlength=int(starts.sum())).astype(np.int64)
    return from_rows(x, order[starts], dim), inverse.reshape(shape), counts


def run_unique(x: np.ndarray, *, dim: int | None) -> tuple:
    rows = in_float32(as_rows(x, dim))
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    return grouped(x, rows, order, dim)


def run_unique_consecutive(x: np.ndarray, *, dim: int | None) -> tuple:
    rows = in_float32(as_rows(x, dim))
    return grouped(x, rows, np.arange(len(rows)), dim)


def unique_samples() -> Iterator[Sample]:
    yield Sample(whole(8, high=4))
    yield Sample(whole(3, 4), return_inverse=True)
    yield Sample(whole(8, high=4), return_counts=True)
    yield Sample(whole(6, 2, high=2), return_inverse=True, return_counts=True, dim=0)
    yield Sample(whole(2, 6, high=2), dim=-1)
    yield Sample(whole(0))
    yield Fails(IndexError, whole(3), dim=1)


unique_op = opaque(
    "unique", spec=data_dependent("unique"), run=run_unique, vjp=NO_GRAD, samples=unique_samples, outputs=3
)
unique_consecutive_op = opaque(
    "unique_consecutive",
    spec=data_dependent("unique_consecutive"),
    run=run_unique_consecutive,
    vjp=NO_GRAD,
    samples=unique_samples,
    outputs=3,
)


def distinct(name: str, door: Callable, input: Tensor, inverse: bool, counts: bool, dim: int | None) -> Any:
    check_tensor(name, input)
    axis = None if dim is None or not input._form.ndim else checked_dim(name, input, dim)
    values, places, numbers = door(input, dim=axis)
    results = (values, *([places] if inverse else []), *([numbers] if counts else []))
    return results if len(results) > 1 else values


@face(unique_op, method=True)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements, or parts along a dimension, in order; which one each was; how often."""
    return distinct("unique", unique_op, input, return_inverse, return_counts, dim)


@face(unique_consecutive_op, method=True)
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements, or parts along a dimension, without repetitions of their predecessor."""
    return distinct(
        "unique_consecutive", unique_consecutive_op, input, return_inverse, return_counts, dim
    )  # fmt: skip


# Places in a sorted sequence -------------------------------------------------------------------------------


def search_spec(edges: Tensor, values: Any, order: Tensor | None, *, right: bool, dtype: Any) -> Spec:
    rows = edges._form.shape
    wanted = values._form.shape if isinstance(values, Tensor) else ()
    if len(rows) != 1 and (not rows or rows[:-1] != wanted[:-1] or len(rows) != len(wanted)):
        rule = "the sorted sequence must be 1-d, or match the values in all but the last dimension"
        raise error(RuntimeError, "searchsorted", rule, sorted_sequence=edges, input=values)
    if order is not None and order._form.shape != rows:
        rule = "the sorter must have the shape of the sorted sequence"
        raise error(RuntimeError, "searchsorted", rule, sorted_sequence=edges, sorter=order)
    return Spec(wanted, dtype)


def run_search(
    edges: np.ndarray, values: Any, order: np.ndarray | None, *, right: bool, dtype: Any
) -> np.ndarray:
    if order is not None:
        edges = np.take_along_axis(edges, order, -1)
    common = promoted("searchsorted", ("sorted_sequence", "input"), (edges, values)).numpy
    edges, values = in_float32(as_type(edges, common)), in_float32(as_type(values, common))
    side: Any = "right" if right else "left"
    if edges.ndim == 1:
        places = np.searchsorted(edges, values, side)
    else:
        places = np.empty(values.shape, np.int64)
        for row in np.ndindex(edges.shape[:-1]):
            places[row] = np.searchsorted(edges[row], values[row], side)
    return np.where(values == values, places, edges.shape[-1]).astype(dtype.numpy)  # NaN belongs at the end


def search_samples() -> Iterator[Sample]:
    line = np.array([-1.0, 0.0, 0.5, 2.0])
    yield Sample(line, real(3, 4))
    yield Sample(line, np.array([0.0, 2.0, 3.0]), right=True)
    yield Sample(line, 0.3, out_int32=True)
    yield Sample(np.array([0, 1, 2]), real(3))
    yield Sample(np.sort(real(2, 5)), real(2, 3, seed=1), side="right")
    yield Sample(line[::-1].copy(), real(3), sorter=np.array([3, 2, 1, 0]))
    yield Fails(RuntimeError, np.sort(real(2, 5)), real(3, 3))
    yield Fails(RuntimeError, line, line, right=True, side="left")


search_op = opaque("searchsorted", spec=search_spec, run=run_search, vjp=NO_GRAD, samples=search_samples)


@face(search_op, out=True)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each value belongs in a sorted sequence: before its equals, or behind them with right=True."""
    check_tensor("searchsorted", sorted_sequence, "sorted_sequence")
    if side not in (None, "left", "right") or (right and side == "left"):
        rule = f"side must be 'left' or 'right' and agree with right, got side={side!r}, right={right}"
        raise error(RuntimeError, "searchsorted", rule)
    dtype = dtypes.int32 if out_int32 else dtypes.int64
    return search_op(sorted_sequence, input, sorter, right=right or side == "right", dtype=dtype)


def bucketize_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), np.array([-1.0, 0.0, 0.5]))
    yield Sample(0.5, np.array([-1.0, 0.0, 0.5]), right=True)
    yield Fails(RuntimeError, real(3), np.sort(real(2, 3)))


@composite(bucketize_samples, vjp=NO_GRAD, out=True)
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the interval, between sorted boundaries, that each value lies in."""
    check_tensor("bucketize", boundaries, "boundaries")
    if boundaries._form.ndim != 1:
        raise error(RuntimeError, "bucketize", "boundaries tensor must be 1-d", boundaries=boundaries)
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
