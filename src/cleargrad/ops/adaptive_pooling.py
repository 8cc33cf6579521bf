"""Pooling into as many windows as are asked for: evenly spread (adaptive) or at random places (fractional).

Gradients are those of ops/pooling.py: winners get the gradient of a maximum, means are paired with adjoints.
Read next: ops/image_layout.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.arrays import pooling as kernels
from cleargrad.errors import error
from cleargrad.ops.convolution import per_dimension
from cleargrad.ops.declare import opaque
from cleargrad.ops.pooling import (
    RANKS,
    adaptive_max_pool_adjoint,
    check_float,
    check_planes,
    on_batch,
    plane,
    published,
    spread_winners,
)
from cleargrad.ops.samples import Fails, Sample, real

# Adaptive maxima and means ---------------------------------------------------------------------------------


def adaptive_size(op: str, input: Tensor, output_size: Any, spatial: int) -> tuple[int, ...]:
    """The output size; None in it keeps the input's."""
    shape = input._form.shape
    if isinstance(output_size, (tuple, list)):
        if spatial > 1 and len(output_size) >= len(shape):
            rule = f"the input should have at least {len(output_size) + 1} dimensions"
            raise error(ValueError, op, rule, input=input, output_size=output_size)
        if spatial > 1:
            kept = shape[len(shape) - len(output_size) :]
            output_size = tuple(n if size is None else size for size, n in zip(output_size, kept))
        if len(output_size) != spatial:
            raise error(RuntimeError, op, f"output_size must have {spatial} entries", output_size=output_size)
    check_planes(op, input, spatial)
    check_float(op, input)
    size = per_dimension(op, "output_size", output_size, spatial)
    if min(size) < 0:
        raise error(RuntimeError, op, "elements of output_size must be at least 0", output_size=size)
    return size


