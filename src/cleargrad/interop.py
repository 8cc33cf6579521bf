"""Tensors and the rest of Python: numbers, lists, NumPy, DLPack, pickling and copying.

Read next: __init__.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of, geometry, is_leaf
from cleargrad.core import device as devices
from cleargrad.core.device import Held, on_host
from cleargrad.core.mode import mode, settle
from cleargrad.core.tensor import Tensor, cell_of, held, lend, put, room_of, value_in
from cleargrad.errors import error
from cleargrad.ops.apply import NUMBERS
from cleargrad.ops.creation import factory, finish, from_numpy
from cleargrad.ops.strides import run_window
from cleargrad.tensor import method


def seen(self: Tensor, name: str) -> np.ndarray:
    """The value of a tensor, copied to the CPU if it is elsewhere."""
    if mode.recorder is not None:
        mode.recorder.refuse(name)
    place = held(self)
    if place is None:
        return self._data
    if not place.driver.has_values:
        raise error(RuntimeError, name, f"Tensor.item() cannot be called on {place.place.type} tensors")
    return on_host(place)


@method
def item(self: Tensor) -> Any:
    """The value of a one-element tensor as a Python number."""
    if mode.recorder is not None:
        mode.recorder.refuse("item")
    if self._form.size != 1:
        rule = f"a Tensor with {self._form.size} elements cannot be converted to Scalar"
        raise error(RuntimeError, "item", rule, tensor=self)
    return number_of(seen(self, "item"))


def number_of(data: np.ndarray) -> Any:
    """The one element of an array as a Python number."""
    return float(data.item()) if data.dtype.kind == "V" else data.item()


@method
def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers."""
    if mode.recorder is not None:
        mode.recorder.refuse("tolist")
    data = on_host(value_in(self))
    return (data.astype(np.float32) if data.dtype.kind == "V" else data).tolist()


@method
def __bool__(self: Tensor) -> bool:
    if mode.recorder is not None:
        mode.recorder.refuse("bool")
    if self._form.size != 1:
        count = self._form.size
        which = "no values" if count == 0 else "more than one value"
        raise error(RuntimeError, "bool", f"Boolean value of Tensor with {which} is ambiguous", tensor=self)
    return bool(seen(self, "bool"))


def converted(self: Tensor, kind: Callable) -> Any:
    """A one-element tensor as a Python number of a certain kind."""
    if self._form.size != 1:
        rule = "only one element tensors can be converted to Python scalars"
        raise error(ValueError, kind.__name__, rule, tensor=self)
    value = number_of(seen(self, kind.__name__))
    if isinstance(value, complex) and kind is not complex:
        if value.imag:
            raise error(
                RuntimeError, kind.__name__, f"{value} has an imaginary part", fix="take .real or .abs()"
            )
        value = value.real
    return kind(value)


@method
def __float__(self: Tensor) -> float:
    return converted(self, float)


@method
def __int__(self: Tensor) -> int:
    return converted(self, int)


@method
def __complex__(self: Tensor) -> complex:
    return converted(self, complex)


@method
def __contains__(self: Tensor, element: Any) -> bool:
    """Whether any element equals the given one."""
    if not isinstance(element, (Tensor, *NUMBERS)):
        rule = f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}"
        raise error(RuntimeError, "in", rule)
    return bool((self == element).any())


@method
def __delitem__(self: Tensor, index: Any) -> None:
    raise error(TypeError, "del", "Tensor does not support deleting items", fix="select what is to stay")


@method
def __index__(self: Tensor) -> int:
    if self._form.dtype.kind not in "iub" or self._form.size != 1:
        rule = "only integer tensors of a single element can be converted to an index"
        raise error(TypeError, "index", rule, tensor=self)
    return converted(self, int)


