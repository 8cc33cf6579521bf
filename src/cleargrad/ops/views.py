"""Views: ops whose result shares memory with their operand.

Reshaping, size-one dimensions, broadcasting and parts along dimensions. Each `run` is the NumPy view itself;
the vjps are written out for the reader although they could be derived. Read next: ops/dimensions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cleargrad.autograd.node import Node, edge_of
from cleargrad.core.dtype import dtype as Dtype
from cleargrad.core.dtype import float32
from cleargrad.core.mode import SPECIAL, gate, mode, settle, spared
from cleargrad.core.shape import (
    Spec,
    as_index,
    broadcast,
    count,
    infer_size,
    sizes_of,
    wrap_dim,
    wrap_dims,
)
from cleargrad.core.tensor import (
    IN_NO_GRAD,
    Tensor,
    cell_of,
    held,
    new,
    put,
    room_of,
    tick,
    value_in,
    wrap_any,
)
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, fused, view
from cleargrad.ops.inplace import check_history
from cleargrad.ops.op import NO_GRAD, BackwardPlan
from cleargrad.ops.samples import Fails, Sample, real


def check_tensor(op: str, value: Any, name: str = "input") -> None:
    if not isinstance(value, Tensor):
        raise error(TypeError, op, f"argument '{name}' must be Tensor, not {type(value).__name__}")


def taking_place(function: Callable) -> Callable:
    """The in-place form of a view: the tensor itself becomes the view."""
    name = function.__name__ + "_"

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_tensor(name, self)
        if mode.grad and edge_of(self) is not None:
            check_history(self, name)
        settle()
        before = wrap_any(value_in(self), self._edge)
        before._ver = cell_of(self)
        room_of(self).known = False
        result = function(before, *args, **kwargs)
        put(self, value_in(result))
        self._edge = result._edge
        self.bump()
        self._seen = self._ver[0]
        return self

    method.__name__ = method.__qualname__ = name
    return method


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


def in_place_as(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array in another shape, where that needs no copy: elements are not read, since they may lie elsewhere."""
    return x.reshape(shape) if x.flags.c_contiguous else x.reshape(shape, copy=False)


