"""Scans: running sums, products and extremes along a dimension, and differences.

Everything here is closed under differentiation. Sums and products run in either direction, because the
gradient of a scan is a scan the other way; where products meet zeros, the gradient is a `recurrence`,
hᵢ = aᵢ hᵢ₋₁ + bᵢ, which needs no division. Read next: ops/sorting.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.dtype import NARROW, OF_NUMPY
from cleargrad.core.dtype import dtype as Dtype
from cleargrad.core.shape import Spec, wrap_dim, wrap_dims
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops import return_types
from cleargrad.ops.declare import F32, F64, composite, face, fused, opaque
from cleargrad.ops.joining import cat
from cleargrad.ops.pointwise import conj
from cleargrad.ops.reductions import in_float32
from cleargrad.ops.samples import Fails, Sample, real, truth, whole
from cleargrad.ops.views import check_tensor


def checked_dim(op: str, input: Tensor, dim: Any) -> int:
    check_tensor(op, input)
    return wrap_dim(op, dim, input._form.ndim)


def line_of(x: np.ndarray, dim: int, reverse: bool = False) -> np.ndarray:
    """The array with `dim` and the last dimension swapped, backwards when asked; 0-d is one element."""
    line = x.swapaxes(dim, -1) if x.ndim else x.reshape(1)
    return line[..., ::-1] if reverse else line


def from_line(line: np.ndarray, shape: tuple[int, ...], dim: int, reverse: bool = False) -> np.ndarray:
    """Undoes `line_of`."""
    line = line[..., ::-1] if reverse else line
    return np.ascontiguousarray(line.swapaxes(-1, dim)) if shape else line.reshape(())


def same_spec(x: Tensor, **attrs: Any) -> Spec:
    return Spec(x._form.shape, x.dtype)


# Building blocks of gradients ------------------------------------------------------------------------------


def run_shift(x: np.ndarray, *, dim: int, steps: int, fill: float) -> np.ndarray:
    result = np.full(x.shape, fill, x.dtype)
    if x.ndim and x.shape[dim]:
        there, here = (slice(1, None), slice(None, -1)) if steps == 1 else (slice(None, -1), slice(1, None))
        lead = (slice(None),) * dim
        result[*lead, there] = x[*lead, here]
    return result


def shift_parts(x: Tensor, *, dim: int, steps: int, fill: float) -> Tensor:
    shape, edge = x._form.shape, x.new_full((), fill)
    if not x._form.size or not shape:
        return edge.expand(shape)
    edge = edge.expand(*shape[:dim], 1, *shape[dim + 1 :])
    if steps == 1:
        return cat([edge, x.narrow(dim, 0, shape[dim] - 1)], dim)
    return cat([x.narrow(dim, 1, shape[dim] - 1), edge], dim)


shift = fused(
    "shift",  # one place along a dimension: steps=1 towards the end, −1 towards the start; `fill` moves in
    shift_parts,
    spec=same_spec,
    run=run_shift,
    vjp=lambda g, *, dim, steps: shift(g, dim=dim, steps=-steps, fill=0),
    samples=lambda: iter(
        [Sample(real(3, 4), dim=1, steps=1, fill=1), Sample(real(3, 2), dim=0, steps=-1, fill=0)]
    ),
    rounds=False,
)


def run_recurrence(a: np.ndarray, b: np.ndarray, *, dim: int, reverse: bool) -> np.ndarray:
    """hᵢ = aᵢ hᵢ₋₁ + bᵢ in log₂ n sweeps: after each, hᵢ is right for twice as many terms."""
    factor, h = (np.array(line_of(in_float32(x), dim, reverse)) for x in (a, b))
    step = 1
    while step < h.shape[-1]:
        h[..., step:] += factor[..., step:] * h[..., :-step]
        factor[..., step:] = factor[..., step:] * factor[..., :-step]
        step *= 2
    return from_line(h, b.shape, dim, reverse).astype(b.dtype, copy=False)


def adjoint_recurrence(g: Tensor, a: Tensor, dim: int, reverse: bool) -> Tensor:
    """uᵢ = gᵢ + aᵢ₊₁ uᵢ₊₁: the gradient of the recurrence's b."""
    behind = shift(conj(a), dim=dim, steps=1 if reverse else -1, fill=0)
    return recurrence(behind, g, dim=dim, reverse=not reverse)


