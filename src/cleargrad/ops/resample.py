"""Interpolation: images and volumes at another size.

A few entries are read along each axis, with weights that depend on the sizes only; every op is paired with
one adjoint. Kernels are in devices/cpu/arrays/resample.py. Read next: ops/grid_sampling.py.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, as_index
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.arrays import resample as kernels
from cleargrad.devices.cpu.arrays.precision import widen
from cleargrad.errors import error
from cleargrad.ops.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from cleargrad.ops.declare import composite, opaque
from cleargrad.ops.pooling import check_float
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor

# Axis by axis ----------------------------------------------------------------------------------------------

Scales = tuple[float | None, ...]


@functools.lru_cache(maxsize=256)
def axis_table(
    n: int, out: int, filter: str, align_corners: bool, scale: float | None, antialias: bool, kind: np.dtype
):
    """(indices, weights) of one axis, the same for every image of a size."""
    return kernels.axis_weights(n, out, filter, align_corners, scale, antialias, kind)


@functools.lru_cache(maxsize=256)
def axis_table_adjoint(n: int, *settings: Any):
    indices, weights = axis_table(n, *settings)
    return kernels.transpose_taps(indices, weights, n)


def run_resample(x, *, size, filter, align_corners, scales, antialias) -> np.ndarray:
    pixels = x.dtype == np.uint8
    result = x.astype(np.float64) if pixels else widen(x)
    for axis in range(x.ndim - 1, 1, -1):
        n, out, scale = x.shape[axis], size[axis - 2], scales[axis - 2]
        indices, weights = axis_table(n, out, filter, align_corners, scale, antialias, result.dtype)
        if pixels:  # PyTorch keeps images of bytes as bytes between the axes
            result = kernels.resample_axis(result, axis, indices, kernels.byte_weights(weights))
            result = np.clip(np.floor(result + 0.5), 0, 255)
        else:
            result = kernels.resample_axis(result, axis, indices, weights)
    return result.astype(x.dtype, copy=False)


def run_resample_adjoint(g, *, input_size, filter, align_corners, scales, antialias) -> np.ndarray:
    result = widen(g)
    for axis, (n, out, scale) in enumerate(zip(input_size, g.shape[2:], scales), start=2):
        table = axis_table_adjoint(n, out, filter, align_corners, scale, antialias, result.dtype)
        result = kernels.resample_axis(result, axis, *table)
    return result.astype(g.dtype, copy=False)


def resample_spec(
    x: Tensor, *, size: tuple, filter: str, align_corners: bool, scales: Scales, antialias: bool
) -> Spec:
    check_float("interpolate", x, dtypes.uint8)
    batch, channels, *space = x._form.shape
    if min(space) < 1 or min(size) < 1:
        rule = f"input and output sizes should be greater than 0, but got {tuple(space)} and {size}"
        raise error(RuntimeError, "interpolate", rule, input=x)
    if channels == 0:
        raise error(RuntimeError, "interpolate", "expected at least one channel", input=x)
    return Spec((batch, channels, *size), x.dtype)


def resample_of(filter: str, spatial: int, antialias: bool, name: str, node: str) -> Callable:
    """One of PyTorch's many names for resampling."""
    attrs = {"filter": filter, "align_corners": False, "scales": (None,) * spatial, "antialias": antialias}
    return opaque(
        name,
        spec=resample_spec,
        run=run_resample,
        vjp=lambda g, *, x_shape, filter, align_corners, scales, antialias: resample_adjoint(
            g,
            input_size=x_shape[2:],
            filter=filter,
            align_corners=align_corners,
            scales=scales,
            antialias=antialias,
        ),
        samples=lambda: iter([Sample(real(1, 2, *(3, 4, 2)[:spatial]), size=(5, 3, 2)[:spatial], **attrs)]),
        node=node + "Backward0",
    )


LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
RESAMPLE: dict[tuple[str, int, bool], Callable] = {}
for count, linear in LINEAR.items():
    kinds = {"nearest": "nearest", "nearest-exact": "nearest_exact", "linear": linear}
    for kind, called in kinds.items():
        title = "".join(word.capitalize() for word in called.split("_"))
        RESAMPLE[kind, count, False] = resample_of(
            kind, count, False, f"upsample_{called}{count}d", f"Upsample{title}{count}D"
        )
RESAMPLE["cubic", 2, False] = resample_of("cubic", 2, False, "upsample_bicubic2d", "UpsampleBicubic2D")
for kind, called in {"linear": "bilinear", "cubic": "bicubic", "lanczos": "lanczos"}.items():
    RESAMPLE[kind, 2, True] = resample_of(
        kind, 2, True, f"upsample_{called}2d_aa", f"Upsample{called.capitalize()}2DAa"
    )

resample_adjoint = opaque(
    "resample_adjoint",
    spec=lambda g, *, input_size, filter, align_corners, scales, antialias: Spec(
        (*g._form.shape[:2], *input_size), g.dtype
    ),
    run=run_resample_adjoint,
    vjp=lambda c, *, g_shape, filter, align_corners, scales, antialias: RESAMPLE[
        filter, len(g_shape) - 2, antialias
    ](c, size=g_shape[2:], filter=filter, align_corners=align_corners, scales=scales, antialias=antialias),
    samples=lambda: iter(
        [
            Sample(
                real(1, 2, 5),
                input_size=(3,),
                filter="linear",
                align_corners=False,
                scales=(None,),
                antialias=False,
            )
        ]
    ),
)

# interpolate -----------------------------------------------------------------------------------------------

