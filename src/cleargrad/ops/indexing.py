"""Indexing with brackets: `x[...]` and `x[...] = v`.

Basic indices (numbers, slices, None, ...) give views. Tensors, lists and boolean masks gather with `index` and
write with `index_put`. As in PyTorch, the basic part is applied first, the gathering part to its result.
Read next: ops/gathering.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.core.mode import SPECIAL, mode
from cleargrad.core.shape import Spec, broadcast, count
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error
from cleargrad.ops import creation
from cleargrad.ops.apply import NUMBERS
from cleargrad.ops.conversion import copy_
from cleargrad.ops.declare import as_type, opaque
from cleargrad.ops.inplace import call_inplace, check_memory
from cleargrad.ops.record import no_value_error
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import alias, index_new_axis, index_select_one, index_slice, link_view

_select, _slice = index_select_one.op, index_slice.op  # type: ignore[attr-defined]
_plan = _select.plan((True,))


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`."""
    kind = type(index)
    if kind is int:
        node, basic = _select.node, (index, ...)
    elif kind is slice and index.step is None:
        node, basic = _slice.node, (index, ...)
    else:
        return getitem_by_parts(self, index)
    how = mode.how
    if how == SPECIAL:
        return getitem_by_parts(self, index)
    try:
        result = self._data[basic]
    except (IndexError, TypeError):
        return getitem_by_parts(self, index)
    return link_view(result, self, how, node, _plan, {"index": basic})


def getitem_by_parts(self: Tensor, index: Any) -> Tensor:
    basic, gathered = split_index(self, index)
    result = basic_view(self, basic)
    if gathered:
        dims = tuple(gathered)
        result = index_op(result, *gathered.values(), dims=dims)
    return result


# Reading an index ------------------------------------------------------------------------------------------


