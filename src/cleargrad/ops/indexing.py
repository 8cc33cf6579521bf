"""Indexing with brackets: `x[...]` and `x[...] = v`.

Basic indices (numbers, slices, None, ...) give views. Tensors, lists and boolean masks gather with `index`
and write with `index_put`. As in PyTorch, the basic part is applied first, the gathering part to its result.
Read next: ops/gathering.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.core import dtype as dtypes
from cleargrad.core.device import Elsewhere
from cleargrad.core.mode import SPECIAL, at_once, gate, mode, settle, spared
from cleargrad.core.shape import count
from cleargrad.core.tensor import Tensor, held, wrap
from cleargrad.devices.cpu.arrays.precision import is_half
from cleargrad.errors import error
from cleargrad.ops.conversion import copy_
from cleargrad.ops.declare import F32, F64
from cleargrad.ops.index_items import (
    FULL,
    check_index_kind,
    check_mask,
    dims_used,
    is_mask,
    plain_index,
    split_index,
    unpack_masks,
)
from cleargrad.ops.inplace import call_inplace, check_memory, looks_into_history
from cleargrad.ops.masking import as_number, fill_op
from cleargrad.ops.op import FACES, Face
from cleargrad.ops.places import index_op, index_put_op, index_put_samples, index_shape, write_places
from cleargrad.ops.views import alias, check_tensor, index_new_axis, index_select_one, index_slice, link_view

_select, _slice = index_select_one.op, index_slice.op
_plan = _select.plan((True,))


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`."""
    basic: tuple | None
    kind = type(index)
    if kind is int:
        op, basic = _select, (index, ...)
    elif kind is slice and index.step is None:
        op, basic = _slice, (index, ...)
    else:
        basic, last = plain_index(index)
        if last is FULL or last is None:
            return getitem_by_parts(self, index)
        op = _select if type(last) is int else _slice
    how = gate.how or mode.how
    if how == SPECIAL and (how := spared()) == SPECIAL:
        waiter = mode.simply
        if waiter is None or not waiter.sees(op, self):
            return getitem_by_parts(self, index)
        how = int(waiter.grad)
    try:
        result = self._data[basic]
    except (IndexError, TypeError, Elsewhere):
        return getitem_by_parts(self, index)
    if kind is not slice and op is _slice and result.shape == self._form.shape:
        return getitem_by_parts(self, index)  # slices that leave nothing out are an alias
    return link_view(result, self, how, op.node, _plan, {"index": basic})


def getitem_by_parts(self: Tensor, index: Any) -> Tensor:
    if isinstance(index, Tensor) and index._form.dtype == np.int64 and index._form.ndim and self._form.ndim:
        return index_op(self, index, dims=(0,))
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
    """A number in a tensor selects before all else; recorded, without a value, it is gathered first."""
    left: dict[int, Tensor] = {}
    gone = 0
    for dim, places in gathered.items():
        if is_mask(places) or places._form.ndim:
            left[dim - gone] = places
        else:
            x = index_op(x, places, dims=(dim - gone,))
            gone += 1
    return x, left


def basic_view(self: Tensor, basic: tuple) -> Tensor:
    """The view of the basic part, as the op PyTorch would print last; the tensor itself when that is all."""
    changes = [item for item in basic[:-1] if item is None or item != FULL]
    if not changes:
        return self
    last = changes[-1]
    door = index_new_axis if last is None else index_select_one if type(last) is int else index_slice
    return door(self, index=basic)


# Writing ---------------------------------------------------------------------------------------------------

