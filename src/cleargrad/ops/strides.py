"""Views by stride: windows into a tensor's memory, its diagonals, and sliding windows.

These ops see a tensor as memory: x lies there with strides `x_stride`, and a window of `size` and `stride`
starts `offset` elements after x's first one. All counts are in elements. Read next: ops/splitting.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided as strided_array

from cleargrad.autograd.node import strides_of
from cleargrad.core.address import address
from cleargrad.core.shape import Spec, contiguous_strides, count, sizes_of, wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, opaque, view
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor, taking_place


def positions(size: tuple, stride: tuple, offset: int = 0) -> np.ndarray:
    """The memory position of every element of a window."""
    result = np.full((), offset, np.int64)
    for extent, step in zip(size, stride, strict=True):
        result = result[..., None] + np.arange(extent) * step
    return result


def extent(size: tuple, stride: tuple) -> int:
    """How many elements of memory a window spans from its first element on."""
    return 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if count(size) else 0


def memory(x: np.ndarray, x_stride: tuple, size: tuple, stride: tuple, offset: int) -> tuple[np.ndarray, int]:
    """Fresh memory that holds x and the window, and where x starts in it."""
    start = max(0, -offset)
    line = np.zeros(max(start + extent(x.shape, x_stride), start + offset + extent(size, stride)), x.dtype)
    line[positions(x.shape, x_stride, start)] = x
    return line, start


def run_window(x: np.ndarray, *, size: tuple, stride: tuple, offset: int, x_stride: tuple) -> np.ndarray:
    if strides_of(x) != x_stride:  # a replayed value may be laid out otherwise than it was recorded
        line, start = memory(x, x_stride, size, stride, offset)
        return strided_array(line[start + offset :], size, [step * x.itemsize for step in stride])
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, high = byte_bounds(owner)
    first = address(x) + offset * x.itemsize
    if count(size) and (first < low or first + extent(size, stride) * x.itemsize > high):
        rule = f"the window reaches outside the storage of {(high - low) // x.itemsize} elements"
        raise error(RuntimeError, "as_strided", rule, size=size, stride=stride, offset=offset)
    if not count(size):
        return strided_array(x, size, [step * x.itemsize for step in stride])
    return np.ndarray(size, x.dtype, memory_of(owner), first - low, [step * x.itemsize for step in stride])


def memory_of(owner: np.ndarray) -> np.ndarray:
    """An owning array's memory as one line, in the order of its addresses."""
    order = sorted(range(owner.ndim), key=lambda axis: -owner.strides[axis])
    line = owner.transpose(order)
    return (
        line
        if line.flags.c_contiguous
        else strided_array(line, (extent(line.shape, strides_of(line)),), (line.itemsize,))
    )


def strided_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), (2, 2), (4, 1))
    yield Sample(real(3, 4), (2, 3), (1, 2), 1)
    yield Sample(real(5), (4, 2), (1, 1))
    yield Fails(RuntimeError, real(5), (4, 2), (2, 1))


window = view(
    "as_strided",
    run_window,
    vjp=lambda g, *, x_shape, size, stride, offset, x_stride: window_adjoint(
        g, shape=x_shape, size=size, stride=stride, offset=offset, x_stride=x_stride
    ),
    samples=strided_samples,
)


@face(window, method=True)
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view with any size, stride and offset into the tensor's storage."""
    return window(input, **place_in("as_strided", input, size, stride, storage_offset))


def place_in(op: str, input: Tensor, size: Any, stride: Any, storage_offset: int | None) -> dict[str, Any]:
    """A window of the storage, counted from the tensor's own first element."""
    check_tensor(op, input)
    sizes, steps = sizes_of((size,)), sizes_of((stride,))
    if len(sizes) != len(steps):
        rule = f"mismatch in length of strides and shape: {len(steps)} and {len(sizes)}"
        raise error(RuntimeError, op, rule, size=sizes, stride=steps)
    if any(number < 0 for number in (*sizes, *steps, storage_offset or 0)):
        raise error(
            RuntimeError, op, "sizes, strides and the offset must not be negative", size=sizes, stride=steps
        )
    offset = 0 if storage_offset is None else storage_offset - input.storage_offset()
    own = strides_of(input._form)
    if offset < 0 or offset + extent(sizes, steps) > extent(input._form.shape, own):
        input._data  # noqa: B018  what lies around it, if anything, is known of memory that is there
    return {"size": sizes, "stride": steps, "offset": offset, "x_stride": own}


