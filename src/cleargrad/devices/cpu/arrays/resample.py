"""Resampling of images and volumes, on NumPy arrays: interpolation along axes, and sampling at free points.

In: x (N, C, *S), already validated. Out: new arrays. Both families reduce to reading a few entries (taps) and
adding them with weights, so both are linear in x, and each reader comes with its adjoint:
- interpolate: `axis_weights` decides the taps of one axis, `resample_axis` reads them, and
  `resample_axis_adjoint` spreads a gradient back. An image is resampled axis by axis. Area interpolation is
  adaptive_avg_pool in pooling.py.
- grid_sample: `grid_taps` decides the taps of every point, `sample_taps` reads them, `sample_taps_adjoint`
  spreads back; the functions named grid_sample combine these. `order` says how often the reading is
  differentiated in each coordinate of the grid: only the weights change, so the same functions compute
  derivatives of every order.
Coordinates follow PyTorch's arithmetic in its order, because a rounding decides which entry is read.

Read next: ops/resample.py.
"""

import math
from itertools import product
from typing import Any

import numpy as np

from cleargrad.devices.cpu.arrays.precision import is_half, widen

CUBIC = -0.75
CUBIC_ANTIALIAS = -0.5
REACH = {"linear": 1, "cubic": 2, "lanczos": 3}  # of the filters that antialias, in entries


