"""Pooling: maxima and means over windows of one to three spatial dimensions.

Maxima come with the plane index of each winner; their gradient puts g back at these indices (`scatter_plane`), whose
adjoint reads there (`gather_plane`), so gradients of any order stay among the two. Means are linear and come
in pairs with their adjoints. Ops take (N, C, *S); the public functions also take one sample without N. Kernels are in
backend/cpu/pooling.py; windows as columns (unfold, fold) are in ops/resample.py. Read next: that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.backend.cpu import pooling as kernels
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.convolution import per_dimension
from cleargrad.ops.declare import composite, opaque
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

RANKS = (1, 2, 3)


def check_planes(op: str, x: Any, spatial: int) -> None:
    """Refuses what is no batch of planes, nor one sample of them."""
    check_tensor(op, x)
    rank = x._data.ndim
    if rank not in (spatial + 1, spatial + 2):
        rule = f"expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input, but got {rank}D"
        raise error(RuntimeError, op, rule, input=x)
    if 0 in x._data.shape[-1 - spatial :]:
        raise error(RuntimeError, op, "expected non-zero sizes for channels and space", input=x)


def check_float(op: str, x: Tensor, *others: dtypes.dtype) -> None:
    if x.dtype.category != dtypes.FLOAT and x.dtype not in others:
        raise error(NotImplementedError, op, f"not implemented for {x.dtype}", input=x, fix="convert with .float()")


def on_batch(door: Callable, spatial: int, input: Tensor, *others: Tensor, **attrs: Any) -> Any:
    """Calls a door that wants a batch; a sample without one gets it for the time of the call."""
    if input._data.ndim == spatial + 2:
        return door(input, *others, **attrs)
    result = door(*[x.unsqueeze(0) for x in (input, *others)], **attrs)
    return tuple(part.squeeze(0) for part in result) if isinstance(result, tuple) else result.squeeze(0)


def published(function: Callable, name: str, doc: str, samples: Callable, top: bool = False, **options: Any) -> Callable:
    """Publishes one member of a family of functions under its own name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composite(samples, spaces=("nn.functional", "") if top else ("nn.functional",), **options)(function)


# Reading and writing at plane indices ------------------------------------------------------------------------


def planes_spec(x: Tensor, indices: Tensor, *, size: tuple[int, ...]) -> Spec:
    if indices._data.dtype != np.int64:
        raise error(RuntimeError, "max_unpool", "elements in indices should be int64", indices=indices)
    if x._data.shape != indices._data.shape:
        rule = "expected shape of indices to be the same as that of the input"
        raise error(RuntimeError, "max_unpool", rule, input=x, indices=indices)
    return Spec((*x._data.shape[:2], *size), x.dtype)


def run_unpool(x: np.ndarray, indices: np.ndarray, *, size: tuple[int, ...]) -> np.ndarray:
    plane = math.prod(size)
    if indices.size and not 0 <= indices.min() <= indices.max() < plane:
        bad = indices[(indices < 0) | (indices >= plane)].flat[0]
        rule = f"found an invalid max index {bad}: the output planes have {plane} entries"
        raise error(RuntimeError, "max_unpool", rule, output_size=size)
    return kernels.place_plane(x, indices, size)


gather_plane = opaque(
    "gather_plane",
    spec=lambda x, indices: Spec(indices._data.shape, x.dtype),
    run=lambda x, indices: kernels.gather_plane(x, indices),
    vjp=(lambda g, indices, *, x_shape: scatter_plane(g, indices, size=x_shape[2:]), None),
    samples=lambda: iter([Sample(real(2, 2, 3, 3), whole(2, 2, 4, high=9))]),
)
scatter_plane = opaque(
    "scatter_plane",
    spec=planes_spec,
    run=lambda x, indices, *, size: kernels.scatter_plane(x, indices, size),
    vjp=(lambda g, indices: gather_plane(g, indices), None),
    samples=lambda: iter([Sample(real(2, 2, 4), whole(2, 2, 4, high=9), size=(3, 3))]),
)


def spread_winners(g: list, out1: Tensor, *, x_shape: tuple[int, ...]) -> Tensor:
    """The gradient of every maximum goes to the entry that won."""
    return scatter_plane(g[0], out1, size=x_shape[2:])


# Maxima ----------------------------------------------------------------------------------------------------