def same_memory(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array in another shape; an error when that needs a copy."""
    try:
        return in_place_as(x, shape)
    except ValueError:
        rule = (
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces)"
        )
        strides = str(tuple(step // x.itemsize for step in x.strides))
        raise error(
            RuntimeError, "view", rule, size=str(x.shape), stride=strides, fix="use .reshape(...)"
        ) from None


# Whether memory can be shared is decided before the call; in a replay it may lie in another order.
view_as_shape = view(
    "view",
    lambda x, *, shape: x.reshape(shape),
    vjp=lambda g, *, x_shape: g.reshape(x_shape),
    samples=reshape_samples,
)
copy_as_shape = fused(
    "unsafe_view",
    lambda x, *, shape: x.contiguous().view(shape),
    spec=lambda x, *, shape: Spec(shape, x.dtype),
    run=lambda x, *, shape: x.reshape(shape),
    vjp=lambda g, *, x_shape: g.reshape(x_shape),
    samples=lambda: iter([Sample(real(4, 3).T, shape=(2, 6))]),
    rounds=False,
)
_view_op = view_as_shape.op
_view_node, _view_plan = _view_op.node, _view_op.plan((True,))


def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape: a view when the strides allow it, else a copy."""
    if len(sizes) == 1 and type(sizes[0]) is not int:
        shape = sizes_of(sizes)
    else:
        shape = sizes or sizes_of((shape,))
    try:
        data = input._form
        result = data.reshape(shape) if data.flags.c_contiguous else data.reshape(shape, copy=False)
    except (ValueError, TypeError, AttributeError):
        check_tensor("reshape", input)
        shape = infer_size("reshape", sizes_of(shape), input._form.size)
        try:
            result = in_place_as(input._form, shape)
        except ValueError:
            return copy_as_shape(input, shape=shape)
    if result.shape != shape and -1 not in shape:
        infer_size("reshape", shape, data.size)  # raises: NumPy takes any negative size for -1
    how = gate.how or mode.how
    if how == SPECIAL:
        how = spared()
    if how == SPECIAL and (waiter := mode.simply) is not None:
        if waiter.sees(_view_op, input):
            return link_view(result, input, int(waiter.grad), _view_node, _view_plan, None)
        return waiter.call(_view_op, (input,), {"shape": result.shape})
    if how == SPECIAL or held(input) is not None or data is not input._data:
        return view_as_shape(input, shape=result.shape)
    return link_view(result, input, how, _view_node, _view_plan, None)


def link_view(
    data: np.ndarray, source: Tensor, how: int, kind: type[Node], plan: BackwardPlan, attrs: dict | None
) -> Tensor:
    """What apply.link does for a view, written out flat: reshape and indexing are called very often."""
    tensor = new(Tensor)
    tensor._data = tensor._form = data
    tensor._edge = None
    tensor._grad = None
    tensor._ver = version = cell_of(source)
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
    (version[3] or room_of(source)).add(tensor)
    if how and edge is not None:
        tensor._edge = node = new(kind)
        node.edges = (edge,)
        node.saved = ()
        node.plan = plan
        node.shape = data.shape
        node.dtype = data.dtype
        node.tick = tick()
        node.attrs = attrs
        node.place = node.extra = None
    return tensor


face(view_as_shape, method=True)(reshape)


@composite(reshape_samples, method=True, spaces=(), reference=lambda torch: torch.Tensor.view)
def view_(input: Tensor, *sizes: Any, size: Any = None, dtype: Dtype | None = None) -> Tensor:
    """The same memory in another shape; an error when that needs a copy. A dtype reinterprets the bytes."""
    if len(sizes) == 1 and isinstance(sizes[0], Dtype):
        dtype = sizes[0]
    if dtype is not None:
        return reinterpret(input if edge_of(input) is None else input.detach(), dtype=dtype)
    shape = sizes if sizes and type(sizes[0]) is int else sizes_of(sizes or (size,))
    try:
        result = in_place_as(input._form, shape)
    except (ValueError, TypeError, AttributeError):
        check_tensor("view", input)
        result = same_memory(input._form, infer_size("view", sizes_of(shape), input._form.size))
    if result.shape != shape and -1 not in shape:
        infer_size("view", shape, result.size)  # raises: NumPy takes any negative size for -1
    how = gate.how or mode.how
    if how == SPECIAL or held(input) is not None:
        return view_as_shape(input, shape=result.shape)
    return link_view(result, input, how, _view_node, _view_plan, None)


def run_reinterpret(x: np.ndarray, *, dtype: Dtype) -> np.ndarray:
    ratio = dtype.itemsize / x.itemsize
    if ratio != 1:
        if not x.ndim:
            raise error(RuntimeError, "view", "a 0-d tensor can only be viewed as a type of the same size")
        if x.strides[-1] != x.itemsize and x.shape[-1] != 1:
            raise error(RuntimeError, "view", f"the last dimension's stride must be 1 to view it as {dtype}")
        if x.shape[-1] % ratio and ratio > 1:
            rule = f"the last dimension's size must be divisible by {ratio:g} to view it as {dtype}"
            raise error(RuntimeError, "view", rule, size=str(x.shape))
    return x.view(dtype.numpy)


reinterpret = view(
    "view_dtype",
    run_reinterpret,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(real(3, 4), dtype=float32)]),
)


@composite(
    lambda: iter([Sample(real(3, 4), real(2, 6)), Fails(RuntimeError, real(3), real(2))]),
    method=True,
    spaces=(),
    reference=lambda torch: torch.Tensor.view_as,
)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """The same memory in the shape of another tensor."""
    check_tensor("view_as", other, "other")
    return view_(input, other._form.shape)


