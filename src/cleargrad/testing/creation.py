"""make_tensor: random tensors for tests, PyTorch's numbers for a seed. Read next: utils/__init__.py."""

from __future__ import annotations

import warnings
from math import prod
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import sizes_of
from cleargrad.core.tensor import Tensor
from cleargrad.ops.complex_numbers import view_as_real
from cleargrad.ops.creation import empty

NAME = "make_tensor"


def make_tensor(
    *shape: Any,
    dtype: dtypes.dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Values drawn evenly from [low, high), by default [-9, 9), or [0, 9] for unsigned numbers."""
    size = sizes_of(shape)
    if requires_grad and dtype.category < dtypes.FLOAT:
        text = f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        raise ValueError(text)
    if noncontiguous and memory_format is not None:
        raise ValueError(f"noncontiguous and memory_format are mutually exclusive, got {memory_format}")
    low, high = bounds(dtype, low, high)
    doubled = noncontiguous and prod(size) > 1
    tensor = empty((*size[:-1], 2 * size[-1]) if doubled else size, dtype=dtype, device=device)
    fill(tensor, low, high)
    if doubled:
        tensor = tensor[..., 1::2]
    elif memory_format is not None:
        tensor = tensor.clone(memory_format=memory_format)
    if exclude_zero:
        tensor[tensor == 0] = smallest(dtype)
    return tensor.requires_grad_(requires_grad) if requires_grad else tensor


def bounds(dtype: dtypes.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """The interval, cut to what the dtype can hold."""
    if dtype is dtypes.bool_:
        start, stop, least, most = 0.0, 2.0, 0.0, 2.0
    elif dtype.category < dtypes.FLOAT:
        info = dtypes.iinfo(dtype)
        start, stop = (0.0, 10.0) if dtype is dtypes.uint8 else (-9.0, 10.0)
        least, most = float(info.min), float(info.max)
    else:
        limits = dtypes.finfo(dtype)
        start, stop, least, most = -9.0, 9.0, limits.min, limits.max
    low = start if low is None else low
    high = stop if high is None else high
    if low > high or (low == high and dtype.category < dtypes.FLOAT):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if low == high:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated "
            "since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    return min(max(low, least), most), min(max(high, least), most)


@no_grad()
def fill(tensor: Tensor, low: float, high: float) -> None:
    if tensor.dtype.is_complex:
        fill(view_as_real(tensor), low, high)
    elif tensor.dtype.is_floating_point and high - low > dtypes.finfo(tensor.dtype).max:
        tensor.uniform_(low / 2, high / 2).mul_(2)  # the width of the whole interval would be infinite
    elif tensor.dtype.is_floating_point:
        tensor.uniform_(low, high)
    else:
        tensor.random_(_up(low), _up(high))


def _up(value: float) -> int:
    """The next integer at or above."""
    return -int(-value // 1)


def smallest(dtype: dtypes.dtype) -> Any:
    """The number that stands in for zero."""
    if dtype.category < dtypes.FLOAT:
        return 1
    return dtypes.finfo(dtype).tiny
