"""Making tensors: from data, filled with a value, or laid out by hand.

Read next: ops/ranges.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided as strided_array

from cleargrad.autograd.node import edge_of, make_leaf
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.device import Held, hold, on_device, on_host
from cleargrad.core.layout import ghost
from cleargrad.core.mode import mode
from cleargrad.core.shape import sizes_of
from cleargrad.core.tensor import Tensor, held, mark_inference, note_lent, place_of, value_in, wrap, wrap_any
from cleargrad.errors import error
from cleargrad.ops.apply import NUMBERS
from cleargrad.ops.conversion import (
    contiguous_format,
    form_laid_out,
    is_laid_out,
    is_repeated,
    laid_out,
    memory_format,
    preserve_format,
    run_cast,
)
from cleargrad.ops.declare import as_type
from cleargrad.ops.inplace import write_out
from cleargrad.ops.strides import extent
from cleargrad.ops.views import check_tensor, inverse

# Functions of the top level that are not ops: they make tensors out of nothing.
FUNCTIONS: dict[str, Callable] = {}


def factory(function: Callable) -> Callable:
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function


def finish(
    data: np.ndarray | Held, requires_grad: bool, out: Tensor | None = None, device: Any = devices.CPU
) -> Tensor:
    """A new leaf around fresh memory, copied to a device, or `out` with the data written into it."""
    if out is not None:
        return write_out(out, wrap_any(data), "out")
    tensor = wrap_any(on_device(data, devices.check(device)))
    if mode.inference:
        mark_inference(tensor)
    if requires_grad:
        if tensor.dtype.category < dtypes.FLOAT:
            rule = "only Tensors of floating point and complex dtype can require gradients"
            raise error(RuntimeError, "requires_grad", rule, dtype=str(tensor.dtype))
        make_leaf(tensor)
    return tensor


def check_options(op: str, dtype: Any, device: Any) -> devices.device:
    """The arguments all factories share; the device that is meant."""
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise error(TypeError, op, f"argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    return devices.check(device)


def working_dtype(op: str, dtype: dtypes.dtype | None, out: Tensor | None) -> dtypes.dtype | None:
    """The dtype asked for; `out` asks for its own."""
    if out is None:
        return dtype
    if dtype is not None and dtype is not out.dtype:
        rule = f"dtype {dtype} does not match dtype of out parameter ({out.dtype})"
        raise error(RuntimeError, op, rule)
    return out.dtype


# From data -------------------------------------------------------------------------------------------------

PYTHON_NUMBERS = {bool, int, float, complex}


def array_of(data: Any, dtype: dtypes.dtype | None) -> np.ndarray:
    """A fresh array from numbers, nested sequences, arrays or tensors, with PyTorch's dtype for them."""
    if isinstance(data, Tensor):
        array = on_host(value_in(data))
        return run_cast(array, dtype=dtype) if dtype else array.copy()
    if isinstance(data, np.ndarray):
        return from_array(data, dtype)
    if isinstance(data, np.generic):
        return from_array(np.asarray(data), dtype)
    if isinstance(data, str):
        raise error(TypeError, "tensor", "new(): invalid data type 'str'")
    if isinstance(data, (dict, set)):
        raise error(RuntimeError, "tensor", f"could not infer dtype of {type(data).__name__}")
    nested = plain(data)
    if dtype is None:
        found: set[dtypes.dtype] = set()
        collect_dtypes(data, found)
        dtype = reduce(dtypes.promote_types, found) if found else dtypes.get_default_dtype()
    try:
        return np.array(nested, dtype=dtype.numpy)
    except OverflowError as failure:
        kind = ValueError if dtype is dtypes.int64 else RuntimeError
        raise error(kind, "tensor", f"a value is too large for {dtype}: {failure}") from None
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
        return data if PYTHON_NUMBERS.issuperset(map(type, data)) else [plain(item) for item in data]
    if isinstance(data, str):
        raise error(ValueError, "tensor", "too many dimensions 'str': data must be numbers", data=repr(data))
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
    raise error(
        RuntimeError, "tensor", f"could not infer dtype of {name}: data must be numbers or sequences of them"
    )


