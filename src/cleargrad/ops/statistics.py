"""Statistics: variance and deviation, medians, modes and quantiles.

Read next: ops/histograms.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, reduced, wrap_dim
from cleargrad.core.tensor import Tensor, is_seen
from cleargrad.errors import error
from cleargrad.ops import return_types
from cleargrad.ops.declare import composite, face, fused, opaque
from cleargrad.ops.extremes import selection
from cleargrad.ops.reductions import (
    average_by_dim,
    check_float,
    dims_of,
    extent_of,
    in_float32,
    restore,
    total_by_dim,
)
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

ORDERED = (dtypes.INTEGER, dtypes.FLOAT)

# Variance --------------------------------------------------------------------------------------------------


def var_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3, 4, 2), 1)
    yield Sample(real(3, 4, 2), (0, 2), keepdim=True)
    yield Sample(real(3, 4), False)
    yield Sample(real(3, 4), -1, False, True)
    yield Sample(real(3, 4), dim=0, correction=0)
    yield Sample(real(3, 4), correction=2)
    yield Fails(RuntimeError, whole(3, 4))
    yield Fails(IndexError, real(3, 4), 2)


def var_spec(x: Tensor, *, dim: tuple[int, ...], keepdim: bool, correction: float) -> Spec:
    return Spec(reduced(x._form.shape, dim, keepdim), x.dtype.to_real())


def var_vjp(g: Tensor, x: Tensor, *, dim: tuple[int, ...], keepdim: bool, correction: float) -> Tensor:
    degrees = extent_of(x._form.shape, dim) - correction
    scale = 2 / degrees if degrees else math.inf
    return restore(g, dim, keepdim) * scale * (x - x.mean(dim, keepdim=True))


def std_vjp(
    g: Tensor, x: Tensor, out: Tensor, *, dim: tuple[int, ...], keepdim: bool, correction: float
) -> Tensor:
    """Through the variance: ∂std = ∂var / 2 std, and zero where nothing varies."""
    through = (g / (2 * out)).masked_fill(out == 0, 0)
    return var_vjp(through, x, dim=dim, keepdim=keepdim, correction=correction)


def var_parts(x: Tensor, *, dim: tuple, keepdim: bool, correction: float) -> Tensor:
    away = x - average_by_dim(x, dim=dim, keepdim=True)
    squares = away * away if x.dtype.is_floating_point else (away * away.conj()).real
    degrees = max(extent_of(x._form.shape, dim) - correction, 0)
    return total_by_dim(squares, dim=dim, keepdim=keepdim) / degrees


def std_parts(x: Tensor, *, dim: tuple, keepdim: bool, correction: float) -> Tensor:
    return var_parts(x, dim=dim, keepdim=keepdim, correction=correction).sqrt()


spread_op = fused("var", var_parts, spec=var_spec, vjp=var_vjp, samples=var_samples)
deviation_op = fused("std", std_parts, spec=var_spec, vjp=std_vjp, samples=var_samples)


def spread(
    op: str,
    door: Callable,
    input: Tensor,
    dim: Any,
    unbiased: bool | None,
    correction: float | None,
    keepdim: bool,
) -> Tensor:
    """PyTorch's three spellings: (unbiased), (dim, unbiased, keepdim) and (dim, correction=, keepdim=)."""
    check_float(op, input)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    dims = dims_of(op, input, dim)
    if extent_of(input._form.shape, dims) <= correction:
        warnings.warn(
            f"{op}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=3,
        )
    return door(input, dim=dims, keepdim=keepdim, correction=correction)


@face(spread_op, method=True, out=True)
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The mean square distance from the mean; `correction` (1) is taken off the count."""
    return spread("var", spread_op, input, dim, unbiased, correction, keepdim)


@face(deviation_op, method=True, out=True)
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The square root of the variance."""
    return spread("std", deviation_op, input, dim, unbiased, correction, keepdim)


