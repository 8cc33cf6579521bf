"""Tensors from what a checkpoint says of them: storage, offset, size, strides, requires_grad.

Everything is checked against the storage, since a file may say anything. Read next:
serialization/loading.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.device import Held
from cleargrad.core.tensor import Tensor, wrap_any
from cleargrad.nn.parameter import Parameter
from cleargrad.storage import Memory


class Loaded:
    """A storage of the file: its bytes, the dtype that the pickle gives it, and the device that it goes to."""

    def __init__(self, memory: Memory, kind: dtypes.dtype, device: devices.device):
        self.memory, self.kind, self.device = memory, kind, device
        self.moved: dict[tuple, Held] = {}  # what lies there, by its geometry

    def there(self, data: np.ndarray, geometry: tuple) -> np.ndarray | Held:
        """A tensor's value on the device; tensors that are the same there share their memory."""
        if self.device == devices.CPU:
            return data
        if geometry not in self.moved:
            self.moved[geometry] = devices.on_device(data, self.device)  # type: ignore[assignment]
        return self.moved[geometry]


def rebuild_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    backward_hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(storage, Loaded):
        raise ValueError("a tensor without a storage")
    return build(storage, storage.kind, offset, size, stride, requires_grad, metadata)


def rebuild_tensor_of_dtype(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(storage, Loaded) or not isinstance(dtype, dtypes.dtype):
        raise ValueError("a tensor without a storage or a dtype")
    return build(storage, dtype, offset, size, stride, requires_grad, metadata)


def build(
    storage: Loaded,
    kind: dtypes.dtype,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    metadata: Any,
) -> Tensor:
    numbers = [offset, *size, *stride]
    if len(size) != len(stride) or not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
        raise ValueError("a tensor's geometry is no list of natural numbers")
    elements = storage.memory.nbytes // kind.itemsize
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 not in size and last >= elements:
        raise ValueError(f"a tensor of size {list(size)} reaches beyond its storage of {elements} elements")
    if 0 in size:
        data = np.empty(size, kind.numpy)
    else:
        steps = [step * kind.itemsize for step in stride]
        data = np.ndarray(size, kind.numpy, storage.memory, offset * kind.itemsize, steps)
    if isinstance(metadata, dict) and metadata.get("conj"):
        data = np.conj(data)
    if isinstance(metadata, dict) and metadata.get("neg"):
        data = np.negative(data)
    tensor = wrap_any(storage.there(data, (kind, offset, *size, *stride)))
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def rebuild_meta(kind: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    """A tensor without values."""
    if not isinstance(kind, dtypes.dtype) or not all(type(n) is int and n >= 0 for n in (*size, *stride)):
        raise ValueError("a tensor's geometry is no list of natural numbers")
    steps = tuple(step * kind.itemsize for step in stride)
    tensor = wrap_any(devices.empty_on(devices.device("meta"), tuple(size), kind.numpy, steps))
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any, state: Any = None) -> Parameter:
    if not isinstance(data, Tensor):
        raise ValueError("a parameter without a tensor")
    parameter = Parameter(data, bool(requires_grad))
    keep(parameter, state)
    return parameter


def rebuild_from_type(function: Callable, kind: Any, arguments: Any, state: Any) -> Tensor:
    """A tensor of a subclass, or one with attributes of its own."""
    if function not in (rebuild_tensor, rebuild_tensor_of_dtype, rebuild_meta) or not isinstance(kind, type):
        raise ValueError("a tensor is made by a function that is not one for tensors")
    tensor = function(*arguments)
    if kind is not Tensor:
        if not issubclass(kind, Tensor):
            raise ValueError(f"{kind.__name__} is no class of tensors")
        tensor = tensor.as_subclass(kind)
    keep(tensor, state)
    return tensor


def keep(tensor: Tensor, state: Any) -> None:
    """Sets the attributes that a program had given a tensor."""
    if state is None:
        return
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise ValueError("a tensor's attributes are no dict of names")
    for name in state:
        if name in dir(Tensor):
            raise ValueError(f"{name!r} is no attribute that a program can have given a tensor")
    tensor.__dict__.update(state)
