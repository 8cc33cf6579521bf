"""Images and volumes read at free points: grid_sample, and the grids of affine maps.

A point reads the entries around it, with weights. Its derivatives in the grid's coordinates differ from its
value only in the weights, so that one op and its adjoint, with the attribute `order`, give gradients of every
order. Kernels are in devices/cpu/arrays/resample.py. Read next: compile/__init__.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec, as_index
from cleargrad.core.tensor import Tensor, wrap_beside
from cleargrad.devices.cpu.arrays import resample as kernels
from cleargrad.errors import error
from cleargrad.ops.declare import composite, fused, opaque
from cleargrad.ops.joining import stack
from cleargrad.ops.pooling import check_float
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor

# At free points --------------------------------------------------------------------------------------------


def read_spec(
    x: Tensor, grid: Tensor, *, order: tuple, mode: str, padding_mode: str, align_corners: bool
) -> Spec:
    op, shape, points = "grid_sample", x._form.shape, grid._form.shape
    spatial = len(shape) - 2
    facts: dict[str, Any] = {"input": x, "grid": grid}
    if spatial not in (2, 3) or len(points) != len(shape):
        rule = "expected 4D or 5D input, and a grid with as many dimensions"
        raise error(RuntimeError, op, rule, **facts)
    if points[0] != shape[0]:
        raise error(RuntimeError, op, "expected grid and input to have the same batch size", **facts)
    if points[-1] != spatial:
        rule = f"expected the grid's last dimension to hold {spatial} coordinates, but it has {points[-1]}"
        raise error(RuntimeError, op, rule, **facts)
    if x._form.dtype != grid._form.dtype:
        raise error(RuntimeError, op, "expected grid and input to have the same dtype", **facts)
    if min(shape[2:]) < 1:
        raise error(RuntimeError, op, "expected input to have non-empty spatial dimensions", **facts)
    if mode == "bicubic" and spatial != 2:
        raise error(RuntimeError, op, "bicubic interpolation only supports 4D input", **facts)
    check_float(op, x)
    return Spec((*shape[:2], *points[1:-1]), x.dtype)


def run_read(x, grid, *, order, mode, padding_mode, align_corners) -> np.ndarray:
    return kernels.grid_sample(x, grid, order, mode, padding_mode, align_corners)


def run_spread(g, grid, *, size, order, mode, padding_mode, align_corners) -> np.ndarray:
    return kernels.grid_sample_adjoint(g, grid, size, order, mode, padding_mode, align_corners)


def grid_gradient(g: Tensor, x: Tensor, grid: Tensor, order: tuple[int, ...], **how: Any) -> Tensor:
    """The gradient in the grid: for each coordinate, the reading differentiated once more in it."""
    parts = []
    for name in range(len(order)):
        once_more = (*order[:name], order[name] + 1, *order[name + 1 :])
        parts.append((g * READ[len(order)](x, grid, order=once_more, **how)).sum(1))
    return stack(parts, -1)


def read_of(spatial: int) -> Callable:
    """grid_sampler_2d or grid_sampler_3d; `order` is zero, or counts derivatives in each coordinate."""

    def samples() -> Iterator[Sample]:
        image, grid = real(1, 2, *(3, 4, 2)[:spatial]), points(1, *(2,) * spatial, spatial)
        how = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": False}
        yield Sample(image, grid, order=(0,) * spatial, **how)

    return opaque(
        f"grid_sampler_{spatial}d",
        spec=read_spec,
        run=run_read,
        vjp=(
            lambda g, grid, *, x_shape, order, mode, padding_mode, align_corners: spread(
                g, grid, size=x_shape[2:], order=order, mode=mode, padding_mode=padding_mode,
                align_corners=align_corners,
            ),
            lambda g, x, grid, *, order, mode, padding_mode, align_corners: grid_gradient(
                g, x, grid, order, mode=mode, padding_mode=padding_mode, align_corners=align_corners
            ),
        ),
        samples=samples,
        node=f"GridSampler{spatial}DBackward0",
    )  # fmt: skip


def points(*shape: int) -> np.ndarray:
    """Coordinates away from the places where a neighbour changes, some of them outside the image."""
    return real(*shape, low=-1.13, high=1.17, seed=2)


spread = opaque(
    "grid_sampler_adjoint",
    spec=lambda g, grid, *, size, order, mode, padding_mode, align_corners: Spec(
        (*g._form.shape[:2], *size), g.dtype
    ),
    run=run_spread,
    vjp=(
        lambda c, grid, *, order, mode, padding_mode, align_corners: READ[len(order)](
            c, grid, order=order, mode=mode, padding_mode=padding_mode, align_corners=align_corners
        ),
        lambda c, g, grid, *, order, mode, padding_mode, align_corners: grid_gradient(
            g, c, grid, order, mode=mode, padding_mode=padding_mode, align_corners=align_corners
        ),
    ),
    samples=lambda: iter(
        [
            Sample(real(1, 2, 2, 3), points(1, 2, 3, 2), size=(3, 4), order=(0, 1), mode="bicubic",
                   padding_mode="border", align_corners=True)
        ]
    ),
)  # fmt: skip
READ = {spatial: read_of(spatial) for spatial in (2, 3)}
GRID_MODES = ("bilinear", "nearest", "bicubic")
GRID_PADDINGS = ("zeros", "border", "reflection")


def grid_samples() -> Iterator[Sample]:
    image, volume = real(2, 2, 4, 3), real(1, 2, 3, 2, 3)
    for padding_mode in GRID_PADDINGS:
        for mode in GRID_MODES:
            yield Sample(image / 8, points(2, 2, 3, 2), mode, padding_mode, True)
        yield Sample(volume, points(1, 2, 2, 2, 3), "bilinear", padding_mode, False)
    yield Sample(real(0, 2, 3, 3), real(0, 2, 2, 2))
    yield Fails(ValueError, image, points(2, 2, 3, 2), "linear")
    yield Fails(ValueError, image, points(2, 2, 3, 2), padding_mode="wrap")
    yield Fails(RuntimeError, image, points(1, 2, 3, 2))
    yield Fails(RuntimeError, image, points(2, 2, 3, 3))
    yield Fails(RuntimeError, image, points(2, 2, 2))
    yield Fails(RuntimeError, volume, points(1, 2, 2, 2, 3), "bicubic")


@composite(grid_samples, spaces=("nn.functional",))
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """The input read at the grid's points, whose coordinates (x, y[, z]) span the input from -1 to 1."""
    if mode not in GRID_MODES:
        rule = f"expected mode to be 'bilinear', 'nearest' or 'bicubic', but got {mode!r}"
        raise error(ValueError, "grid_sample", rule)
    if padding_mode not in GRID_PADDINGS:
        rule = f"expected padding_mode to be 'zeros', 'border' or 'reflection', but got {padding_mode!r}"
        raise error(ValueError, "grid_sample", rule)
    if align_corners is None:
        warn_about_corners()
    check_tensor("grid_sample", input)
    check_tensor("grid_sample", grid, "grid")
    spatial = 3 if input._form.ndim == 5 else 2
    how = {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return READ[spatial](input, grid, order=(0,) * spatial, **how)


def warn_about_corners() -> None:
    message = (
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
        "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
        "details."
    )
    warnings.warn(message, stacklevel=3)


def numbered_samples() -> Iterator[Sample]:
    yield Sample(real(1, 2, 3, 3), points(1, 2, 2, 2), 0, 0, False)
    yield Sample(real(1, 2, 3, 3), points(1, 2, 2, 2), 2, 1, True)
    yield Fails(RuntimeError, real(1, 2, 3, 3), points(2, 2, 2, 2), 0, 0, False)


def numbered_volumes() -> Iterator[Sample]:
    yield Sample(real(1, 2, 3, 3, 2), points(1, 2, 2, 2, 3), 0, 2, True)


@composite(numbered_samples)
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sample with its modes by number."""
    return grid_sample(
        input, grid, GRID_MODES[interpolation_mode], GRID_PADDINGS[padding_mode], align_corners
    )


for number, sampled in {2: numbered_samples, 3: numbered_volumes}.items():

    def numbered(
        input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
    ) -> Tensor:
        return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)

    numbered.__name__ = numbered.__qualname__ = f"grid_sampler_{number}d"
    composite(sampled)(numbered)


# Grids of affine maps --------------------------------------------------------------------------------------


def base_points(like: Tensor, size: tuple, align_corners: bool) -> Tensor:
    """The homogeneous coordinates of a regular grid, one point per row."""
    points = kernels.affine_base_grid(size, align_corners, like._form.dtype)
    return wrap_beside(points.reshape(-1, len(size) + 1), like)


def affine_parts(theta: Tensor, *, size: tuple, align_corners: bool) -> Tensor:
    flat = base_points(theta, size, align_corners) @ theta.transpose(1, 2)
    return flat.reshape(-1, *size, len(size))


def affine_adjoint_parts(g: Tensor, *, size: tuple, align_corners: bool) -> Tensor:
    return g.reshape(-1, math.prod(size), len(size)).transpose(1, 2) @ base_points(g, size, align_corners)


affine_points = fused(
    "affine_grid_generator",
    affine_parts,
    spec=lambda theta, *, size, align_corners: Spec((theta._form.shape[0], *size, len(size)), theta.dtype),
    vjp=lambda g, *, size, align_corners: affine_points_adjoint(g, size=size, align_corners=align_corners),
    samples=lambda: iter([Sample(real(2, 2, 3), size=(3, 2), align_corners=False)]),
)
affine_points_adjoint = fused(
    "affine_grid_generator_adjoint",
    affine_adjoint_parts,
    spec=lambda g, *, size, align_corners: Spec((g._form.shape[0], len(size), len(size) + 1), g.dtype),
    vjp=lambda c, *, size, align_corners: affine_points(c, size=size, align_corners=align_corners),
    samples=lambda: iter([Sample(real(2, 3, 2, 2), size=(3, 2), align_corners=True)]),
)


def affine_samples() -> Iterator[Sample]:
    yield Sample(real(2, 2, 3), (2, 1, 3, 4), True)
    yield Sample(real(1, 3, 4), (1, 2, 2, 3, 2), align_corners=False)
    yield Fails(NotImplementedError, real(1, 2, 3), (1, 2, 3))
    yield Fails(ValueError, real(1, 2, 2), (1, 2, 3, 3))
    yield Fails(ValueError, real(1, 2, 3), (1, 2, 0, 3))
    yield Fails(RuntimeError, real(2, 2, 3), (1, 2, 3, 3), False)


@composite(affine_samples, spaces=("nn.functional",))
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The points, for grid_sample, that affine maps theta (N, 2, 3) or (N, 3, 4) give an image of `size`."""
    if align_corners is None:
        warn_about_corners()
    check_tensor("affine_grid", theta, "theta")
    if not theta.dtype.is_floating_point:
        raise error(ValueError, "affine_grid", "expected theta to have a floating point type", theta=theta)
    batch, _, *space = size = tuple(as_index("affine_grid", extent) for extent in size)
    spatial = len(space)
    if spatial not in (2, 3):
        rule = "only 4D and 5D sizes are supported, for maps of 2 and 3 dimensions"
        raise error(NotImplementedError, "affine_grid", rule, size=size)
    if theta._form.shape[1:] != (spatial, spatial + 1):
        rule = f"expected a batch of maps of shape (N, {spatial}, {spatial + 1})"
        raise error(ValueError, "affine_grid", rule, theta=theta, size=size)
    if min(size) <= 0:
        raise error(ValueError, "affine_grid", "expected a non-zero, positive output size", size=size)
    if theta._form.shape[0] != batch:
        raise error(
            RuntimeError, "affine_grid", "theta and size differ in batch size", theta=theta, size=size
        )
    if align_corners and min(space) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the documentation of "
            "affine_grid for details.",
            stacklevel=2,
        )
    return affine_points(theta, size=tuple(space), align_corners=bool(align_corners))
