"""Reading and writing by index tensors: along one dimension (index_select and its kin), in the flattened
tensor (take and put), and element by element (gather).

The first two kinds are `index` and `index_put` of ops/places.py under PyTorch's other names.
Read next: ops/scattering.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, broadcast, wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.arrays.precision import is_half
from cleargrad.devices.cpu.arrays.scatter import join_flat, positions_along
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, fused, opaque
from cleargrad.ops.masking import as_fill, as_number
from cleargrad.ops.places import are_outside, gathering_op, writing_op
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

INTEGERS = (dtypes.int32, dtypes.int64)


def check_index(
    op: str,
    index: Any,
    kinds: tuple = INTEGERS,
    *,
    wrong: type[Exception] = RuntimeError,
    matrix: Any = IndexError,
) -> None:
    """Refuses what is not an index tensor of these dtypes, or (raising `matrix`) has several dimensions."""
    check_tensor(op, index, "index")
    if index.dtype not in kinds and (index._form.size or matrix is not None):
        rule = f"expected dtype {' or '.join(kind.name for kind in kinds)} for index"
        raise error(wrong, op, rule, index=index)
    if matrix is not None and index._form.ndim > 1:
        raise error(matrix, op, "index is supposed to be a vector", index=index)


def as_line(x: Tensor) -> Tensor:
    """A 0-d tensor as a tensor of one element."""
    return x if x._form.ndim else x.reshape(1)


# Along one dimension ---------------------------------------------------------------------------------------


def index_select_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), 0, np.array([3, 0, 3]))
    yield Sample(real(2, 4, 3), -1, np.array([2, 0]))
    yield Sample(real(4, 3), 1, np.array(2))
    yield Sample(real(), 0, np.array([0]))
    yield Sample(real(4, 3), 0, np.zeros(0, np.int64))
    yield Fails(IndexError, real(4, 3), 0, np.array([4]))
    yield Fails(IndexError, real(4, 3), 0, np.array([-1]))
    yield Fails(IndexError, real(4, 3), 2, np.array([0]))
    yield Fails(IndexError, real(4, 3), 0, np.array([[0]]))
    yield Fails(RuntimeError, real(4, 3), 0, real(2))
    yield Fails(TypeError, real(4, 3), 0, [0])


def index_add_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), 0, np.array([3, 0, 3]), real(3, 3, seed=1))
    yield Sample(real(2, 4, 3), -1, np.array([2, 0]), real(2, 4, 2, seed=1), alpha=2.5)
    yield Sample(real(), 0, np.array(0), real(seed=1))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([4]), real(1, 3))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([0, 1]), real(3, 3))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([0, 1]), real(2, 2))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([0, 1]), whole(2, 3))


def index_copy_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), 0, np.array([3, 0]), real(2, 3, seed=1))
    yield Sample(real(2, 4, 3), -1, np.array([2, 0]), real(2, 4, 2, seed=1))
    yield Sample(real(), 0, np.array([0]), real(1, seed=1))
    yield Fails(IndexError, real(4, 3), 0, np.array([4]), real(1, 3))
    yield Fails(IndexError, real(4, 3), 0, np.array([0, 1]), real(3, 3))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([0, 1]), real(2, 2))


def index_fill_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), 0, np.array([3, 0]), 2.5)
    yield Sample(real(2, 4, 3), -1, np.array([-1, 0]), real(seed=1))
    yield Sample(real(4, 3), 0, np.array([3, 0, 3]), real(seed=1))
    yield Sample(real(4, 3), 1, np.array(2), 1)
    yield Fails(IndexError, real(4, 3), 0, np.array([4]), 1.0)
    yield Fails(IndexError, real(4, 3), 0, real(2), 1.0)
    yield Fails(RuntimeError, real(4, 3), 0, np.array([0]), real(1))


def read_once(g: Tensor, *indices: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The gradient of a single value: what arrives at its places, each counted once."""
    nowhere = g.new_zeros(g._form.shape, dtype=dtypes.bool_)
    filled = fill_rows(nowhere, nowhere.new_ones(()), *indices, dims=dims, accumulate=False)
    return g.masked_fill(filled.logical_not(), 0)


select_rows = gathering_op("index_select", index_select_samples, negative=False)
add_rows = writing_op("index_add", index_add_samples, kind=RuntimeError, negative=False)
copy_rows = writing_op("index_copy", index_copy_samples, negative=False)
fill_rows = writing_op("index_fill", index_fill_samples, values_vjp=read_once)


