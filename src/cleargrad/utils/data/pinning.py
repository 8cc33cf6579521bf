"""Batches in pinned memory, from which a GPU copies by itself while the training loop goes on.

Read next: utils/data/iterators.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from cleargrad.core import device as devices
from cleargrad.core.tensor import Tensor
from cleargrad.utils.data.collate import is_namedtuple, mapping_like, sequence_like


def pin_memory(data: Any, device: Any = None) -> Any:
    """A batch with all of its tensors pinned; what has a method `pin_memory` of its own is asked."""
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Tensor):
        return data.pin_memory()
    if isinstance(data, Mapping):
        return mapping_like(data, {key: pin_memory(data[key]) for key in data})
    if is_namedtuple(data):
        return type(data)(*map(pin_memory, data))
    if isinstance(data, Sequence):
        return sequence_like(data, list(map(pin_memory, data)))
    own = getattr(data, "pin_memory", None)
    return data if own is None else own()


def pins(loader: Any) -> bool:
    """Whether batches are to be pinned; without a GPU that does nothing, and a warning says so."""
    if not loader.pin_memory:
        return False
    if loader.pin_memory_device:
        words = (
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'."
        )
        warnings.warn(words, stacklevel=5)
    if devices.is_usable("cuda"):
        return True
    words = (
        "'pin_memory' argument is set as true but no accelerator is found, "
        "then device pinned memory won't be used."
    )
    warnings.warn(words, stacklevel=5)
    return False
