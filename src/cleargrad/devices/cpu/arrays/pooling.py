"""Pooling over windows of one to three spatial dimensions, on NumPy arrays; also unfold and fold.

In: x (N, C, *S), already validated, with one tuple entry per spatial dimension. Out: new arrays. Averages are
linear and come with their adjoints. Maxima return (values, indices), where an index counts positions in the
flattened spatial plane; the gradient of the values is `scatter_plane` at these indices, whose adjoint is
`gather_plane`. Ties go to the first position of a window, and NaN wins over everything, the last NaN of a
window, as in PyTorch. Read next: ops/pooling.py.
"""

import math
from itertools import product
from typing import Any

import numpy as np

from cleargrad.devices.cpu.arrays.convolution import add_taps, crop, output_size, pad, sliding_windows
from cleargrad.devices.cpu.arrays.precision import widen


def max_pool(x, kernel, stride, padding, dilation, ceil_mode) -> tuple[np.ndarray, np.ndarray]:
    """The largest value of every window and its index in the plane."""
    wide = widen(x)
    values = max_values(wide, kernel, stride, padding, dilation, ceil_mode)
    size = values.shape[2:]
    taps = list(_taps(x.shape[2:], size, kernel, stride, padding, dilation))
    winners = _first_match(wide, values, taps, math.prod(kernel))
    indices = np.take(_tap_offsets(x.shape[2:], kernel, dilation), winners, mode="clip")
    indices += _plane_origins(x.shape[2:], size, stride, padding)
    return values.astype(x.dtype, copy=False), indices


def max_values(x, kernel, stride, padding, dilation, ceil_mode) -> np.ndarray:
    """The largest value of every window."""
    size = pooled_size(x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    wide = widen(x)
    values = np.full((*x.shape[:2], *size), _lowest(wide.dtype))
    for _, target, source in _taps(x.shape[2:], size, kernel, stride, padding, dilation):
        np.maximum(values[target], wide[source], out=values[target])
    return values.astype(x.dtype, copy=False)


def adaptive_max_pool(x, size) -> tuple[np.ndarray, np.ndarray]:
    """The largest value, and its index, in each of the `size` nearly equal parts of the plane."""
    if 0 in size:
        shape = (*x.shape[:2], *size)
        return np.empty(shape, x.dtype), np.empty(shape, np.int64)
    bounds = [_adaptive_bounds(n, parts) for n, parts in zip(x.shape[2:], size)]
    return _max_among(x, _candidates(x.shape[2:], bounds))


def fractional_max_pool(x, kernel, size, samples) -> tuple[np.ndarray, np.ndarray]:
    """Maxima over windows whose places are drawn by samples (N, C, nd), numbers in [0, 1).

    In two dimensions PyTorch reads the samples in the order width, height; in three as depth, height, width.
    """
    if len(kernel) == 2:
        samples = samples[..., ::-1]
    bounds = []
    for axis, (n, k, parts) in enumerate(zip(x.shape[2:], kernel, size)):
        starts = _fractional_starts(samples[..., axis], n, k, parts)
        bounds.append((starts, starts + k))
    return _max_among(x, _candidates(x.shape[2:], bounds))


def avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override) -> np.ndarray:
    """The sum of every window, divided by `divisor_override` or by how many positions it counts."""
    size = pooled_size(x.shape[2:], kernel, stride, padding, (1,) * len(kernel), ceil_mode)
    total = widen(x)
    for axis, settings in enumerate(zip(size, kernel, stride, padding), start=2):
        total = _sum_windows(total, axis, *settings)
    total = total / divisor(x.shape[2:], size, kernel, stride, padding, count_include_pad, divisor_override)
    return total.astype(x.dtype, copy=False)


def avg_pool_adjoint(
    g, input_size, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
) -> np.ndarray:
    """The adjoint of `avg_pool`: every entry of g shared among the positions of its window."""
    del ceil_mode  # the size of g already tells
    counted = (kernel, stride, padding, count_include_pad, divisor_override)
    share = widen(g) / divisor(input_size, g.shape[2:], *counted)
    for axis, settings in enumerate(zip(input_size, kernel, stride, padding), start=2):
        share = _sum_windows_adjoint(share, axis, *settings)
    return share.astype(g.dtype, copy=False)


