"""Tensors in memory that several processes see: what one writes, the others read.

The memory comes from multiprocessing's own heap, which knows how to hand itself to another process, forked or
spawned. `share` moves a tensor there; `register` teaches multiprocessing to send such a tensor by reference.
Read next: multiprocessing/spawn.py.
"""

from __future__ import annotations

from multiprocessing.heap import BufferWrapper
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of, make_leaf
from cleargrad.core.address import address
from cleargrad.core.mode import settle
from cleargrad.core.tensor import Tensor, room_of, wrap
from cleargrad.nn.parameter import Parameter


class SharedArray(np.ndarray):
    """The bytes of a tensor in shared memory; it keeps that memory alive."""

    wrapper: BufferWrapper | None = None


def bytes_of(wrapper: BufferWrapper, count: int) -> SharedArray:
    memory = np.frombuffer(wrapper.create_memoryview(), np.uint8, count).view(SharedArray)
    memory.wrapper = wrapper
    return memory


def shared_memory(data: np.ndarray) -> SharedArray | None:
    """The shared memory that an array lies in, if it does."""
    found: Any = data
    while isinstance(found, np.ndarray):
        if isinstance(found, SharedArray) and found.wrapper is not None:
            return found
        found = found.base
    return None


def share(tensor: Tensor) -> Tensor:
    """Moves a tensor's memory to where other processes can see it."""
    settle()
    data = tensor._data
    if shared_memory(data) is None and data.size:
        memory = bytes_of(BufferWrapper(data.nbytes), data.nbytes)
        placed = np.asarray(memory.view(data.dtype)).reshape(data.shape)
        placed[...] = data
        room_of(tensor).known = False
        tensor._data = tensor._form = placed
    return tensor


def rebuild(
    kind: type, wrapper: BufferWrapper, count: int, offset: int, dtype: np.dtype, shape: tuple, strides: tuple,
    requires_grad: bool,
) -> Tensor:  # fmt: skip
    """A tensor on the shared memory of another process."""
    memory = bytes_of(wrapper, count)
    data = np.ndarray(shape, dtype, memory, offset, strides)
    tensor = wrap(data) if kind is not Parameter else Parameter(wrap(data), requires_grad)
    if requires_grad and kind is not Parameter:
        make_leaf(tensor)
    return tensor if kind in (Tensor, Parameter) else tensor.as_subclass(kind)


def reduce(tensor: Tensor) -> tuple:
    """How multiprocessing sends a tensor: by reference when its memory is shared, else by its values."""
    data = tensor._data
    memory = shared_memory(data)
    if memory is None:
        return tuple(tensor.__reduce_ex__(2))
    offset = address(data) - address(memory)
    facts = (memory.size, offset, data.dtype, data.shape, data.strides, edge_of(tensor) is not None)
    return rebuild, (type(tensor), memory.wrapper, *facts)


def register() -> None:
    for kind in (Tensor, Parameter):
        ForkingPickler.register(kind, reduce)
