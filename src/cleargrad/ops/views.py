"""Views: ops whose result shares memory with their operand.

Each `run` is the NumPy view itself; strides in attributes count elements, as in PyTorch. The vjps are written
out for the reader although they could be derived. Read next: ops/indexing.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided as strided_array

from cleargrad.autograd.node import Node, address, edge_of, strides_of
from cleargrad.core.mode import SPECIAL, mode
from cleargrad.core.shape import Spec, as_index, contiguous_strides, count, infer_size, sizes_of, wrap_dim, wrap_dims
from cleargrad.core.tensor import Tensor, new, tick
from cleargrad.errors import error
from cleargrad.ops.apply import IN_NO_GRAD
from cleargrad.ops.declare import composite, face, opaque, view
from cleargrad.ops.op import NO_GRAD, Plan
from cleargrad.ops.samples import Fails, Sample, real

# Reshaping -------------------------------------------------------------------------------------------------


def reshape_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), (4, 3))
    yield Sample(real(3, 4), (2, -1))
    yield Sample(real(2, 3, 4), (6, 4))
    yield Sample(real(), (1, 1))
    yield Sample(real(0, 3), (3, 0))
    yield Fails(RuntimeError, real(3, 4), (5, 2))
    yield Fails(RuntimeError, real(3, 4), (-1, -1))
    yield Fails(RuntimeError, real(3, 4), (-1, 5))


def shares_memory(result: np.ndarray, source: np.ndarray) -> bool:
    """Whether NumPy could reshape without copying: a view's base is the array or the array's own base."""
    base = result.base
    return base is not None and (base is source or base is source.base)


def run_view(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    result = x.reshape(shape)
    if x.size and not shares_memory(result, x):
        rule = (
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces)"
        )
        strides = str(tuple(step // x.itemsize for step in x.strides))
        raise error(RuntimeError, "view", rule, size=str(x.shape), stride=strides, fix="use .reshape(...)")
    return result


view_as_shape = view(
    "view",
    run_view,
    vjp=lambda g, *, x_shape: g.reshape(x_shape),
    samples=reshape_samples,
)
copy_as_shape = opaque(
    "unsafe_view",
    spec=lambda x, *, shape: Spec(shape, x.dtype),
    run=lambda x, *, shape: x.reshape(shape),
    vjp=lambda g, *, x_shape: g.reshape(x_shape),
    samples=lambda: iter([Sample(real(4, 3).T, shape=(2, 6))]),
)
_view_op = view_as_shape.op  # type: ignore[attr-defined]
_view_node, _view_plan = _view_op.node, _view_op.plan((True,))


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape: a view when the strides allow it, else a copy."""
    if len(shape) == 1 and type(shape[0]) is not int:
        shape = sizes_of(shape)
    try:
        data = input._data
        result = data.reshape(shape)
    except (ValueError, TypeError, AttributeError):
        check_tensor("reshape", input)
        shape = infer_size("reshape", sizes_of(shape), input._data.size)
        result = input._data.reshape(shape)
    how = mode.how
    base = result.base
    if how == SPECIAL or (base is not data and (base is None or base is not data.base)):
        return reshape_slowly(input, result.shape, data)
    return link_view(result, input, how, _view_node, _view_plan, None)


def link_view(data: np.ndarray, source: Tensor, how: int, kind: type[Node], plan: Plan, attrs: dict | None) -> Tensor:
    """What apply.link does for a view, written out flat: reshape and indexing are called very often."""
    tensor = new(Tensor)
    tensor._data = data
    tensor._edge = None
    tensor._grad = None
    tensor._ver = version = source._ver
    base = source._base
    if base is None:
        tensor._base = source
        tensor._caution = None if how else IN_NO_GRAD
        edge = source._edge
    else:
        tensor._base = base
        tensor._caution = source._caution if how else IN_NO_GRAD
        edge = edge_of(source)
    tensor._seen = version[0]
    if how and edge is not None:
        tensor._edge = node = new(kind)
        node.edges = (edge,)
        node.saved = ()
        node.plan = plan
        node.shape = data.shape
        node.dtype = data.dtype
        node.tick = tick()
        node.attrs = attrs
        node.place = None
    return tensor