Tensor.as_strided_ = taking_place(as_strided)


def run_window_copy(x: np.ndarray, *, size: tuple, stride: tuple, offset: int, x_stride: tuple) -> np.ndarray:
    line, start = memory(x, x_stride, size, stride, offset)
    return line[positions(size, stride, start + offset)]


def run_window_adjoint(
    g: np.ndarray, *, shape: tuple, size: tuple, stride: tuple, offset: int, x_stride: tuple
) -> np.ndarray:
    line, start = memory(np.zeros(shape, g.dtype), x_stride, size, stride, offset)
    np.add.at(line, positions(size, stride, start + offset), g)
    return line[positions(shape, x_stride, start)]


window_copy = opaque(
    "as_strided_copy",
    spec=lambda x, *, size, stride, offset, x_stride: Spec(size, x.dtype),
    run=run_window_copy,
    vjp=lambda g, *, x_shape, size, stride, offset, x_stride: window_adjoint(
        g, shape=x_shape, size=size, stride=stride, offset=offset, x_stride=x_stride
    ),
    samples=lambda: iter([Sample(real(5), size=(4, 2), stride=(1, 1), offset=0, x_stride=(1,))]),
)
window_adjoint = opaque(
    "as_strided_adjoint",
    spec=lambda g, *, shape, size, stride, offset, x_stride: Spec(shape, g.dtype),
    run=run_window_adjoint,
    vjp=lambda g, *, size, stride, offset, x_stride: window_copy(
        g, size=size, stride=stride, offset=offset, x_stride=x_stride
    ),
    samples=lambda: iter(
        [Sample(real(4, 2), shape=(5,), size=(4, 2), stride=(1, 1), offset=0, x_stride=(1,))]
    ),
)


def run_window_scatter(
    x: np.ndarray, y: np.ndarray, *, size: tuple, stride: tuple, offset: int, x_stride: tuple
) -> np.ndarray:
    if x_stride == contiguous_strides(x.shape) and x.size:
        copy = np.array(x, order="C")
        strided_array(copy.reshape(-1)[offset:], size, [step * x.itemsize for step in stride])[...] = y
        return copy
    line, start = memory(x, x_stride, size, stride, offset)
    line[positions(size, stride, start + offset)] = y
    return line[positions(x.shape, x_stride, start)]


# The history of a tensor that was written through a view; PyTorch calls its node CopySlices.
window_scatter = opaque(
    "as_strided_scatter",
    spec=lambda x, y, *, size, stride, offset, x_stride: Spec(x._form.shape, x.dtype),
    run=run_window_scatter,
    vjp=(
        lambda g, *, size, stride, offset, x_stride: window_scatter(
            g, g.new_zeros(size), size=size, stride=stride, offset=offset, x_stride=x_stride
        ),
        lambda g, *, size, stride, offset, x_stride: window_copy(
            g, size=size, stride=stride, offset=offset, x_stride=x_stride
        ),
    ),
    samples=lambda: iter(
        [Sample(real(3, 4), real(2, 2), size=(2, 2), stride=(4, 1), offset=1, x_stride=(4, 1))]
    ),
    node="CopySlices",
)


@composite(
    lambda: iter(
        [
            Sample(real(3, 4), real(2, 2, seed=1), (2, 2), (4, 1), 1),
            Fails(RuntimeError, real(4), real(3), (2,), (1,)),
        ]
    ),
    method=True,
)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """A copy of the tensor in which `as_strided(size, stride, storage_offset)` holds `src`."""
    place = place_in("as_strided_scatter", input, size, stride, storage_offset)
    check_tensor("as_strided_scatter", src, "src")
    if src._form.shape != place["size"]:
        rule = "expected src to have a size equal to the slice of self"
        raise error(RuntimeError, "as_strided_scatter", rule, src=src, size=place["size"])
    return window_scatter(input, src, **place)


# Diagonals and sliding windows -----------------------------------------------------------------------------


