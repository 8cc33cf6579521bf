"""Reading an index: what stands between the brackets, taken apart by PyTorch's rules.

In comes anything a user may write as an index; out goes its basic part, as NumPy takes it, and the tensors
that gather, by the dimension of the basic part's result they stand in. Read next: ops/places.py.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.device import on_host
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor, held, value_in, wrap, wrap_beside
from cleargrad.errors import error
from cleargrad.ops import creation

FULL = slice(None)
BOUNDS = (int, type(None))
MASKS = {np.dtype(np.bool_), np.dtype(np.uint8)}
INDEX_KINDS = {*MASKS, np.dtype(np.int64), np.dtype(np.int32)}


def plain_index(index: Any) -> tuple[tuple | None, Any]:
    """An index of plain numbers, slices, None and ... as NumPy takes it, and the last item that matters.

    (None, FULL) for all other indices; (key, FULL) for those that leave out nothing.
    """
    last: Any = FULL
    dots = False
    items = index if type(index) is tuple else (index,)
    for item in items:
        kind = type(item)
        if kind is int or item is None:
            last = item
        elif kind is slice:
            start, stop, step = item.start, item.stop, item.step
            if start is None and stop is None and step is None:
                continue
            if (
                type(start) not in BOUNDS
                or type(stop) not in BOUNDS
                or type(step) not in BOUNDS
                or (step and step < 0)
            ):
                return None, FULL
            last = item
        elif item is ... and not dots:
            dots = True
        else:
            return None, FULL
    return items if dots else (*items, ...), last


def split_index(self: Tensor, index: Any) -> tuple[tuple, dict[int, Tensor]]:
    """The basic part as a NumPy index, and for each dimension of its result the tensor that gathers there."""
    shape = self._form.shape
    basic: list = []
    gathered: dict[int, Tensor] = {}
    dim = source = 0  # dimensions of the basic part's result, and of self
    for item in spread_ellipsis(self, [as_item(item) for item in items_of(index)]):
        if isinstance(item, Tensor):
            if held(item) is None and held(self) is not None:
                item = wrap_beside(item._data, self)  # PyTorch takes them from the CPU as well
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
    if isinstance(index, list) and len(index) < 32 and any(map(is_more_than_a_number, index)):
        return index.copy()
    return [index]


def is_more_than_a_number(item: Any) -> bool:
    return item is None or item is ... or isinstance(item, (Tensor, slice, list, tuple, range, str))


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
        kind = item._form.dtype
        if item._form.ndim == 0 and kind.kind in "iu" and kind != np.uint8 and mode.recorder is None:
            return int(item)
        check_index_kind(item)
        return item
    of_numpy = isinstance(item, np.generic)
    if isinstance(item, np.integer) or (not of_numpy and hasattr(type(item), "__index__")):
        return item.__index__()
    rule = (
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(item).__name__})"
    )
    raise error(IndexError, "index", rule)


def check_index_kind(item: Tensor) -> None:
    if item._form.dtype not in INDEX_KINDS:
        rule = "tensors used as indices must be long, int, byte or bool tensors"
        raise error(IndexError, "index", rule, index=item)


def as_index_tensor(item: Any) -> Tensor:
    """A sequence as an index: booleans are a mask, all other numbers become int64."""
    found = creation.as_tensor(list(item) if isinstance(item, range) else item)
    if found._form.dtype in INDEX_KINDS:
        return found
    return found.to(dtypes.int64)


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
        return item._form.ndim
    return int(item is not None and item is not ...)


def is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item._form.dtype in MASKS


def spread_ellipsis(self: Tensor, items: list) -> list:
    used = sum(map(dims_used, items))
    rank = self._form.ndim
    if used > rank:
        rule = f"too many indices for tensor of dimension {rank}"
        raise error(
            IndexError, "index", rule, tensor=self, fix="use item() for the number" if not rank else None
        )
    first = next((k for k, item in enumerate(items) if item is ...), None)
    if first is None:
        return items
    spread = [*items[:first], *[FULL] * (rank - used), *items[first + 1 :]]
    return [item for item in spread if item is not ...]


def check_number(self: Tensor, number: int, dim: int) -> None:
    extent = self._form.shape[dim]
    if not -extent <= number < extent:
        rule = f"index {number} is out of bounds for dimension {dim} with size {extent}"
        raise error(IndexError, "index", rule, tensor=self)


def check_mask(self: Tensor, item: Tensor, dim: int) -> None:
    """Refuses a mask that does not have the shape of the dimensions it covers."""
    if not is_mask(item):
        return
    if item._form.dtype == np.uint8:
        rule = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
        warnings.warn(rule, UserWarning, stacklevel=2)
    shape, mask = self._form.shape, item._form.shape
    if shape[dim : dim + len(mask)] != mask:
        rule = (
            f"the shape of the mask {list(mask)} at index {dim} does not match the shape of the indexed "
            f"tensor {list(shape)} at index {dim}"
        )
        raise error(IndexError, "index", rule)


def unpack_masks(gathered: dict[int, Tensor]) -> tuple[tuple[int, ...], tuple[Tensor, ...]]:
    """Dimensions and index tensors; a mask stands for the tensors of its true places, one per dimension."""
    dims: list[int] = []
    indices: list[Tensor] = []
    for dim, places in gathered.items():
        if is_mask(places):
            if mode.recorder is not None:
                mode.recorder.refuse("index")
            mask = on_host(value_in(places))
            found = np.nonzero(mask) if mask.ndim else (np.zeros(1 if mask else 0, np.int64),)
            indices += [wrap_beside(place, places) for place in found]
            dims += range(dim, dim + len(found))
        else:
            indices.append(places)
            dims.append(dim)
    return tuple(dims), tuple(indices)