@face(select_rows, method=True, out=True)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The parts of one dimension that `index` names, in its order."""
    check_tensor("index_select", input)
    check_index("index_select", index)
    dim = wrap_dim("index_select", dim, input._form.ndim)
    if not input._form.ndim and index._form.size != 1:
        raise error(RuntimeError, "index_select", "index to a 0-d tensor can have only 1 value", index=index)
    result = select_rows(as_line(input), as_line(index), dims=(dim,))
    return result if input._form.ndim else result.reshape(())


def check_rows(op: str, x: Tensor, dim: int, index: Tensor, source: Any, miscount: type[Exception]) -> None:
    """Refuses a source that is not one slice of x per entry of the index."""
    check_tensor(op, source, "source")
    if source.dtype is not x.dtype:
        raise error(RuntimeError, op, "input and source must have the same dtype", input=x, source=source)
    shape, given = as_line(x)._form.shape, as_line(source)._form.shape
    entries = max(index._form.size, 0)
    if dim >= len(given) or given[dim] != entries:
        raise error(miscount, op, f"expected one slice of source per index, {entries} of them", source=source)
    if (*shape[:dim], *shape[dim + 1 :]) != (*given[:dim], *given[dim + 1 :]):
        rule = f"source must have the shape of input, apart from dimension {dim}"
        raise error(RuntimeError, op, rule, input=x, source=source)


def write_rows(
    door: Any, x: Tensor, dim: int, index: Tensor, values: Tensor, *, accumulate: bool = False
) -> Tensor:
    if values._form.ndim:
        values = as_line(values)
    result = door(as_line(x), values, as_line(index), dims=(dim,), accumulate=accumulate)
    return result if x._form.ndim else result.reshape(())


@face(add_rows, method=True, inplace=True, out=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy of `input` with alpha · source added at the named parts of a dimension, repetitions counted."""
    check_tensor("index_add", input)
    check_index("index_add", index)
    dim = wrap_dim("index_add", dim, input._form.ndim)
    check_rows("index_add", input, dim, index, source, RuntimeError)
    if source._form.ndim != input._form.ndim:
        raise error(RuntimeError, "index_add", "source must have input's rank", input=input, source=source)
    if alpha != 1:
        source = source * as_number("index_add", alpha, input.dtype).item()
    return write_rows(add_rows, input, dim, index, source, accumulate=True)


@face(copy_rows, method=True, inplace=True, out=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of `input` with the slices of `source` at the named parts of a dimension."""
    check_tensor("index_copy", input)
    check_index("index_copy", index, (dtypes.int64,))
    dim = wrap_dim("index_copy", dim, input._form.ndim)
    check_rows("index_copy", input, dim, index, source, IndexError)
    return write_rows(copy_rows, input, dim, index, source)


@face(fill_rows, method=True, inplace=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of `input` with one value at the named parts of a dimension."""
    check_tensor("index_fill", input)
    check_index("index_fill", index, (dtypes.int64,), wrong=IndexError, matrix=RuntimeError)
    dim = wrap_dim("index_fill", dim, input._form.ndim)
    return write_rows(fill_rows, input, dim, index, as_fill("index_fill", value, input))


# In the flattened tensor -----------------------------------------------------------------------------------


def take_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), np.array([[0, 11], [-1, 0]]))
    yield Sample(real(4, 3), np.array(5))
    yield Sample(real(), np.array([0, 0]))
    yield Fails(IndexError, real(4, 3), np.array([12]))
    yield Fails(IndexError, np.zeros(0), np.array([0]))
    yield Fails(RuntimeError, real(4, 3), real(2))


def put_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), np.array([[0, 11], [-2, 5]]), real(4, seed=1))
    yield Sample(real(4, 3), np.array([0, -1, 0]), real(3, seed=1), accumulate=True)
    yield Fails(IndexError, real(4, 3), np.array([12]), real(1))
    yield Fails(IndexError, real(4, 3), np.array([0]), real(2))
    yield Fails(RuntimeError, real(4, 3), np.array([0]), whole(1))


take_flat = gathering_op("take", take_samples)
put_flat = writing_op("put", put_samples)