def reshape_slowly(input: Tensor, shape: tuple[int, ...], data: np.ndarray) -> Tensor:
    if not data.size or shares_memory(data.reshape(shape), data):
        return view_as_shape(input, shape=shape)
    return copy_as_shape(input, shape=shape)


face(view_as_shape, method=True)(reshape)


@composite(reshape_samples, method=True, reference=lambda torch: torch.Tensor.view)
def view_(input: Tensor, *shape: Any) -> Tensor:
    """The same memory in another shape; an error when that needs a copy. A dtype reinterprets the bytes."""
    from cleargrad.core.dtype import dtype

    if len(shape) == 1 and isinstance(shape[0], dtype):
        return reinterpret(input, dtype=shape[0])
    return view_as_shape(input, shape=infer_size("view", sizes_of(shape), input._data.size))


def check_tensor(op: str, value: Any, name: str = "input") -> None:
    if not isinstance(value, Tensor):
        raise error(TypeError, op, f"argument '{name}' must be Tensor, not {type(value).__name__}")


def run_reinterpret(x: np.ndarray, *, dtype: Any) -> np.ndarray:
    if x.ndim == 0 and x.itemsize != dtype.itemsize:
        raise error(RuntimeError, "view", f"a 0-d tensor of {x.itemsize} bytes cannot be viewed as {dtype}")
    return x.view(dtype.numpy)


reinterpret = view(
    "view_dtype",
    run_reinterpret,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(real(3, 4), dtype=np.int64)]),
)

# Order of dimensions ---------------------------------------------------------------------------------------


def permute_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3, 4), (2, 0, 1))
    yield Sample(real(2, 3, 4), (-1, 1, 0))
    yield Sample(real(3), (0,))
    yield Sample(real(), ())
    yield Fails(RuntimeError, real(2, 3), (0, 0))
    yield Fails(RuntimeError, real(2, 3), (0,))
    yield Fails(IndexError, real(2, 3), (0, 2))


def inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `dims`."""
    back = [0] * len(dims)
    for position, dim in enumerate(dims):
        back[dim] = position
    return tuple(back)


permute_dims = view(
    "permute",
    lambda x, *, dims: x.transpose(dims),
    vjp=lambda g, *, dims: permute_dims(g, dims=inverse(dims)),
    samples=permute_samples,
)
swap_dims = view(
    "transpose",
    lambda x, *, dim0, dim1: x.swapaxes(dim0, dim1),
    vjp=lambda g, *, dim0, dim1: swap_dims(g, dim0=dim0, dim1=dim1),
    samples=lambda: iter([Sample(real(2, 3, 4), 0, 2), Sample(real(2, 3), -1, 0), Fails(IndexError, real(2, 3), 0, 2)]),
)


@face(permute_dims, method=True)
def permute(input: Tensor, *dims: Any) -> Tensor:
    """The dimensions in another order."""
    check_tensor("permute", input)
    order = sizes_of(dims)
    rank = input._data.ndim
    if len(order) != rank:
        rule = f"the number of dimensions in dims ({len(order)}) must match the input's ({rank})"
        raise error(RuntimeError, "permute", rule, input=input, dims=order)
    order = tuple(wrap_dim("permute", dim, rank) for dim in order)
    if len(set(order)) != rank:
        raise error(RuntimeError, "permute", "duplicate dims are not allowed", dims=order)
    return permute_dims(input, dims=order)


@face(swap_dims, method=True, inplace=False, aliases=("swapaxes", "swapdims"))
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swaps two dimensions."""
    check_tensor("transpose", input)
    rank = input._data.ndim
    if rank == 0:
        wrap_dim("transpose", dim0, 0), wrap_dim("transpose", dim1, 0)
        return alias(input)
    return swap_dims(input, dim0=wrap_dim("transpose", dim0, rank), dim1=wrap_dim("transpose", dim1, rank))