def run_diagonal(x: np.ndarray, *, offset: int, dim1: int, dim2: int) -> np.ndarray:
    result = x.diagonal(offset, dim1, dim2)
    result.flags.writeable = x.flags.writeable  # NumPy hands out diagonals read-only
    return result


def diagonal_samples() -> Iterator[Sample]:
    yield Sample(real(3, 3))
    yield Sample(real(3, 4), 1)
    yield Sample(real(2, 3, 4), offset=-1, dim1=0, dim2=2)
    yield Sample(real(3, 3), 7)
    yield Fails(RuntimeError, real(3, 3), 0, 1, 1)
    yield Fails(IndexError, real(3), 0)


diagonal_of = view(
    "diagonal",
    run_diagonal,
    vjp=lambda g, *, x_shape, offset, dim1, dim2: g.new_zeros(x_shape).diagonal_scatter(
        g, offset, dim1, dim2
    ),
    samples=diagonal_samples,
)


def diagonal_place(op: str, rank: int, offset: int, dim1: int, dim2: int) -> dict[str, int]:
    first, second = wrap_dim(op, dim1, rank), wrap_dim(op, dim2, rank)
    if first == second:
        raise error(RuntimeError, op, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return {"offset": offset, "dim1": first, "dim2": second}


@face(diagonal_of, method=True)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as the last one, `offset` places above the main diagonal."""
    check_tensor("diagonal", input)
    return diagonal_of(input, **diagonal_place("diagonal", input._form.ndim, offset, dim1, dim2))


def matrix_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of the last two dimensions."""
    return diagonal(A, offset, dim1, dim2)


matrix_diagonal.__name__ = "diagonal"
composite(lambda: iter([Sample(real(2, 3, 4)), Sample(real(3, 3), offset=1)]), spaces=("linalg",))(
    matrix_diagonal
)


def unfolded(
    shape: Sequence[int], stride: Sequence[int], dim: int, size: int, step: int
) -> tuple[tuple, tuple]:
    """Shape and strides of the windows of `size`, `step` apart, along a dimension."""
    if not shape:
        return (size,), (1,)
    windows = (shape[dim] - size) // step + 1
    return (
        (*shape[:dim], windows, *shape[dim + 1 :], size),
        (*stride[:dim], stride[dim] * step, *stride[dim + 1 :], stride[dim]),
    )


def run_unfold(x: np.ndarray, *, dim: int, size: int, step: int) -> np.ndarray:
    shape, stride = unfolded(x.shape, strides_of(x), dim, size, step)
    return strided_array(x, shape, [length * x.itemsize for length in stride])


def unfold_vjp(g: Tensor, *, x_shape: tuple, dim: int, size: int, step: int) -> Tensor:
    """Adds every window's gradient to the elements it looked at."""
    strides = contiguous_strides(x_shape)
    window_size, window_stride = unfolded(x_shape, strides, dim, size, step)
    return window_adjoint(
        g, shape=x_shape, size=window_size, stride=window_stride, offset=0, x_stride=strides
    )


def unfold_samples() -> Iterator[Sample]:
    yield Sample(real(7), 0, 3, 2)
    yield Sample(real(2, 5, 3), 1, 2, 1)
    yield Sample(real(2, 4), -1, 4, 1)
    yield Sample(real(), 0, 1, 1)
    yield Fails(RuntimeError, real(4), 0, 5, 1)
    yield Fails(RuntimeError, real(4), 0, 2, 0)
    yield Fails(IndexError, real(4), 1, 1, 1)


sliding_windows = view("unfold", run_unfold, vjp=unfold_vjp, samples=unfold_samples)


@face(sliding_windows, method=True, spaces=(), reference=lambda torch: torch.Tensor.unfold)
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements along a dimension, `step` apart, as a new last dimension."""
    check_tensor("unfold", input)
    shape = input._form.shape
    dim = wrap_dim("unfold", dimension, len(shape))
    extent_there = shape[dim] if shape else 1
    if size < 0 or step <= 0:
        raise error(RuntimeError, "unfold", f"size must be >= 0 and step > 0, got {size} and {step}")
    if size > extent_there:
        rule = f"maximum size for tensor at dimension {dim} is {extent_there} but size is {size}"
        raise error(RuntimeError, "unfold", rule, input=input)
    return sliding_windows(input, dim=dim, size=size, step=step)