def split_index(self: Tensor, index: Any) -> tuple[tuple, dict[int, Tensor]]:
    """The basic part as a NumPy index, and for each dimension of its result the tensor that gathers there."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [as_item(self, item) for item in items]
    items = [part for item in items for part in unpack_mask(self, item)]
    items = spread_ellipsis(self, items)
    basic: list = []
    gathered: dict[int, Tensor] = {}
    dim = 0  # of the basic part's result
    source = 0  # of self
    for item in items:
        if isinstance(item, Tensor):
            gathered[dim] = item
            basic.append(slice(None))
        else:
            basic.append(item)
        if item is not None:
            check_item(self, item, source)
            source += 1
        dim += type(item) is not int
    return (*basic, ...), gathered


def as_item(self: Tensor, item: Any) -> Any:
    if type(item) is int or item is None or item is ...:
        return item
    if isinstance(item, slice):
        return as_slice(item)
    if isinstance(item, Tensor):
        if item._data.ndim == 0 and item._data.dtype.kind in "iu" and mode.recorder is None:
            return int(item._data)
        return item
    if isinstance(item, (bool, np.bool_)):
        return wrap(np.asarray(bool(item)))
    if isinstance(item, np.ndarray) or isinstance(item, (list, tuple, range)):
        found = creation.as_tensor(list(item) if isinstance(item, range) else item)
        if found._data.size == 0:
            found = wrap(found._data.astype(np.int64))
        return found
    if hasattr(item, "__index__"):
        return item.__index__()
    rule = (
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(item).__name__})"
    )
    raise error(IndexError, "index", rule)


def as_slice(item: slice) -> slice:
    start, stop, step = (
        None if part is None else part if type(part) is int else slice_bound(part)
        for part in (item.start, item.stop, item.step)
    )
    if step is not None and step <= 0:
        raise error(ValueError, "index", "step must be greater than zero", fix="use flip() to reverse")
    return slice(start, stop, step)


def slice_bound(part: Any) -> int:
    if hasattr(part, "__index__"):
        return part.__index__()
    rule = f"slice indices must be integers or None or have an __index__ method, got {type(part).__name__}"
    raise error(TypeError, "index", rule)


def unpack_mask(self: Tensor, item: Any) -> list:
    """A boolean mask stands for the index tensors of its true places, one per dimension it covers."""
    if not isinstance(item, Tensor) or item._data.dtype.kind not in "b" and item._data.dtype != np.uint8:
        if isinstance(item, Tensor) and item._data.dtype.kind not in "iu":
            rule = "tensors used as indices must be long, int, byte or bool tensors"
            raise error(IndexError, "index", rule, index=item)
        return [item]
    if mode.recorder is not None:
        raise no_value_error("index")
    mask = item._data
    if mask.ndim == 0:
        return [None, wrap(np.zeros(1 if mask else 0, np.int64))]
    return [wrap(places) for places in np.nonzero(mask)]


def spread_ellipsis(self: Tensor, items: list) -> list:
    used = sum(item is not None and item is not ... for item in items)
    rank = self._data.ndim
    if used > rank:
        raise error(IndexError, "index", f"too many indices for tensor of dimension {rank}", tensor=self)
    places = [k for k, item in enumerate(items) if item is ...]
    if len(places) > 1:
        raise error(IndexError, "index", "an index can only have a single ellipsis ('...')")
    if places:
        items[places[0] : places[0] + 1] = [slice(None)] * (rank - used)
    return items


def check_item(self: Tensor, item: Any, dim: int) -> None:
    """Refuses numbers outside a dimension; index tensors are checked when they are used."""
    extent = self._data.shape[dim]
    if type(item) is int and not -extent <= item < extent:
        rule = f"index {item} is out of bounds for dimension {dim} with size {extent}"
        raise error(IndexError, "index", rule, tensor=self)


def basic_view(self: Tensor, basic: tuple) -> Tensor:
    """The view, as the op PyTorch would print last."""
    last = None
    for item in basic[:-1]:
        if not (isinstance(item, slice) and item == slice(None)):
            last = item
    if last is None and None not in basic:
        return alias(self)
    door = index_new_axis if last is None else index_select_one if type(last) is int else index_slice
    return door(self, index=basic)


# Gathering and writing by index tensors --------------------------------------------------------------------


def key_of(rank: int, indices: tuple[np.ndarray, ...], dims: tuple[int, ...]) -> tuple:
    key: list = [slice(None)] * rank
    for dim, places in zip(dims, indices, strict=True):
        key[dim] = places.astype(np.int64) if places.dtype == np.uint8 else places
    return tuple(key)


def index_shape(op: str, shape: tuple, indices: tuple, dims: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's rule: neighbouring index dimensions are replaced in place, scattered ones move to the front."""
    joint = broadcast(op, *[places._data.shape for places in indices])
    rest = [extent for dim, extent in enumerate(shape) if dim not in dims]
    together = dims == tuple(range(dims[0], dims[0] + len(dims)))
    front = dims[0] if together else 0
    return (*rest[:front], *joint, *rest[front:])


def check_range(op: str, x: np.ndarray, indices: tuple[np.ndarray, ...], dims: tuple[int, ...]) -> None:
    for dim, places in zip(dims, indices, strict=True):
        extent = x.shape[dim]
        if places.size and (places.max() >= extent or places.min() < -extent):
            bad = places[(places >= extent) | (places < -extent)].flat[0]
            rule = f"index {bad} is out of bounds for dimension {dim} with size {extent}"
            raise error(IndexError, op, rule)


def run_index(x: np.ndarray, *indices: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    try:
        return x[key_of(x.ndim, indices, dims)]
    except IndexError as failure:
        check_range("index", x, indices, dims)
        shapes = ", ".join(str(list(places.shape)) for places in indices)
        rule = f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        raise error(IndexError, "index", rule) from failure


def run_index_put(
    x: np.ndarray, values: np.ndarray, *indices: np.ndarray, dims: tuple[int, ...], accumulate: bool
) -> np.ndarray:
    result = x.copy()
    write_places(result, values, indices, dims, accumulate)
    return result


def write_places(x: np.ndarray, values: np.ndarray, indices: tuple, dims: tuple, accumulate: bool) -> None:
    check_range("index_put_", x, indices, dims)
    key = key_of(x.ndim, indices, dims)
    if accumulate:
        np.add.at(x, key, values)
    else:
        x[key] = values


def index_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), whole(5, high=4), dims=(0,))
    yield Sample(real(4, 3), whole(2, 2, high=4), whole(2, 2, high=3, seed=1), dims=(0, 1))
    yield Sample(real(2, 4, 3), whole(2, high=2), whole(2, high=3), dims=(0, 2))
    yield Fails(IndexError, real(4, 3), np.array([4]), dims=(0,))