alias = view("alias", lambda x: x.view(), vjp=lambda g: g, samples=lambda: iter([Sample(real(2, 3))]))


# Size-one dimensions and broadcasting ----------------------------------------------------------------------

expand_to = view(
    "expand",
    lambda x, *, shape: np.broadcast_to(x, shape),
    vjp=lambda g, *, x_shape: g.sum_to_size(x_shape),
    samples=lambda: iter(
        [
            Sample(real(3, 1), (3, 4)),
            Sample(real(3, 1), (2, -1, 4)),
            Sample(real(), (2, 2)),
            Fails(RuntimeError, real(3, 2), (3, 4)),
            Fails(RuntimeError, real(3), (-1, 3)),
        ]
    ),
)


@face(expand_to, method=True, reference=lambda torch: torch.Tensor.expand)
def expand(input: Tensor, *size: Any) -> Tensor:
    """Repeats size-one dimensions without copying; -1 keeps a size."""
    check_tensor("expand", input)
    target = sizes_of(size)
    shape = input._data.shape
    lead = len(target) - len(shape)
    if lead < 0:
        rule = f"the number of sizes provided ({len(target)}) must be at least the tensor's ({len(shape)})"
        raise error(RuntimeError, "expand", rule, input=input, size=target)
    full = []
    for axis, extent in enumerate(target):
        have = shape[axis - lead] if axis >= lead else None
        if extent == -1 and have is None:
            raise error(RuntimeError, "expand", "-1 is not allowed in a leading, new dimension", size=target)
        if extent != -1 and have not in (None, 1, extent):
            rule = f"the expanded size ({extent}) must match the existing size ({have}) at dimension {axis}"
            raise error(RuntimeError, "expand", rule, input=input, size=target)
        full.append(have if extent == -1 else extent)
    return expand_to(input, shape=tuple(full))


# Geometry --------------------------------------------------------------------------------------------------
#
# These ops see a tensor as memory: x lies there with strides `x_stride`, and a window of `size` and `stride`
# starts `offset` elements after x's first one. All counts are in elements.


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
    return line if line.flags.c_contiguous else strided_array(line, (extent(line.shape, strides_of(line)),), (line.itemsize,))


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
    check_tensor("as_strided", input)
    offset = 0 if storage_offset is None else storage_offset - input.storage_offset()
    strides = strides_of(input._data)
    return window(input, size=sizes_of((size,)), stride=tuple(stride), offset=offset, x_stride=strides)


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
    samples=lambda: iter([Sample(real(4, 2), shape=(5,), size=(4, 2), stride=(1, 1), offset=0, x_stride=(1,))]),
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
    spec=lambda x, y, *, size, stride, offset, x_stride: Spec(x._data.shape, x.dtype),
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


# Parts along dimensions --------------------------------------------------------------------------------------
#
# Selecting, slicing and new axes are all NumPy's basic indexing; `index` is a tuple that ends with Ellipsis,
# so that the result is always an array. They are three ops only because PyTorch prints three names.


def index_vjp(g: Tensor, *, x_shape: tuple, index: tuple) -> Tensor:
    return index_adjoint(g, shape=x_shape, index=index)


def run_index_adjoint(g: np.ndarray, *, shape: tuple, index: tuple) -> np.ndarray:
    result = np.zeros(shape, g.dtype)
    result[index] = g
    return result


index_adjoint = opaque(
    "index_adjoint",
    spec=lambda g, *, shape, index: Spec(shape, g.dtype),
    run=run_index_adjoint,
    vjp=lambda g, *, index: index_slice(g, index=index),
    samples=lambda: iter([Sample(real(2, 4), shape=(3, 4), index=(slice(0, 2), ...))]),
)


