"""Counting values: into intervals (histc, histogram), into cells of a grid (histogramdd), or each (bincount).

Read next: ops/scans.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, count
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops import return_types
from cleargrad.ops.declare import composite, face, opaque
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.ranges import points
from cleargrad.ops.record import data_dependent
from cleargrad.ops.reductions import in_float32
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# On a line, equal intervals --------------------------------------------------------------------------------


def histc_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(20), 5, -1.0, 1.5)
    yield Sample(real(20), bins=4, min=-2, max=2)
    yield Sample(np.zeros(3), 4)
    yield Fails(RuntimeError, real(3), 0)
    yield Fails(RuntimeError, real(3), 4, 2, 1)
    yield Fails(RuntimeError, whole(3), 4)


def histc_spec(x: Tensor, *, bins: int, low: float, high: float) -> Spec:
    if x.dtype.category != dtypes.FLOAT:
        raise error(NotImplementedError, "histc", f"not implemented for {x.dtype}", input=x)
    if bins <= 0:
        raise error(RuntimeError, "histc", f"bins must be > 0, got {bins}")
    if low > high:
        raise error(RuntimeError, "histc", f"max must be larger than min, got min {low} and max {high}")
    return Spec((bins,), x.dtype)


def run_histc(x: np.ndarray, *, bins: int, low: float, high: float) -> np.ndarray:
    values = in_float32(x).reshape(-1)
    if low == high and values.size:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise error(RuntimeError, "histc", f"range of [{low}, {high}] is not finite")
    edges = np.linspace(low, high, bins + 1).astype(values.dtype)
    place = np.searchsorted(edges, values, side="right") - 1
    place[values == edges[-1]] = bins - 1  # the last bin is closed
    inside = place[(place >= 0) & (place < bins)]
    return np.bincount(inside, minlength=bins).astype(x.dtype)


equal_bins = opaque("histc", spec=histc_spec, run=run_histc, vjp=NO_GRAD, samples=histc_samples)


@face(equal_bins, method=True, out=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements fall into each of `bins` equal intervals; min = max takes the range of the data."""
    check_tensor("histc", input)
    return equal_bins(input, bins=bins, low=min, high=max)


# On a line or a grid, any intervals ------------------------------------------------------------------------


def edges_spec(x: Tensor, *, bins: int, low: float | None, high: float | None) -> Spec:
    narrow = x.dtype in (dtypes.float16, dtypes.bfloat16)
    if x.dtype.category != dtypes.FLOAT or (narrow and low is None and x._form.size):
        raise error(NotImplementedError, "histogram", f"not implemented for {x.dtype}", input=x)
    if bins <= 0:
        raise error(RuntimeError, "histogram", f"bins must be > 0, but got {bins}")
    if low is not None and high is not None and low > high:
        raise error(RuntimeError, "histogram", f"min should not exceed max, but got min {low} max {high}")
    return Spec((bins + 1,), x.dtype)


def run_edges(x: np.ndarray, *, bins: int, low: float | None, high: float | None) -> np.ndarray:
    """The ends of equal intervals over a range, or over that of the data."""
    if low is None or high is None:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise error(RuntimeError, "histogram", f"range [{low}, {high}] is not finite")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return points(low, high, bins + 1, in_float32(x).dtype).astype(x.dtype)


edges_op = opaque(
    "histogram_edges",
    spec=edges_spec,
    run=run_edges,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(real(5), bins=3, low=None, high=None)]),
)


def grid_spec(x: Tensor, weight: Tensor | None, *edges: Tensor, density: bool) -> Spec:
    if x.dtype.category != dtypes.FLOAT:
        raise error(NotImplementedError, "histogram", f"not implemented for {x.dtype}", input=x)
    for line in edges:
        if line._form.ndim != 1 or line._form.size < 2 or line.dtype is not x.dtype:
            rule = "the edges of bins must be a line of two or more numbers of the input's dtype"
            raise error(RuntimeError, "histogram", rule, input=x, bins=line)
    if weight is not None and (weight._form.shape != x._form.shape[:-1] or weight.dtype is not x.dtype):
        rule = "weight must have the input's dtype and one number for each point"
        raise error(RuntimeError, "histogram", rule, input=x, weight=weight)
    return Spec(tuple(line._form.size - 1 for line in edges), x.dtype)


def run_grid(x: np.ndarray, weight: np.ndarray | None, *edges: np.ndarray, density: bool) -> np.ndarray:
    """How many points, the rows of x, lie in each cell; every cell but the last is open on its right."""
    kind, x, edges = x.dtype, in_float32(x), tuple(map(in_float32, edges))
    shape = tuple(line.size - 1 for line in edges)
    places = np.empty(x.shape[::-1], np.int64)
    for axis, line in enumerate(edges):
        places[axis] = np.searchsorted(line, x[:, axis], side="right") - 1
        places[axis][x[:, axis] == line[-1]] = line.size - 2
    inside = np.all((places >= 0) & (places < np.array(shape)[:, None]), axis=0)
    cells = np.ravel_multi_index(tuple(places[:, inside]), shape)
    counts = np.bincount(cells, None if weight is None else weight[inside], count(shape)).reshape(shape)
    if density:
        counts = counts / counts.sum()
        for axis, line in enumerate(edges):
            counts = counts / np.diff(line).reshape(-1, *[1] * (len(edges) - axis - 1))
    return counts.astype(kind)


