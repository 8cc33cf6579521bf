"""Indexing with brackets: `x[...]` and `x[...] = v`.

Basic indices (numbers, slices, None, ...) give views. Tensors, lists and boolean masks gather with `index` and
write with `index_put`. As in PyTorch, the basic part is applied first, the gathering part to its result.
Read next: ops/gathering.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.backend.cpu.precision import is_half
from cleargrad.backend.cpu.scatter import add_at
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import SPECIAL, gate, mode
from cleargrad.core.shape import Spec, broadcast, count
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error
from cleargrad.ops import creation
from cleargrad.ops.conversion import copy_
from cleargrad.ops.declare import opaque
from cleargrad.ops.inplace import call_inplace, check_memory
from cleargrad.ops.masking import as_number, fill_op
from cleargrad.ops.op import FACES, Face
from cleargrad.ops.record import no_value_error
from cleargrad.ops.samples import Fails, Sample, real, truth, whole
from cleargrad.ops.views import alias, check_tensor, index_new_axis, index_select_one, index_slice, link_view

_select, _slice = index_select_one.op, index_slice.op  # type: ignore[attr-defined]
_plan = _select.plan((True,))
FULL = slice(None)


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`."""
    kind = type(index)
    if kind is int:
        node, basic = _select.node, (index, ...)
    elif kind is slice and index.step is None:
        node, basic = _slice.node, (index, ...)
    else:
        return getitem_by_parts(self, index)
    how = gate.how or mode.how
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
    if not gathered:
        if isinstance(index, slice):
            return index_slice(self, index=basic)
        return alias(self) if result is self else result
    if mode.recorder is not None:
        result, gathered = select_recorded(result, gathered)
    dims, indices = unpack_masks(gathered)
    return index_op(result, *indices, dims=dims) if indices else result


def select_recorded(x: Tensor, gathered: dict[int, Tensor]) -> tuple[Tensor, dict[int, Tensor]]:
    """A number in a tensor selects before all else; recorded, its value is unknown, so it is gathered first."""
    left: dict[int, Tensor] = {}
    gone = 0
    for dim, places in gathered.items():
        if is_mask(places) or places._data.ndim:
            left[dim - gone] = places
        else:
            x = index_op(x, places, dims=(dim - gone,))
            gone += 1
    return x, left


# Reading an index ------------------------------------------------------------------------------------------


def split_index(self: Tensor, index: Any) -> tuple[tuple, dict[int, Tensor]]:
    """The basic part as a NumPy index, and for each dimension of its result the tensor that gathers there."""
    shape = self._data.shape
    basic: list = []
    gathered: dict[int, Tensor] = {}
    dim = source = 0  # dimensions of the basic part's result, and of self
    for item in spread_ellipsis(self, [as_item(item) for item in items_of(index)]):
        if isinstance(item, Tensor):
            gathered[dim] = item
            used = dims_used(item)
            check_mask(self, item, source)
            basic += [FULL] * used or [None]
            dim += used or 1
            source += used
            continue
        if type(item) is int:
            check_number(self, item, source)
        elif item is not None and is_full(item, shape[source]):
            item = FULL
        basic.append(item)
        dim += type(item) is not int
        source += item is not None
    return (*basic, ...), gathered


def is_full(item: slice, extent: int) -> bool:
    return item.start in (None, 0) and (item.stop is None or item.stop >= extent) and item.step in (None, 1)


def items_of(index: Any) -> list:
    """One item per entry of a tuple; a short list that holds more than numbers is taken as a tuple, too."""
    if isinstance(index, tuple):
        return list(index)
    if isinstance(index, list) and len(index) < 32:
        if any(item is None or item is ... or isinstance(item, (Tensor, slice, list, tuple, range, str)) for item in index):
            return index.copy()
    return [index]


