"""torch.storage: the memory behind tensors, for programs that ask who shares it, and for checkpoints.

A tensor's storage is the memory of the tensor it is a view of, or the `Memory` that a file was read into.
Read next: serialization/__init__.py.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from cleargrad.autograd.node import strides_of
from cleargrad.core import device as devices
from cleargrad.core.address import address
from cleargrad.core.dtype import OF_NUMPY, dtype
from cleargrad.core.mode import settle
from cleargrad.core.tensor import Tensor, held, note_lent, place_of
from cleargrad.tensor import method

BYTE = np.dtype(np.uint8)


class Memory(np.ndarray):
    """Bytes that several tensors were read from a file into; it marks what they share."""


def memory_of(tensor: Tensor) -> np.ndarray:
    """The bytes of a tensor's storage, as an array on the same memory; elsewhere than on the CPU, their layout."""
    if held(tensor) is not None:
        return spanned((tensor if tensor._base is None else tensor._base)._form)
    data = tensor._data
    found: Any = data
    while isinstance(found, np.ndarray):
        if type(found) is Memory:
            return found.view(np.ndarray)
        found = found.base
    owner = data if tensor._base is None else tensor._base._data
    room = None if tensor._ver is None else tensor._ver[3]
    shared = None if room is None or room.whole is None else room.whole._data
    memory = spanned(owner if shared is None or not lies_in(owner, shared) else shared)
    settle()
    note_lent(memory, memory)
    return memory


def lies_in(data: np.ndarray, memory: np.ndarray) -> bool:
    """Whether an array is a part of another one's memory; a tensor that was given other memory is not."""
    (low, high), (begin, end) = byte_bounds(data), byte_bounds(memory)
    return begin <= low and high <= end


def spanned(data: np.ndarray) -> np.ndarray:
    """All bytes between the first and the last element of an array whose strides are not negative."""
    if data.flags.c_contiguous:
        return data.reshape(-1).view(BYTE)
    if not data.size:
        return np.empty(0, BYTE)
    count = 1 + sum((n - 1) * step for n, step in zip(data.shape, strides_of(data), strict=True))
    return np.lib.stride_tricks.as_strided(data, (count,), (data.itemsize,)).view(BYTE)


def offset_of(tensor: Tensor, memory: np.ndarray) -> int:
    """How many elements lie before a tensor's first one in its storage."""
    if not tensor._form.size:
        return 0
    data = tensor._data if held(tensor) is None else tensor._form
    return (address(data) - address(memory)) // data.itemsize


class UntypedStorage:
    """A storage as bytes."""

    def __init__(self, memory: np.ndarray, device: devices.device = devices.CPU):
        self._memory = memory
        self._values = memory
        self._device = device

    @property
    def device(self) -> devices.device:
        return self._device

    def nbytes(self) -> int:
        return self._memory.nbytes

    def size(self) -> int:
        return self._values.size

    def __len__(self) -> int:
        return self._values.size

    def data_ptr(self) -> int:
        return address(self._memory) if self._memory.size else 0

    _cdata = property(data_ptr)

    def element_size(self) -> int:
        return self._values.itemsize

    def tolist(self) -> list:
        return self._values.tolist()

    def __getitem__(self, index: int | slice) -> Any:
        """An element, or the part of the storage that a slice names, on the same memory."""
        if isinstance(index, slice):
            return self._with(self._values[index].view(BYTE))
        return self._values[index].item()

    def _with(self, memory: np.ndarray) -> UntypedStorage:
        return UntypedStorage(memory)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values[index] = value

    def __iter__(self) -> Any:
        return iter(self._values.tolist())

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._values.__array_interface__

    def cpu(self) -> UntypedStorage:
        return self

    def untyped(self) -> UntypedStorage:
        return UntypedStorage(self._memory)

    @classmethod
    def from_file(cls, filename: str | os.PathLike, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a file, mapped into memory; what is written to them reaches the file if it is shared."""
        if shared:
            with open(filename, "ab") as file:  # a file that is too short grows
                file.truncate(max(nbytes, os.path.getsize(filename)))
        count = nbytes or os.path.getsize(filename)
        mapped = (
            np.memmap(filename, BYTE, "r+" if shared else "c", shape=(count,)) if count else np.empty(0, BYTE)
        )
        return UntypedStorage(mapped.view(Memory))


class TypedStorage(UntypedStorage):
    """A storage as elements of one dtype."""

    def __init__(self, memory: np.ndarray, dtype: dtype, device: devices.device = devices.CPU):
        super().__init__(memory, device)
        self.dtype = dtype
        self._values = memory.view(dtype.numpy)

    def _with(self, memory: np.ndarray) -> TypedStorage:
        return TypedStorage(memory, self.dtype)


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory behind the tensor, shared with its views."""
    return UntypedStorage(memory_of(self), place_of(self))


@method
def storage(self: Tensor) -> TypedStorage:
    """The memory behind the tensor, as elements of its dtype."""
    return TypedStorage(memory_of(self), OF_NUMPY[self._form.dtype], place_of(self))


@method
def storage_offset(self: Tensor) -> int:
    return offset_of(self, memory_of(self))
