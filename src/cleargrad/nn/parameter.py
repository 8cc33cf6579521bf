"""Tensors that a module owns: parameters, which are trained, and buffers, which are only kept.

Read next: nn/module.py.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from cleargrad.autograd.node import make_leaf
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor, cell_of, put, room_of, value_in, wrap
from cleargrad.errors import error
from cleargrad.interop import copied_memory, rebuild
from cleargrad.ops.creation import empty
from cleargrad.tensor import text_of


def share(cls: type[Tensor], data: Any) -> Tensor:
    """A leaf of class `cls` on the memory of another tensor."""
    if data is None:
        data = wrap(np.empty((0,), dtypes.get_default_dtype().numpy))
    if not isinstance(data, Tensor):
        rule = f"expected a Tensor, but {type(data).__name__!r} object has no attribute 'detach'"
        raise error(AttributeError, cls.__name__, rule, fix="wrap the values in torch.tensor(...)")
    other: Tensor = object.__new__(cls)
    put(other, value_in(data))
    other._edge = other._grad = other._base = None
    other._ver = cell_of(data)
    room_of(data).add(other)
    return other


class Parameter(Tensor):
    """A tensor that a module registers, and an optimizer trains, when it is set as an attribute."""

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        parameter = share(cls, data)
        if requires_grad:
            parameter.requires_grad = True
        return parameter  # type: ignore[return-value]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + text_of(self)

    def __deepcopy__(self, memo: dict) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        copy = rebuild(type(self), copied_memory(self, memo), self.requires_grad, None, {})
        memo[id(self)] = copy
        return copy  # type: ignore[return-value]


class Buffer(Tensor):
    """A tensor that a module registers as a buffer when it is set as an attribute."""

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        buffer = share(cls, data)
        buffer.requires_grad = data is not None and data.requires_grad
        buffer.persistent = persistent
        return buffer  # type: ignore[return-value]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return text_of(self)


# Not made yet ----------------------------------------------------------------------------------------------


class UninitializedTensorMixin:
    """A tensor without memory: its shape is not known yet, and every op on it is an error."""

    cls_to_become: type[Tensor]
    kind: dtypes.dtype  # the dtype it will have

    @property
    def _data(self) -> NoReturn:  # every op reads it
        rule = (
            "Attempted to use an uninitialized parameter. This error happens when you are using a "
            "`LazyModule` or explicitly manipulating `torch.nn.parameter.UninitializedParameter` objects"
        )
        fix = "call forward with a dummy batch to initialize the parameters first"
        raise error(ValueError, type(self).__name__, rule, fix=fix)

    _form = _data

    @property
    def shape(self) -> NoReturn:
        rule = (
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one"
        )
        fix = "call forward to initialize the parameters before accessing their attributes"
        raise error(RuntimeError, type(self).__name__, rule, fix=fix)

    @property
    def dtype(self) -> dtypes.dtype:
        return self.kind

    @property
    def data(self) -> Tensor:
        return wrap(np.empty((0,), self.kind.numpy))

    @data.setter
    def data(self, value: Tensor) -> None:
        self.kind = value.dtype

    def materialize(self, shape: Any, device: Any = None, dtype: dtypes.dtype | None = None) -> None:
        """Gives the tensor memory of a shape; from then on it is an ordinary parameter or buffer."""
        place = devices.check(device)
        wanted, kind = self.requires_grad, dtype or self.kind
        del self.kind
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        put(self, value_in(empty(tuple(shape), device=place, dtype=kind)))  # type: ignore[arg-type]
        if wanted:
            make_leaf(self)  # type: ignore[arg-type]

    def share_memory_(self) -> NoReturn:
        rule = "Can't share memory on an uninitialized parameter or buffer"
        raise error(RuntimeError, "share_memory_", rule, fix="call forward to initialize the parameters")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def without_memory(cls: type, device: Any, dtype: dtypes.dtype | None) -> Any:
    devices.check(device)
    tensor: Any = object.__new__(cls)
    tensor._edge = tensor._grad = tensor._base = tensor._ver = None
    tensor.kind = dtype or dtypes.get_default_dtype()
    return tensor


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet; `materialize` makes it a Parameter."""

    cls_to_become = Parameter
    wanted: bool

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        parameter = without_memory(cls, device, dtype)
        parameter.wanted = requires_grad
        return parameter

    @property
    def requires_grad(self) -> bool:
        return self.wanted

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.wanted = wanted

    def requires_grad_(self, requires_grad: bool = True) -> UninitializedParameter:
        self.wanted = requires_grad
        return self

    def materialize(self, shape: Any, device: Any = None, dtype: dtypes.dtype | None = None) -> None:
        super().materialize(shape, device, dtype)
        del self.wanted

    def __deepcopy__(self, memo: dict) -> UninitializedParameter:
        return memo.setdefault(id(self), type(self)(self.wanted, None, self.kind))

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return type(self), (self.wanted, None, self.kind)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet; `materialize` makes it an ordinary tensor."""

    cls_to_become = Tensor
    requires_grad = False
    persistent: bool

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        buffer = without_memory(cls, device, dtype)
        buffer.persistent = persistent
        return buffer

    def __deepcopy__(self, memo: dict) -> UninitializedBuffer:
        return memo.setdefault(id(self), type(self)(False, None, self.kind, self.persistent))

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return type(self), (False, None, self.kind, self.persistent)


def is_lazy(value: Any) -> bool:
    """Whether a tensor still waits for its shape."""
    return isinstance(value, UninitializedTensorMixin)
