"""Pooling: maxima and means over windows of one to three spatial dimensions.

Maxima come with the plane index of each winner; their gradient puts g back at these places
(`max_pool_adjoint`, or `scatter_plane` where windows lie anywhere), whose adjoint reads there
(`gather_plane`), so gradients of any order stay among them. Means are linear and come in pairs with their
adjoints. Ops take (N, C, *S); the public functions also take one sample without N. Kernels are in
devices/cpu/arrays/native.py and pooling.py. Read next: ops/adaptive_pooling.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.arrays import native
from cleargrad.devices.cpu.arrays import pooling as kernels
from cleargrad.errors import error
from cleargrad.ops.convolution import per_dimension
from cleargrad.ops.declare import composite, fused, opaque
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

RANKS = (1, 2, 3)


def check_planes(op: str, x: Any, spatial: int) -> None:
    """Refuses what is no batch of planes, nor one sample of them."""
    check_tensor(op, x)
    rank = x._form.ndim
    if rank not in (spatial + 1, spatial + 2):
        rule = f"expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input, but got {rank}D"
        raise error(RuntimeError, op, rule, input=x)
    if 0 in x._form.shape[-1 - spatial :]:
        raise error(RuntimeError, op, "expected non-zero sizes for channels and space", input=x)


def check_float(op: str, x: Tensor, *others: dtypes.dtype) -> None:
    if x.dtype.category != dtypes.FLOAT and x.dtype not in others and x._form.size:
        raise error(
            NotImplementedError, op, f"not implemented for {x.dtype}", input=x, fix="convert with .float()"
        )


def on_batch(door: Callable, spatial: int, input: Tensor, *others: Tensor, **attrs: Any) -> Any:
    """Calls a door that wants a batch; a sample without one gets it for the time of the call."""
    if input._form.ndim == spatial + 2:
        return door(input, *others, **attrs)
    result = door(*[x.unsqueeze(0) for x in (input, *others)], **attrs)
    return tuple(part.squeeze(0) for part in result) if isinstance(result, tuple) else result.squeeze(0)


def published(
    function: Callable, name: str, doc: str, samples: Callable, top: bool = False, **options: Any
) -> Callable:
    """Publishes one member of a family of functions under its own name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composite(samples, spaces=("nn.functional", "") if top else ("nn.functional",), **options)(
        function
    )


# Reading and writing at plane indices ----------------------------------------------------------------------


def planes_spec(x: Tensor, indices: Tensor, *, size: tuple[int, ...]) -> Spec:
    if indices._form.dtype != np.int64:
        raise error(RuntimeError, "max_unpool", "elements in indices should be int64", indices=indices)
    if x._form.shape != indices._form.shape:
        rule = "expected shape of indices to be the same as that of the input"
        raise error(RuntimeError, "max_unpool", rule, input=x, indices=indices)
    return Spec((*x._form.shape[:2], *size), x.dtype)


def run_unpool(x: np.ndarray, indices: np.ndarray, *, size: tuple[int, ...]) -> np.ndarray:
    plane = math.prod(size)
    if indices.size and not 0 <= indices.min() <= indices.max() < plane:
        bad = indices[(indices < 0) | (indices >= plane)].flat[0]
        rule = f"found an invalid max index {bad}: the output planes have {plane} entries"
        raise error(RuntimeError, "max_unpool", rule, output_size=size)
    return kernels.place_plane(x, indices, size)


def scatter_plane_parts(x: Tensor, indices: Tensor, *, size: tuple[int, ...]) -> Tensor:
    lead = x._form.shape[:2]
    planes = x.new_zeros(()).expand(*lead, math.prod(size))
    return planes.scatter_add(2, indices.flatten(2), x.flatten(2)).reshape(*lead, *size)


gather_plane = fused(
    "gather_plane",
    lambda x, indices: x.flatten(2).gather(2, indices.flatten(2)).reshape(indices._form.shape),
    spec=lambda x, indices: Spec(indices._form.shape, x.dtype),
    run=lambda x, indices: kernels.gather_plane(x, indices),
    vjp=(lambda g, indices, *, x_shape: scatter_plane(g, indices, size=x_shape[2:]), None),
    samples=lambda: iter([Sample(real(2, 2, 3, 3), whole(2, 2, 4, high=9))]),
    rounds=False,
)
scatter_plane = fused(
    "scatter_plane",
    scatter_plane_parts,
    spec=planes_spec,
    run=lambda x, indices, *, size: native.scatter_plane(x, indices, size),
    vjp=(lambda g, indices: gather_plane(g, indices), None),
    samples=lambda: iter([Sample(real(2, 2, 4), whole(2, 2, 4, high=9), size=(3, 3))]),
)


def spread_winners(g: list, out1: Tensor, *, x_shape: tuple[int, ...]) -> Tensor:
    """The gradient of every maximum goes to the entry that won."""
    return scatter_plane(g[0], out1, size=x_shape[2:])