def adaptive_avg_pool(x, size) -> np.ndarray:
    """The mean of each of the `size` nearly equal parts of the plane, which may overlap by one position."""
    mean = widen(x)
    if all(parts == 1 for parts in size):
        mean = mean.reshape(*x.shape[:2], *(1,) * (len(size) - 1), math.prod(x.shape[2:]))
    for axis, parts in enumerate(size, start=2):
        mean = _sum_parts(mean, axis, parts) / _along(_part_lengths(mean.shape[axis], parts), axis, mean)
    return mean.astype(x.dtype, copy=False)


def adaptive_avg_pool_adjoint(g, input_size) -> np.ndarray:
    """The adjoint of `adaptive_avg_pool`: being in a part is symmetric, so the same sum runs backwards."""
    share = widen(g)
    for axis, n in enumerate(input_size, start=2):
        share = share / _along(_part_lengths(n, share.shape[axis]), axis, share)
        share = _sum_parts(share, axis, n)
    return share.astype(g.dtype, copy=False)


def gather_plane(x, indices) -> np.ndarray:
    """x[n, c, indices[n, c]] with every plane of x flattened; the adjoint of `scatter_plane`."""
    flat = _flat_indices(indices, math.prod(x.shape[2:]))
    return np.take(x.reshape(-1), flat)


def scatter_plane(g, indices, plane_size) -> np.ndarray:
    """Zeros of (N, C, *plane_size) with g added at `indices` of each plane; the adjoint of `gather_plane`."""
    shape = (*g.shape[:2], *plane_size)
    flat = _flat_indices(indices, math.prod(plane_size)).reshape(-1)
    values = widen(g).reshape(-1)
    out = np.zeros(math.prod(shape), values.dtype)
    np.add.at(out, flat, values)
    return out.reshape(shape).astype(g.dtype, copy=False)


def place_plane(x, indices, plane_size) -> np.ndarray:
    """Zeros of (N, C, *plane_size) with x written at `indices` of each plane, the last of equal ones."""
    out = np.zeros((*x.shape[:2], *plane_size), x.dtype)
    out.reshape(-1)[_flat_indices(indices, math.prod(plane_size))] = x
    return out


def im2col(x, kernel, stride, padding, dilation) -> np.ndarray:
    """Every window of x as a column, (N, C * prod(K), prod(T)), as torch.nn.functional.unfold."""
    nd = len(kernel)
    size = output_size(x.shape[2:], kernel, stride, padding, dilation)
    windows = sliding_windows(pad(x, padding), kernel, size, stride, dilation, groups=1)[0]
    batch_first = np.moveaxis(windows, 1 + nd, 0)
    return batch_first.reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(size))


def col2im(columns, image_size, kernel, stride, padding, dilation) -> np.ndarray:
    """The adjoint of `im2col`: columns added back where they came from, as torch.nn.functional.fold."""
    nd = len(kernel)
    batch, channels = columns.shape[0], columns.shape[1] // math.prod(kernel)
    wide = widen(columns)
    padded = np.zeros((batch, channels, *(n + 2 * p for n, p in zip(image_size, padding))), wide.dtype)
    size = output_size(image_size, kernel, stride, padding, dilation)
    windows = sliding_windows(padded, kernel, size, stride, dilation, groups=1)
    batch_last = np.moveaxis(wide.reshape(batch, channels, *kernel, *size), 0, 1 + nd)
    add_taps(windows, batch_last[None], nd)
    return np.ascontiguousarray(crop(padded, padding)).astype(columns.dtype, copy=False)