def as_item(item: Any) -> Any:
    """An entry of an index as an int, a checked slice, None, an ellipsis or an index tensor."""
    if type(item) is int or item is None or item is ...:
        return item
    if isinstance(item, slice):
        return as_slice(item)
    if isinstance(item, bool):
        return wrap(np.asarray(item))
    if isinstance(item, (list, tuple, range, np.ndarray, str)):
        item = as_index_tensor(item)
    if isinstance(item, Tensor):
        kind = item._data.dtype
        if item._data.ndim == 0 and kind.kind in "iu" and kind != np.uint8 and mode.recorder is None:
            return int(item._data)
        check_index_kind(item)
        return item
    if isinstance(item, np.integer) or not isinstance(item, np.generic) and hasattr(type(item), "__index__"):
        return item.__index__()
    rule = (
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(item).__name__})"
    )
    raise error(IndexError, "index", rule)


INDEX_KINDS = {np.dtype(kind) for kind in (np.int64, np.int32, np.uint8, np.bool_)}


def check_index_kind(item: Tensor) -> None:
    if item._data.dtype not in INDEX_KINDS:
        rule = "tensors used as indices must be long, int, byte or bool tensors"
        raise error(IndexError, "index", rule, index=item)


def as_index_tensor(item: Any) -> Tensor:
    """A sequence as an index: booleans are a mask, all other numbers become int64."""
    found = creation.as_tensor(list(item) if isinstance(item, range) else item)
    if found._data.dtype in INDEX_KINDS:
        return found
    return wrap(found._data.astype(np.int64))


def as_slice(item: slice) -> slice:
    start, stop, step = (
        part if part is None or type(part) is int else slice_bound(part)
        for part in (item.start, item.stop, item.step)
    )
    if step is not None and step <= 0:
        raise error(ValueError, "index", "step must be greater than zero", fix="use flip() to reverse")
    return slice(start, stop, step)


def slice_bound(part: Any) -> int:
    if hasattr(type(part), "__index__"):
        return part.__index__()
    rule = f"slice indices must be integers or None or have an __index__ method, got {type(part).__name__}"
    raise error(TypeError, "index", rule)


def dims_used(item: Any) -> int:
    """How many dimensions of the tensor an item stands for."""
    if is_mask(item):
        return item._data.ndim
    return int(item is not None and item is not ...)


def is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item._data.dtype in MASKS


MASKS = {np.dtype(np.bool_), np.dtype(np.uint8)}


def spread_ellipsis(self: Tensor, items: list) -> list:
    used = sum(map(dims_used, items))
    rank = self._data.ndim
    if used > rank:
        rule = f"too many indices for tensor of dimension {rank}"
        raise error(IndexError, "index", rule, tensor=self, fix="use item() for the number" if not rank else None)
    first = next((k for k, item in enumerate(items) if item is ...), None)
    if first is None:
        return items
    spread = [*items[:first], *[FULL] * (rank - used), *items[first + 1 :]]
    return [item for item in spread if item is not ...]


def check_number(self: Tensor, number: int, dim: int) -> None:
    extent = self._data.shape[dim]
    if not -extent <= number < extent:
        rule = f"index {number} is out of bounds for dimension {dim} with size {extent}"
        raise error(IndexError, "index", rule, tensor=self)


def check_mask(self: Tensor, item: Tensor, dim: int) -> None:
    """Refuses a mask that does not have the shape of the dimensions it covers."""
    if not is_mask(item):
        return
    if item._data.dtype == np.uint8:
        rule = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
        warnings.warn(rule, UserWarning, stacklevel=2)
    shape, mask = self._data.shape, item._data.shape
    if shape[dim : dim + len(mask)] != mask:
        rule = (
            f"the shape of the mask {list(mask)} at index {dim} does not match the shape of the indexed tensor "
            f"{list(shape)} at index {dim}"
        )
        raise error(IndexError, "index", rule)


def basic_view(self: Tensor, basic: tuple) -> Tensor:
    """The view of the basic part, as the op PyTorch would print last; the tensor itself when nothing is left out."""
    changes = [item for item in basic[:-1] if item is None or item != FULL]
    if not changes:
        return self
    last = changes[-1]
    door = index_new_axis if last is None else index_select_one if type(last) is int else index_slice
    return door(self, index=basic)


