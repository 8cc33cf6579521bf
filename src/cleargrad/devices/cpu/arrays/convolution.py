"""Convolution over one to three spatial dimensions, on NumPy arrays.

In: x (N, C, *S), w (O, C/groups, *K) and g (N, O, *T), already validated, with stride, padding and dilation
as tuples of one entry per spatial dimension. Out: a new array. The map is linear in x and in w, and the three
functions are each other's adjoints, so gradients of any order stay within them:
`convolve` is the map, `convolve_input` its adjoint in x (a transposed convolution), `convolve_weight` in w.
Adjoints are plain transposes: the caller conjugates complex arguments.

All three multiply the same matrix of columns, one column per output position, holding the inputs it sees.
The matrix is built a block at a time, so that it stays in cache while it is multiplied. Read next:
ops/convolution.py.
"""

import math
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cleargrad.devices.cpu.arrays.precision import widen

# Measured on shapes of MNIST and ResNet networks: columns and their product of about 2 MiB are large enough
# for BLAS and still in cache when they are read back.
BLOCK_BYTES = 2 << 20


def convolve(x, w, stride, padding, dilation, groups, bias=None) -> np.ndarray:
    """out[n, o, t] = bias[o] + sum over c, k of x[n, c, t * stride + k * dilation - padding] * w[o, c, k]."""
    dtype = np.result_type(x, w)
    x, w = widen(x), widen(w)
    batch, out_channels, kernel = x.shape[0], w.shape[0], w.shape[2:]
    size = output_size(x.shape[2:], kernel, stride, padding, dilation)
    out = np.empty((batch, out_channels, *size), np.result_type(x, w))
    windows = sliding_windows(pad(x, padding), kernel, size, stride, dilation, groups)
    weights = _weight_matrix(w, groups)
    targets = _by_group(out, groups)
    for block in _blocks(windows, targets, len(size)):
        target = targets[block]
        product = weights @ _as_matrix(windows[block], target.shape[2:])
        if bias is not None:  # here, where the product is still in cache
            product += widen(bias).reshape(groups, -1, 1)
        target[...] = product.reshape(target.shape)
    return out.astype(dtype, copy=False)


def convolve_input(g, w, input_size, stride, padding, dilation, groups, bias=None) -> np.ndarray:
    """The adjoint of `convolve` in x: g (N, O, *T) spread back over (N, C, *input_size).

    A correlation with the flipped kernel copies O * K rows of columns; adding up taps touches C * K of them.
    """
    dtype = np.result_type(g, w)
    g, w = widen(g), widen(w)
    channels, kernel, size = w.shape[1] * groups, w.shape[2:], g.shape[2:]
    if w.shape[0] <= channels and _is_plain_correlation(g, w, input_size, stride, padding, dilation):
        reach = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding))
        return convolve(g, _flip(w, groups), stride, reach, dilation, groups, bias).astype(dtype, copy=False)
    padded_size = tuple(n + 2 * p for n, p in zip(input_size, padding))
    padded = np.zeros((g.shape[0], channels, *padded_size), np.result_type(g, w))
    windows = sliding_windows(padded, kernel, size, stride, dilation, groups)
    weights = _weight_matrix(w, groups).swapaxes(1, 2)
    sources = _by_group(g, groups)
    for block in _blocks(windows, sources, len(size)):
        source = sources[block]
        columns = weights @ _as_matrix(source, source.shape[2:])
        window = windows[block]
        add_taps(window, columns.reshape(window.shape), len(size))
    out = np.ascontiguousarray(crop(padded, padding))
    if bias is not None:
        out += widen(bias).reshape(-1, *(1,) * len(size))
    return out.astype(dtype, copy=False)