@method
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The tensor as an array on the same memory."""
    if mode.recorder is not None:
        mode.recorder.refuse("numpy")
    if edge_of(self) is not None and not force:
        rule = "Can't call numpy() on Tensor that requires grad."
        raise error(RuntimeError, "numpy", rule, fix="use tensor.detach().numpy()")
    if (place := held(self)) is not None:
        if force:
            return on_host(value_in(self))
        rule = f"can't convert {place.place} device type tensor to numpy"
        values = place.driver.has_values
        fix = (
            "use tensor.cpu() to copy it to the CPU first"
            if values
            else "it has no values that could be seen"
        )
        raise error(TypeError, "numpy", rule, fix=fix)
    settle()
    return lend(self)


@method
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    data = numpy(self)
    if dtype is not None and data.dtype != dtype:
        if copy is False:
            raise error(
                ValueError, "__array__", f"a copy is needed to convert {self.dtype} to {dtype}", tensor=self
            )
        return data.astype(dtype)
    return data.copy() if copy else data


@method
def __array_wrap__(
    self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """The result of a NumPy function on tensors, as a tensor."""
    return from_numpy(np.asarray(array))


Tensor.__array_priority__ = 1000


@method
def __dlpack__(self: Tensor, **kwargs: Any) -> Any:
    if edge_of(self) is not None:
        rule = "can't export tensors that require gradient, use tensor.detach()"
        raise error(BufferError, "__dlpack__", rule)
    settle()
    return lend(self).__dlpack__(**{name: value for name, value in kwargs.items() if value is not None})


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    return self._data.__dlpack_device__()


@factory
def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor on memory that another library shares through DLPack."""
    array = np.from_dlpack(ext_tensor)
    if not array.flags.writeable:
        # NumPy marks imported memory read-only unless the exporter says otherwise; PyTorch's is writeable.
        array = writeable(array)
    return from_numpy(array)


def writeable(array: np.ndarray) -> np.ndarray:
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0], False)

    class Holder:
        __array_interface__ = interface
        keeps = array

    return np.asarray(Holder())


# Copying and pickling --------------------------------------------------------------------------------------


def rebuild(kind: type, data: np.ndarray | Held, requires_grad: bool, grad: Any, extra: dict) -> Tensor:
    place = data.place if type(data) is Held else devices.CPU
    tensor = finish(data, requires_grad, device=place)
    if kind is not Tensor:
        tensor = tensor.as_subclass(kind)
    tensor._grad = grad
    tensor.__dict__.update(extra)
    return tensor


@method
def __reduce_ex__(self: Tensor, protocol: int) -> tuple:
    # What is not a leaf becomes one: a graph cannot be written down.
    return rebuild, (type(self), value_in(self), edge_of(self) is not None, None, dict(self.__dict__))


def copied_memory(tensor: Tensor, memo: dict) -> np.ndarray:
    """A copy of a tensor's memory; what shared memory before shares its copy."""
    owner = tensor if tensor._base is None else tensor._base
    if held(tensor) is not None:
        return value_in(tensor.detach().clone())  # type: ignore[attr-defined]
    key = id(owner._data)
    whole = memo.get(key)
    if whole is None:
        whole = memo[key] = owner._data.copy(order="K")
        memo.setdefault(id(memo), []).append(owner._data)  # so that the key is not used again
    if tensor._base is None:
        return whole
    if whole.strides != owner._form.strides:
        return tensor._data.copy(order="K")
    return run_window(whole, **geometry(tensor, tensor._base))


@method
def __deepcopy__(self: Tensor, memo: dict) -> Tensor:
    from copy import deepcopy

    if id(self) in memo:
        return memo[id(self)]
    if not is_leaf(self):
        rule = (
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
            "at the moment"
        )
        raise error(RuntimeError, "deepcopy", rule, fix="deep-copy tensor.detach()", tensor=self)
    grad = None if self._grad is None else deepcopy(self._grad, memo)
    copy = rebuild(type(self), copied_memory(self, memo), edge_of(self) is not None, grad, {})
    memo[id(self)] = copy
    copy.__dict__.update(deepcopy(self.__dict__, memo))
    return copy


@method
def as_subclass(self: Tensor, cls: type[Tensor]) -> Tensor:
    """The same tensor record under a subclass of Tensor."""
    other = cls.__new__(cls) if cls.__new__ is object.__new__ else object.__new__(cls)
    put(other, value_in(self))
    other._edge, other._grad = self._edge, self._grad
    other._ver, other._base = cell_of(self), self._base
    room_of(self).add(other)
    if self._base is not None:
        other._seen, other._caution = self._seen, self._caution
    from cleargrad.autograd.node import AccumulateGrad, make_leaf

    if type(self._edge) is AccumulateGrad:
        make_leaf(other)
    return other