# `x[mask] = number` chooses element by element, so that it can be recorded; PyTorch prints IndexPut for it.
fill_mask = fill_op("index_fill_mask", node="IndexPutBackward0")


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`."""
    if not write_plainly(self, index, value):
        setitem_by_parts(self, index, value)


def write_plainly(self: Tensor, index: Any, value: Any) -> bool:
    """The commonest writes, straight into memory; False, and nothing done, when anything is unusual."""
    how = gate.how or mode.how
    if how == SPECIAL or (how and edge_of(self) is not None) or held(self) is not None:
        return False
    data = self._data
    if isinstance(value, Tensor):
        if value._form.dtype is not data.dtype or (how and edge_of(value) is not None):
            return False
        if held(value) is not None:
            return False
        value = value._data
    elif type(value) is not float or not abs(value) < 1e38 or not (data.dtype is F32 or data.dtype is F64):
        return False
    key, _ = plain_index(index)
    if key is None or 0 in data.strides or (how and looks_into_history(self)):
        return False
    check_memory(self, "copy_")
    try:
        data[key] = value
    except (IndexError, ValueError):
        return False
    self.bump()
    return True


def setitem_by_parts(self: Tensor, index: Any, value: Any) -> None:
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
    copy_(target, drop_leading_ones(value, target._form.ndim))


def as_value(self: Tensor, value: Any) -> Tensor:
    if isinstance(value, float) and is_half(self._form.dtype):
        with np.errstate(over="ignore"):  # here, and only here, PyTorch lets a half overflow
            return wrap(np.asarray(value).astype(self._form.dtype))
    if isinstance(value, (bool, int, float, complex, np.integer)):
        return wrap(as_number("index_put_", value, self.dtype))
    raise error(TypeError, "index_put_", f"can't assign a {type(value).__name__} to a {self.dtype} tensor")


def drop_leading_ones(value: Tensor, rank: int) -> Tensor:
    shape = value._form.shape
    extra = len(shape) - rank
    return value.reshape(shape[extra:]) if extra > 0 and count(shape[:extra]) == 1 else value


def put(target: Tensor, gathered: dict[int, Tensor], value: Tensor, *, accumulate: bool) -> Tensor:
    """Writes values at gathered places: straight into memory when no gradient and no recorder looks on."""
    check_memory(target, "index_put_")
    if mode.waiter is not None and mode.recorder is None and overlaps_itself(target._form):
        settle("memory is written where elements overlap")  # a write of all elements would not be the same
        with at_once():
            return put(target, gathered, value, accumulate=accumulate)
    tracked = (
        mode.recorder is not None
        or mode.waiter is not None
        or held(target) is not None
        or (mode.grad and (edge_of(target) is not None or edge_of(value) is not None))
    )
    mask = lone_mask(target, gathered)
    if mask is not None and value._form.size == 1 and not accumulate:
        value = value.reshape(()).to(target.dtype)
        if tracked:
            return call_inplace(fill_mask.op, (target, mask, value), {})
        np.copyto(target._data, value._data, where=mask._data)
    else:
        if mode.recorder is not None:
            check_order_is_known(gathered)
        dims, indices = unpack_masks(gathered)
        value = fitted(target, value, index_shape("index_put_", target._form.shape, indices, dims))
        attrs: dict[str, Any] = {"dims": dims, "accumulate": accumulate}
        if tracked:
            return call_inplace(index_put_op.op, (target, value, *indices), attrs)
        arrays = tuple(x._data for x in indices)
        write_places(target._data, value._data, arrays, **attrs)
    target.bump()
    return target


def overlaps_itself(data: np.ndarray) -> bool:
    """Whether two elements of an array may lie in the same place."""
    reach = data.itemsize
    for stride, extent in sorted(zip(map(abs, data.strides), data.shape)):
        if extent > 1:
            if stride < reach:
                return True
            reach += stride * (extent - 1)
    return False


def lone_mask(target: Tensor, gathered: dict[int, Tensor]) -> Tensor | None:
    """The mask, shaped to broadcast with the target, when it alone says where to write."""
    if len(gathered) != 1:
        return None
    ((dim, mask),) = gathered.items()
    if not is_mask(mask) or not mask._form.ndim:
        return None
    behind = target._form.ndim - dim - mask._form.ndim
    return mask.to(dtypes.bool_).reshape((*mask._form.shape, *[1] * behind))


def check_order_is_known(gathered: dict[int, Tensor]) -> None:
    """A recorded number amid gathered dimensions would be selected first, which reorders the shape."""
    dims = tuple(gathered)
    scattered = dims[-1] - dims[0] != len(dims) - 1
    if scattered and any(not places._form.ndim for places in gathered.values()):
        mode.recorder.refuse("index_put_")


def fitted(target: Tensor, value: Tensor, place: tuple[int, ...]) -> Tensor:
    """The value for places of this shape, or PyTorch's error when it does not fit."""
    if value._form.dtype != target._form.dtype:
        rule = "the source and destination dtypes must match"
        raise error(RuntimeError, "index_put_", rule, destination=target, source=value)
    value = drop_leading_ones(value, len(place))
    if not fits(value._form.shape, place):
        rule = (
            f"shape mismatch: value of shape {list(value._form.shape)} cannot be broadcast to {list(place)}"
        )
        raise error(RuntimeError, "index_put_", rule)
    return value


def fits(shape: tuple[int, ...], place: tuple[int, ...]) -> bool:
    """Whether a value of this shape broadcasts to the place without growing it."""
    lead = len(place) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, place[lead:], strict=True))


# The functions behind the brackets -------------------------------------------------------------------------


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Writes, or adds, `values` at the places that one index tensor per dimension names."""
    return put(self, gathered_by(self, indices), values, accumulate=accumulate)


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with `values` written at the places that one index tensor per dimension names."""
    check_tensor("index_put", input)
    gathered = gathered_by(input, indices)
    dims, places = unpack_masks(gathered)
    value = fitted(input, values, index_shape("index_put", input._form.shape, places, dims))
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
    if dim > self._form.ndim or not gathered:
        rule = f"a tensor of dimension {self._form.ndim} cannot be indexed by {len(indices)} tensors"
        raise error(IndexError, "index_put", rule, tensor=self)
    for place, item in gathered.items():
        check_mask(self, item, place)
    return gathered


FACES.append(
    Face(
        "index_put",
        index_put,
        ("",),
        True,
        index_put_,
        index_put_op.op,
        index_put_samples,
        index_put_op.op.vjp,
    )
)