recurrence = opaque(
    "recurrence",
    spec=lambda a, b, *, dim, reverse: Spec(b._form.shape, b.dtype),
    run=run_recurrence,
    vjp=(
        lambda g, a, out, *, dim, reverse: (
            adjoint_recurrence(g, a, dim, reverse)
            * conj(shift(out, dim=dim, steps=-1 if reverse else 1, fill=0))
        ),
        lambda g, a, *, dim, reverse: adjoint_recurrence(g, a, dim, reverse),
    ),
    samples=lambda: iter(
        [
            Sample(real(2, 5), real(2, 5, seed=1), dim=1, reverse=False),
            Sample(real(5, 2), real(5, 2, seed=1), dim=0, reverse=True),
        ]
    ),
)

# Running sums and products ---------------------------------------------------------------------------------


def sum_dtype(kind: Dtype) -> Dtype:
    return dtypes.int64 if kind.category < dtypes.FLOAT else kind


def scanned(ufunc: np.ufunc, x: np.ndarray, dim: int, reverse: bool = False) -> np.ndarray:
    """ufunc.accumulate, but by whole rows where they are long: NumPy would go down each column alone."""
    if not x.ndim:
        return x.copy()
    source = x[(slice(None),) * dim + (slice(None, None, -1),)] if reverse else x
    columns = math.prod(x.shape[dim + 1 :])
    if columns < 16:
        result = ufunc.accumulate(source, axis=dim)
    else:
        result = source.copy()
        rows = result.swapaxes(0, dim)
        for step in range(1, len(rows)):
            ufunc(rows[step - 1], rows[step], out=rows[step])
    return result[(slice(None),) * dim + (slice(None, None, -1),)] if reverse else result


def accumulate(ufunc: np.ufunc) -> Callable:
    """A scan by a ufunc; as in PyTorch, integers run in int64 and float32 in float64."""

    def run(x: np.ndarray, *, dim: int, reverse: bool) -> np.ndarray:
        target = sum_dtype(OF_NUMPY[x.dtype]).numpy
        working = F64 if target is F32 else F32 if target in NARROW else target
        result = scanned(ufunc, x.astype(working, copy=False), dim, reverse)
        return result.astype(target, order="C", copy=False)

    return run


def scan_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 1)
    yield Sample(real(3, 4), 0)
    yield Sample(real(2, 3, 2), -2)
    yield Sample(real(), 0)
    yield Sample(real(0, 3), 0)
    yield Fails(IndexError, real(3, 4), 2)


def running_samples() -> Iterator[Sample]:
    yield from scan_samples()
    yield Sample(np.array([2.0, 0.0, 3.0, 0.0, 1.5]), 0)
    yield Sample(whole(3, 4), 1)
    yield Sample(truth(4), 0, dtype=dtypes.float32)


running_sum = opaque(
    "cumsum",
    spec=lambda x, *, dim, reverse: Spec(x._form.shape, sum_dtype(x.dtype)),
    run=accumulate(np.add),
    vjp=lambda g, *, dim, reverse: running_sum(g, dim=dim, reverse=not reverse),
    samples=running_samples,
)


def cumprod_vjp(g: Tensor, x: Tensor, out: Tensor, *, dim: int, reverse: bool) -> Tensor:
    """∂/∂xᵢ = (the product before i) · Σⱼ gⱼ (the product between i and j)."""
    before = shift(conj(out), dim=dim, steps=-1 if reverse else 1, fill=1)
    return before * adjoint_recurrence(g, x, dim, reverse)


running_product = opaque(
    "cumprod",
    spec=lambda x, *, dim, reverse: Spec(x._form.shape, sum_dtype(x.dtype)),
    run=accumulate(np.multiply),
    vjp=cumprod_vjp,
    samples=running_samples,
)


def running(op: str, door: Callable, input: Tensor, dim: Any, dtype: Dtype | None) -> Tensor:
    axis = checked_dim(op, input, dim)
    if dtype is None:
        return door(input, dim=axis, reverse=False)
    return door(input.to(dtype), dim=axis, reverse=False).to(dtype)


@face(running_sum, method=True, inplace=True, out=True)
def cumsum(input: Tensor, dim: int, *, dtype: Dtype | None = None) -> Tensor:
    """Running sums along a dimension; integers sum to int64."""
    return running("cumsum", running_sum, input, dim, dtype)


@face(running_product, method=True, inplace=True, out=True)
def cumprod(input: Tensor, dim: int, *, dtype: Dtype | None = None) -> Tensor:
    """Running products along a dimension; integers multiply to int64."""
    return running("cumprod", running_product, input, dim, dtype)


def logcumsumexp_spec(x: Tensor, *, dim: int) -> Spec:
    if x.dtype.category < dtypes.FLOAT:
        raise error(NotImplementedError, "logcumsumexp", f"not implemented for {x.dtype}", input=x)
    return Spec(x._form.shape, x.dtype)


