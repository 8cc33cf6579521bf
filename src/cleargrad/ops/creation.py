"""Making tensors: from data, filled with a value, and counted off a range.

Read next: ops/random.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.node import make_leaf
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import sizes_of
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error
from cleargrad.ops.declare import as_type

# Functions of the top level that are not ops: they make tensors out of nothing.
FUNCTIONS: dict[str, Callable] = {}


def factory(function: Callable) -> Callable:
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function


def finish(data: np.ndarray, requires_grad: bool) -> Tensor:
    """A new leaf around fresh memory."""
    tensor = wrap(data)
    if requires_grad:
        if dtypes.OF_NUMPY[data.dtype].category < dtypes.FLOAT:
            rule = "only Tensors of floating point and complex dtype can require gradients"
            raise error(RuntimeError, "requires_grad", rule, dtype=str(dtypes.OF_NUMPY[data.dtype]))
        make_leaf(tensor)
    return tensor


# From data -------------------------------------------------------------------------------------------------


def array_of(data: Any, dtype: dtypes.dtype | None) -> np.ndarray:
    """A fresh array from numbers, nested sequences, arrays or tensors, with PyTorch's dtype for them."""
    if isinstance(data, Tensor):
        return data._data.astype(dtype.numpy) if dtype else data._data.copy()
    if isinstance(data, np.ndarray):
        return from_array(data, dtype)
    if isinstance(data, (np.generic,)):
        return from_array(np.asarray(data), dtype)
    if isinstance(data, str) or data is None:
        kind = "'str'" if isinstance(data, str) else "NoneType"
        raise error(TypeError, "tensor", f"new(): invalid data type {kind}")
    nested = plain(data)
    if dtype is None:
        dtype = infer_dtype(nested)
    try:
        return np.array(nested, dtype=dtype.numpy)
    except OverflowError as failure:
        raise error(RuntimeError, "tensor", f"a value is too large for {dtype}: {failure}") from None
    except (ValueError, TypeError) as failure:
        raise ragged_error(nested, failure) from None


def from_array(data: np.ndarray, dtype: dtypes.dtype | None) -> np.ndarray:
    if data.dtype not in dtypes.OF_NUMPY:
        if data.dtype.kind in "SUO":
            rule = f"can't convert np.ndarray of type {data.dtype}; use an array of numbers"
            raise error(TypeError, "tensor", rule)
        data = data.astype({"u": np.int64, "f": np.float64}.get(data.dtype.kind, np.int64))
    target = dtype.numpy if dtype else data.dtype
    return np.array(data, dtype=target, order="C")


def plain(data: Any) -> Any:
    """Nested lists of Python numbers: tensors and array scalars inside are unpacked."""
    if isinstance(data, (list, tuple)):
        return [plain(item) for item in data]
    if isinstance(data, Tensor):
        return data._data.tolist()
    if isinstance(data, (np.ndarray, np.generic)):
        return data.tolist()
    if isinstance(data, (bool, int, float, complex)):
        return data
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return [plain(data[k]) for k in range(len(data))]
    if hasattr(data, "__float__") or hasattr(data, "__index__"):
        return data.__index__() if hasattr(data, "__index__") else float(data)
    name = type(data).__name__
    raise error(TypeError, "tensor", f"new(): data must be numbers or nested sequences of them, not {name!r}")


def infer_dtype(nested: Any) -> dtypes.dtype:
    """bool, then int64, then the default float, then complex: the highest that occurs."""
    highest, stack, empty = -1, [nested], True
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
            continue
        empty = False
        highest = max(highest, dtypes.of_number(item).category)
    if empty:
        return dtypes.get_default_dtype()
    return (dtypes.bool_, dtypes.int64, dtypes.get_default_dtype(), dtypes.default_complex())[highest]


def ragged_error(nested: Any, failure: Exception) -> Exception:
    """Names the first place where a nested list is not rectangular."""

    def find(item: Any, path: str) -> str | None:
        if not isinstance(item, list) or not item:
            return None
        lengths = {len(part) if isinstance(part, list) else -1 for part in item}
        if len(lengths) > 1:
            sizes = ", ".join("a number" if n < 0 else f"length {n}" for n in sorted(lengths))
            return f"data{path} mixes {sizes}"
        for position, part in enumerate(item):
            found = find(part, f"{path}[{position}]")
            if found:
                return found
        return None

    found = find(nested, "")
    if found:
        return error(ValueError, "tensor", f"expected sequences of equal length: {found}")
    return error(TypeError, "tensor", str(failure))


