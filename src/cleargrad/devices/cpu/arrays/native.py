"""Convolution and pooling by machine code, on arrays: what eager ops call.

The functions mean what their namesakes in convolution.py and pooling.py mean, which are called instead where
there is no compiler (llvmlite), for dtypes other than float32 and float64, and for windows too large for a
thread's memory. Machine code comes from devices/cpu/kernels/convolution.py and devices/cpu/kernels/pooling.py.
Read next: devices/cpu/launch.py.
"""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType

import numpy as np

from cleargrad.devices.cpu.arrays import convolution as numpy_convolution
from cleargrad.devices.cpu.arrays import pooling as numpy_pooling
from cleargrad.devices.cpu.arrays.precision import widen

KINDS = (np.dtype(np.float32), np.dtype(np.float64))


@cache
def compiler() -> tuple[ModuleType, ModuleType, ModuleType] | None:
    """The modules that choose and run kernels; loaded when they are first needed."""
    try:
        from cleargrad.devices.cpu import launch
        from cleargrad.devices.cpu.kernels import convolution, pooling
    except ImportError:
        return None
    return convolution, pooling, launch


def suits(*arrays: np.ndarray | None) -> bool:
    """Whether kernels know the dtype, and there is something to do."""
    given = [array for array in arrays if array is not None]
    dtype = given[0].dtype
    return dtype in KINDS and all(x.dtype == dtype and x.size for x in given) and compiler() is not None