def unpack_masks(gathered: dict[int, Tensor]) -> tuple[tuple[int, ...], tuple[Tensor, ...]]:
    """Dimensions and index tensors; a mask stands for the tensors of its true places, one per dimension."""
    dims: list[int] = []
    indices: list[Tensor] = []
    for dim, places in gathered.items():
        if is_mask(places):
            if mode.recorder is not None:
                raise no_value_error("index")
            mask = places._data
            found = np.nonzero(mask) if mask.ndim else (np.zeros(1 if mask else 0, np.int64),)
            indices += map(wrap, found)
            dims += range(dim, dim + len(found))
        else:
            indices.append(places)
            dims.append(dim)
    return tuple(dims), tuple(indices)


# Kernels ---------------------------------------------------------------------------------------------------
#
# `dims` are the dimensions that index tensors stand in. NumPy's rule for the shape holds: neighbouring index
# dimensions are replaced in place, scattered ones move to the front.


def key_of(rank: int, indices: tuple[np.ndarray, ...], dims: tuple[int, ...]) -> tuple:
    key: list = [FULL] * rank
    for dim, places in zip(dims, indices, strict=True):
        key[dim] = places
    return tuple(key)


def index_shape(op: str, shape: tuple, indices: tuple, dims: tuple[int, ...]) -> tuple[int, ...]:
    try:
        joint = broadcast(op, *[places._data.shape for places in indices])
    except RuntimeError as failure:
        shapes = ", ".join(str(list(places._data.shape)) for places in indices)
        rule = f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        raise error(IndexError, op, rule) from failure
    if count(joint) and any(shape[dim] == 0 for dim in dims):
        raise error(IndexError, op, f"index is out of bounds for a dimension of size 0 in shape {list(shape)}")
    rest = [extent for dim, extent in enumerate(shape) if dim not in dims]
    front = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    return (*rest[:front], *joint, *rest[front:])


def check_range(
    op: str, kind: type[Exception], x: np.ndarray, indices: tuple[np.ndarray, ...], dims: tuple[int, ...], low: bool
) -> None:
    """Refuses places outside their dimension; with `low`, negative ones count from the end."""
    for dim, places in zip(dims, indices, strict=True):
        extent = x.shape[dim]
        least = -extent if low else 0
        if places.size and (places.max() >= extent or places.min() < least):
            bad = places[(places >= extent) | (places < least)].flat[0]
            raise error(kind, op, f"index {bad} is out of bounds for dimension {dim} with size {extent}")


def take_places(x: np.ndarray, indices: tuple[np.ndarray, ...], dims: tuple[int, ...]) -> np.ndarray:
    if len(dims) == 1 and x.flags.c_contiguous:
        return x.take(indices[0], axis=dims[0])
    return np.ascontiguousarray(x[key_of(x.ndim, indices, dims)])


def run_sum_at(g: np.ndarray, *indices: np.ndarray, shape: tuple, dims: tuple[int, ...]) -> np.ndarray:
    result = np.zeros(shape, np.float32 if is_half(g.dtype) else g.dtype)
    add_at(result, g, indices, dims)
    return result.astype(g.dtype, copy=False)


def write_places(x: np.ndarray, values: np.ndarray, indices: tuple, dims: tuple, accumulate: bool) -> None:
    if accumulate:
        add_at(x, values, indices, dims)
    else:
        x[key_of(x.ndim, indices, dims)] = values


# Ops -------------------------------------------------------------------------------------------------------