grid_op = opaque(
    "histogram_counts",
    spec=grid_spec,
    run=run_grid,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(real(6, 1), None, np.linspace(-2, 2, 4), density=False)]),
)


def histogram_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 4)
    yield Sample(real(20), bins=3, range=(-1.0, 1.5))
    yield Sample(real(20), np.array([-2.0, -0.5, 0.25, 1.0]))
    yield Sample(real(6), np.array([-2.0, 0.5, 1.0]), weight=real(6, seed=1, low=0.2), density=True)
    yield Sample(np.zeros(3), 3)
    yield Sample(np.zeros(0), 3)
    yield Fails(RuntimeError, real(3), 0)
    yield Fails(RuntimeError, real(3), 4, range=(2.0, 1.0))
    yield Fails(RuntimeError, real(3), 4, weight=real(2))
    yield Fails(NotImplementedError, whole(3), 4)
    yield Fails(RuntimeError, np.array([np.nan, 1.0]), 4)


@composite(histogram_samples, method=True, out=True, vjp=NO_GRAD)
def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple:
    """How many elements, or how much weight, falls into each interval; and the intervals' ends."""
    check_tensor("histogram", input)
    if range is not None and isinstance(bins, Tensor):
        raise error(TypeError, "histogram", "takes a range or the ends of intervals, not both")
    points = input.reshape(-1, 1)
    edges = edges_along(points, [bins], None if range is None else [tuple(range)])
    weights = None if weight is None else weight.reshape(-1)
    return return_types.histogram((grid_op(points, weights, *edges, density=density), edges[0]))


def edges_along(points: Tensor, bins: list, ranges: list[tuple] | None) -> list[Tensor]:
    """For each column of the points the ends of its intervals: given, or counted off."""
    edges = []
    for axis, number in enumerate(bins):
        if not isinstance(number, Tensor):
            low, high = (None, None) if ranges is None else ranges[axis]
            number = edges_op(points.select(1, axis), bins=number, low=low, high=high)
        edges.append(number)
    return edges


def histogramdd_samples() -> Iterator[Sample]:
    yield Sample(real(6, 2), [2, 3])
    yield Sample(real(2, 4, 2), 3)
    yield Sample(real(6, 2), [np.array([-2.0, 0.0, 1.5]), np.array([-1.0, 0.5, 2.0])])
    yield Sample(real(8, 2), [2, 2], [-2.0, 2.0, -1.0, 1.5], real(8, seed=1, low=0.2), True)
    yield Fails(RuntimeError, real(6), 2)
    yield Fails(RuntimeError, real(6, 2), [2])
    yield Fails(RuntimeError, real(6, 2), [2, 2], range=[0.0, 1.0])


@composite(histogramdd_samples, vjp=NO_GRAD)
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> tuple:
    """The same for points, the last dimension of the input, in the cells of a grid."""
    check_tensor("histogramdd", input)
    if input._form.ndim < 2:
        raise error(
            RuntimeError, "histogramdd", "input tensor should have at least 2 dimensions", input=input
        )
    size = input._form.shape[-1]
    bins = list(bins) if isinstance(bins, (tuple, list)) else [bins] * size
    if len(bins) != size:
        rule = f"the size of bins must be equal to the innermost dimension of the input, {size}"
        raise error(RuntimeError, "histogramdd", rule, input=input, bins=len(bins))
    if range is not None and len(range) != 2 * size:
        rule = f"for a {size}-dimensional histogram range should have {2 * size} elements, got {len(range)}"
        raise error(RuntimeError, "histogramdd", rule)
    points = input.reshape(-1, size)
    edges = edges_along(points, bins, None if range is None else list(zip(range[::2], range[1::2])))
    weights = None if weight is None else weight.reshape(-1)
    counts = grid_op(points, weights, *edges, density=density)
    return return_types.histogramdd((counts, tuple(edges)))


# Of whole numbers ------------------------------------------------------------------------------------------


def bincount_samples() -> Iterator[Sample]:
    yield Sample(whole(8))
    yield Sample(whole(8), minlength=9)
    yield Sample(whole(8), np.linspace(0, 1, 8))
    yield Fails(RuntimeError, np.array([1, -1]))
    yield Fails(RuntimeError, whole(2, 2))
    yield Fails(RuntimeError, real(2))


def run_bincount(x: np.ndarray, weights: np.ndarray | None, *, minlength: int) -> np.ndarray:
    if x.dtype.kind not in "iu":
        raise error(NotImplementedError, "bincount", f"not implemented for {dtypes.OF_NUMPY[x.dtype]}")
    if x.ndim != 1 or (x.size and x.min() < 0):
        raise error(RuntimeError, "bincount", "only supports 1-d non-negative integral inputs", input=x)
    if weights is not None and weights.shape != x.shape:
        rule = "weights must be 1-d and as long as the input"
        raise error(RuntimeError, "bincount", rule, input=x, weights=weights)
    counts = np.bincount(x, weights, minlength)
    return counts.astype(np.float32) if weights is not None and weights.dtype == np.float32 else counts


count_values = opaque(
    "bincount", spec=data_dependent("bincount"), run=run_bincount, vjp=NO_GRAD, samples=bincount_samples
)


@face(count_values, method=True, out=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 on occurs, or the sum of its weights."""
    check_tensor("bincount", input)
    if minlength < 0:
        raise error(RuntimeError, "bincount", f"minlength should be >= 0, got {minlength}")
    return count_values(input, weights, minlength=minlength)