@factory
def tensor(
    data: Any,
    *,
    dtype: dtypes.dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf tensor with a copy of the data."""
    devices.check(device)
    return finish(array_of(data, dtype), requires_grad)


@factory
def as_tensor(data: Any, dtype: dtypes.dtype | None = None, device: Any = None) -> Tensor:
    """A tensor that shares the data's memory and history when it can."""
    devices.check(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == dtype.numpy):
        return from_numpy(data)
    return wrap(array_of(data, dtype))


@factory
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor on the array's own memory: a write to one is seen in the other."""
    if not isinstance(ndarray, np.ndarray):
        raise error(TypeError, "from_numpy", f"expected np.ndarray (got {type(ndarray).__name__})")
    if ndarray.dtype not in dtypes.OF_NUMPY:
        names = ", ".join(kind.name for kind in dtypes.ALL)
        rule = f"can't convert np.ndarray of type {ndarray.dtype}; the supported types are: {names}"
        raise error(TypeError, "from_numpy", rule)
    if any(step < 0 for step in ndarray.strides):
        rule = "at least one stride in the given numpy array is negative, which tensors do not support"
        raise error(ValueError, "from_numpy", rule, fix="use array.copy()")
    return wrap(ndarray.view(np.ndarray).view(ndarray.dtype.newbyteorder("=")))


# Filled ----------------------------------------------------------------------------------------------------


def sized(op: str, size: tuple) -> tuple[int, ...]:
    shape = sizes_of(size)
    if any(extent < 0 for extent in shape):
        raise error(RuntimeError, op, f"trying to create tensor with negative dimension: {list(shape)}")
    return shape


def allocate(op: str, shape: tuple[int, ...], fill: Callable, dtype: dtypes.dtype) -> np.ndarray:
    """Memory from NumPy, with our words when there is not enough of it."""
    try:
        return fill(shape, dtype.numpy)
    except (MemoryError, ValueError) as failure:
        gigabytes = math.prod(shape) * dtype.itemsize / 2**30
        rule = f"you tried to allocate {gigabytes:.2f} GiB, which is not available"
        raise error(RuntimeError, op, rule, size=str(shape), dtype=str(dtype)) from failure


def filled(name: str, fill: Callable) -> Callable:
    """The family of zeros: `name(*size)`, with PyTorch's keyword arguments."""

    def make(
        *size: Any,
        out: Tensor | None = None,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        devices.check(device)
        shape = sized(name, size)
        data = allocate(name, shape, fill, dtype or dtypes.get_default_dtype())
        if out is not None:
            from cleargrad.ops.inplace import write_out

            return write_out(out, wrap(data.astype(out._data.dtype)), name)
        return finish(data, requires_grad)

    make.__name__ = make.__qualname__ = name
    return factory(make)


zeros = filled("zeros", np.zeros)
ones = filled("ones", np.ones)
empty = filled("empty", np.empty)


def like(name: str, fill: Callable) -> Callable:
    """The family of zeros_like: the shape, dtype and layout of another tensor."""

    def make(
        input: Tensor,
        *,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        devices.check(device)
        kind = input._data.dtype if dtype is None else dtype.numpy
        return finish(fill(input._data, dtype=kind, subok=False), requires_grad)

    make.__name__ = make.__qualname__ = name
    return factory(make)


zeros_like = like("zeros_like", np.zeros_like)
ones_like = like("ones_like", np.ones_like)
empty_like = like("empty_like", np.empty_like)


@factory
def full(size: Any, fill_value: Any, *, dtype: dtypes.dtype | None = None, device: Any = None,
         layout: Any = None, requires_grad: bool = False, pin_memory: bool = False, out: Any = None) -> Tensor:
    """A tensor of one value; the dtype follows from the value."""
    devices.check(device)
    shape = sized("full", (size,))
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    data = allocate("full", shape, np.empty, dtype or dtypes.of_number(value))
    data[...] = as_type(value, data.dtype)
    if out is not None:
        from cleargrad.ops.inplace import write_out

        return write_out(out, wrap(data), "full")
    return finish(data, requires_grad)


@factory
def full_like(input: Tensor, fill_value: Any, *, dtype: dtypes.dtype | None = None, device: Any = None,
              layout: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """A tensor of one value with the shape and dtype of another."""
    return full(tuple(input._data.shape), fill_value, dtype=dtype or input.dtype, device=device,
                requires_grad=requires_grad)