def collect_dtypes(data: Any, found: set[dtypes.dtype]) -> None:
    """Adds the dtypes of all numbers, arrays and tensors in nested sequences."""
    if isinstance(data, (list, tuple)):
        kinds = set(map(type, data))
        if kinds <= PYTHON_NUMBERS:
            found.update(dtypes.of_number(kind()) for kind in kinds)
        else:
            for item in data:
                collect_dtypes(item, found)
    elif isinstance(data, Tensor):
        found.add(data.dtype)
    elif isinstance(data, (np.ndarray, np.generic)) and data.dtype in dtypes.OF_NUMPY:
        found.add(dtypes.OF_NUMPY[data.dtype])
    else:
        number = plain(data)
        if isinstance(number, list):
            collect_dtypes(number, found)
        else:
            found.add(dtypes.of_number(number))


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
    check_options("tensor", dtype, device)
    if isinstance(data, Tensor):
        words = "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        words += "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
        warnings.warn(words, UserWarning, stacklevel=2)
    if device is None and isinstance(data, Tensor):
        device = place_of(data)
    if isinstance(data, Tensor) and held(data) is not None:
        return finish(value_in(data.to(device, dtype or data.dtype, copy=True)), requires_grad, device=device)
    return finish(array_of(data, dtype), requires_grad, device=device)


@factory
def as_tensor(data: Any, dtype: dtypes.dtype | None = None, device: Any = None) -> Tensor:
    """A tensor that shares the data's memory and history when it can."""
    place = check_options("as_tensor", dtype, device)
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else data.to(device=device, dtype=dtype)
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == dtype.numpy):
        return from_numpy(data) if place is devices.CPU else from_numpy(data).to(place)
    return finish(array_of(data, dtype), False, device=place)