def pooled_size(size, kernel, stride, padding, dilation, ceil_mode) -> tuple[int, ...]:
    """How many windows fit; with `ceil_mode` also one that overhangs but starts before the right padding."""
    if not ceil_mode:
        return output_size(size, kernel, stride, padding, dilation)
    pooled = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation):
        count = -(-(n + 2 * p - d * (k - 1) - 1) // s) + 1
        starts_outside = (count - 1) * s >= n + p
        pooled.append(count - 1 if starts_outside else count)
    return tuple(pooled)


def _reach(tap, n, size, stride, padding) -> tuple[slice, slice]:
    """The outputs for which a kernel tap falls inside an axis of n entries, and the entries it falls on."""
    first = max(0, -((tap - padding) // stride))
    last = min(size - 1, (n - 1 + padding - tap) // stride)
    start = first * stride - padding + tap
    if last < first:
        return slice(0, 0), slice(0, 0)
    return slice(first, last + 1), slice(start, last * stride - padding + tap + 1, stride)


def _taps(input_size, size, kernel, stride, padding, dilation):
    """For every kernel tap that falls inside somewhere: its number, where it writes, what it reads."""
    axes = []
    for n, out, k, s, p, d in zip(input_size, size, kernel, stride, padding, dilation):
        axes.append([_reach(tap * d, n, out, s, p) for tap in range(k)])
    for number, reaches in enumerate(product(*axes)):
        target, source = zip(*reaches)
        if all(part.stop > part.start for part in target):
            yield number, (..., *target), (..., *source)


def _lowest(dtype):
    return dtype.type(-np.inf) if dtype.kind == "f" else np.iinfo(dtype).min


def _first_match(x, values, taps, count) -> np.ndarray:
    """The number of the first tap that holds the maximum, or of the last tap that holds NaN."""
    small = np.min_scalar_type(count)
    scores = np.zeros(values.shape, small)
    for number, target, source in taps:
        # scores fall with the tap number, and a product with the mask has no branches to mispredict
        matches = (x[source] == values[target]).view(np.uint8)
        np.maximum(scores[target], matches * small.type(count - number), out=scores[target])
    winners = count - scores.astype(np.int64)
    if values.dtype.kind == "f" and np.isnan(values).any():
        for number, target, source in taps:
            winners[target][np.isnan(x[source])] = number
    return winners


def _plane_strides(size) -> list[int]:
    return [math.prod(size[axis + 1 :]) for axis in range(len(size))]


def _grid_sum(rows) -> Any:
    """rows[0][i] + rows[1][j] + ... as an array indexed [i, j, ...]."""
    return sum(np.ix_(*rows))


def _plane_origins(input_size, size, stride, padding) -> np.ndarray:
    """The plane index of the first tap of each window, which may lie in the padding."""
    extents = zip(_plane_strides(input_size), size, stride, padding)
    return _grid_sum([(np.arange(out) * s - p) * step for step, out, s, p in extents])


def _tap_offsets(input_size, kernel, dilation) -> np.ndarray:
    extents = zip(_plane_strides(input_size), kernel, dilation)
    return _grid_sum([np.arange(k) * d * step for step, k, d in extents]).reshape(-1)


def _candidates(input_size, bounds) -> np.ndarray:
    """The plane indices in each window, (..., *T, L), from its (start, end) per axis, each (..., T_axis).

    Windows shorter than the longest repeat their last row or column, which changes neither maximum nor ties.
    """
    nd = len(bounds)
    total = 0
    for axis, (step, (start, end)) in enumerate(zip(_plane_strides(input_size), bounds)):
        longest = int((end - start).max(initial=1))
        positions = np.minimum(start[..., None] + np.arange(longest), end[..., None] - 1)
        spread = [1] * (2 * nd)
        spread[axis], spread[nd + axis] = positions.shape[-2:]
        total = total + (positions * step).reshape(*start.shape[:-1], *spread)
    return total.reshape(*total.shape[:-nd], math.prod(total.shape[total.ndim - nd :]))


def _max_among(x, candidates) -> tuple[np.ndarray, np.ndarray]:
    """The largest of x[n, c, candidates[..., :]], planes flattened, and the candidate that holds it."""
    candidates = np.broadcast_to(candidates, (*x.shape[:2], *candidates.shape[-1 - (x.ndim - 2) :]))
    seen = gather_plane(widen(x), candidates)
    best = _argmax_last_nan(seen)[..., None]
    values = np.take_along_axis(seen, best, -1)[..., 0]
    indices = np.take_along_axis(candidates, best, -1)[..., 0]
    return values.astype(x.dtype, copy=False), indices


def _argmax_last_nan(seen) -> np.ndarray:
    """argmax over the last axis, with the last NaN instead of the first."""
    best = seen.argmax(-1)
    missing = np.isnan(seen)
    if missing.any():
        last = seen.shape[-1] - 1 - missing[..., ::-1].argmax(-1)
        best = np.where(missing.any(-1), last, best)
    return best


def _fractional_starts(samples, n, kernel, parts) -> np.ndarray:
    """Where the windows start, (..., parts): evenly spread, shifted by the sample, the last at the end."""
    starts = np.empty((*samples.shape, parts), np.int64)
    if parts > 1:
        # in the dtype of the samples, because the roundings decide the integers
        spacing = samples.dtype.type(n - kernel) / samples.dtype.type(parts - 1)
        places = np.arange(parts).astype(samples.dtype) + samples[..., None]
        starts[...] = (places * spacing).astype(np.int64) - (samples * spacing).astype(np.int64)[..., None]
    starts[..., -1:] = n - kernel
    return starts


def _flat_indices(indices, plane) -> np.ndarray:
    """Plane indices of (N, C, ...) as indices into the flattened (N, C, plane) array."""
    planes = indices.shape[0] * indices.shape[1]
    origins = np.arange(planes) * plane
    return indices + origins.reshape(*indices.shape[:2], *(1,) * (indices.ndim - 2))


def _along(row, axis, like) -> np.ndarray:
    """A row reshaped to run along one axis, in the dtype of the array it will meet."""
    shape = [1] * like.ndim
    shape[axis] = len(row)
    return row.astype(like.dtype).reshape(shape)


def _sum_windows(x, axis, size, kernel, stride, padding) -> np.ndarray:
    """Sums over the windows of one axis."""
    shape = list(x.shape)
    shape[axis] = size
    total = np.zeros(shape, x.dtype)
    lead = (slice(None),) * axis
    for tap in range(kernel):
        target, source = _reach(tap, x.shape[axis], size, stride, padding)
        total[*lead, target] += x[*lead, source]
    return total


def _sum_windows_adjoint(g, axis, n, kernel, stride, padding) -> np.ndarray:
    """The adjoint of `_sum_windows`: every entry of g added to all positions of its window."""
    shape = list(g.shape)
    shape[axis] = n
    total = np.zeros(shape, g.dtype)
    lead = (slice(None),) * axis
    for tap in range(kernel):
        source, target = _reach(tap, n, g.shape[axis], stride, padding)
        total[*lead, target] += g[*lead, source]
    return total


def divisor(input_size, size, kernel, stride, padding, count_include_pad, divisor_override):
    """What each window sum is divided by: one number, or an array over the positions of the windows."""
    if divisor_override:
        return divisor_override
    counts = window_counts(input_size, size, kernel, stride, padding, count_include_pad)
    grids = np.ix_(*(np.asarray(count, np.float32) for count in counts))
    return math.prod(grids)


def window_counts(
    input_size, size, kernel, stride, padding, count_include_pad
) -> tuple[tuple[int, ...], ...]:
    """For every axis, how many positions each window counts."""
    lengths = []
    for n, out, k, s, p in zip(input_size, size, kernel, stride, padding):
        start = np.arange(out) * s - p
        end = np.minimum(start + k, n + p)
        length = end - start if count_include_pad else np.minimum(end, n) - np.maximum(start, 0)
        # a window wholly outside, which only an overhang can be, sums to zero
        lengths.append(tuple(np.maximum(length, 1).tolist()))
    return tuple(lengths)


def _adaptive_bounds(n, parts) -> tuple[np.ndarray, np.ndarray]:
    """Part i of n entries runs from floor(i * n / parts) to ceil((i + 1) * n / parts)."""
    number = np.arange(parts)
    return number * n // parts, -(-(number + 1) * n // parts)


def _part_lengths(n, parts) -> np.ndarray:
    start, end = _adaptive_bounds(n, parts)
    return end - start


def _sum_parts(x, axis, parts) -> np.ndarray:
    """Sums over the adaptive parts of one axis."""
    n = x.shape[axis]
    if parts and n % parts == 0:
        return x.reshape(*x.shape[:axis], parts, n // parts, *x.shape[axis + 1 :]).sum(axis + 1)
    start, end = _adaptive_bounds(n, parts)
    total = np.take(x, start, axis)
    lead = (slice(None),) * axis
    for offset in range(1, int((end - start).max(initial=0))):
        part = np.flatnonzero(start + offset < end)
        total[*lead, part] += np.take(x, start[part] + offset, axis)
    return total
