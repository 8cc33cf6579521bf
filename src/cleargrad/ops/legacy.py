"""Old ways to make and reshape tensors that ported programs still use.

`torch.Tensor(2, 3)`, `torch.LongTensor([1, 2])`, `x.new(..)`, `x.type(..)`, `x.resize_(..)`, `x.set_(..)`:
none of them is an op. Read next: ops/facts.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import settle
from cleargrad.core.shape import Size, contiguous_strides, count, sizes_of
from cleargrad.core.tensor import Tensor, cell_of, room_of, wrap
from cleargrad.errors import error
from cleargrad.ops.conversion import contiguous_format, memory_format
from cleargrad.ops.creation import FUNCTIONS, allocate, array_of, empty_strided, sized
from cleargrad.ops.strides import run_window
from cleargrad.ops.views import alias, check_tensor

# The constructor -------------------------------------------------------------------------------------------


def construct(kind: dtypes.dtype, args: tuple, strict: bool = True) -> Tensor:
    """A tensor of sizes, of a sequence's values, or the alias of another tensor."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        if strict and args[0].dtype is not kind:
            raise error(
                TypeError, "new", f"expected a tensor of {kind}, got {args[0].dtype}", fix="use .to(dtype)"
            )
        return alias(args[0])
    if len(args) == 1 and not isinstance(args[0], Size) and not isinstance(args[0], (int, np.integer)):
        if isinstance(args[0], (float, complex)):
            raise error(TypeError, "new", f"data must be a sequence (got {type(args[0]).__name__})")
        return wrap(array_of(args[0], kind))
    return wrap(allocate("new", sized("new", args or (0,)), np.empty, kind))


def new_tensor(cls: type, *args: Any, device: Any = None) -> Tensor:
    """`torch.Tensor(...)`, of the default dtype; a subclass of Tensor gets an instance of itself."""
    tensor = construct(dtypes.get_default_dtype(), args, strict=False)
    return tensor if cls is Tensor else tensor.as_subclass(cls)


Tensor.__new__ = staticmethod(new_tensor)  # type: ignore[method-assign,assignment]


class TensorType(type):
    """The old type of a dtype: a constructor, and a second argument for isinstance.

    It is a class because programs annotate with it: `torch.FloatTensor | None`.
    """

    is_cuda = is_sparse = False
    dtype: dtypes.dtype

    def __new__(cls, name: str, kind: dtypes.dtype) -> TensorType:
        return super().__new__(cls, name, (), {"__module__": "torch", "dtype": kind})

    def __init__(self, name: str, kind: dtypes.dtype):
        super().__init__(name, (), {})

    def __call__(self, *args: Any, device: Any = None) -> Tensor:
        return construct(self.dtype, args)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is self.dtype


TYPES = {
    name: TensorType(name, kind)
    for name, kind in {
        "FloatTensor": dtypes.float32,
        "DoubleTensor": dtypes.float64,
        "HalfTensor": dtypes.float16,
        "BFloat16Tensor": dtypes.bfloat16,
        "ByteTensor": dtypes.uint8,
        "CharTensor": dtypes.int8,
        "ShortTensor": dtypes.int16,
        "IntTensor": dtypes.int32,
        "LongTensor": dtypes.int64,
        "BoolTensor": dtypes.bool_,
        "ComplexFloatTensor": dtypes.complex64,
        "ComplexDoubleTensor": dtypes.complex128,
    }.items()
}
FUNCTIONS.update(TYPES)
NAMES = {kind.dtype: f"torch.{name}" for name, kind in TYPES.items()}
NAMES |= {kind: f"torch.UInt{8 * kind.itemsize}Tensor" for kind in dtypes.UNSIGNED}
NAMES |= {kind: f"torch.{kind.name.capitalize()}Tensor" for kind in dtypes.FLOAT8}


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> str | Tensor:
    """The name of the tensor's old type, or the tensor converted to a type given by dtype, class or name."""
    if dtype is None:
        return NAMES[self.dtype]
    if isinstance(dtype, str):
        if dtype.removeprefix("torch.") not in TYPES:
            raise error(ValueError, "type", f"invalid type: {dtype!r}")
        dtype = TYPES[dtype.removeprefix("torch.")]
    kind = dtype.dtype if isinstance(dtype, TensorType) else dtype
    if kind is Tensor:
        kind = dtypes.get_default_dtype()
    if not isinstance(kind, dtypes.dtype):
        raise error(
            TypeError, "type", f"dtype must be a type, str, or dtype object, not {type(dtype).__name__}"
        )
    return self.to(kind)


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """A tensor of this one's dtype from sizes, values or another tensor."""
    return construct(self.dtype, args)


def new_empty_strided(self: Tensor, size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    """`empty_strided` with this tensor's dtype."""
    return empty_strided(size, stride, dtype=dtype or self.dtype, **options)


# Other memory for the same tensor --------------------------------------------------------------------------


def place_memory(self: Tensor, data: np.ndarray) -> Tensor:
    """Makes an array the memory of a tensor that is no longer anybody's view."""
    settle()
    room_of(self).known = False
    self._data = self._form = data
    self._base = None
    self.bump()
    return self


def check_untracked(op: str, self: Tensor) -> None:
    if edge_of(self) is not None:
        raise error(RuntimeError, op, "cannot resize variables that require grad", tensor=self)


def resize_(self: Tensor, *sizes: Any, memory_format: memory_format = contiguous_format) -> Tensor:
    """Gives the tensor another size: inside its storage when it fits, else in larger memory with a copy."""
    check_untracked("resize_", self)
    shape = sized("resize_", sizes)
    if shape == self._form.shape:
        return self
    data, total = self._data, count(shape)
    stride = contiguous_strides(shape)
    try:
        placed = run_window(data, size=shape, stride=stride, offset=0, x_stride=self.stride())
    except RuntimeError:
        placed = allocate("resize_", (total,), np.empty, self.dtype)
        placed[: data.size] = data.reshape(-1)[:total]
        placed = placed.reshape(shape)
    return place_memory(self, placed)


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor."""
    check_tensor("resize_as_", the_template, "the_template")
    return resize_(self, the_template._form.shape)


def set_(
    self: Tensor, source: Tensor | None = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Makes the tensor look into the memory of another, from then on sharing it."""
    check_untracked("set_", self)
    if source is None:
        return place_memory(self, np.empty((0,), self._form.dtype))
    check_tensor("set_", source, "source")
    if source._form.dtype != self._form.dtype:
        rule = f"could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
        raise error(RuntimeError, "set_", rule)
    if size is not None:
        shape = sizes_of((size,))
        source = source.as_strided(
            shape, contiguous_strides(shape) if stride is None else stride, storage_offset
        )
    room_of(source).known = False
    self._ver = cell_of(source)
    return place_memory(self, source._data)


for _function in (new, new_empty_strided, resize_, resize_as_, set_):
    setattr(Tensor, _function.__name__, _function)
Tensor.type = type_
