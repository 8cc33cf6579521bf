"""Samples into batches: tensors, arrays and numbers are stacked, containers keep their kind.

Read next: utils/data/fetch.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.core.device import CPU
from cleargrad.core.dtype import float64
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor, place_of, wrap
from cleargrad.errors import error
from cleargrad.ops.creation import as_tensor, tensor
from cleargrad.ops.joining import run_stack, stack

NOT_NUMBERS = "SUO"  # NumPy's kinds for strings and objects
CollateMap = dict[type | tuple[type, ...], Callable]


def default_convert(data: Any) -> Any:
    """One sample with its arrays as tensors; all else stays."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)) and type(data).__module__ == "numpy":
        if isinstance(data, np.str_) or (isinstance(data, np.ndarray) and data.dtype.kind in NOT_NUMBERS):
            return data
        return as_tensor(data)
    if isinstance(data, Mapping):
        return mapping_like(data, {key: default_convert(data[key]) for key in data})
    if is_namedtuple(data):
        return type(data)(*map(default_convert, data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return sequence_like(data, list(map(default_convert, data)))
    return data


def default_collate(batch: list) -> Any:
    """A list of samples as one batch, whose tensors have a new first dimension."""
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence, *, collate_fn_map: CollateMap | None = None) -> Any:
    """A list of samples as one batch; `collate_fn_map` says by type how elements are joined."""
    first = batch[0]
    join = joiner_of(first, collate_fn_map or {})
    if join is not None:
        return join(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        joined = {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in first}
        return mapping_like(first, joined)
    if isinstance(first, Sequence):
        if not is_namedtuple(first):
            check_lengths(batch)
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
        return type(first)(*columns) if is_namedtuple(first) else sequence_like(first, columns)
    raise collate_error(type(first))


def joiner_of(element: Any, functions: CollateMap) -> Callable | None:
    """The function for an element: its own type's, else that of the first type it is an instance of."""
    if type(element) in functions:
        return functions[type(element)]
    return next((join for kind, join in functions.items() if isinstance(element, kind)), None)


def check_lengths(batch: Sequence) -> None:
    lengths = list(map(len, batch))
    if any(length != lengths[0] for length in lengths):
        rule = "each element in list of batch should be of equal size"
        raise error(RuntimeError, "default_collate", rule, lengths=lengths)


def collate_error(found: Any) -> Exception:
    rule = f"batch must contain tensors, numpy arrays, numbers, dicts or lists; found {found}"
    return error(TypeError, "default_collate", rule, fix="pass a collate_fn of your own")


# Containers of the same kind -------------------------------------------------------------------------------
#
# A container may have properties of its own, so a mutable one is copied and filled; one that cannot be made
# in any of these ways becomes a plain dict or list.


def is_namedtuple(data: Any) -> bool:
    return isinstance(data, tuple) and getattr(data, "_fields", None) is not None


def mapping_like(example: Any, items: dict) -> Any:
    try:
        if not isinstance(example, MutableMapping):
            return type(example)(items)
        clone = copy(example)
        clone.update(items)
        return clone
    except TypeError:
        return items


def sequence_like(example: Any, items: list) -> Any:
    if type(example) is list or isinstance(example, tuple):  # PyTorch makes a list of a tuple
        return items
    try:
        if not isinstance(example, MutableSequence):
            return type(example)(items)
        clone = copy(example)
        for position, item in enumerate(items):
            clone[position] = item
        return clone
    except TypeError:
        return items


# Elements --------------------------------------------------------------------------------------------------


def collate_tensor_fn(batch: list, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    # Samples rarely have a history; without one the kernel is enough. What it refuses, stack explains.
    plain = mode.recorder is None and set(map(type, batch)) == {Tensor} and not any(map(edge_of, batch))
    if plain and all(place_of(sample) is CPU for sample in batch):
        with suppress(ValueError):
            return wrap(run_stack(*[sample._data for sample in batch], dim=0))
    return stack(batch, 0)


def collate_numpy_array_fn(batch: list, *, collate_fn_map: CollateMap | None = None) -> Any:
    if batch[0].dtype.kind in NOT_NUMBERS:
        raise collate_error(batch[0].dtype)
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: list, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return as_tensor(np.array(batch))


def collate_float_fn(batch: list, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: list, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return tensor(batch)


def collate_str_fn(batch: list, *, collate_fn_map: CollateMap | None = None) -> list:
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