@factory
def asarray(
    obj: Any,
    *,
    dtype: dtypes.dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor that shares the object's memory when it can; `copy` forces or forbids a copy."""
    check_options("asarray", dtype, device)
    data = obj
    if not isinstance(obj, (Tensor, np.ndarray, np.generic, list, tuple, *NUMBERS)):
        try:
            data = np.asarray(memoryview(obj))  # any object with a buffer, such as array.array
        except TypeError:
            # NumPy's older way to offer memory: our storages have it, since a class cannot offer a buffer in 3.11.
            data = np.asarray(obj) if hasattr(type(obj), "__array_interface__") else obj
    shared = isinstance(data, (Tensor, np.ndarray)) and (dtype is None or data.dtype in (dtype, dtype.numpy))
    if copy is False and not shared:
        raise error(ValueError, "asarray", "can't alias the object: it must be copied to become this tensor")
    result = as_tensor(data, dtype, device)
    if shared and copy:
        result = result.clone()
    if requires_grad and not result.requires_grad:
        result.requires_grad_(True)
    return result


@factory
def frombuffer(
    buffer: Any, *, dtype: dtypes.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-d tensor on the memory of an object with a buffer, such as bytes or bytearray."""
    check_options("frombuffer", dtype, None)
    length, size = memoryview(buffer).nbytes, dtype.itemsize
    facts: dict[str, Any] = {"buffer": f"{length} bytes", "count": count, "offset": offset}
    facts["dtype"] = str(dtype)
    if not length or not count:
        raise error(ValueError, "frombuffer", "both buffer length and count must not be 0", **facts)
    if not 0 <= offset < length:
        raise error(ValueError, "frombuffer", "offset must lie inside the buffer", **facts)
    if count < 0 and (length - offset) % size:
        rule = "buffer length after offset must be a multiple of element size"
        raise error(ValueError, "frombuffer", rule, **facts)
    if count > 0 and offset + count * size > length:
        rule = "requested buffer length after offset must not be greater than actual buffer length"
        raise error(ValueError, "frombuffer", rule, **facts)
    return finish(np.frombuffer(buffer, dtype.numpy, count, offset), requires_grad)


@factory
def scalar_tensor(
    s: Any,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A 0-d tensor; of the default dtype, whatever the number."""
    check_options("scalar_tensor", dtype, device)
    kind = dtype or (dtypes.default_complex() if isinstance(s, complex) else dtypes.get_default_dtype())
    return finish(as_type(s, kind.numpy), requires_grad, device=device)


@factory
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor on the array's own memory: a write to one is seen in the other."""
    if not isinstance(ndarray, np.ndarray):
        raise error(TypeError, "from_numpy", f"expected np.ndarray (got {type(ndarray).__name__})")
    kind = dtypes.OF_NUMPY.get(ndarray.dtype)
    if kind is None:
        raise foreign_dtype_error(ndarray.dtype)
    strides = ndarray.strides
    if strides and min(strides) < 0:
        rule = "at least one stride in the given numpy array is negative, which tensors do not support"
        raise error(ValueError, "from_numpy", rule, fix="use array.copy()")
    if ndarray.dtype is kind.numpy and type(ndarray) is np.ndarray:
        tensor = wrap(ndarray.view())
        note_lent(ndarray)
        return tensor
    # The doors tell dtypes apart by identity, and an array may carry an equal dtype that is another object.
    note_lent(ndarray)
    return wrap(ndarray.view(kind.numpy, np.ndarray))


def foreign_dtype_error(found: np.dtype) -> Exception:
    if not found.isnative:
        rule = "given numpy array has byte order different from the native byte order"
        return error(ValueError, "from_numpy", rule, fix="use array.astype(array.dtype.newbyteorder('='))")
    names = ", ".join(kind.name for kind in dtypes.ALL)
    rule = f"can't convert np.ndarray of type {found}; the supported types are: {names}"
    return error(TypeError, "from_numpy", rule)


# Filled ----------------------------------------------------------------------------------------------------


def sized(op: str, size: tuple) -> tuple[int, ...]:
    """Sizes as a tuple, none of them negative."""
    try:
        shape = sizes_of(size)
    except TypeError as failure:
        raise error(TypeError, op, f"argument 'size' must be tuple of ints: {failure}") from None
    if any(extent < 0 for extent in shape):
        raise error(RuntimeError, op, f"trying to create tensor with negative dimension: {list(shape)}")
    return shape


def allocate(op: str, shape: tuple[int, ...], fill: Callable, dtype: dtypes.dtype) -> np.ndarray:
    """Memory from NumPy, with our words when there is not enough of it."""
    try:
        return fill(shape, dtype.numpy)
    except (MemoryError, ValueError, OverflowError) as failure:
        gigabytes = math.prod(shape) * dtype.itemsize / 2**30
        rule = f"you tried to allocate {gigabytes:.2f} GiB, which is not available"
        raise error(RuntimeError, op, rule, size=str(shape), dtype=str(dtype)) from failure


def filled_on(place: devices.device, form: np.ndarray, value: Any, requires_grad: bool) -> Tensor:
    """A new leaf of a layout on another device; None leaves in it whatever was in its memory."""
    made = hold(place, lambda driver: driver.allocate(form), form)
    if value is not None:
        made.driver.fill(made.memory, form, as_type(value, form.dtype))
    return finish(made, requires_grad, device=place)


def filled(name: str, fill: Callable, value: Any, words: str) -> Callable:
    """The family of zeros: `name(*size)`, with PyTorch's keyword arguments."""

    def make(
        *sizes: Any,
        size: Any = None,
        out: Tensor | None = None,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: memory_format = contiguous_format,
    ) -> Tensor:
        place = check_options(name, dtype, device)
        if not sizes and size is None:
            raise error(TypeError, name, "missing the argument 'size'")
        shape = sized(name, sizes or (size,))
        kind = working_dtype(name, dtype, out) or dtypes.get_default_dtype()
        if place is not devices.CPU and out is None:
            form = form_laid_out(ghost(shape, kind.numpy), memory_format)
            return filled_on(place, form, value, requires_grad)
        data = allocate(name, shape, fill, kind)
        if not is_laid_out(data, memory_format):
            data = laid_out(data, memory_format)
        return finish(data, requires_grad, out)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = words
    return factory(make)


zeros = filled("zeros", np.zeros, 0, "A tensor of zeros.")
ones = filled("ones", np.ones, 1, "A tensor of ones.")
empty = filled("empty", np.empty, None, "A tensor whose values are whatever was in its memory.")


def like(name: str, fill: Callable, value: Any, words: str) -> Callable:
    """The family of zeros_like: the shape, dtype and layout of another tensor."""

    def make(
        input: Tensor,
        *,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: memory_format = preserve_format,
    ) -> Tensor:
        check_tensor(name, input)
        place = check_options(name, dtype, place_of(input) if device is None else device)
        source = input._form
        kind = source.dtype if dtype is None else dtype.numpy
        if place is not devices.CPU:
            return filled_on(place, form_laid_out(source, memory_format, kind), value, requires_grad)
        order = "K" if memory_format is preserve_format and not is_repeated(source) else "C"
        data = fill(source, dtype=kind, order=order, subok=False)
        if memory_format is not preserve_format and not is_laid_out(data, memory_format):
            data = laid_out(data, memory_format)
        return finish(data, requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = words
    return factory(make)


zeros_like = like("zeros_like", np.zeros_like, 0, "Zeros with the shape and dtype of another tensor.")
ones_like = like("ones_like", np.ones_like, 1, "Ones with the shape and dtype of another tensor.")
empty_like = like("empty_like", np.empty_like, None, "Any values with the shape and dtype of another tensor.")


def fill_number(op: str, value: Any) -> Any:
    """A fill value: a number, or a 0-d tensor that needs no gradient."""
    if isinstance(value, Tensor) and not value._form.ndim and edge_of(value) is None:
        return value.item()
    if not isinstance(value, NUMBERS):
        raise error(TypeError, op, f"argument 'fill_value' must be Number, not {type(value).__name__}")
    return value


@factory
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of one value; the dtype follows from the value."""
    place = check_options("full", dtype, device)
    if isinstance(size, int):
        raise error(TypeError, "full", "argument 'size' must be tuple of ints, not int")
    value = fill_number("full", fill_value)
    kind = working_dtype("full", dtype, out) or dtypes.of_number(value)
    if place is not devices.CPU and out is None:
        return filled_on(place, ghost(sized("full", (size,)), kind.numpy), value, requires_grad)
    data = allocate("full", sized("full", (size,)), np.empty, kind)
    data[...] = as_type(value, data.dtype)
    return finish(data, requires_grad, out)


@factory
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """A tensor of one value with the shape, dtype and layout of another."""
    value = fill_number("full_like", fill_value)
    result = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
    if held(result) is not None:
        return filled_on(place_of(result), result._form, value, requires_grad)
    result._data[...] = as_type(value, result._form.dtype)
    return finish(result._data, requires_grad)


# Laid out by hand ------------------------------------------------------------------------------------------


@factory
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Any values in memory with these strides."""
    place = check_options("empty_strided", dtype, device)
    shape, steps = sized("empty_strided", (size,)), sized("empty_strided", (stride,))
    if len(shape) != len(steps):
        rule = f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(steps)})"
        raise error(RuntimeError, "empty_strided", rule)
    kind = dtype or dtypes.get_default_dtype()
    places = tuple(step * kind.itemsize for step in steps)
    if place is not devices.CPU:
        return filled_on(place, ghost(shape, kind.numpy, places), None, requires_grad)
    line = allocate("empty_strided", (extent(shape, steps),), np.empty, kind)
    return finish(strided_array(line, shape, places), requires_grad)


@factory
def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Any values in dense memory; `physical_layout` lists the dimensions, the outermost first."""
    place = check_options("empty_permuted", dtype, device)
    shape, order = sized("empty_permuted", (size,)), sizes_of((physical_layout,))
    if sorted(order) != list(range(len(shape))):
        rule = "physical_layout must name every dimension once"
        raise error(RuntimeError, "empty_permuted", rule, size=shape, physical_layout=order)
    kind = dtype or dtypes.get_default_dtype()
    lying = tuple(shape[dim] for dim in order)
    if place is not devices.CPU:
        form = ghost(lying, kind.numpy).transpose(inverse(order))
        return filled_on(place, form, None, requires_grad)
    data = allocate("empty_permuted", lying, np.empty, kind)
    return finish(data.transpose(inverse(order)), requires_grad)