def with_mean(name: str, function: Callable) -> Callable:
    """var_mean and std_mean: the spread and the mean together."""

    def public(
        input: Tensor,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        spread = function(input, dim, unbiased, keepdim, correction=correction)
        return spread, input.mean(None if isinstance(dim, bool) else dim, keepdim)

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"({name[:3]}, mean) over the same dimensions."
    return composite(var_samples, out=True)(public)


var_mean = with_mean("var_mean", var)
std_mean = with_mean("std_mean", std)

# Medians and modes -----------------------------------------------------------------------------------------


def middle(x: np.ndarray, axis: int) -> np.ndarray:
    """The index of the lower median of every line; of the first NaN where there is one."""
    k = (x.shape[axis] - 1) // 2
    index = np.argpartition(x, k, axis=axis).take(k, axis=axis)
    if x.dtype.kind == "f":
        missing = np.isnan(x)
        index = np.where(missing.any(axis=axis), missing.argmax(axis=axis), index)
    return index


def middle_of_numbers(x: np.ndarray, axis: int) -> np.ndarray:
    """The same among the elements that are not NaN, which sort before those that are."""
    numbers = (x == x).sum(axis=axis, keepdims=True)
    k = np.maximum((numbers - 1) // 2, 0)
    order = np.argsort(x, axis=axis, kind="stable")
    return np.take_along_axis(order, k, axis).squeeze(axis)


def commonest(x: np.ndarray, axis: int) -> np.ndarray:
    """The index of the commonest value's last occurrence; among equally common ones, the smallest value's."""
    line = np.moveaxis(x, axis, -1)
    order = np.argsort(line, axis=-1, kind="stable")
    ordered = np.take_along_axis(line, order, -1)
    places = np.arange(line.shape[-1])
    starts = np.ones(line.shape, bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    run_start = np.maximum.accumulate(np.where(starts, places, 0), axis=-1)
    longest = np.argmax(places - run_start, axis=-1)
    return np.take_along_axis(order, longest[..., None], -1)[..., 0]


def line_samples() -> Iterator[Sample]:
    yield Sample(real(3, 5, high=100.0), 1)  # far apart: distinct as integers too
    yield Sample(real(4, 3, high=100.0), 0, True)
    yield Sample(real(2, 3, 2, high=100.0), dim=-2)
    yield Sample(real(), 0)
    yield Fails(IndexError, real(3, 4), 2)
    yield Fails(IndexError, real(0, 4), 0)


def median_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield from line_samples()


def mode_samples() -> Iterator[Sample]:
    yield Sample(np.array([3, 1, 2, 1, 2]), -1)
    yield from line_samples()


def median_of_all(name: str, choose: Callable) -> Callable:
    def run(x: np.ndarray) -> np.ndarray:
        line = x.reshape(-1)
        if not line.size:
            return np.asarray(np.nan).astype(x.dtype)
        return line[choose(in_float32(line), 0)]

    def spec(x: Tensor) -> Spec:
        if x.dtype.category not in ORDERED:
            raise error(NotImplementedError, name, f"not implemented for {x.dtype}", input=x)
        return Spec((), x.dtype)

    def vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
        equal = x == out
        return g / equal.sum() * equal

    return opaque(
        name + "_all",
        spec=spec,
        run=run,
        vjp=vjp,
        samples=lambda: iter([Sample(real(3, 4)), Sample(whole(5))]),
        node=name.capitalize() + "Backward0",
    )


def median_like(name: str, choose: Callable, result: type) -> Callable:
    """median and nanmedian: of everything, or along a dimension with the index."""
    by_dim = selection(
        name, choose, samples=median_samples, accepts=ORDERED, node=name.capitalize() + "Backward1"
    )
    of_all = median_of_all(name, choose)

    def public(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        check_tensor(name, input)
        if dim is None:
            return of_all(input)
        return result(by_dim(input, dim=wrap_dim(name, dim, input._form.ndim), keepdim=keepdim))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = (
        "The middle element, the lower one of two; of everything, or along a dimension with its index."
    )
    return face(by_dim, method=True, out=True)(public)


median = median_like("median", middle, return_types.median)
nanmedian = median_like("nanmedian", middle_of_numbers, return_types.nanmedian)
most_common = selection("mode", commonest, samples=mode_samples)


@face(most_common, method=True, out=True)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> return_types.Named:
    """The commonest value along a dimension, and the index of its last occurrence."""
    check_tensor("mode", input)
    axis = wrap_dim("mode", dim, input._form.ndim)
    return return_types.mode(most_common(input, dim=axis, keepdim=keepdim))


# Quantiles -------------------------------------------------------------------------------------------------

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 0.3)
    yield Sample(real(3, 5), np.array([0.1, 0.6]), dim=1)
    yield Sample(real(3, 5), 0.4, dim=0, keepdim=True)
    for way in INTERPOLATIONS:
        yield Sample(real(2, 6), 0.3, dim=1, interpolation=way)
    yield Fails(RuntimeError, real(3), 1.5)
    yield Fails(RuntimeError, real(3), 0.5, interpolation="best")
    yield Fails(RuntimeError, whole(3), 0.5)
    yield Fails(IndexError, real(3, 4), 0.5, dim=2)


@composite(quantile_samples, method=True, out=True)
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The value below which the fraction `q` of the elements lies; NaN when there is one among them."""
    return quantile_of("quantile", input, q, dim, keepdim, interpolation, skip_nan=False)


@composite(quantile_samples, method=True, out=True)
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The quantile of the elements that are numbers."""
    return quantile_of("nanquantile", input, q, dim, keepdim, interpolation, skip_nan=True)


def quantile_of(
    op: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, *, skip_nan: bool
) -> Tensor:
    check_quantile(op, input, q, interpolation)
    levels = q if isinstance(q, Tensor) else input.new_tensor(q)
    rank = input._form.ndim
    axis = None if dim is None or not rank else wrap_dim(op, dim, rank)
    line = input.reshape(-1) if axis is None else input.permute(*[k for k in range(rank) if k != axis], axis)
    line = line.sort(-1)[0]
    picked = interpolated(
        line, ranks_of(line, levels.reshape(-1), skip_nan), interpolation
    )  # (*rest, levels)
    picked = picked.permute(picked._form.ndim - 1, *range(picked._form.ndim - 1))  # (levels, *rest)
    if keepdim:
        picked = picked.reshape(-1, *[1] * rank) if axis is None else picked.unsqueeze(axis + 1)
    return picked if levels._form.ndim else picked.squeeze(0)


def check_quantile(op: str, input: Tensor, q: Any, interpolation: str) -> None:
    check_tensor(op, input)
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise error(RuntimeError, op, "input tensor must be either float or double dtype", input=input)
    if not input._form.size:
        raise error(RuntimeError, op, "input tensor must be non-empty", input=input)
    if interpolation not in INTERPOLATIONS:
        rule = f"interpolation must be one of {', '.join(INTERPOLATIONS)}, but got {interpolation}"
        raise error(RuntimeError, op, rule)
    if isinstance(q, Tensor) and (q._form.ndim > 1 or q._form.dtype != input._form.dtype):
        raise error(
            RuntimeError, op, "q must be a number or a 1-d tensor of the input's dtype", input=input, q=q
        )
    values = q if not isinstance(q, Tensor) else q._data if is_seen(q) else 0
    if not np.all((np.asarray(values) >= 0) & (np.asarray(values) <= 1)):
        raise error(RuntimeError, op, "q must be in the range [0, 1]", q=q)


def ranks_of(line: Tensor, levels: Tensor, skip_nan: bool) -> Tensor:
    """The place of every level in the sorted lines, as a float: (*rest, levels)."""
    last = line._form.shape[-1] - 1
    missing = line.isnan()
    if skip_nan:
        return (levels * (last - missing.sum(-1, keepdim=True))).clamp(min=0)
    return (levels * last).masked_fill(missing.any(-1, keepdim=True), last)  # NaN sorts last


def interpolated(line: Tensor, ranks: Tensor, way: str) -> Tensor:
    """The elements at fractional ranks."""
    if way == "higher":
        ranks = ranks.ceil()
    elif way == "nearest":
        ranks = ranks.round()
    floor = ranks.floor()
    below = line.gather(-1, floor.to(dtypes.int64))
    if way not in ("linear", "midpoint"):
        return below
    above = line.gather(-1, ranks.ceil().to(dtypes.int64))
    return below.lerp(above, 0.5 if way == "midpoint" else ranks - floor)