def window(op: str, spatial: int, kernel: Any, stride: Any, padding: Any, **others: Any) -> dict[str, Any]:
    """The attributes of a window; a stride that is not given is the kernel's size."""
    kernel = per_dimension(op, "kernel_size", kernel, spatial)
    absent = stride is None or (isinstance(stride, (tuple, list)) and not stride)
    attrs = {
        "kernel": kernel,
        "stride": kernel if absent else per_dimension(op, "stride", stride, spatial),
        "padding": per_dimension(op, "padding", padding, spatial),
    }
    for name, value in others.items():
        attrs[name] = per_dimension(op, name, value, spatial)
    return attrs


def pooled_shape(
    op: str, x: Tensor, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> tuple[int, ...]:
    """The shape of windows over x, after every check."""
    if min(kernel) <= 0:
        raise error(RuntimeError, op, "kernel size should be greater than zero", kernel_size=kernel)
    if min(stride) <= 0:
        raise error(RuntimeError, op, "stride should be greater than zero", stride=stride)
    if min(dilation) <= 0:
        raise error(RuntimeError, op, "dilation should be greater than zero", dilation=dilation)
    if any(p < 0 or p > (d * (k - 1) + 1) // 2 for p, k, d in zip(padding, kernel, dilation)):
        rule = "padding must be non-negative and at most half of the kernel's reach"
        raise error(RuntimeError, op, rule, padding=padding, kernel_size=kernel, dilation=dilation)
    size = kernels.pooled_size(x._data.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    if min(size) < 1:
        rule = f"the output size, calculated as {size}, is too small: the window is larger than the padded input"
        fix = "use a smaller kernel_size, or pool less before"
        raise error(RuntimeError, op, rule, input=x, kernel_size=kernel, fix=fix)
    return (*x._data.shape[:2], *size)


def max_pool_of(spatial: int) -> tuple[Callable, Callable]:
    """max_pool1d, max_pool2d or max_pool3d, and the same with indices."""
    name = f"max_pool{spatial}d"
    door_sample = Sample(real(2, 1, *(5, 3, 2)[:spatial]), **window(name, spatial, 2, 1, 0, dilation=1), ceil_mode=False)

    def values_spec(x: Tensor, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool) -> Spec:
        if x._data.dtype.kind == "b":
            raise error(NotImplementedError, name, "not implemented for torch.bool", input=x)
        return Spec(pooled_shape(name, x, kernel, stride, padding, dilation, ceil_mode), x.dtype)

    def spec(x: Tensor, **attrs: Any) -> list[Spec]:
        values = values_spec(x, **attrs)
        return [values, Spec(values.shape, dtypes.int64)]

    both = opaque(
        f"{name}_with_indices",
        spec=spec,
        run=run_max_pool,
        vjp=spread_winners,
        samples=lambda: iter([door_sample]),
        node=f"MaxPool{spatial}DWithIndicesBackward0",
        outputs=2,
    )
    values_only = opaque(name, spec=values_spec, run=run_max_values, vjp=NO_GRAD, samples=lambda: iter([door_sample]))

    def with_indices(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        check_planes(name, input, spatial)
        attrs = window(name, spatial, kernel_size, stride, padding, dilation=dilation)
        return on_batch(both, spatial, input, **attrs, ceil_mode=ceil_mode)

    def maxima(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        check_planes(name, input, spatial)
        attrs = window(name, spatial, kernel_size, stride, padding, dilation=dilation)
        # Who needs neither indices nor gradients is spared the search for the winners.
        tracked = return_indices or mode.recorder is not None or (mode.grad and edge_of(input) is not None)
        result = on_batch(both if tracked else values_only, spatial, input, **attrs, ceil_mode=ceil_mode)
        return result if return_indices or not tracked else result[0]

    doc = f"The largest entry of every window over {spatial} dimensions."
    samples = window_samples(spatial, dilation=True)
    return (
        published(maxima, name, doc, samples, top=True),
        published(with_indices, f"{name}_with_indices", doc + " Also its index in the plane.", samples, spatial == 1),
    )


def run_max_pool(x, *, kernel, stride, padding, dilation, ceil_mode) -> tuple[np.ndarray, np.ndarray]:
    return kernels.max_pool(x, kernel, stride, padding, dilation, ceil_mode)


def run_max_values(x, *, kernel, stride, padding, dilation, ceil_mode) -> np.ndarray:
    return kernels.max_values(x, kernel, stride, padding, dilation, ceil_mode)


def plane(spatial: int, *lead: int) -> np.ndarray:
    """A sample image, short in its last dimensions."""
    return real(*lead, *(6, 5, 3)[-spatial:] if spatial > 1 else (6,))


def window_samples(spatial: int, dilation: bool) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        yield Sample(plane(spatial, 2, 2), 2)
        yield Sample(plane(spatial, 2), 3, 2, 1)
        yield Sample(plane(spatial, 1, 1), (2,) * spatial, stride=(1,) * spatial, ceil_mode=True)
        yield Sample(plane(spatial, 1, 2), 3, stride=2, padding=1, ceil_mode=True)
        yield Sample(plane(spatial, 0, 2), 2)
        if dilation:
            yield Sample(plane(spatial, 1, 2), 2, 1, 1, 2)
            yield Fails(RuntimeError, plane(spatial, 2, 2), 2, dilation=0)
        yield Fails(RuntimeError, plane(spatial, 2, 2, 2, 2), 2)
        yield Fails(RuntimeError, plane(spatial, 2, 2), 9)
        yield Fails(RuntimeError, plane(spatial, 2, 2), 2, padding=2)
        yield Fails(RuntimeError, plane(spatial, 2, 2), 2, stride=0)
        yield Fails(RuntimeError, plane(spatial, 2, 2), (2, 2, 2, 2))
        yield Fails(TypeError, plane(spatial, 2, 2), 2.5)
        yield Fails(TypeError, None, 2)

    return samples


(
    (max_pool1d, max_pool1d_with_indices),
    (max_pool2d, max_pool2d_with_indices),
    (max_pool3d, max_pool3d_with_indices),
) = map(max_pool_of, RANKS)


# Adaptive maxima and means -----------------------------------------------------------------------------------


def adaptive_size(op: str, input: Tensor, output_size: Any, spatial: int) -> tuple[int, ...]:
    """The output size; None in it keeps the input's."""
    shape = input._data.shape
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
        shape = (*x._data.shape[:2], *size)
        return [Spec(shape, x.dtype), Spec(shape, dtypes.int64)]

    door = opaque(
        name,
        spec=spec,
        run=lambda x, *, size: kernels.adaptive_max_pool(x, size),
        vjp=spread_winners,
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
        spec=lambda x, *, size: Spec((*x._data.shape[:2], *size), x.dtype),
        run=lambda x, *, size: kernels.adaptive_avg_pool(x, size),
        vjp=lambda g, *, x_shape: adjoint(g, size=x_shape[2:]),
        samples=lambda: iter([Sample(plane(spatial, 1, 2), size=(2,) * spatial)]),
        node=f"AdaptiveAvgPool{spatial}DBackward0",
    )
    adjoint = opaque(
        f"{name}_adjoint",
        spec=lambda g, *, size: Spec((*g._data.shape[:2], *size), g.dtype),
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


# Means and norms of windows ----------------------------------------------------------------------------------


def run_avg(x, *, kernel, stride, padding, ceil_mode, count_include_pad, divisor) -> np.ndarray:
    return kernels.avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)


def run_avg_adjoint(g, *, size, kernel, stride, padding, ceil_mode, count_include_pad, divisor) -> np.ndarray:
    return kernels.avg_pool_adjoint(g, size, kernel, stride, padding, ceil_mode, count_include_pad, divisor)


def avg_samples(spatial: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        yield from window_samples(spatial, dilation=False)()
        yield Sample(plane(spatial, 1, 2), 3, 2, 1, True, False)
        if spatial > 1:
            yield Sample(plane(spatial, 1, 2), 2, divisor_override=3)
            yield Fails(RuntimeError, plane(spatial, 1, 2), 2, divisor_override=0)

    return samples


def avg_pool_of(spatial: int) -> Callable:
    """avg_pool1d, avg_pool2d or avg_pool3d."""
    name = f"avg_pool{spatial}d"
    attrs = {**window(name, spatial, 2, 1, 1), "ceil_mode": False, "count_include_pad": False, "divisor": None}

    def spec(x: Tensor, *, kernel, stride, padding, ceil_mode, count_include_pad, divisor) -> Spec:
        check_float(name, x, dtypes.int64)
        return Spec(pooled_shape(name, x, kernel, stride, padding, (1,) * spatial, ceil_mode), x.dtype)

    door = opaque(
        name,
        spec=spec,
        run=run_avg,
        vjp=lambda g, *, x_shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor: adjoint(
            g, size=x_shape[2:], kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad, divisor=divisor,
        ),
        samples=lambda: iter([Sample(real(1, 2, *(4, 3, 2)[:spatial]), **attrs)]),
        node=f"AvgPool{spatial}DBackward0",
    )  # fmt: skip
    adjoint = opaque(
        f"{name}_adjoint",
        spec=lambda g, *, size, kernel, stride, padding, ceil_mode, count_include_pad, divisor: Spec(
            (*g._data.shape[:2], *size), g.dtype
        ),
        run=run_avg_adjoint,
        vjp=lambda c, *, kernel, stride, padding, ceil_mode, count_include_pad, divisor: door(
            c, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad, divisor=divisor,
        ),
        samples=lambda: iter([Sample(real(1, 2, *(5, 4, 3)[:spatial]), size=(4, 3, 2)[:spatial], **attrs)]),
    )  # fmt: skip

    def means(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        check_planes(name, input, spatial)
        if divisor_override == 0:
            raise error(RuntimeError, name, "divisor must be not zero")
        attrs = window(name, spatial, kernel_size, stride, padding)
        counted = {"count_include_pad": count_include_pad, "divisor": divisor_override}
        return on_batch(door, spatial, input, **attrs, ceil_mode=ceil_mode, **counted)

    doc = f"The mean of every window over {spatial} dimensions."
    return published(means, name, doc, avg_samples(spatial), spatial == 1)


avg_pool1d, avg_pool2d, avg_pool3d = map(avg_pool_of, RANKS)


def norm_samples(spatial: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        image = np.abs(plane(spatial, 1, 2)) + 0.1
        yield Sample(image, 2, 2)
        yield Sample(image, 3.0, 3, 1, True)
        yield Sample(image[0], float("inf"), 2)
        yield Fails(RuntimeError, image, 2, 9)

    return samples


def lp_pool_of(spatial: int, averages: Callable, maxima: Callable) -> Callable:
    """lp_pool1d, lp_pool2d or lp_pool3d: (sum of x^p over the window)^(1/p)."""
    name = f"lp_pool{spatial}d"

    def norms(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
        check_planes(name, input, spatial)
        if math.isinf(norm_type):
            sign = math.copysign(1.0, norm_type)
            return maxima(input.abs() * sign, kernel_size, stride, 0, 1, ceil_mode) * sign
        mean = averages(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        count = math.prod(per_dimension(name, "kernel_size", kernel_size, spatial))
        # as in PyTorch, sign · relu(abs) leaves the value and makes the gradient zero where a sum is zero
        return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / norm_type)

    doc = f"The p-norm of every window over {spatial} dimensions."
    return published(norms, name, doc, norm_samples(spatial))


lp_pool1d = lp_pool_of(1, avg_pool1d, max_pool1d)
lp_pool2d = lp_pool_of(2, avg_pool2d, max_pool2d)
lp_pool3d = lp_pool_of(3, avg_pool3d, max_pool3d)


# Back to where the maxima were -------------------------------------------------------------------------------


def unpooled_size(op: str, input: Tensor, kernel: tuple, stride: tuple, padding: tuple, output_size: Any) -> tuple:
    spatial = len(kernel)
    extents = zip(input._data.shape[-spatial:], kernel, stride, padding)
    default = tuple((n - 1) * s + k - 2 * p for n, k, s, p in extents)
    if output_size is None:
        return default
    size = tuple(output_size)
    size = size[2:] if len(size) == spatial + 2 else size
    if len(size) != spatial:
        rule = f"output_size should have {spatial} or {spatial + 2} elements, but it has {len(size)}"
        raise error(ValueError, op, rule, output_size=tuple(output_size))
    for dim, (given, usual, step) in enumerate(zip(size, default, stride)):
        if not usual - step < given < usual + step:
            rule = f"dimension {dim} of output_size must be between {usual - step} and {usual + step}, it is {given}"
            raise error(ValueError, op, rule, output_size=size)
    return size


def unpool_samples(spatial: int) -> Callable[[], Iterator[Sample]]:
    places = np.arange(2**spatial).reshape((1, 1) + (2,) * spatial) * 2

    def samples() -> Iterator[Sample]:
        yield Sample(real(1, 1, *(2,) * spatial), places, 2)
        yield Sample(real(1, *(2,) * spatial), places[0], 2, 2, output_size=(5,) * spatial)
        yield Sample(real(1, 1, *(2,) * spatial), places, 3, 3, 1)
        yield Fails(RuntimeError, real(1, 1, *(2,) * spatial), places + 1000, 2)
        yield Fails(RuntimeError, real(1, 1, *(2,) * spatial), places[..., :1], 2)
        yield Fails(ValueError, real(1, 1, *(2,) * spatial), places, 2, output_size=(9,) * spatial)

    return samples


def max_unpool_of(spatial: int) -> Callable:
    """max_unpool1d, max_unpool2d or max_unpool3d."""
    name = f"max_unpool{spatial}d"
    door = opaque(
        name,
        spec=planes_spec,
        run=run_unpool,
        vjp=(lambda g, indices: gather_plane(g, indices), None),
        samples=lambda: iter(
            [
                Sample(real(1, 1, *(1,) * spatial), whole(1, 1, *(1,) * spatial), size=(5,) * spatial),
                Fails(RuntimeError, real(1, 1, *(1,) * spatial), whole(1, 1, 3), size=(5,) * spatial),
            ]
        ),
        node=f"MaxUnpool{spatial}DBackward0",
    )

    def unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        check_planes(name, input, spatial)
        check_tensor(name, indices, "indices")
        attrs = window(name, spatial, kernel_size, stride, padding)
        size = unpooled_size(name, input, output_size=output_size, **attrs)
        return on_batch(door, spatial, input, indices, size=size)

    doc = "Zeros, with every input entry at its index in the plane: a partial inverse of max pooling."
    return published(unpool, name, doc, unpool_samples(spatial))


max_unpool1d, max_unpool2d, max_unpool3d = map(max_unpool_of, RANKS)


# Windows at random places ------------------------------------------------------------------------------------


def fractional_samples(spatial: int) -> Callable[[], Iterator[Sample]]:
    image, chance = (1, 2, *(6, 5, 4)[:spatial]), real(1, 2, spatial, low=0.1, high=0.9)

    def samples() -> Iterator[Sample]:
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
        if any(parts < 1 or parts + k - 1 > n for n, k, parts in zip(x._data.shape[2:], kernel, size)):
            rule = "the windows do not fit: output_size + kernel_size - 1 may not exceed the input's size"
            raise error(RuntimeError, name, rule, input=x, kernel_size=kernel, output_size=size)
        if samples._data.shape != (*x._data.shape[:2], spatial):
            rule = f"expected _random_samples of shape (batch, channels, {spatial})"
            raise error(RuntimeError, name, rule, input=x, _random_samples=samples)
        shape = (*x._data.shape[:2], *size)
        return [Spec(shape, x.dtype), Spec(shape, dtypes.int64)]

    chance = real(1, 2, spatial, low=0.1, high=0.9)
    door = opaque(
        name,
        spec=spec,
        run=lambda x, samples, *, kernel, size: kernels.fractional_max_pool(x, kernel, size, samples),
        vjp=(spread_winners, None),
        samples=lambda: iter([Sample(plane(spatial, 1, 2), chance, kernel=(2,) * spatial, size=(2,) * spatial)]),
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
        batch = input if input._data.ndim == spatial + 2 else input.unsqueeze(0)
        chance = _random_samples
        if chance is None:
            chance = batch.detach().new_empty((*batch._data.shape[:2], spatial)).uniform_()
        values, indices = door(batch, chance, kernel=kernel, size=size)
        return (values, indices) if batch is input else (values.squeeze(0), indices.squeeze(0))

    def scaled_size(input: Tensor, ratio: Any) -> tuple[int, ...]:
        if ratio is None:
            raise error(ValueError, name, "needs either an output_size or an output_ratio")
        ratios = tuple(ratio) if isinstance(ratio, (tuple, list)) else (ratio,) * spatial
        if len(ratios) != spatial:
            raise error(ValueError, name, f"output_ratio must have {spatial} entries", output_ratio=ratio)
        return tuple(int(n * part) for n, part in zip(input._data.shape[-spatial:], ratios))

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