def adaptive_samples(spatial: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        yield Sample(plane(spatial, 2, 2), 2)
        yield Sample(plane(spatial, 1, 2), 1)
        yield Sample(plane(spatial, 2), (4, 3, 2)[:spatial])
        yield Sample(plane(spatial, 0, 2), 2)
        if spatial > 1:
            yield Sample(plane(spatial, 1, 2), (None, *(2,) * (spatial - 1)))
            yield Fails(ValueError, real(*(2,) * spatial), (2,) * spatial)
            yield Fails(RuntimeError, plane(spatial, 2, 2), (2,))
        yield Fails(RuntimeError, real(2), 2)
        yield Fails(RuntimeError, plane(spatial, 2, 2), -1)
        yield Fails(TypeError, plane(spatial, 2, 2), 1.5)

    return samples


def adaptive_max_pool_of(spatial: int) -> tuple[Callable, Callable]:
    """adaptive_max_pool1d, 2d or 3d, and the same with indices."""
    name = f"adaptive_max_pool{spatial}d"

    def spec(x: Tensor, *, size: tuple[int, ...]) -> list[Spec]:
        shape = (*x._form.shape[:2], *size)
        return [Spec(shape, x.dtype), Spec(shape, dtypes.int64)]

    door = opaque(
        name,
        spec=spec,
        run=lambda x, *, size: kernels.adaptive_max_pool(x, size),
        vjp=lambda g, out1, *, x_shape: adaptive_max_pool_adjoint(g[0], out1, size=x_shape[2:]),
        samples=lambda: iter([Sample(plane(spatial, 1, 2), size=(2,) * spatial)]),
        node=f"AdaptiveMaxPool{spatial}DBackward0",
        outputs=2,
    )

    def with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]:
        return on_batch(door, spatial, input, size=adaptive_size(name, input, output_size, spatial))

    def maxima(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        result = with_indices(input, output_size)
        return result if return_indices else result[0]

    doc = f"The largest entry in each of output_size nearly equal parts of {spatial} dimensions."
    samples = adaptive_samples(spatial)
    return (
        published(maxima, name, doc, samples),
        published(with_indices, f"{name}_with_indices", doc + " Also its index in the plane.", samples),
    )


def adaptive_avg_pool_of(spatial: int) -> Callable:
    """adaptive_avg_pool1d, 2d or 3d."""
    name = f"adaptive_avg_pool{spatial}d"
    door = opaque(
        name,
        spec=lambda x, *, size: Spec((*x._form.shape[:2], *size), x.dtype),
        run=lambda x, *, size: kernels.adaptive_avg_pool(x, size),
        vjp=lambda g, *, x_shape: adjoint(g, size=x_shape[2:]),
        samples=lambda: iter([Sample(plane(spatial, 1, 2), size=(2,) * spatial)]),
        node=f"AdaptiveAvgPool{spatial}DBackward0",
    )
    adjoint = opaque(
        f"{name}_adjoint",
        spec=lambda g, *, size: Spec((*g._form.shape[:2], *size), g.dtype),
        run=lambda g, *, size: kernels.adaptive_avg_pool_adjoint(g, size),
        vjp=lambda c, *, g_shape: door(c, size=g_shape[2:]),
        samples=lambda: iter([Sample(real(1, 2, *(2,) * spatial), size=(5, 3, 2)[:spatial])]),
    )

    def means(input: Tensor, output_size: Any) -> Tensor:
        size = adaptive_size(name, input, output_size, spatial)
        if size == (1,) * spatial:
            return input.mean(tuple(range(-spatial, 0)), keepdim=True)
        return on_batch(door, spatial, input, size=size)

    doc = f"The mean of each of output_size nearly equal parts of {spatial} dimensions."
    return published(means, name, doc, adaptive_samples(spatial), spatial == 1)


(
    (adaptive_max_pool1d, adaptive_max_pool1d_with_indices),
    (adaptive_max_pool2d, adaptive_max_pool2d_with_indices),
    (adaptive_max_pool3d, adaptive_max_pool3d_with_indices),
) = map(adaptive_max_pool_of, RANKS)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(adaptive_avg_pool_of, RANKS)


# Windows at random places ----------------------------------------------------------------------------------


def fractional_samples(spatial: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        image, chance = (1, 2, *(6, 5, 5)[:spatial]), real(1, 2, spatial, low=0.1, high=0.9)
        yield Sample(real(*image), 2, (3,) * spatial)
        yield Sample(real(*image), 2, output_ratio=(0.5,) * spatial, _random_samples=chance)
        yield Sample(real(*image[1:]), (2,) * spatial, 2)
        yield Fails(ValueError, real(*image), 2)
        yield Fails(RuntimeError, real(*image), 2, 6)

    return samples


def fractional_max_pool_of(spatial: int) -> tuple[Callable, Callable]:
    """fractional_max_pool2d or fractional_max_pool3d, and the same with indices."""
    name = f"fractional_max_pool{spatial}d"

    def spec(x: Tensor, samples: Tensor, *, kernel: tuple, size: tuple) -> list[Spec]:
        check_float(name, x)
        spare = 1 if spatial == 3 else 0  # PyTorch's volumes want one entry more
        if any(
            parts < 1 or parts + k - 1 + spare > n for n, k, parts in zip(x._form.shape[2:], kernel, size)
        ):
            rule = (
                f"output_size + kernel_size - {1 - spare} may not exceed the input's size: windows do not fit"
            )
            raise error(RuntimeError, name, rule, input=x, kernel_size=kernel, output_size=size)
        if samples._form.shape != (*x._form.shape[:2], spatial):
            rule = f"expected _random_samples of shape (batch, channels, {spatial})"
            raise error(RuntimeError, name, rule, input=x, _random_samples=samples)
        shape = (*x._form.shape[:2], *size)
        return [Spec(shape, x.dtype), Spec(shape, dtypes.int64)]

    def door_samples() -> Iterator[Sample]:
        image, chance = (1, 2, *(6, 5, 5)[:spatial]), real(1, 2, spatial, low=0.1, high=0.9)
        yield Sample(real(*image), chance, kernel=(2,) * spatial, size=(2,) * spatial)

    door = opaque(
        name,
        spec=spec,
        run=lambda x, samples, *, kernel, size: kernels.fractional_max_pool(x, kernel, size, samples),
        vjp=(spread_winners, None),
        samples=door_samples,
        node=f"FractionalMaxPool{spatial}DBackward0",
        outputs=2,
    )

    def with_indices(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        check_planes(name, input, spatial)
        kernel = per_dimension(name, "kernel_size", kernel_size, spatial)
        if output_size is None:
            output_size = scaled_size(input, output_ratio)
        size = per_dimension(name, "output_size", output_size, spatial)
        batch = input if input._form.ndim == spatial + 2 else input.unsqueeze(0)
        chance = _random_samples
        if chance is None:
            chance = batch.detach().new_empty((*batch._form.shape[:2], spatial)).uniform_()
        elif len(chance) > len(batch):
            chance = chance[: len(batch)]
        values, indices = door(batch, chance, kernel=kernel, size=size)
        return (values, indices) if batch is input else (values.squeeze(0), indices.squeeze(0))

    def scaled_size(input: Tensor, ratio: Any) -> tuple[int, ...]:
        if ratio is None:
            raise error(ValueError, name, "needs either an output_size or an output_ratio")
        ratios = tuple(ratio) if isinstance(ratio, (tuple, list)) else (ratio,) * spatial
        if len(ratios) != spatial:
            raise error(ValueError, name, f"output_ratio must have {spatial} entries", output_ratio=ratio)
        return tuple(int(n * part) for n, part in zip(input._form.shape[-spatial:], ratios))

    def maxima(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        result = with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
        return result if return_indices else result[0]

    doc = f"Maxima of windows over {spatial} dimensions that start at random places, as many as asked for."
    samples = fractional_samples(spatial)
    return (
        published(maxima, name, doc, samples),
        published(with_indices, f"{name}_with_indices", doc + " Also their indices.", samples),
    )


(
    (fractional_max_pool2d, fractional_max_pool2d_with_indices),
    (fractional_max_pool3d, fractional_max_pool3d_with_indices),
) = map(fractional_max_pool_of, (2, 3))
