"""Normalisation on arrays: values minus their mean, over their standard deviation, and the gradient of that.

Two layouts cover all of PyTorch's norms. "Rows" has statistics of each row of a matrix and weights for its
columns (layer norm, RMS norm). "Channels" has x as (samples, channels, positions), weights for channels, and
statistics that `Groups` says how to share: over all samples of a channel (batch norm), or over neighbouring
channels of a sample (group norm). Statistics are means and biased variances. Read next: ops/normalization.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

BLOCK = 1 << 16  # elements that stay in the cache while several passes go over them

Array = np.ndarray


# Rows ------------------------------------------------------------------------------------------------------


def blocks(rows: int, columns: int) -> Iterator[slice]:
    step = max(1, BLOCK // max(columns, 1))
    for start in range(0, rows, step):
        yield slice(start, start + step)


def normalize_rows(
    x: Array, weight: Array | None, bias: Array | None, eps: float, centered: bool
) -> tuple[Array, Array, Array]:
    """(x − mean) / √(variance + eps) · weight + bias; not centered, the mean counts as zero."""
    rows, columns = x.shape
    out = np.empty_like(x, order="C")
    mean, variance = np.zeros(rows, x.dtype), np.empty(rows, x.dtype)
    ones = np.ones(columns, x.dtype)
    for part in blocks(rows, columns):
        block = source = x[part]
        result = out[part]
        if centered:
            mean[part] = source @ ones
            mean[part] /= columns
            block = np.subtract(source, mean[part, None], out=result)
        variance[part] = np.vecdot(block, block)
        variance[part] /= columns
        np.multiply(block, inverse_deviation(variance[part], eps)[:, None], out=result)
        if weight is not None:
            result *= weight
        if bias is not None:
            result += bias
    return out, mean, variance


def inverse_deviation(variance: Array, eps: float) -> Array:
    return 1 / np.sqrt(variance + variance.dtype.type(eps))


def rows_gradient(
    grad: Array, x: Array, weight: Array | None, mean: Array, variance: Array, eps: float, centered: bool
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias.

    With n = normalised x and h = grad · weight:  dx = (h − mean(h) − n · mean(h · n)) / deviation.
    """
    rows, columns = x.shape
    out = np.empty_like(x, order="C")
    grad_weight, grad_bias = np.zeros(columns, x.dtype), np.zeros(columns, x.dtype)
    scale = inverse_deviation(variance, eps)[:, None]
    factors = np.ones(columns, x.dtype) if weight is None else weight
    for part in blocks(rows, columns):
        g, result = grad[part], out[part]
        ones = np.ones(len(g), x.dtype)
        normal = x[part] - mean[part, None] if centered else x[part].copy()
        normal *= scale[part]
        np.multiply(g, normal, out=result)
        grad_weight += ones @ result
        grad_bias += ones @ g
        normal *= (result @ factors / columns)[:, None]
        np.multiply(g, factors, out=result)
        if centered:
            result -= (g @ factors / columns)[:, None]
        result -= normal
        result *= scale[part]
    return out, grad_weight, grad_bias


# Channels --------------------------------------------------------------------------------------------------


class Groups:
    """Which (sample, channel) pairs share statistics: `groups` of channels; None: all samples."""

    def __init__(self, samples: int, channels: int, groups: int | None):
        self.shape = (samples, channels)
        self.groups = groups
        self.size = samples if groups is None else channels // groups

    def join(self, sums: Array) -> Array:
        """Sums for (sample, channel) pairs, added up within groups."""
        if self.groups is None:
            return sums.sum(axis=0)
        return sums.reshape(len(sums), self.groups, self.size).sum(axis=2)

    def spread(self, values: Array) -> Array:
        """Values of groups, repeated for (sample, channel) pairs; the first dimension may stay 1."""
        return values[None, :] if self.groups is None else np.repeat(values, self.size, axis=1)


def inner_sum(x: Array) -> Array:
    return x[..., 0] if x.shape[-1] == 1 else x @ np.ones(x.shape[-1], x.dtype)


def inner_product(x: Array, y: Array) -> Array:
    return x[..., 0] * y[..., 0] if x.shape[-1] == 1 else np.vecdot(x, y)


def channel_statistics(x: Array, groups: Groups) -> tuple[Array, Array]:
    """The mean and the variance of each group."""
    total = groups.size * x.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = groups.join(inner_sum(x)) / x.dtype.type(total)
        distance = x - groups.spread(mean)[..., None]
        return mean, groups.join(inner_product(distance, distance)) / x.dtype.type(total)


def normalize_channels(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array,
    variance: Array,
    eps: float,
    groups: Groups,
) -> Array:
    out = x - groups.spread(mean)[..., None]
    scale = groups.spread(inverse_deviation(variance, eps))
    out *= (scale if weight is None else scale * weight)[..., None]
    if bias is not None:
        out += bias[:, None]
    return out


def channels_gradient(
    grad: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    variance: Array,
    eps: float,
    groups: Groups,
    constant: bool,
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias; `constant` statistics do not depend on x.

    Everything follows from two sums for each (sample, channel): of grad, and of grad · normalised x.
    """
    total = groups.size * x.shape[-1]
    deviation = groups.spread(inverse_deviation(variance, eps))
    normal = x - groups.spread(mean)[..., None]
    sums = inner_sum(grad)
    products = inner_product(grad, normal) * deviation
    factors = np.ones(x.shape[1], x.dtype) if weight is None else weight
    out = grad * (factors * deviation)[..., None]
    if not constant:
        slope = groups.spread(groups.join(products * factors)) * deviation * deviation / total
        normal *= slope[..., None]
        out -= normal
        out -= (groups.spread(groups.join(sums * factors)) * deviation / total)[..., None]
    return out, products.sum(axis=0), sums.sum(axis=0)