# mode: (the filter, its number of spatial dimensions, or None for any)
FILTERS = {
    "nearest": ("nearest", None),
    "nearest-exact": ("nearest-exact", None),
    "linear": ("linear", 1),
    "bilinear": ("linear", 2),
    "trilinear": ("linear", 3),
    "bicubic": ("cubic", 2),
    "lanczos": ("lanczos", 2),
}
AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def interpolate_samples() -> Iterator[Sample]:
    line, image, volume = real(1, 2, 4), real(2, 1, 3, 4), real(1, 1, 2, 3, 2)
    for mode in ("nearest", "nearest-exact", "area"):
        yield Sample(line, 7, mode=mode)
        yield Sample(image, (5, 2), mode=mode)
        yield Sample(volume, scale_factor=2.0, mode=mode)
    for corners in (False, True):
        yield Sample(line, scale_factor=1.7, mode="linear", align_corners=corners)
        yield Sample(image, (5, 3), mode="bilinear", align_corners=corners)
        yield Sample(image, (5, 3), mode="bicubic", align_corners=corners)
        yield Sample(volume, (3, 2, 4), mode="trilinear", align_corners=corners)
        yield Sample(image, (2, 6), mode="bilinear", align_corners=corners, antialias=True)
    yield Sample(real(1, 1, 5, 6), (3, 4), mode="bicubic", antialias=True)
    yield Sample(real(1, 1, 7, 6), (3, 4), mode="lanczos", antialias=True)
    yield Sample(image, scale_factor=(1.6, 0.8), mode="bilinear", recompute_scale_factor=True)
    yield Sample(real(0, 2, 3), 5)
    yield Fails(ValueError, image)
    yield Fails(ValueError, image, 2, 2.0)
    yield Fails(ValueError, image, (2,))
    yield Fails(ValueError, image, 2, align_corners=True)
    yield Fails(ValueError, image, 2, antialias=True)
    yield Fails(ValueError, image, 2, recompute_scale_factor=True)
    yield Fails(NotImplementedError, image, 2, mode="linear")
    yield Fails(NotImplementedError, image, 2, mode="cubic")
    yield Fails(NotImplementedError, real(2, 3), 2)
    yield Fails(RuntimeError, image, 0)
    yield Fails(TypeError, image, 1.5)


@composite(interpolate_samples, spaces=("nn.functional",))
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """The input's spatial dimensions at another size."""
    check_tensor("interpolate", input)
    if mode in ("nearest", "nearest-exact", "area") and align_corners is not None:
        rule = f"align_corners can only be set with linear, bilinear, bicubic and trilinear, not {mode!r}"
        raise error(ValueError, "interpolate", rule)
    size, scales = target_size(input, size, scale_factor, bool(recompute_scale_factor))
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input._form.ndim == 4):
        rule = "antialias is restricted to the modes bilinear, bicubic and lanczos and to 4D input"
        raise error(ValueError, "interpolate", rule, input=input, mode=mode)
    spatial = input._form.ndim - 2
    check_mode(input, mode, spatial)
    if mode == "area":
        return AREA[spatial](input, size)
    filter, _ = FILTERS[mode]
    if filter == "lanczos" and (align_corners or not antialias):
        raise error(ValueError, "interpolate", "mode='lanczos' needs antialias=True and align_corners=False")
    door = RESAMPLE[filter, spatial, antialias]
    corners = bool(align_corners)
    return door(input, size=size, filter=filter, align_corners=corners, scales=scales, antialias=antialias)


def check_mode(input: Tensor, mode: str, spatial: int) -> None:
    filter, needed = FILTERS.get(mode, ("area", None) if mode == "area" else (None, None))
    if filter is None or spatial not in (1, 2, 3):
        rule = f"takes 3D, 4D and 5D inputs and the modes {', '.join(FILTERS)} and area, not {mode!r}"
        raise error(NotImplementedError, "interpolate", rule, input=input)
    if needed not in (None, spatial):
        rule = f"got {spatial + 2}D input, but mode={mode!r} needs {needed + 2}D input"
        fix = f"use mode={LINEAR[spatial]!r}" if filter == "linear" else None
        raise error(NotImplementedError, "interpolate", rule, input=input, fix=fix)


def target_size(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool
) -> tuple[tuple[int, ...], Scales]:
    """The output size, and the factors to place the entries by where the user's are to be taken exactly."""
    space = input._form.shape[2:]
    if (size is None) == (scale_factor is None):
        raise error(ValueError, "interpolate", "exactly one of size and scale_factor should be defined")
    given = scale_factor if size is None else size
    entries = tuple(given) if isinstance(given, (tuple, list)) else (given,) * len(space)
    if len(entries) != len(space):
        rule = f"size or scale_factor must have {len(space)} entries, one per dimension, not {len(entries)}"
        raise error(ValueError, "interpolate", rule, input=input, given=given)
    if size is not None:
        if recompute:
            rule = "recompute_scale_factor is not meaningful with an explicit size"
            raise error(ValueError, "interpolate", rule)
        return tuple(as_index("interpolate", entry) for entry in entries), (None,) * len(space)
    scales = tuple(float(entry) for entry in entries)
    sizes = tuple(math.floor(n * scale) for n, scale in zip(space, scales))
    return sizes, (None,) * len(space) if recompute else scales


def deprecated(name: str) -> None:
    message = f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead."
    warnings.warn(message, stacklevel=3)


def upsample_samples() -> Iterator[Sample]:
    yield Sample(real(1, 1, 2, 3), 4)
    yield Sample(real(1, 1, 2, 3), scale_factor=2)
    yield Fails(ValueError, real(1, 1, 2, 3))


@composite(upsample_samples, spaces=("nn.functional",))
def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The old name of interpolate."""
    deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(upsample_samples, spaces=("nn.functional",))
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode="nearest"."""
    deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


@composite(upsample_samples, spaces=("nn.functional",))
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode="bilinear" and aligned corners."""
    deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)