def gathering_op(
    name: str, samples: Callable, *, kind: type[Exception] = IndexError, low: bool = True
) -> Callable:
    """An op `(x, *indices, dims)` that reads places; `low` allows negative indices, `kind` is raised outside."""

    def run(x: np.ndarray, *indices: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
        check_range(name, kind, x, indices, dims, low)
        return take_places(x, indices, dims)

    return opaque(
        name,
        spec=lambda x, *indices, dims: Spec(index_shape(name, x._data.shape, indices, dims), x.dtype),
        run=run,
        vjp=(lambda g, *indices, x_shape, dims: sum_at(g, *indices, shape=x_shape, dims=dims),),
        samples=samples,
        spec_first=False,
    )


def read_back(g: Tensor, *indices: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The gradient of written values: what arrives at their places."""
    return index_op(g, *indices, dims=dims)


def writing_op(
    name: str,
    samples: Callable,
    *,
    kind: type[Exception] = IndexError,
    low: bool = True,
    values_vjp: Callable = read_back,
) -> Callable:
    """An op `(x, values, *indices, dims, accumulate)` that writes places: it assigns, or adds."""

    def run(
        x: np.ndarray, values: np.ndarray, *indices: np.ndarray, dims: tuple[int, ...], accumulate: bool
    ) -> np.ndarray:
        check_range(name, kind, x, indices, dims, low)
        result = x.copy()
        write_places(result, values, indices, dims, accumulate)
        return result

    return opaque(
        name,
        spec=lambda x, values, *indices, dims, accumulate: Spec(x._data.shape, x.dtype),
        run=run,
        vjp=(
            lambda g, *indices, dims, accumulate: (
                g if accumulate else index_put_op(g, g.new_zeros(()), *indices, dims=dims, accumulate=False)
            ),
            values_vjp,
        ),
        samples=samples,
        spec_first=False,
    )


def index_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), whole(5, high=4), dims=(0,))
    yield Sample(real(4, 3), whole(5, low=-3, high=3), dims=(1,))
    yield Sample(real(4, 3), whole(2, 2, high=4), whole(2, 2, high=3, seed=1), dims=(0, 1))
    yield Sample(real(2, 4, 3), whole(2, high=2), whole(2, high=3), dims=(0, 2))
    yield Fails(IndexError, real(4, 3), np.array([4]), dims=(0,))
    yield Fails(IndexError, real(4, 3), np.array([0, 1]), np.array([0, 1, 2]), dims=(0, 1))


def index_put_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), (np.array([0, 2]),), real(2, 3, seed=1))
    yield Sample(real(4, 3), [np.array([0, 2, 0])], real(3, 3, seed=1), accumulate=True)
    yield Sample(real(4, 3), (np.array([0, -1]), np.array([[1], [2]])), real(seed=1), True)
    yield Sample(real(2, 4, 3), (np.array([0, 1]), np.array([1, 2])), real(3, seed=1))
    yield Sample(real(2, 3), (truth(2, 3),), real(1, seed=1))
    yield Fails(IndexError, real(4, 3), (np.array([4]),), real(3))
    yield Fails(RuntimeError, real(4, 3), (np.array([0, 1]),), real(4))


index_op = gathering_op("index", index_samples)
index_put_op = writing_op("index_put", index_put_samples)
sum_at = opaque(
    "sum_at",
    spec=lambda g, *indices, shape, dims: Spec(shape, g.dtype),
    run=run_sum_at,
    vjp=(lambda g, *indices, dims: index_op(g, *indices, dims=dims),),
    samples=lambda: iter([Sample(real(3, 2), np.array([0, 2, 0]), shape=(4, 2), dims=(0,))]),
    spec_first=False,
)


# Writing ---------------------------------------------------------------------------------------------------

# `x[mask] = number` chooses element by element, so that it can be recorded, but PyTorch prints IndexPut for it.
fill_mask = fill_op("index_fill_mask", node="IndexPutBackward0")


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`."""
    if not isinstance(value, Tensor):
        value = as_value(self, value)
    if index is False:
        return
    basic, gathered = split_index(self, None if index is True else index)
    target = basic_view(self, basic)
    if gathered:
        put(target, gathered, value, accumulate=False)
        return
    if target is self:
        target = alias(self)  # written through a view, self keeps its history: zeros flow back to it
    copy_(target, drop_leading_ones(value, target._data.ndim))


def as_value(self: Tensor, value: Any) -> Tensor:
    if isinstance(value, float) and is_half(self._data.dtype):
        with np.errstate(over="ignore"):  # here, and only here, PyTorch lets a half overflow
            return wrap(np.asarray(value).astype(self._data.dtype))
    if isinstance(value, (bool, int, float, complex, np.integer)):
        return wrap(as_number("index_put_", value, self.dtype))
    raise error(TypeError, "index_put_", f"can't assign a {type(value).__name__} to a {self.dtype} tensor")


def drop_leading_ones(value: Tensor, rank: int) -> Tensor:
    shape = value._data.shape
    extra = len(shape) - rank
    return value.reshape(shape[extra:]) if extra > 0 and count(shape[:extra]) == 1 else value


def put(target: Tensor, gathered: dict[int, Tensor], value: Tensor, *, accumulate: bool) -> Tensor:
    """Writes values at gathered places: straight into memory when no gradient and no recorder looks on."""
    check_memory(target, "index_put_")
    tracked = mode.recorder is not None or mode.grad and (edge_of(target) is not None or edge_of(value) is not None)
    mask = lone_mask(target, gathered)
    if mask is not None and value._data.size == 1 and not accumulate:
        value = value.reshape(()).to(target.dtype)
        if tracked:
            return call_inplace(fill_mask.op, (target, mask, value), {})
        np.copyto(target._data, value._data, where=mask._data)
    else:
        if mode.recorder is not None:
            check_order_is_known(gathered)
        dims, indices = unpack_masks(gathered)
        value = fitted(target, value, index_shape("index_put_", target._data.shape, indices, dims))
        attrs = {"dims": dims, "accumulate": accumulate}
        if tracked:
            return call_inplace(index_put_op.op, (target, value, *indices), attrs)
        arrays = tuple(x._data for x in indices)
        check_range("index_put_", IndexError, target._data, arrays, dims, True)
        write_places(target._data, value._data, arrays, **attrs)
    target.bump()
    return target


def lone_mask(target: Tensor, gathered: dict[int, Tensor]) -> Tensor | None:
    """The mask, shaped to broadcast with the target, when it alone says where to write."""
    if len(gathered) != 1:
        return None
    ((dim, mask),) = gathered.items()
    if not is_mask(mask) or not mask._data.ndim:
        return None
    behind = target._data.ndim - dim - mask._data.ndim
    return mask.to(dtypes.bool_).reshape((*mask._data.shape, *[1] * behind))


def check_order_is_known(gathered: dict[int, Tensor]) -> None:
    """A recorded number amid gathered dimensions would be selected first, which reorders the written shape."""
    dims = tuple(gathered)
    scattered = dims[-1] - dims[0] != len(dims) - 1
    if scattered and any(not places._data.ndim for places in gathered.values()):
        raise no_value_error("index_put_")


def fitted(target: Tensor, value: Tensor, place: tuple[int, ...]) -> Tensor:
    """The value for places of this shape, or PyTorch's error when it does not fit."""
    if value._data.dtype != target._data.dtype:
        rule = "the source and destination dtypes must match"
        raise error(RuntimeError, "index_put_", rule, destination=target, source=value)
    value = drop_leading_ones(value, len(place))
    if not fits(value._data.shape, place):
        rule = f"shape mismatch: value of shape {list(value._data.shape)} cannot be broadcast to {list(place)}"
        raise error(RuntimeError, "index_put_", rule)
    return value


def fits(shape: tuple[int, ...], place: tuple[int, ...]) -> bool:
    """Whether a value of this shape broadcasts to the place without growing it."""
    lead = len(place) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, place[lead:], strict=True))