def run_logcumsumexp(x: np.ndarray, *, dim: int) -> np.ndarray:
    return scanned(np.logaddexp, in_float32(x), dim).astype(x.dtype, order="C", copy=False)


def logcumsumexp_vjp(g: Tensor, x: Tensor, out: Tensor, *, dim: int) -> Tensor:
    """∂/∂xᵢ = Σⱼ gⱼ exp(xᵢ − outⱼ), j ≥ i, as a recurrence whose factors exp(outᵢ − outᵢ₊₁) are at most 1."""
    factor = (out - shift(out, dim=dim, steps=-1, fill=np.inf)).exp()
    return (x - out).exp() * recurrence(factor, g, dim=dim, reverse=True)


log_running_sum = opaque(
    "logcumsumexp",
    spec=logcumsumexp_spec,
    run=run_logcumsumexp,
    vjp=logcumsumexp_vjp,
    samples=scan_samples,
)


@face(log_running_sum, method=True, out=True)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log Σ exp of the elements so far, without overflow."""
    return log_running_sum(input, dim=checked_dim("logcumsumexp", input, dim))


# Running extremes ------------------------------------------------------------------------------------------


def running_extreme(name: str, ufunc: np.ufunc) -> Callable:
    """The largest or smallest so far, and its index: the latest among equals, as in PyTorch."""

    def run(x: np.ndarray, *, dim: int) -> tuple[np.ndarray, np.ndarray]:
        if not x.ndim:
            return x.copy(), np.zeros((), np.int64)
        work = in_float32(x)
        values = scanned(ufunc, work, dim)
        reached = (work == values) | (work != work)
        places = np.arange(x.shape[dim]).reshape(-1, *[1] * (x.ndim - dim - 1))
        indices = scanned(np.maximum, np.where(reached, places, 0), dim)
        return values.astype(x.dtype, order="C", copy=False), np.asarray(indices, order="C")

    return opaque(
        name,
        spec=lambda x, *, dim: [Spec(x._form.shape, x.dtype), Spec(x._form.shape, dtypes.int64)],
        run=run,
        vjp=lambda g, out1, *, x_shape, dim: g[0].new_zeros(x_shape).scatter_add(dim, out1, g[0]),
        samples=scan_samples,
        outputs=2,
    )


running_max = running_extreme("cummax", np.maximum)
running_min = running_extreme("cummin", np.minimum)


@face(running_max, method=True, out=True)
def cummax(input: Tensor, dim: int) -> return_types.Named:
    """The largest element so far, and its index."""
    return return_types.cummax(running_max(input, dim=checked_dim("cummax", input, dim)))


@face(running_min, method=True, out=True)
def cummin(input: Tensor, dim: int) -> return_types.Named:
    """The smallest element so far, and its index."""
    return return_types.cummin(running_min(input, dim=checked_dim("cummin", input, dim)))


# Differences and integrals ---------------------------------------------------------------------------------


def diff_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3, 4), 2)
    yield Sample(real(3, 4), 1, 0)
    yield Sample(real(3, 4), dim=1, prepend=real(3, 1, seed=1), append=real(3, 2, seed=2))
    yield Sample(real(3), 5)
    yield Sample(truth(5))
    yield Fails(RuntimeError, real())
    yield Fails(RuntimeError, real(3), -1)
    yield Fails(IndexError, real(3), 1, 1)


@composite(diff_samples, method=True, out=True)
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours, n times; of booleans, whether they differ."""
    check_tensor("diff", input)
    if not input._form.ndim:
        raise error(RuntimeError, "diff", "expects input to be at least one-dimensional", input=input)
    if n < 0:
        raise error(RuntimeError, "diff", f"order must be non-negative but got {n}")
    axis = checked_dim("diff", input, dim)
    result = joined(input, axis, prepend, append) if n else input.clone()
    for _ in range(min(n, result._form.shape[axis])):
        before, behind = neighbours(result, axis)
        result = behind.logical_xor(before) if result.dtype is dtypes.bool_ else behind - before
    return result


def joined(input: Tensor, dim: int, prepend: Tensor | None, append: Tensor | None) -> Tensor:
    from cleargrad.ops.joining import cat

    parts = [part for part in (prepend, input, append) if part is not None]
    return input if len(parts) == 1 else cat(parts, dim)


