"""Images in other layouts: windows as columns (unfold, fold), channels as pixels and back, channels in turns.

Read next: ops/resample.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.arrays import pooling as kernels
from cleargrad.devices.cpu.arrays.convolution import output_size as windows_along
from cleargrad.errors import error
from cleargrad.ops.convolution import per_dimension
from cleargrad.ops.declare import composite, face, opaque
from cleargrad.ops.pooling import check_planes, on_batch
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor

# Windows as columns ----------------------------------------------------------------------------------------


def block_counts(
    op: str, size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> tuple:
    """How many windows lie along each dimension."""
    facts: dict[str, Any] = {"kernel_size": kernel, "stride": stride, "padding": padding}
    facts["dilation"] = dilation
    if min(kernel) <= 0 or min(stride) <= 0 or min(dilation) <= 0 or min(padding) < 0:
        rule = "kernel_size, stride and dilation should be greater than zero, padding not negative"
        raise error(RuntimeError, op, rule, **facts)
    counts = windows_along(size, kernel, stride, padding, dilation)
    if min(counts) < 1:
        rule = f"the windows are larger than the padded image of size {size}: their counts would be {counts}"
        raise error(RuntimeError, op, rule, **facts)
    return counts


def unfold_spec(x: Tensor, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> Spec:
    batch, channels, *size = x._form.shape
    counts = block_counts("unfold", tuple(size), kernel, stride, padding, dilation)
    return Spec((batch, channels * math.prod(kernel), math.prod(counts)), x.dtype)


def fold_spec(
    x: Tensor, *, size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> Spec:
    batch, rows, columns = x._form.shape
    taps = math.prod(kernel)
    counts = block_counts("fold", size, kernel, stride, padding, dilation)
    if rows % taps:
        rule = f"dimension 1 of the input, {rows}, must be divisible by the product of kernel_size, {taps}"
        raise error(RuntimeError, "fold", rule, input=x, kernel_size=kernel)
    if columns != math.prod(counts):
        rule = f"dimension 2 of the input, {columns}, must be the number of windows, {math.prod(counts)}"
        raise error(RuntimeError, "fold", rule, input=x, output_size=size, kernel_size=kernel, stride=stride)
    return Spec((batch, rows // taps, *size), x.dtype)


def run_unfold(x, *, kernel, stride, padding, dilation) -> np.ndarray:
    return kernels.im2col(x, kernel, stride, padding, dilation)


def run_fold(x, *, size, kernel, stride, padding, dilation) -> np.ndarray:
    return kernels.col2im(x, size, kernel, stride, padding, dilation)


def unfold_samples() -> Iterator[Sample]:
    yield Sample(real(2, 2, 3, 4), 2)
    yield Sample(real(2, 4, 4), (2, 3), 1, (1, 0), 2)
    yield Sample(real(1, 1, 5, 5), 2, dilation=2, padding=1, stride=(1, 2))
    yield Sample(real(0, 1, 3, 3), 2)
    yield Fails(RuntimeError, real(1, 1, 2, 2), 3)
    yield Fails(RuntimeError, real(1, 1, 2, 2), 0)


def fold_samples() -> Iterator[Sample]:
    yield Sample(real(2, 8, 6), (3, 4), 2)
    yield Sample(real(8, 4), (4, 4), 2, 1, 0, 2)
    yield Sample(real(1, 4, 20), output_size=(5, 4), kernel_size=2, dilation=2, padding=1, stride=(1, 1))
    yield Fails(RuntimeError, real(1, 4, 8), (4, 4), 2)
    yield Fails(RuntimeError, real(1, 5, 9), (4, 4), 2)
    yield Fails(RuntimeError, real(4), (4, 4), 2)


unfold_windows = opaque(
    "im2col",
    spec=unfold_spec,
    run=run_unfold,
    vjp=lambda g, *, x_shape, kernel, stride, padding, dilation: fold_windows(
        g, size=x_shape[2:], kernel=kernel, stride=stride, padding=padding, dilation=dilation
    ),
    samples=unfold_samples,
    node="Im2ColBackward0",
)
fold_windows = opaque(
    "col2im",
    spec=fold_spec,
    run=run_fold,
    vjp=lambda g, *, kernel, stride, padding, dilation: unfold_windows(
        g, kernel=kernel, stride=stride, padding=padding, dilation=dilation
    ),
    samples=fold_samples,
    node="Col2ImBackward0",
)


def grid_of_windows(op: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> dict[str, tuple]:
    return {
        "kernel": per_dimension(op, "kernel_size", kernel_size, 2),
        "dilation": per_dimension(op, "dilation", dilation, 2),
        "padding": per_dimension(op, "padding", padding, 2),
        "stride": per_dimension(op, "stride", stride, 2),
    }


@face(unfold_windows, spaces=("nn.functional",))
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Every window of an image as a column: (N, C, H, W) becomes (N, C · kernel entries, windows)."""
    check_planes("unfold", input, 2)
    return on_batch(
        unfold_windows, 2, input, **grid_of_windows("unfold", kernel_size, dilation, padding, stride)
    )