def axis_weights(
    in_size, out_size, mode, align_corners=False, scale=None, antialias=False, dtype=np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """The (indices, weights) of one axis, each (out_size, taps), as torch.nn.functional.interpolate reads it.

    mode: nearest, nearest-exact, linear, cubic, or lanczos, which always antialiases.
    scale: the user's scale factor, if it is to be used as is.
    dtype: that of the image, for PyTorch computes coordinates in it (in float32 for half precision). Small
    two-dimensional images have another kernel in PyTorch, which rounds a little differently: where a nearest
    coordinate falls on a tie, as at ratios such as 2 to 41, that kernel may read the neighbour.
    """
    dtype = np.dtype(np.float32) if is_half(np.dtype(dtype)) else np.dtype(dtype)
    step = _step(in_size, out_size, align_corners, scale, dtype)
    places = np.arange(out_size).astype(dtype)
    if mode == "nearest":
        return _nearest_weights(places * step, in_size)
    if mode == "nearest-exact":
        return _nearest_weights(_centers(places, step) + dtype.type(0.5), in_size)
    if antialias:
        return _antialias_weights(places, step, in_size, mode)
    centers = places * step if align_corners else _centers(places, step)
    return _linear_weights(centers, in_size) if mode == "linear" else _cubic_weights(centers, in_size)


def byte_weights(weights) -> np.ndarray:
    """Weights rounded to the 16-bit fixed point numbers with which PyTorch resamples images of bytes."""
    largest, bits = float(np.abs(weights).max(initial=0.0)), 0
    while bits < 22 and int(0.5 + largest * (2 << bits)) < 1 << 15:
        bits += 1
    scaled = weights * np.float64(1 << bits)
    return np.trunc(scaled + np.copysign(0.5, weights)) / (1 << bits)


def resample_axis(x, axis, indices, weights) -> np.ndarray:
    """out[..., o, ...] = sum over taps of weights[o, tap] * x[..., indices[o, tap], ...] along one axis."""
    wide = widen(x)
    shape = [1] * x.ndim
    shape[axis] = len(weights)
    total: Any = None
    for tap in range(indices.shape[1]):
        part = np.take(wide, indices[:, tap], axis)
        weight = weights[:, tap]
        if not (weight == 1).all():
            part *= weight.reshape(shape).astype(wide.dtype, copy=False)
        total = part if total is None else np.add(total, part, out=total)
    return total.astype(x.dtype, copy=False)


def resample_axis_adjoint(g, axis, indices, weights, in_size) -> np.ndarray:
    """The adjoint of `resample_axis`: the same reading with the table of taps transposed."""
    return resample_axis(g, axis, *transpose_taps(indices, weights, in_size))


def transpose_taps(indices, weights, in_size) -> tuple[np.ndarray, np.ndarray]:
    """For every entry of the input, which outputs read it and with what weight, each (in_size, readers).

    Entries with fewer readers than the most popular one are filled up with weight zero.
    """
    taps = indices.shape[1]
    order = np.argsort(indices, axis=None, kind="stable")
    entry = indices.reshape(-1)[order]
    readers = np.bincount(entry, minlength=in_size)
    rank = np.arange(entry.size) - np.repeat(np.cumsum(readers) - readers, readers)
    shape = (in_size, max(1, int(readers.max(initial=0))))
    outputs, shares = np.zeros(shape, np.int64), np.zeros(shape, weights.dtype)
    outputs[entry, rank] = order // taps
    shares[entry, rank] = weights.reshape(-1)[order]
    return outputs, shares


def grid_sample(x, grid, order, mode, padding_mode, align_corners) -> np.ndarray:
    """x (N, C, *S) read at the points grid (N, *T, nd), last axis first, within [-1, 1]: (N, C, *T)."""
    return sample_taps(x, *grid_taps(grid, x.shape[2:], order, mode, padding_mode, align_corners))


def grid_sample_adjoint(g, grid, input_size, order, mode, padding_mode, align_corners) -> np.ndarray:
    """The adjoint of `grid_sample` in x, g (N, C, *T) -> (N, C, *input_size)."""
    taps = grid_taps(grid, input_size, order, mode, padding_mode, align_corners)
    return sample_taps_adjoint(g, *taps, input_size)


def grid_taps(grid, size, order, mode, padding_mode, align_corners) -> tuple[np.ndarray, np.ndarray]:
    """The plane indices and weights, or derivatives of weights, that each point reads, each (N, *T, taps).

    The taps of a point are the product of its taps along each axis, and so are the weights.
    """
    coordinates = widen(grid)
    taps_of_axis = {"nearest": _nearest_taps, "bilinear": _linear_taps, "bicubic": _cubic_taps}[mode]
    axes = []
    for axis, n in enumerate(size):
        # the grid names coordinates as x, y, z, which is the last axis first
        name = len(size) - 1 - axis
        center = _unnormalize(coordinates[..., name], n, align_corners)
        # a point at infinity has weights of NaN, which is no reason to warn
        with np.errstate(invalid="ignore"):
            axes.append(taps_of_axis(center, n, order[name], padding_mode, align_corners))
    choices = list(product(*(range(len(indices)) for indices, _ in axes)))
    strides = [math.prod(size[axis + 1 :]) for axis in range(len(size))]
    indices = [sum(axes[a][0][tap] * strides[a] for a, tap in enumerate(choice)) for choice in choices]
    weights = [math.prod(axes[a][1][tap] for a, tap in enumerate(choice)) for choice in choices]
    return np.stack(indices, -1), np.stack(weights, -1)


def sample_taps(x, indices, weights) -> np.ndarray:
    """out[n, c, p] = sum over taps t of weights[n, p, t] * x[n, c, indices[n, p, t]], planes flattened."""
    batch, channels = x.shape[:2]
    points = indices.shape[1:-1]
    planes = widen(x).reshape(batch, channels, math.prod(x.shape[2:]))
    indices, weights = _flatten_points(indices), _flatten_points(weights).astype(planes.dtype, copy=False)
    out = np.zeros((batch, channels, math.prod(points)), planes.dtype)
    for sample, tap in product(range(batch), range(indices.shape[-1])):
        out[sample] += np.take(planes[sample], indices[sample, :, tap], 1) * weights[sample, :, tap]
    return out.reshape(batch, channels, *points).astype(x.dtype, copy=False)


def sample_taps_adjoint(g, indices, weights, input_size) -> np.ndarray:
    """The adjoint of `sample_taps` in x: every entry of g added to the entries its point reads."""
    batch, channels = g.shape[:2]
    plane = math.prod(input_size)
    wide = widen(g).reshape(batch, channels, math.prod(g.shape[2:]), 1)
    indices, weights = _flatten_points(indices), _flatten_points(weights).astype(wide.dtype, copy=False)
    out = np.zeros((batch, channels * plane), wide.dtype)
    origins = (np.arange(channels) * plane).reshape(-1, 1, 1)
    for sample in range(batch):
        spread = wide[sample] * weights[sample]
        np.add.at(out[sample], (indices[sample] + origins).reshape(-1), spread.reshape(-1))
    return out.reshape(batch, channels, *input_size).astype(g.dtype, copy=False)


def affine_base_grid(size, align_corners, dtype) -> np.ndarray:
    """The points of a plane in homogeneous coordinates (x, y, [z,] 1), as (*size, nd + 1).

    The affine grid of theta (N, nd, nd + 1) is its product with theta transposed.
    """
    base = np.ones((*size, len(size) + 1), dtype)
    for axis, n in enumerate(size):
        shape = [1] * len(size)
        shape[axis] = n
        base[..., len(size) - 1 - axis] = _centered_places(n, align_corners, base.dtype).reshape(shape)
    return base


def _step(in_size, out_size, align_corners, scale, dtype):
    """How far apart, in entries of the input, neighbouring outputs look."""
    if align_corners:
        return dtype.type(in_size - 1) / dtype.type(out_size - 1) if out_size > 1 else dtype.type(0)
    if scale is not None and scale > 0:
        return dtype.type(1.0 / scale)
    return dtype.type(in_size) / dtype.type(out_size)


def _centers(places, step) -> np.ndarray:
    """The center of each output among the entries of the input: (place + 1/2) * step - 1/2.

    PyTorch fuses the product and the difference into one rounding; for float32, float64 has room for both.
    """
    middle = places + places.dtype.type(0.5)
    return (middle * np.float64(step) - 0.5).astype(places.dtype)


def _nearest_weights(centers, in_size) -> tuple[np.ndarray, np.ndarray]:
    # PyTorch rounds down with a float32 function even for float64 images
    indices = np.floor(centers.astype(np.float32)).astype(np.int64)
    return np.minimum(indices, in_size - 1)[:, None], np.ones((len(centers), 1), centers.dtype)


def _split(centers, in_size) -> tuple[np.ndarray, np.ndarray]:
    """The entry at or below each center, and how far the center lies beyond it, in [0, 1]."""
    below = np.minimum(np.floor(centers).astype(np.int64), in_size - 1)
    return below, np.clip(centers - below.astype(centers.dtype), 0, 1)


def _linear_weights(centers, in_size) -> tuple[np.ndarray, np.ndarray]:
    below, beyond = _split(np.maximum(centers, 0), in_size)
    above = np.minimum(below + 1, in_size - 1)
    return np.stack([below, above], -1), np.stack([1 - beyond, beyond], -1)


def _cubic_weights(centers, in_size) -> tuple[np.ndarray, np.ndarray]:
    below, beyond = _split(centers, in_size)
    indices = np.clip(below[:, None] + np.arange(-1, 3), 0, in_size - 1)
    return indices, np.stack(_cubic_coefficients(beyond), -1)


def _cubic_near(a) -> tuple[float, ...]:
    """The cubic convolution kernel at distances of at most 1, as coefficients, the highest power first."""
    return a + 2, -(a + 3), 0.0, 1.0


def _cubic_far(a) -> tuple[float, ...]:
    """The cubic convolution kernel at distances between 1 and 2."""
    return a, -5 * a, 8 * a, -4 * a


def _polynomial(coefficients, t, order=0) -> np.ndarray:
    """A polynomial, or its derivative of the given order, at t."""
    for _ in range(order):
        powers = range(len(coefficients) - 1, 0, -1)
        coefficients = [c * power for c, power in zip(coefficients, powers)]
    value = np.zeros_like(t)
    for coefficient in coefficients:
        value = value * t + coefficient
    return value


def _cubic_coefficients(t, order=0) -> list[np.ndarray]:
    """The weights of the entries at -1, 0, 1 and 2 for a point at t in [0, 1], or their derivatives in t."""
    near, far = _cubic_near(CUBIC), _cubic_far(CUBIC)
    turned = (-1) ** order  # the distance to an entry above t shrinks as t grows
    below = [_polynomial(far, t + 1, order), _polynomial(near, t, order)]
    return [*below, turned * _polynomial(near, 1 - t, order), turned * _polynomial(far, 2 - t, order)]


def _antialias_weights(places, step, in_size, mode) -> tuple[np.ndarray, np.ndarray]:
    """Taps of a filter as wide as the spacing of the outputs, so that a smaller image averages."""
    dtype = places.dtype.type
    stretch = max(step, dtype(1))
    support = dtype(REACH[mode]) * stretch
    centers = (places + dtype(0.5)) * step
    first = np.maximum((centers - support + dtype(0.5)).astype(np.int64), 0)
    last = np.minimum((centers + support + dtype(0.5)).astype(np.int64), in_size)
    offsets = np.arange(max(1, int((last - first).max(initial=1))))
    distance = (offsets + first[:, None] - centers[:, None] + dtype(0.5)) * (dtype(1) / stretch)
    weights = np.where(offsets < (last - first)[:, None], _filter(np.abs(distance), mode), 0)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return np.minimum(first[:, None] + offsets, in_size - 1), weights.astype(places.dtype)


def _filter(distance, mode) -> np.ndarray:
    if mode == "linear":
        return np.maximum(1 - distance, 0)
    if mode == "lanczos":
        return np.where(distance < 3, np.sinc(distance) * np.sinc(distance / 3), 0)
    far = np.where(distance < 2, _polynomial(_cubic_far(CUBIC_ANTIALIAS), distance), 0)
    return np.where(distance < 1, _polynomial(_cubic_near(CUBIC_ANTIALIAS), distance), far)


def _unnormalize(coordinate, n, align_corners) -> tuple[np.ndarray, float]:
    """A coordinate in [-1, 1] as a place among n entries, and the factor its derivative brings."""
    if align_corners:
        return (coordinate + 1) / 2 * (n - 1), (n - 1) / 2
    return ((coordinate + 1) * n - 1) / 2, n / 2


def _reflect(place, n, align_corners) -> tuple[np.ndarray, np.ndarray]:
    """A place folded back at the edges as often as needed, and the sign that its derivative takes."""
    low, span = (0, n - 1) if align_corners else (-0.5, n)
    if span == 0:
        return np.zeros_like(place), np.zeros_like(place)
    distance = place - low
    sign = np.where(distance < 0, -1, 1)
    distance = np.abs(distance)
    beyond = np.fmod(distance, span)
    returning = np.floor(distance / span) % 2 == 1
    return np.where(returning, span - beyond, beyond) + low, np.where(returning, -sign, sign)


def _clip(place, n) -> tuple[np.ndarray, np.ndarray]:
    """A place moved to the nearest entry if outside, where its derivative is zero; NaN becomes 0."""
    inside = (place > 0) & (place < n - 1)
    return np.fmin(np.fmax(place, 0), n - 1), inside


def _bring_inside(place, n, padding_mode, align_corners):
    """A place after the padding rule, and the factor its derivative brings; zeros leave it where it is."""
    if padding_mode == "zeros":
        return place, 1
    if padding_mode == "border":
        return _clip(place, n)
    reflected, sign = _reflect(place, n, align_corners)
    clipped, inside = _clip(reflected, n)
    return clipped, sign * inside


def _entry(place, n) -> tuple[np.ndarray, np.ndarray]:
    """A whole-numbered place as an index that is safe to read, and whether it really is one of n entries."""
    exists = (place >= 0) & (place < n)
    return np.where(exists, place, 0).astype(np.int64), exists


def _nearest_taps(center, n, order, padding_mode, align_corners) -> tuple[list, list]:
    """(indices, weights) of the one entry a point reads along an axis, each a list over taps."""
    place, _ = _bring_inside(center[0], n, padding_mode, align_corners)
    index, exists = _entry(np.rint(place), n)
    return [index], [exists.astype(place.dtype) if order == 0 else np.zeros_like(place)]


def _linear_taps(center, n, order, padding_mode, align_corners) -> tuple[list, list]:
    """(indices, weights) of the two entries around a point."""
    place, factor = _bring_inside(center[0], n, padding_mode, align_corners)
    below = np.floor(place)
    low, low_exists = _entry(below, n)
    high, high_exists = _entry(below + 1, n)
    if order == 0:
        # masks multiply, so that a point at NaN stays NaN
        return [low, high], [(below + 1 - place) * low_exists, (place - below) * high_exists]
    slope = np.broadcast_to(np.asarray(factor * center[1] if order == 1 else 0, place.dtype), place.shape)
    return [low, high], [-slope * low_exists, slope * high_exists]


def _cubic_taps(center, n, order, padding_mode, align_corners) -> tuple[list, list]:
    """(indices, weights) of the four entries around a point; the padding rule applies to each."""
    place, factor = center
    below = np.floor(place)
    indices, weights = [], []
    for offset, coefficient in zip(range(-1, 3), _cubic_coefficients(place - below, order)):
        entry, _ = _bring_inside(below + offset, n, padding_mode, align_corners)
        index, exists = _entry(entry, n)
        indices.append(index)
        weights.append(coefficient * place.dtype.type(factor**order) * exists)
    return indices, weights


def _flatten_points(taps) -> np.ndarray:
    return taps.reshape(taps.shape[0], math.prod(taps.shape[1:-1]), taps.shape[-1])


def _centered_places(n, align_corners, dtype) -> np.ndarray:
    """n places from -1 to 1: on the corners, or at the centers of n equal parts."""
    if n <= 1:
        return np.zeros(n, dtype)
    # counted from both ends as torch.linspace does, whose multiply-add rounds once; float64 has room for that
    step = dtype.type(2) / dtype.type(n - 1)
    offsets = np.arange(n) * np.float64(step)
    places = np.where(np.arange(n) < n // 2, offsets - 1, 1 - offsets[::-1]).astype(dtype)
    return places if align_corners else places * dtype.type(n - 1) / dtype.type(n)