def run_index(x: np.ndarray, *, index: tuple) -> np.ndarray:
    return x[index]


def select_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 0, 1)
    yield Sample(real(3, 4), -1, -2)
    yield Fails(IndexError, real(3, 4), 0, 3)
    yield Fails(IndexError, real(3, 4), 2, 0)


def narrow_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 0, 1, 2)
    yield Sample(real(3, 4), 1, -2, 2)
    yield Sample(real(3, 4), 1, 4, 0)
    yield Fails(RuntimeError, real(3, 4), 1, 2, 3)
    yield Fails(RuntimeError, real(3, 4), 1, 0, -1)


def unsqueeze_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 0)
    yield Sample(real(3, 4), -1)
    yield Sample(real(), 0)
    yield Fails(IndexError, real(3, 4), 3)


index_select_one = view("select", run_index, vjp=index_vjp, samples=select_samples)
index_slice = view("slice", run_index, vjp=index_vjp, samples=narrow_samples)
index_new_axis = view("unsqueeze", run_index, vjp=index_vjp, samples=unsqueeze_samples)


@face(index_select_one, method=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The part at one index of a dimension, which goes away."""
    check_tensor("select", input)
    shape = input._data.shape
    if not shape:
        raise error(IndexError, "select", "select() cannot be applied to a 0-dim tensor")
    dim = wrap_dim("select", dim, len(shape))
    index = as_index("select", index)
    if not -shape[dim] <= index < shape[dim]:
        rule = f"index {index} is out of range for dimension {dim} of size {shape[dim]}"
        raise error(IndexError, "select", rule, input=input)
    return index_select_one(input, index=(*[slice(None)] * dim, index, ...))


@face(index_slice, method=True)
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` indices of a dimension from `start` on."""
    check_tensor("narrow", input)
    shape = input._data.shape
    if not shape:
        raise error(RuntimeError, "narrow", "narrow() cannot be applied to a 0-dim tensor")
    dim = wrap_dim("narrow", dim, len(shape))
    start = as_index("narrow", start)
    if length < 0:
        raise error(RuntimeError, "narrow", f"length must be non-negative, got {length}")
    if not -shape[dim] <= start <= shape[dim]:
        rule = f"start must be in range [-{shape[dim]}, {shape[dim]}], got {start}"
        raise error(IndexError, "narrow", rule, input=input)
    start = start + shape[dim] if start < 0 else start
    if start + length > shape[dim]:
        rule = f"start ({start}) + length ({length}) exceeds dimension size ({shape[dim]})"
        raise error(RuntimeError, "narrow", rule, input=input)
    return index_slice(input, index=(*[slice(None)] * dim, slice(start, start + length), ...))


@face(index_new_axis, method=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size one."""
    check_tensor("unsqueeze", input)
    dim = wrap_dim("unsqueeze", dim, input._data.ndim + 1)
    return index_new_axis(input, index=(*[slice(None)] * dim, None, ...))


def squeeze_samples() -> Iterator[Sample]:
    yield Sample(real(3, 1, 4, 1))
    yield Sample(real(3, 1, 4, 1), 1)
    yield Sample(real(3, 1, 4, 1), 0)
    yield Sample(real(3, 1, 4, 1), (1, -1))
    yield Fails(IndexError, real(3, 1), 2)


squeeze_dims = view(
    "squeeze",
    lambda x, *, dims: x.squeeze(dims),
    vjp=lambda g, *, x_shape, dims: g.reshape(x_shape),
    samples=squeeze_samples,
)


@face(squeeze_dims, method=True)
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Drops dimensions of size one: all of them, or those named."""
    check_tensor("squeeze", input)
    shape = input._data.shape
    dims = wrap_dims("squeeze", dim, len(shape))
    return squeeze_dims(input, dims=tuple(axis for axis in dims if shape[axis] == 1))