@composite(
    lambda: iter([Sample(real(3, 4), real(2, 6)), Fails(RuntimeError, real(3), real(2))]),
    method=True,
    spaces=(),
    reference=lambda torch: torch.Tensor.reshape_as,
)
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of another tensor."""
    check_tensor("reshape_as", other, "other")
    return reshape(input, other._form.shape)


def flatten_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3, 4))
    yield Sample(real(2, 3, 4), 1)
    yield Sample(real(2, 3, 4), 0, -2)
    yield Sample(real())
    yield Fails(RuntimeError, real(2, 3), 1, 0)
    yield Fails(IndexError, real(2, 3), 0, 2)


@composite(flatten_samples, method=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Joins neighbouring dimensions into one."""
    check_tensor("flatten", input)
    shape = input._form.shape
    start, end = wrap_dim("flatten", start_dim, len(shape)), wrap_dim("flatten", end_dim, len(shape))
    if start > end:
        raise error(RuntimeError, "flatten", "start_dim cannot come after end_dim", start=start, end=end)
    if start == end and shape:
        return input
    return reshape(input, (*shape[:start], count(shape[start : end + 1]), *shape[end + 1 :]))


@composite(lambda: iter([Sample(real(2, 3)), Sample(real()), Sample(real(4))]), method=True)
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
    check_tensor("ravel", input)
    return reshape(input.contiguous(), (input._form.size,))


def unflatten_samples() -> Iterator[Sample]:
    yield Sample(real(2, 6), 1, (2, 3))
    yield Sample(real(6, 2), -2, (3, -1))
    yield Fails(RuntimeError, real(2, 6), 0, (3, 1))
    yield Fails(RuntimeError, real(2, 6), 0, ())
    yield Fails(IndexError, real(2, 6), 2, (3, 1))


@composite(unflatten_samples, method=True)
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Splits one dimension into several; one of them may be -1."""
    check_tensor("unflatten", input)
    shape = input._form.shape
    if not shape:
        raise error(RuntimeError, "unflatten", "a 0-d tensor has no dimension to split")
    dim = wrap_dim("unflatten", dim, len(shape))
    if not len(sizes):
        raise error(RuntimeError, "unflatten", "sizes must be non-empty")
    return view_(input, (*shape[:dim], *infer_size("unflatten", tuple(sizes), shape[dim]), *shape[dim + 1 :]))


alias = view("alias", lambda x: x.view(), vjp=lambda g: g, samples=lambda: iter([Sample(real(2, 3))]))


def inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `dims`."""
    back = [0] * len(dims)
    for position, dim in enumerate(dims):
        back[dim] = position
    return tuple(back)


# Size-one dimensions and broadcasting ----------------------------------------------------------------------