# The same where windows are evenly spaced, which tells what may have to be added up at a place.
max_pool_adjoint = opaque(
    "max_pool_adjoint",
    spec=lambda g, indices, *, size, kernel, stride, padding, dilation: planes_spec(g, indices, size=size),
    run=lambda g, indices, *, size, kernel, stride, padding, dilation: native.scatter_plane(g, indices, size),
    vjp=(lambda c, indices: gather_plane(c, indices), None),
    samples=lambda: iter(
        [Sample(real(2, 2, 3), np.array([0, 2, 4] * 4).reshape(2, 2, 3), size=(5,), kernel=(2,), stride=(2,),
                padding=(0,), dilation=(1,))]
    ),
)  # fmt: skip
adaptive_max_pool_adjoint = opaque(
    "adaptive_max_pool_adjoint",
    spec=planes_spec,
    run=lambda g, indices, *, size: native.scatter_plane(g, indices, size),
    vjp=(lambda c, indices: gather_plane(c, indices), None),
    samples=lambda: iter([Sample(real(1, 2, 2), np.array([[[0, 3], [2, 4]]]), size=(5,))]),
)


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
    size = kernels.pooled_size(x._form.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    if min(size) < 1:
        rule = (
            f"the output size, calculated as {size}, is too small: the window is larger than the padded input"
        )
        fix = "use a smaller kernel_size, or pool less before"
        raise error(RuntimeError, op, rule, input=x, kernel_size=kernel, fix=fix)
    return (*x._form.shape[:2], *size)


def max_pool_of(spatial: int) -> tuple[Callable, Callable]:
    """max_pool1d, max_pool2d or max_pool3d, and the same with indices."""
    name = f"max_pool{spatial}d"

    def samples() -> Iterator[Sample]:
        attrs = window(name, spatial, 2, 1, 0, dilation=1)
        yield Sample(real(2, 1, *(5, 3, 2)[:spatial]), **attrs, ceil_mode=False)

    def values_spec(
        x: Tensor, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
    ) -> Spec:
        if x._form.dtype.kind == "b":
            raise error(NotImplementedError, name, "not implemented for torch.bool", input=x)
        return Spec(pooled_shape(name, x, kernel, stride, padding, dilation, ceil_mode), x.dtype)

    def spec(x: Tensor, **attrs: Any) -> list[Spec]:
        values = values_spec(x, **attrs)
        return [values, Spec(values.shape, dtypes.int64)]

    both = opaque(
        f"{name}_with_indices",
        spec=spec,
        run=run_max_pool,
        vjp=lambda g, out1, *, x_shape, kernel, stride, padding, dilation: max_pool_adjoint(
            g[0], out1, size=x_shape[2:], kernel=kernel, stride=stride, padding=padding, dilation=dilation
        ),
        samples=samples,
        node=f"MaxPool{spatial}DWithIndicesBackward0",
        outputs=2,
    )
    values_only = opaque(name, spec=values_spec, run=run_max_values, vjp=NO_GRAD, samples=samples)

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
        published(
            with_indices, f"{name}_with_indices", doc + " Also its index in the plane.", samples, spatial == 1
        ),
    )


def run_max_pool(x, *, kernel, stride, padding, dilation, ceil_mode) -> tuple[np.ndarray, np.ndarray]:
    return native.max_pool(x, kernel, stride, padding, dilation, ceil_mode)


def run_max_values(x, *, kernel, stride, padding, dilation, ceil_mode) -> np.ndarray:
    return native.max_values(x, kernel, stride, padding, dilation, ceil_mode)


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
        if spatial < 3:
            yield Fails(TypeError, None, 2)

    return samples


(
    (max_pool1d, max_pool1d_with_indices),
    (max_pool2d, max_pool2d_with_indices),
    (max_pool3d, max_pool3d_with_indices),
) = map(max_pool_of, RANKS)


# Means and norms of windows --------------------------------------------------------------------------------


def run_avg(x, *, kernel, stride, padding, ceil_mode, count_include_pad, divisor) -> np.ndarray:
    return native.avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)


def run_avg_adjoint(g, *, size, kernel, stride, padding, ceil_mode, count_include_pad, divisor) -> np.ndarray:
    return native.avg_pool_adjoint(g, size, kernel, stride, padding, ceil_mode, count_include_pad, divisor)


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
    attrs = {
        **window(name, spatial, 2, 1, 1),
        "ceil_mode": False,
        "count_include_pad": False,
        "divisor": None,
    }

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
            (*g._form.shape[:2], *size), g.dtype
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

    def norms(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        check_planes(name, input, spatial)
        if math.isinf(norm_type):
            least = norm_type < 0
            extremes = maxima(-input.abs() if least else input.abs(), kernel_size, stride, 0, 1, ceil_mode)
            return -extremes if least else extremes
        mean = averages(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        count = math.prod(per_dimension(name, "kernel_size", kernel_size, spatial))
        # as in PyTorch, sign · relu(abs) leaves the value and makes the gradient zero where a sum is zero
        return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / norm_type)

    doc = f"The p-norm of every window over {spatial} dimensions."
    return published(norms, name, doc, norm_samples(spatial))


lp_pool1d = lp_pool_of(1, avg_pool1d, max_pool1d)
lp_pool2d = lp_pool_of(2, avg_pool2d, max_pool2d)
lp_pool3d = lp_pool_of(3, avg_pool3d, max_pool3d)


# Back to where the maxima were -----------------------------------------------------------------------------


def unpooled_size(
    op: str, input: Tensor, kernel: tuple, stride: tuple, padding: tuple, output_size: Any
) -> tuple:
    spatial = len(kernel)
    extents = zip(input._form.shape[-spatial:], kernel, stride, padding)
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
            rule = f"dimension {dim} must be between {usual - step} and {usual + step}, but it is {given}"
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
        samples=lambda: iter([Sample(real(1, 2, 1), whole(1, 2, 1), size=(5,) * spatial)]),
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