def index_put_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), real(2, 3, seed=1), np.array([0, 2]), dims=(0,), accumulate=False)
    yield Sample(real(4, 3), real(3, 3, seed=1), np.array([0, 2, 0]), dims=(0,), accumulate=True)


index_op = opaque(
    "index",
    spec=lambda x, *indices, dims: Spec(index_shape("index", x._data.shape, indices, dims), x.dtype),
    run=run_index,
    vjp=(
        lambda g, *indices, x_shape, dims: index_put_op(
            g.new_zeros(x_shape), g, *indices, dims=dims, accumulate=True
        ),
    ),
    samples=index_samples,
    spec_first=False,
)
index_put_op = opaque(
    "index_put",
    spec=lambda x, values, *indices, dims, accumulate: Spec(x._data.shape, x.dtype),
    run=run_index_put,
    vjp=(
        lambda g, *indices, values_shape, dims, accumulate: (
            g if accumulate else index_put_op(g, g.new_zeros(()), *indices, dims=dims, accumulate=False)
        ),
        lambda g, *indices, dims, accumulate: index_op(g, *indices, dims=dims),
    ),
    samples=index_put_samples,
    spec_first=False,
)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`."""
    if not isinstance(value, Tensor):
        value = as_value(self, value)
    if is_mask(index) and value._data.size == 1 and index._data.shape == self._data.shape:
        self.masked_fill_(index, value.reshape(()))
        return
    basic, gathered = split_index(self, index)
    target = self if all(item == slice(None) for item in basic[:-1]) else basic_view(self, basic)
    if not gathered:
        copy_(target, drop_leading_ones(value, target._data.ndim))
        return
    put(target, gathered, value, accumulate=False)


def as_value(self: Tensor, value: Any) -> Tensor:
    if isinstance(value, NUMBERS):
        return wrap(as_type(value, self._data.dtype))
    if isinstance(value, (np.ndarray, list, tuple)):
        return creation.as_tensor(value)
    raise error(TypeError, "index_put_", f"can't assign a {type(value).__name__} to a {self.dtype} tensor")


def is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index._data.dtype.kind == "b" and index._data.ndim > 0


def drop_leading_ones(value: Tensor, rank: int) -> Tensor:
    shape = value._data.shape
    extra = len(shape) - rank
    return value.reshape(shape[extra:]) if extra > 0 and count(shape[:extra]) == 1 else value


def put(target: Tensor, gathered: dict[int, Tensor], value: Tensor, *, accumulate: bool) -> Tensor:
    """Writes values at gathered places: straight into memory when no gradient and no recorder looks on."""
    dims, indices = tuple(gathered), tuple(gathered.values())
    place = index_shape("index_put_", target._data.shape, indices, dims)
    value = drop_leading_ones(value, len(place))
    if value._data.dtype != target._data.dtype:
        value = value.to(target.dtype)
    if broadcast("index_put_", place, value._data.shape) != place:
        rule = f"shape mismatch: value of shape {list(value._data.shape)} cannot be broadcast to {list(place)}"
        raise error(RuntimeError, "index_put_", rule)
    tracked = mode.grad and (edge_of(target) is not None or edge_of(value) is not None)
    if tracked or mode.recorder is not None:
        return call_inplace(index_put_op.op, (target, value, *indices), {"dims": dims, "accumulate": accumulate})
    check_memory(target, "index_put_")
    write_places(target._data, value._data, tuple(x._data for x in indices), dims, accumulate)
    target.bump()
    return target
