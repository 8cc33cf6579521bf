"""Pickles as PyTorch writes them: objects go in; bytes, and the storages that they refer to, come out.

Tensors are written as calls of PyTorch's own rebuilding functions, by name, so that PyTorch can read them. Read
next: serialization/unpickling.py.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from types import FunctionType
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of, strides_of
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.address import address
from cleargrad.core.device import on_host
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor, held, place_of, value_in, wrap
from cleargrad.errors import error
from cleargrad.nn.parameter import Buffer, Parameter, is_lazy
from cleargrad.serialization import names
from cleargrad.serialization.names import Name
from cleargrad.storage import memory_of, offset_of


class Stored:
    """A storage that a tensor refers to; the pickle holds its number, the archive its bytes."""

    def __init__(self, key: str, memory: np.ndarray, kind: dtypes.dtype, place: devices.device):
        self.key, self.memory, self.kind, self.place = key, memory, kind, place

    def identity(self) -> tuple:
        elements = self.memory.nbytes // self.kind.itemsize
        return "storage", names.STORAGE[self.kind], self.key, str(self.place), elements


# The pickler in Python, not the one in C: that one imports every name it writes, to check it.
class Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Writes a pickle and collects storages in `stored`."""

    dispatch = pickle._Pickler.dispatch.copy()  # type: ignore[attr-defined]

    def __init__(self, stream: Any, protocol: int):
        super().__init__(stream, protocol)
        self.stored: dict[tuple, Stored] = {}
        self.fetched: dict[int, tuple[Tensor, np.ndarray]] = {}  # copies of what lies on other devices

    def persistent_id(self, thing: Any) -> tuple | None:
        return thing.identity() if type(thing) is Stored else None

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Tensor) and not is_lazy(thing):
            return self.reduce_tensor(thing)
        if isinstance(thing, devices.device):
            return names.DEVICE, (thing.type,) if thing.index is None else (thing.type, thing.index)
        return (names.SIZE, (tuple(thing),)) if type(thing) is Size else NotImplemented

    def reduce_tensor(self, tensor: Tensor) -> tuple:
        kind, state = type(tensor), tensor.__dict__
        if kind is Parameter:
            data = Call(*self.rebuilding(tensor, False))
            parts: tuple = (data, tensor.requires_grad, OrderedDict())
            if state:
                return names.REBUILD_PARAMETER_WITH_STATE, (*parts, dict(state))
            return names.REBUILD_PARAMETER, parts
        function, arguments = self.rebuilding(tensor, edge_of(tensor) is not None)
        if kind is Buffer or (kind is Tensor and not state):
            return function, arguments
        cls = names.TENSOR if kind is Tensor else kind
        return names.REBUILD_FROM_TYPE, (function, cls, arguments, dict(state))

    def rebuilding(self, tensor: Tensor, requires_grad: bool) -> tuple[Name, tuple]:
        """PyTorch's rebuilding function, and its arguments: storage, offset, size, strides and so on."""
        place, form = held(tensor), tensor._form
        if place is not None and not place.driver.has_values:
            kind = dtypes.OF_NUMPY[form.dtype]
            return names.REBUILD_META, (kind, tuple(form.shape), strides_of(form), requires_grad)
        arguments = self.geometry(tensor if place is None else self.on_host(tensor), place_of(tensor))
        return names.REBUILD_TENSOR, (*arguments, requires_grad, OrderedDict())

    def on_host(self, tensor: Tensor) -> Tensor:
        """A tensor like one that lies on another device; those that share memory there share it here."""
        owner = tensor if tensor._base is None else tensor._base
        known = self.fetched.get(id(owner))
        if known is None:
            known = self.fetched[id(owner)] = (owner, on_host(value_in(owner)))
        whole = wrap(known[1])
        if owner is tensor:
            return whole
        if known[1].strides != owner._form.strides:  # it is no copy of the memory, but of its elements
            return wrap(on_host(value_in(tensor)))
        offset = (address(tensor._form) - address(owner._form)) // owner._form.itemsize
        return whole.as_strided(tensor._form.shape, strides_of(tensor._form), offset)  # type: ignore[attr-defined]

    def geometry(self, tensor: Tensor, place: devices.device) -> tuple:
        """Storage, offset, size and strides."""
        data = tensor._data
        if any(step < 0 or step % data.itemsize for step in data.strides):
            memory, offset = np.ascontiguousarray(data), 0
            strides = strides_of(memory)
            memory = memory.reshape(-1).view(np.uint8)
        else:
            memory, strides = memory_of(tensor), strides_of(data)
            offset = offset_of(tensor, memory)
        return self.storage(memory, dtypes.OF_NUMPY[data.dtype], place), offset, tuple(data.shape), strides

    def storage(self, memory: np.ndarray, kind: dtypes.dtype, place: devices.device) -> Stored:
        span = (address(memory), memory.nbytes) if memory.size else (id(memory), 0)
        found = self.stored.get(span)
        if found is None:
            found = self.stored[span] = Stored(str(len(self.stored)), memory, kind, place)
        elif found.kind is not kind:
            rule = "Cannot save multiple tensors or storages that view the same data as different types"
            raise error(RuntimeError, "save", rule, one=found.kind, other=kind, fix="clone() one of them")
        return found

    def save_name(self, name: Name) -> None:
        self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode())
        self.memoize(name)

    def save_dtype(self, kind: dtypes.dtype) -> None:
        self.save(names.DTYPE[kind])

    def save_function(self, function: Any) -> None:
        name = names.function_name(function)
        if name is None:
            self.save_global(function)
        else:
            self.save_name(name)

    def save_call(self, call: Call) -> None:
        self.save_reduce(call.function, call.arguments)

    dispatch[Name] = save_name  # type: ignore[assignment]
    dispatch[dtypes.dtype] = save_dtype  # type: ignore[assignment]
    dispatch[FunctionType] = save_function  # type: ignore[assignment]


class Call:
    """A rebuilding call inside the arguments of another."""

    def __init__(self, function: Name, arguments: tuple):
        self.function, self.arguments = function, arguments


Pickler.dispatch[Call] = Pickler.save_call  # type: ignore[assignment]


def dump(thing: Any, protocol: int) -> tuple[bytes, list[Stored]]:
    """The pickle of an object, and the storages of its tensors in the order of their numbers."""
    stream = io.BytesIO()
    pickler = Pickler(stream, protocol)
    pickler.dump(thing)
    return stream.getvalue(), list(pickler.stored.values())