def convolve_weight(g, x, kernel_size, stride, padding, dilation, groups) -> np.ndarray:
    """The adjoint of `convolve` in w: x (N, C, *S) correlated with g (N, O, *T), as (O, C/groups, *K)."""
    dtype = np.result_type(g, x)
    g, x = widen(g), widen(x)
    size, out_channels = g.shape[2:], g.shape[1]
    windows = sliding_windows(pad(x, padding), kernel_size, size, stride, dilation, groups)
    sources = _by_group(g, groups)
    taps = windows.shape[1] * math.prod(kernel_size)
    total = np.zeros((groups, out_channels // groups, taps), np.result_type(g, x))
    for block in _blocks(windows, sources, len(size)):
        source = sources[block]
        columns = _as_matrix(windows[block], source.shape[2:])
        total += _as_matrix(source, source.shape[2:]) @ columns.swapaxes(1, 2)
    return total.reshape(out_channels, windows.shape[1], *kernel_size).astype(dtype, copy=False)


def output_size(size, kernel, stride, padding, dilation) -> tuple[int, ...]:
    """How many positions a window takes along each dimension."""
    extents = zip(size, kernel, stride, padding, dilation)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in extents)


def pad(x, padding) -> np.ndarray:
    """x between zeros; np.pad does the same but costs more than a small convolution."""
    if not any(padding):
        return x
    shape = x.shape[:2] + tuple(n + 2 * p for n, p in zip(x.shape[2:], padding))
    padded = np.zeros(shape, x.dtype)
    crop(padded, padding)[...] = x
    return padded


def crop(padded, padding) -> np.ndarray:
    """The view that undoes `pad`."""
    inside = tuple(slice(p, n - p) for n, p in zip(padded.shape[2:], padding))
    return padded[:, :, *inside]


def sliding_windows(padded, kernel, size, stride, dilation, groups) -> np.ndarray:
    """A view (groups, C/groups, *K, N, *T) of everything each output position sees; nothing is copied."""
    batch, channels = padded.shape[:2]
    step_batch, step_channel, *steps = padded.strides
    per_group = channels // groups
    shape = (groups, per_group, *kernel, batch, *size)
    taps = (step * d for step, d in zip(steps, dilation))
    positions = (step * s for step, s in zip(steps, stride))
    return as_strided(padded, shape, (per_group * step_channel, step_channel, *taps, step_batch, *positions))


def _by_group(x, groups) -> np.ndarray:
    """A view of (N, channels, *T) as (groups, channels/groups, N, *T), the layout of a product."""
    step_batch, step_channel, *steps = x.strides
    per_group = x.shape[1] // groups
    shape = (groups, per_group, x.shape[0], *x.shape[2:])
    return as_strided(x, shape, (per_group * step_channel, step_channel, step_batch, *steps))


def _blocks(windows, results, spatial_ndim):
    """Cut (N, *T), the last axes of both, into samples, and a large sample along its first dimension."""
    batch, rows, *rest = windows.shape[-1 - spatial_ndim :]
    if windows.size == 0:
        if batch and math.prod(rest) * rows:
            yield (Ellipsis,)
        return
    row_bytes = (windows.size + results.size) // (batch * rows) * windows.itemsize
    rows_at_once = max(1, min(rows, BLOCK_BYTES // row_bytes))
    samples_at_once = max(1, BLOCK_BYTES // (row_bytes * rows)) if rows_at_once == rows else 1
    whole = (slice(None),) * len(rest)
    for sample, row in product(range(0, batch, samples_at_once), range(0, rows, rows_at_once)):
        yield (Ellipsis, slice(sample, sample + samples_at_once), slice(row, row + rows_at_once), *whole)


def _as_matrix(view, positions_shape) -> np.ndarray:
    """(groups, ..., *positions) as (groups, rows, positions), laid out as BLAS wants it.

    For a kernel of one tap on one sample this is x itself; otherwise it is a copy, since NumPy multiplies
    views that overlap or skip entries without BLAS, many times slower.
    """
    positions = math.prod(positions_shape)
    rows = math.prod(view.shape[1 : view.ndim - len(positions_shape)])
    return np.ascontiguousarray(view.reshape(view.shape[0], rows, positions))


def _weight_matrix(w, groups) -> np.ndarray:
    """(O, C/groups, *K) as (groups, O/groups, C/groups * K)."""
    return np.ascontiguousarray(w).reshape(groups, w.shape[0] // groups, math.prod(w.shape[1:]))


def add_taps(windows, columns, spatial_ndim) -> None:
    """Add columns into windows, one kernel tap at a time: only positions of different taps overlap."""
    kernel = windows.shape[2 : 2 + spatial_ndim]
    for tap in np.ndindex(*kernel):
        windows[:, :, *tap] += columns[:, :, *tap]


def _is_plain_correlation(g, w, input_size, stride, padding, dilation) -> bool:
    """With stride 1 the adjoint is again a correlation, if no padding has to be cropped away."""
    kernel = w.shape[2:]
    covers = output_size(input_size, kernel, stride, padding, dilation) == g.shape[2:]
    reaches = all(d * (k - 1) >= p for d, k, p in zip(dilation, kernel, padding))
    return covers and reaches and all(s == 1 for s in stride)


def _flip(w, groups) -> np.ndarray:
    """(O, C/groups, *K) as (C, O/groups, *K), with the taps in reverse order."""
    out_channels, per_group, *kernel = w.shape
    reverse = (slice(None, None, -1),) * len(kernel)
    parted = w.reshape(groups, out_channels // groups, per_group, *kernel)[:, :, :, *reverse]
    return parted.swapaxes(1, 2).reshape(groups * per_group, out_channels // groups, *kernel)