# The functions behind the brackets -------------------------------------------------------------------------


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Writes `values` at the places that one index tensor per dimension names; adds them when accumulating."""
    return put(self, gathered_by(self, indices), values, accumulate=accumulate)


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with `values` written at the places that one index tensor per dimension names."""
    check_tensor("index_put", input)
    gathered = gathered_by(input, indices)
    dims, places = unpack_masks(gathered)
    value = fitted(input, values, index_shape("index_put", input._data.shape, places, dims))
    return index_put_op(input, value, *places, dims=dims, accumulate=accumulate)


def gathered_by(self: Tensor, indices: Any) -> dict[int, Tensor]:
    """The index tensors by the dimension they stand in; None passes over a dimension."""
    check_tensor("index_put", self, "self")
    gathered: dict[int, Tensor] = {}
    dim = 0
    for item in indices:
        if item is not None:
            check_tensor("index_put", item, "indices")
            check_index_kind(item)
            gathered[dim] = item
        dim += 1 if item is None else dims_used(item)
    if dim > self._data.ndim or not gathered:
        rule = f"a tensor of dimension {self._data.ndim} cannot be indexed by {len(indices)} tensors"
        raise error(IndexError, "index_put", rule, tensor=self)
    for place, item in gathered.items():
        check_mask(self, item, place)
    return gathered


FACES.append(
    Face("index_put", index_put, ("",), True, index_put_, index_put_op.op, index_put_samples, index_put_op.op.vjp)
)