def run_expand(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    if not x.flags.c_contiguous or not x.size:
        result = np.broadcast_to(x, shape)
        # NumPy hands it out read-only; which writes are allowed is for ops/inplace.py to say.
        result.flags.writeable = x.flags.writeable
        return result
    # The same by hand, since gradients of sums expand often and np.broadcast_to is slow.
    lead = len(shape) - x.ndim
    steps = [0] * lead + [
        0 if have == 1 != want else step for have, want, step in zip(x.shape, shape[lead:], x.strides)
    ]
    return np.ndarray(shape, x.dtype, x, 0, steps)


def expand_samples() -> Iterator[Sample]:
    yield Sample(real(3, 1), (3, 4))
    yield Sample(real(3, 1), (2, -1, 4))
    yield Sample(real(), (2, 2))
    yield Sample(real(1, 3), (0, 3))
    yield Fails(RuntimeError, real(3, 2), (3, 4))
    yield Fails(RuntimeError, real(3), (-1, 3))
    yield Fails(RuntimeError, real(3, 4), (4,))


expand_to = view(
    "expand", run_expand, vjp=lambda g, *, x_shape: g.sum_to_size(x_shape), samples=expand_samples
)


@face(expand_to, method=True, spaces=(), reference=lambda torch: torch.Tensor.expand)
def expand(input: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Repeats size-one dimensions without copying; -1 keeps a size."""
    check_tensor("expand", input)
    target = sizes_of(sizes or (size,))
    shape = input._form.shape
    lead = len(target) - len(shape)
    if lead < 0:
        rule = f"the number of sizes provided ({len(target)}) must be at least the tensor's ({len(shape)})"
        raise error(RuntimeError, "expand", rule, input=input, size=target)
    full = []
    for axis, extent in enumerate(target):
        have = shape[axis - lead] if axis >= lead else None
        if extent < 0 and (have is None or extent != -1):
            rule = "a negative size is not allowed, except -1 for a dimension that exists"
            raise error(RuntimeError, "expand", rule, input=input, size=target)
        if extent != -1 and have not in (None, 1, extent):
            rule = f"the expanded size ({extent}) must match the existing size ({have}) at dimension {axis}"
            raise error(RuntimeError, "expand", rule, input=input, size=target)
        full.append(have if extent == -1 else extent)
    return expand_to(input, shape=tuple(full))


@composite(
    lambda: iter([Sample(real(3, 1), real(2, 3, 4)), Fails(RuntimeError, real(3), real(2))]),
    method=True,
    spaces=(),
    reference=lambda torch: torch.Tensor.expand_as,
)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expands to the shape of another tensor."""
    check_tensor("expand_as", other, "other")
    return expand(input, other._form.shape)


@composite(expand_samples, method=True)
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """Expands to a shape."""
    return expand(input, size)


@composite(lambda: iter([Sample(real(3, 1), real(4, seed=1)), Fails(RuntimeError, real(3), real(2))]))
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Expands tensors to the shape they have in common."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    for tensor in tensors:
        check_tensor("broadcast_tensors", tensor, "tensors")
    shape = broadcast("broadcast_tensors", *(tensor._form.shape for tensor in tensors))
    # A tensor that has the shape already is returned itself, as PyTorch does: a leaf stays a leaf.
    return tuple(tensor if tensor._form.shape == shape else expand(tensor, shape) for tensor in tensors)


# Parts along dimensions ------------------------------------------------------------------------------------
#
# Selecting, slicing and new axes are all NumPy's basic indexing; `index` is a tuple that ends with Ellipsis,
# so that the result is always an array. They are three ops only because PyTorch prints three names.


def index_vjp(g: Tensor, *, x_shape: tuple, index: tuple) -> Tensor:
    return index_adjoint(g, shape=x_shape, index=index)


def run_index_adjoint(g: np.ndarray, *, shape: tuple, index: tuple) -> np.ndarray:
    result = np.zeros(shape, g.dtype)
    result[index] = g
    return result


def index_adjoint_parts(g: Tensor, *, shape: tuple, index: tuple) -> Tensor:
    """Zeros around what was taken; the elements of a slice with a step are spread apart first."""
    dim = 0
    for position, part in enumerate(index):
        if part is ...:
            dim = len(shape) - sum(rest is not None for rest in index[position + 1 :])
            continue
        if part is None:
            g = g.squeeze(dim)
            continue
        start, _, step = part.indices(shape[dim]) if isinstance(part, slice) else (part % shape[dim], 0, 1)
        if not isinstance(part, slice):
            g = g.unsqueeze(dim)
        if step > 1:
            g = padded(g.unsqueeze(dim + 1), dim + 1, 0, step - 1).flatten(dim, dim + 1)
        g = padded(g, dim, start, shape[dim] - start - g._form.shape[dim])
        dim += 1
    return g


def padded(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    """Zeros before and after along a dimension; negative numbers crop."""
    from cleargrad.ops.padding import pad_constant

    return pad_constant(x, pads=((before, after), *[(0, 0)] * (x._form.ndim - dim - 1)), value=0)


index_adjoint = fused(
    "index_adjoint",
    index_adjoint_parts,
    spec=lambda g, *, shape, index: Spec(shape, g.dtype),
    run=run_index_adjoint,
    vjp=lambda g, *, index: index_slice(g, index=index),
    samples=lambda: iter(
        [
            Sample(real(2, 4), shape=(3, 4), index=(slice(0, 2), ...)),
            Sample(real(2, 1, 2), shape=(3, 5), index=(slice(1, None), None, slice(0, 4, 3), ...)),
            Sample(real(3), shape=(4, 3), index=(-1, ...)),
        ]
    ),
    rounds=False,
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


def run_new_axis(x: np.ndarray, *, index: tuple) -> np.ndarray:
    result = x[index]
    # NumPy gives a new axis the stride 0, its reshape gives the one PyTorch shows.
    return x.reshape(result.shape) if result.size == x.size else result


def new_axis_vjp(g: Tensor, *, x_shape: tuple, index: tuple) -> Tensor:
    if g._form.size == count(x_shape):
        return g.reshape(x_shape)
    return index_adjoint(g, shape=x_shape, index=index)  # an index such as [:2, None]


index_select_one = view("select", run_index, vjp=index_vjp, samples=select_samples)
index_slice = view("slice", run_index, vjp=index_vjp, samples=narrow_samples)
index_new_axis = view("unsqueeze", run_new_axis, vjp=new_axis_vjp, samples=unsqueeze_samples)


@face(index_select_one, method=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The part at one index of a dimension, which goes away."""
    check_tensor("select", input)
    shape = input._form.shape
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
    shape = input._form.shape
    if not shape:
        raise error(RuntimeError, "narrow", "narrow() cannot be applied to a 0-dim tensor")
    dim = wrap_dim("narrow", dim, len(shape))
    if isinstance(start, Tensor) and (start._form.ndim or start._form.dtype.kind not in "iu"):
        raise error(RuntimeError, "narrow", "start must be an 0-dim integral Tensor", start=start)
    start, length = as_index("narrow", start), as_index("narrow", length)
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
    dim = wrap_dim("unsqueeze", dim, input._form.ndim + 1)
    return index_new_axis(input, index=(*[slice(None)] * dim, None, ...))


def squeeze_samples() -> Iterator[Sample]:
    yield Sample(real(3, 1, 4, 1))
    yield Sample(real(3, 1, 4, 1), 1)
    yield Sample(real(3, 1, 4, 1), 0)
    yield Sample(real(3, 1, 4, 1), (1, -1))
    yield Fails(IndexError, real(3, 1), 2)


def squeezing(name: str, node: str, samples: Callable) -> Callable:
    return view(
        name,
        lambda x, *, dims: x.squeeze(dims),
        vjp=lambda g, *, x_shape: g.reshape(x_shape),
        samples=samples,
        node=node,
    )


# One op under three names, because PyTorch prints three.
squeeze_all = squeezing("squeeze", "SqueezeBackward0", squeeze_samples)
squeeze_one = squeezing("squeeze_dim", "SqueezeBackward1", lambda: iter([Sample(real(3, 1), dims=(1,))]))
squeeze_some = squeezing(
    "squeeze_dims", "SqueezeBackward2", lambda: iter([Sample(real(1, 3, 1), dims=(0, 2))])
)


@face(squeeze_all, method=True)
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Drops dimensions of size one: all of them, or those named."""
    check_tensor("squeeze", input)
    shape = input._form.shape
    dims = tuple(axis for axis in wrap_dims("squeeze", dim, len(shape)) if shape[axis] == 1)
    door = squeeze_all if dim is None else squeeze_some if isinstance(dim, (tuple, list)) else squeeze_one
    return door(input, dims=dims)


Tensor.squeeze_ = taking_place(squeeze)
Tensor.unsqueeze_ = taking_place(unsqueeze)