@face(fold_windows, spaces=("nn.functional",))
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The adjoint of unfold: columns added back where they came from, into images of output_size."""
    check_tensor("fold", input)
    if input._form.ndim not in (2, 3):
        rule = f"expected 2D (unbatched) or 3D (batched) input, but got {input._form.ndim}D"
        raise error(RuntimeError, "fold", rule, input=input)
    size = per_dimension("fold", "output_size", output_size, 2)
    attrs = grid_of_windows("fold", kernel_size, dilation, padding, stride)
    return on_batch(fold_windows, 1, input, size=size, **attrs)


# Channels as pixels ----------------------------------------------------------------------------------------


def check_image(op: str, input: Any, factor: int, name: str) -> tuple[tuple[int, ...], int, int, int]:
    check_tensor(op, input)
    shape = input._form.shape
    if len(shape) < 3:
        rule = f"expects input to have at least 3 dimensions, but got {len(shape)}"
        raise error(RuntimeError, op, rule, input=input)
    if factor <= 0:
        raise error(RuntimeError, op, f"expects a positive {name}, but got {factor}")
    return shape[:-3], *shape[-3:]


def pixel_shuffle_samples() -> Iterator[Sample]:
    yield Sample(real(2, 8, 2, 3), 2)
    yield Sample(real(9, 1, 2), 3)
    yield Sample(real(0, 4, 2, 2), 2)
    yield Fails(RuntimeError, real(3, 2, 2), 2)
    yield Fails(RuntimeError, real(4, 2), 2)
    yield Fails(RuntimeError, real(4, 2, 2), 0)


@composite(pixel_shuffle_samples, spaces=("nn.functional", ""))
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C·r², H, W) as (*, C, H·r, W·r): every r² channels become a square of pixels."""
    r = upscale_factor
    lead, channels, height, width = check_image("pixel_shuffle", input, r, "upscale_factor")
    if channels % (r * r):
        rule = f"expects channels divisible by the square of upscale_factor, but {channels} is not by {r * r}"
        raise error(RuntimeError, "pixel_shuffle", rule, input=input)
    n, c = len(lead), channels // (r * r)
    parts = input.reshape(*lead, c, r, r, height, width)
    turned = parts.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)  # (*, C, H, r, W, r)
    return turned.reshape(*lead, c, height * r, width * r)


def pixel_unshuffle_samples() -> Iterator[Sample]:
    yield Sample(real(2, 2, 4, 6), 2)
    yield Sample(real(1, 3, 6), 3)
    yield Fails(RuntimeError, real(1, 3, 2), 2)
    yield Fails(RuntimeError, real(4, 2), 2)
    yield Fails(RuntimeError, real(4, 2, 2), 0)


@composite(pixel_unshuffle_samples, spaces=("nn.functional", ""))
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H·r, W·r) as (*, C·r², H, W): the inverse of pixel_shuffle."""
    r = downscale_factor
    lead, channels, height, width = check_image("pixel_unshuffle", input, r, "downscale_factor")
    if height % r or width % r:
        rule = f"expects height and width divisible by downscale_factor, but {(height, width)} are not by {r}"
        raise error(RuntimeError, "pixel_unshuffle", rule, input=input)
    n = len(lead)
    parts = input.reshape(*lead, channels, height // r, r, width // r, r)
    turned = parts.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)  # (*, C, r, r, H, W)
    return turned.reshape(*lead, channels * r * r, height // r, width // r)


def channel_shuffle_samples() -> Iterator[Sample]:
    yield Sample(real(2, 6, 2), 3)
    yield Sample(real(1, 4, 2, 3), 2)
    yield Fails(RuntimeError, real(1, 3, 2), 2)
    yield Fails(RuntimeError, real(4, 2), 2)
    yield Fails(RuntimeError, real(1, 4, 2), 0)


@composite(channel_shuffle_samples, spaces=("nn.functional", ""), aliases=("native_channel_shuffle",))
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels dealt out again, one from each of the groups in turn."""
    check_tensor("channel_shuffle", input)
    shape = input._form.shape
    if len(shape) < 3:
        rule = f"expects input with more than 2 dimensions, but got {len(shape)}"
        raise error(RuntimeError, "channel_shuffle", rule, input=input)
    if groups <= 0 or shape[1] % groups:
        rule = f"channels must be divisible by a positive number of groups; got {shape[1]} and {groups}"
        raise error(RuntimeError, "channel_shuffle", rule, input=input)
    parts = input.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
    return parts.transpose(1, 2).reshape(shape)