def plain(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def check_channels(given: int, expected: int) -> None:
    """Machine code would read past the end; the op's spec says it in better words."""
    if given != expected:
        raise ValueError(f"{given} channels where {expected} were expected")


def convolve(x, w, stride, padding, dilation, groups, bias=None) -> np.ndarray:
    check_channels(x.shape[1], w.shape[1] * groups)
    dtype = np.result_type(x, w)
    wide_x, wide_w, wide_bias = widen(x), widen(w), None if bias is None else widen(bias)
    if not suits(wide_x, wide_w, wide_bias):
        return numpy_convolution.convolve(x, w, stride, padding, dilation, groups, bias)
    chooser, _, launch = compiler()
    size = numpy_convolution.output_size(x.shape[2:], w.shape[2:], stride, padding, dilation)
    out = np.empty((x.shape[0], w.shape[0], *size), wide_x.dtype)
    threads = launch.threads(out.size * math.prod(w.shape[1:]))
    settings = (stride, padding, dilation, groups, out.dtype, threads, bias is not None)
    try:
        ready = launch.ready(chooser.forward, x.shape, w.shape, *settings, alone=threads == 1)
    except chooser.TooLarge:
        return numpy_convolution.convolve(x, w, stride, padding, dilation, groups, bias)
    arrays = {} if wide_bias is None else {"bias": plain(wide_bias)}
    ready.run_named(source=plain(wide_x), weight=plain(wide_w), place=out, **arrays)
    return out.astype(dtype, copy=False)


def convolve_input(g, w, input_size, stride, padding, dilation, groups, bias=None) -> np.ndarray:
    check_channels(g.shape[1], w.shape[0])
    dtype = np.result_type(g, w)
    wide_g, wide_w, wide_bias = widen(g), widen(w), None if bias is None else widen(bias)
    if not suits(wide_g, wide_w, wide_bias):
        return numpy_convolution.convolve_input(g, w, input_size, stride, padding, dilation, groups, bias)
    chooser, _, launch = compiler()
    out = np.empty((g.shape[0], w.shape[1] * groups, *input_size), wide_g.dtype)
    threads = launch.threads(g.size * math.prod(w.shape[1:]))
    settings = (tuple(input_size), stride, padding, dilation, groups, out.dtype, threads, bias is not None)
    try:
        ready = launch.ready(chooser.input_gradient, g.shape, w.shape, *settings, alone=threads == 1)
    except chooser.TooLarge:
        return numpy_convolution.convolve_input(g, w, input_size, stride, padding, dilation, groups, bias)
    arrays = {} if wide_bias is None else {"bias": plain(wide_bias)}
    ready.run_named(source=plain(wide_g), weight=plain(wide_w), place=out, **arrays)
    return out.astype(dtype, copy=False)


def convolve_weight(g, x, kernel_size, stride, padding, dilation, groups) -> np.ndarray:
    dtype = np.result_type(g, x)
    wide_g, wide_x = widen(g), widen(x)
    if not suits(wide_g, wide_x):
        return numpy_convolution.convolve_weight(g, x, kernel_size, stride, padding, dilation, groups)
    chooser, _, launch = compiler()
    out = np.empty((g.shape[1], x.shape[1] // groups, *kernel_size), wide_g.dtype)
    threads = launch.threads(g.size * math.prod(out.shape[1:]))
    settings = (tuple(kernel_size), stride, padding, dilation, groups, out.dtype, threads)
    try:
        ready = launch.ready(chooser.weight_gradient, g.shape, x.shape, *settings, alone=threads == 1)
    except chooser.TooLarge:
        return numpy_convolution.convolve_weight(g, x, kernel_size, stride, padding, dilation, groups)
    ready.run_named(source=plain(wide_x), gradient=plain(wide_g), place=out)
    return out.astype(dtype, copy=False)


# Pooling ---------------------------------------------------------------------------------------------------


def max_pool(x, kernel, stride, padding, dilation, ceil_mode) -> tuple[np.ndarray, np.ndarray]:
    found = pooled(x, kernel, stride, padding, dilation, ceil_mode, True)
    return numpy_pooling.max_pool(x, kernel, stride, padding, dilation, ceil_mode) if found is None else found


def max_values(x, kernel, stride, padding, dilation, ceil_mode) -> np.ndarray:
    found = pooled(x, kernel, stride, padding, dilation, ceil_mode, False)
    return (
        numpy_pooling.max_values(x, kernel, stride, padding, dilation, ceil_mode)
        if found is None
        else found[0]
    )


def pooled(x, kernel, stride, padding, dilation, ceil_mode, indices):
    """Maxima and their indices; None where NumPy must do it."""
    wide = widen(x)
    if not suits(wide):
        return None
    _, chooser, launch = compiler()
    size = numpy_pooling.pooled_size(x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    alone = launch.threads(x.size * 8) == 1
    try:
        ready = launch.ready(
            chooser.maxima, x.shape, kernel, stride, padding, dilation, size, wide.dtype, indices, alone=alone
        )
    except chooser.TooLarge:
        return None
    values = np.empty((*x.shape[:2], *size), wide.dtype)
    places = np.empty(values.shape if indices else (0,), np.int64)
    ready.run_named(source=plain(wide), place=values, indices=places)
    return values.astype(x.dtype, copy=False), places


def avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override) -> np.ndarray:
    wide = widen(x)
    settings = (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    if not suits(wide):
        return numpy_pooling.avg_pool(x, *settings)
    _, chooser, launch = compiler()
    size = numpy_pooling.pooled_size(x.shape[2:], kernel, stride, padding, (1,) * len(kernel), ceil_mode)
    counted = (x.shape[2:], size, kernel, stride, padding, count_include_pad)
    counts = None if divisor_override else numpy_pooling.window_counts(*counted)
    alone = launch.threads(x.size * 8) == 1
    try:
        ready = launch.ready(
            chooser.sums, x.shape, kernel, stride, padding, size, wide.dtype, counts, alone=alone
        )
    except chooser.TooLarge:
        return numpy_pooling.avg_pool(x, *settings)
    out = np.empty((*x.shape[:2], *size), wide.dtype)
    ready.run_named(source=plain(wide), place=out)
    if divisor_override:
        out /= divisor_override
    return out.astype(x.dtype, copy=False)


def avg_pool_adjoint(
    g, input_size, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
) -> np.ndarray:
    settings = (input_size, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    if not suits(widen(g)):
        return numpy_pooling.avg_pool_adjoint(g, *settings)
    _, chooser, launch = compiler()
    counted = (kernel, stride, padding, count_include_pad, divisor_override)
    share = plain(widen(g) / numpy_pooling.divisor(input_size, g.shape[2:], *counted))
    out = np.empty((*g.shape[:2], *input_size), share.dtype)
    alone = launch.threads(out.size * 8) == 1
    try:
        ready = launch.ready(
            chooser.spread, g.shape, kernel, stride, padding, tuple(input_size), share.dtype, alone=alone
        )
    except chooser.TooLarge:
        return numpy_pooling.avg_pool_adjoint(g, *settings)
    ready.run_named(source=share, place=out)
    return out.astype(g.dtype, copy=False)


def scatter_plane(g, indices, plane_size) -> np.ndarray:
    wide = widen(g)
    if not suits(wide):
        return numpy_pooling.scatter_plane(g, indices, plane_size)
    _, chooser, launch = compiler()
    planes, count, length = math.prod(g.shape[:2]), math.prod(g.shape[2:]), math.prod(plane_size)
    ready = launch.ready(
        chooser.scatter, planes, count, length, wide.dtype, alone=launch.threads(planes * length * 8) == 1
    )
    out = np.empty((*g.shape[:2], *plane_size), wide.dtype)
    error = np.zeros(1, np.int64)
    ready.run_named(source=plain(wide), indices=plain(indices), place=out, error=error)
    if error[0]:  # NumPy counts negative indices from the end, and names one that is too large
        return numpy_pooling.scatter_plane(g, indices, plane_size)
    return out.astype(g.dtype, copy=False)