@face(take_flat, method=True, out=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at positions of the flattened tensor, in the index's shape."""
    check_tensor("take", input)
    check_index("take", index, (dtypes.int64,), matrix=None)
    return take_flat(input.reshape(-1), index, dims=(0,))


@face(put_flat, method=True, inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with elements written, or added, at positions of the flattened tensor."""
    check_tensor("put", input)
    check_index("put", index, (dtypes.int64,), matrix=None)
    check_tensor("put", source, "source")
    if source.dtype is not input.dtype:
        raise error(
            RuntimeError, "put", "input and source must have the same dtype", input=input, source=source
        )
    if source._form.size != index._form.size:
        rule = "source and index must have the same number of elements"
        raise error(IndexError, "put", rule, index=index, source=source)
    values = source.reshape(index._form.shape)
    return put_flat(input.reshape(-1), values, index, dims=(0,), accumulate=accumulate).reshape(
        input._form.shape
    )


# Element by element ----------------------------------------------------------------------------------------


def gather_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), 0, whole(2, 3, high=4))
    yield Sample(real(4, 3), 1, whole(3, 5, high=3))
    yield Sample(real(2, 4, 3), -2, whole(2, 3, 2, high=4))
    yield Sample(real(3), 0, np.array(1))
    yield Sample(real(), 0, np.array([0, 0]))
    yield Sample(real(4, 3), 0, np.zeros((0, 3), np.int64))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([[4]]))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([[-1]]))
    yield Fails(RuntimeError, real(4, 3), 0, np.array([0]))
    yield Fails(RuntimeError, real(4, 3), 0, np.zeros((2, 4), np.int64))
    yield Fails(IndexError, real(4, 3), 2, np.array([[0]]))


def check_places(op: str, kind: type[Exception], index: np.ndarray, extent: int, dim: int) -> None:
    if are_outside(index, extent):
        bad = index[(index >= extent) | (index < 0)].flat[0]
        raise error(kind, op, f"index {bad} is out of bounds for dimension {dim} with size {extent}")


def run_gather(x: np.ndarray, index: np.ndarray, *, dim: int) -> np.ndarray:
    check_places("gather", RuntimeError, index, x.shape[dim], dim)
    return x.reshape(-1).take(positions_along(index, x.shape, dim))


def run_gather_adjoint(g: np.ndarray, index: np.ndarray, *, shape: tuple, dim: int) -> np.ndarray:
    result = np.zeros(shape, np.float32 if is_half(g.dtype) else g.dtype)
    join_flat(np.add, result, positions_along(index, shape, dim), g)
    return result.astype(g.dtype, copy=False)


def adjoint_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), whole(2, 3, high=4), shape=(4, 3), dim=0)


gather_along = opaque(
    "gather",
    spec=lambda x, index, *, dim: Spec(index._form.shape, x.dtype),
    run=run_gather,
    vjp=(lambda g, index, *, x_shape, dim: gather_adjoint(g, index, shape=x_shape, dim=dim), None),
    samples=gather_samples,
    spec_first=False,
)
gather_adjoint = fused(
    "gather_adjoint",
    lambda g, index, *, shape, dim: g.new_zeros(()).expand(shape).scatter_add(dim, index, g),
    spec=lambda g, index, *, shape, dim: Spec(shape, g.dtype),
    run=run_gather_adjoint,
    vjp=(lambda g, index, *, dim: gather_along(g, index, dim=dim), None),
    samples=adjoint_samples,
    spec_first=False,
)


@face(gather_along, method=True, out=True)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """The elements that `index` names along one dimension; its other dimensions name themselves."""
    check_tensor("gather", input)
    check_index("gather", index, matrix=None)
    dim = wrap_dim("gather", dim, input._form.ndim)
    if not index._form.size:
        return input.new_empty(index._form.shape) if not input.requires_grad else gather_nothing(input, index)
    shape, wanted = as_line(input)._form.shape, as_line(index)._form.shape
    if len(shape) != len(wanted):
        rule = "index must have the same number of dimensions as input"
        raise error(RuntimeError, "gather", rule, input=input, index=index)
    if any(axis != dim and n > m for axis, (n, m) in enumerate(zip(wanted, shape, strict=True))):
        rule = f"index must be no larger than input apart from dimension {dim}"
        raise error(RuntimeError, "gather", rule, input=input, index=index)
    result = gather_along(as_line(input), as_line(index), dim=dim)
    return result if index._form.ndim else result.reshape(())


def gather_nothing(input: Tensor, index: Tensor) -> Tensor:
    """An empty index may have any rank; the result is empty and still part of the graph."""
    return take_flat(input.reshape(-1), index.to(dtypes.int64), dims=(0,))


def take_along_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), whole(4, 2, high=3), 1)
    yield Sample(real(4, 3), np.array([[0, -1]]), dim=1)
    yield Sample(real(1, 3), whole(4, 2, high=3), 1)
    yield Sample(real(4, 3), np.array([[0, 11]]))
    yield Fails(RuntimeError, real(4, 3), np.array([0]), 1)
    yield Fails(RuntimeError, real(4, 3), whole(3, 2, high=3), 1)
    yield Fails(RuntimeError, real(4, 3), real(4, 1), 1)


@composite(take_along_samples, method=True, out=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with broadcasting of the other dimensions; without a dimension, from the flattened tensor."""
    check_tensor("take_along_dim", input)
    check_index("take_along_dim", indices, (dtypes.int64,), matrix=None)
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))
    rank = input._form.ndim
    if indices._form.ndim != rank:
        rule = "input and indices should have the same number of dimensions"
        raise error(RuntimeError, "take_along_dim", rule, input=input, indices=indices)
    dim = wrap_dim("take_along_dim", dim, rank)
    shape, wanted = list(input._form.shape), list(indices._form.shape)
    extent, entries = shape[dim], wanted[dim]
    shape[dim] = wanted[dim] = 1
    common = list(broadcast("take_along_dim", tuple(shape), tuple(wanted)))
    indices = indices.remainder(extent) if extent else indices
    expanded = input.expand([*common[:dim], extent, *common[dim + 1 :]])
    return gather(expanded, dim, indices.expand([*common[:dim], entries, *common[dim + 1 :]]))