def neighbours(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All elements but the last and all but the first, along a dimension."""
    pairs = max(x._form.shape[dim] - 1, 0)
    return x.narrow(dim, 0, pairs), x.narrow(dim, min(1, x._form.shape[dim]), pairs)


def trapezoid_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4, low=0.0))
    yield Sample(real(3, 4, low=0.0), dx=0.5, dim=0)
    yield Sample(real(3, 4, low=0.0), np.array([0.0, 1.0, 1.5, 3.0]))
    yield Sample(real(3, 4, low=0.0), real(3, 4, seed=1), dim=0)
    yield Fails(RuntimeError, real(3, 4), real(5))
    yield Fails(IndexError, real(3, 4), dim=2)


def trapezoids(op: str, y: Tensor, x: Tensor | None, dx: float | None, dim: int) -> tuple[Tensor, float, int]:
    """The areas between neighbouring points up to a factor, that factor, and the dimension they lie along."""
    axis = checked_dim(op, y, dim)
    before, behind = neighbours(y, axis)
    if x is None:
        return before + behind, (1 if dx is None else dx) / 2, axis
    if x._form.ndim == 1:
        if x._form.shape[0] != y._form.shape[axis]:
            raise error(RuntimeError, op, "there must be one x value for each sample point", y=y, x=x)
        left, right = neighbours(x.reshape(-1, *[1] * (y._form.ndim - axis - 1)), 0)
    else:
        left, right = neighbours(x, checked_dim(op, x, dim))
    return (before + behind) * (right - left), 0.5, axis


@composite(trapezoid_samples, aliases=("trapz",))
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The integral by the trapezoidal rule, over points x or at distance dx."""
    areas, factor, axis = trapezoids("trapezoid", y, x, dx, dim)
    return areas.sum(axis) * factor


@composite(trapezoid_samples)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The running integral by the trapezoidal rule."""
    areas, factor, axis = trapezoids("cumulative_trapezoid", y, x, dx, dim)
    return areas.cumsum(axis) * factor


def gradient_samples() -> Iterator[Sample]:
    yield Sample(real(5))
    yield Sample(real(3, 4), spacing=0.5, dim=1)
    yield Sample(real(4, 5), spacing=[2.0, 0.5], edge_order=2)
    yield Sample(real(4), spacing=[np.array([0.0, 1.0, 3.0, 4.0])])
    yield Sample(real(4, 2), spacing=[np.array([0.0, 1.0, 3.0, 4.0])], dim=0, edge_order=2)
    yield Fails(RuntimeError, real(1))
    yield Fails(RuntimeError, real(4), edge_order=3)
    yield Fails(RuntimeError, real(4, 4), spacing=[1.0, 2.0], dim=0)


@composite(gradient_samples)
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: int | tuple[int, ...] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The slopes of samples of a function along each dimension; central inside, one-sided at the edges."""
    check_tensor("gradient", input)
    dims = wrap_dims("gradient", dim, input._form.ndim)
    spacing = 1 if spacing is None else spacing
    spacings = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if edge_order not in (1, 2) or len(spacings) != len(dims):
        rule = "edge_order must be 1 or 2, and spacing one number or one number or tensor per dimension"
        raise error(RuntimeError, "gradient", rule, edge_order=edge_order, spacing=spacing, dim=dims)
    if any(input._form.shape[axis] <= edge_order for axis in dims):
        rule = f"each dimension must have at least edge_order + 1 = {edge_order + 1} elements"
        raise error(RuntimeError, "gradient", rule, input=input)
    return tuple(slope(input, axis, step, edge_order) for axis, step in zip(dims, spacings, strict=True))


def slope(f: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    """The parabola through three neighbours gives the slope in the middle, and at the edges for order 2."""
    from cleargrad.ops.joining import cat

    size = f._form.shape[dim]
    if isinstance(spacing, Tensor) and spacing._form.ndim:
        step = spacing.diff().reshape(-1, *[1] * (f._form.ndim - dim - 1))
    else:
        step = f.new_ones(size - 1, *[1] * (f._form.ndim - dim - 1)) * spacing
    rise = f.diff(dim=dim) / step  # the slopes between neighbours

    def at(x: Tensor, axis: int, start: int, length: int) -> Tensor:
        return x.narrow(axis, start if start >= 0 else x._form.shape[axis] + start, length)

    before, behind = at(step, 0, 0, size - 2), at(step, 0, 1, size - 2)
    inside = (behind * at(rise, dim, 0, size - 2) + before * at(rise, dim, 1, size - 2)) / (before + behind)
    first, last = at(rise, dim, 0, 1), at(rise, dim, -1, 1)
    if edge_order == 2:
        first = 2 * first - at(inside, dim, 0, 1)
        last = 2 * last - at(inside, dim, -1, 1)
    return cat([first, inside, last], dim)
