"""Tensors that are counted off: ranges, evenly spaced points, the identity matrix, the indices of triangles.

Read next: ops/legacy.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.apply import NUMBERS
from cleargrad.ops.conversion import run_cast
from cleargrad.ops.creation import allocate, check_options, factory, finish, sized, working_dtype


def number(op: str, name: str, value: Any) -> Any:
    """An argument that is a number, or a 0-d tensor of one."""
    if isinstance(value, Tensor):
        if value._form.ndim:
            rule = f"only supports 0-dimensional tensors for {name}, got {value._form.ndim} dimensions"
            raise error(RuntimeError, op, rule)
        return value.item()
    if not isinstance(value, NUMBERS):
        raise error(TypeError, op, f"argument '{name}' must be Number, not {type(value).__name__}")
    return value


# By step ---------------------------------------------------------------------------------------------------


def check_range(op: str, start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise error(RuntimeError, op, "step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise error(RuntimeError, op, f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        rule = "upper bound and lower bound inconsistent with step sign"
        raise error(RuntimeError, op, rule, start=start, end=end, step=step)


def counted(op: str, start: Any, step: Any, length: int, kind: dtypes.dtype) -> np.ndarray:
    """start, start + step, ...: computed in float64 or int64, then rounded once."""
    if kind.category not in (dtypes.INTEGER, dtypes.FLOAT):
        raise error(NotImplementedError, op, f"not implemented for {kind}")
    if length > 2**62:
        raise error(RuntimeError, op, "invalid size, possible overflow", length=length)
    data = allocate(op, (length,), np.empty, kind)
    if kind.category == dtypes.INTEGER:
        data[...] = (int(start) + int(step) * np.arange(length, dtype=np.int64)).astype(kind.numpy)
    else:
        data[...] = float(start) + float(step) * np.arange(length, dtype=np.float64)
    return data


def bounds_of(op: str, bounds: tuple, start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    """(end), (start, end) or (start, end, step), each also by name."""
    if len(bounds) == 1 and end is None:
        bounds, end = (), bounds[0]
    given = [*bounds, *(value for value in (start, end, step)[len(bounds) :])]
    stray = any(value is not None for value in (start, end, step)[: len(bounds)])
    if len(given) != 3 or given[1] is None or stray or (given[0] is None and step is not None):
        raise error(TypeError, op, "takes (end), (start, end) or (start, end, step)")
    start, end, step = (0 if given[0] is None else given[0]), given[1], (1 if given[2] is None else given[2])
    return number(op, "start", start), number(op, "end", end), number(op, "step", step)


@factory
def arange(
    *bounds: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The numbers from `start` up to but without `end`, `step` apart; int64 when all three are integers."""
    start, end, step = bounds_of("arange", bounds, start, end, step)
    check_options("arange", dtype, device)
    check_range("arange", start, end, step)
    integral = all(isinstance(value, (int, np.integer)) for value in (start, end, step))
    kind = working_dtype("arange", dtype, out) or (dtypes.int64 if integral else dtypes.get_default_dtype())
    if kind is dtypes.int64:
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise error(ValueError, "arange", "step must be nonzero, and it is 0 as an integer")
    length = -((start - end) // step) if integral or kind is dtypes.int64 else math.ceil((end - start) / step)
    return finish(counted("arange", start, step, length, kind), requires_grad, out, device=device)


def range_(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from `start` up to and with `end`; PyTorch has deprecated it in favour of arange."""
    words = (
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange"
    )
    warnings.warn(words, UserWarning, stacklevel=2)
    start, end, step = bounds_of(
        "range", (start, end, step) if end is not None else (0, start, step), *[None] * 3
    )
    check_options("range", dtype, device)
    check_range("range", start, end, step)
    kind = working_dtype("range", dtype, out) or dtypes.get_default_dtype()
    length = math.floor((end - start) / step) + 1
    return finish(counted("range", start, step, length, kind), requires_grad, out, device=device)


factory(range_)

# By number of points ---------------------------------------------------------------------------------------


def points(start: Any, end: Any, steps: int, working: np.dtype) -> np.ndarray:
    """Evenly spaced points, counted from the nearer end, so that both ends are exact.

    The step is rounded to the working type, but `start + step * k` only once, as in PyTorch's kernel.
    """
    if steps == 1:
        return np.array([start], working)
    start, end = working.type(start), working.type(end)
    step = (end - start) / working.type(steps - 1)
    places = np.arange(steps)
    wide = np.complex128 if working.kind == "c" else np.float64
    start, end, step = wide(start), wide(end), wide(step)
    line = np.where(places < steps // 2, start + step * places, end - step * places[::-1])
    return line.astype(working)


def spaced(name: str, curve: Callable, words: str) -> Callable:
    """linspace and logspace: `steps` points between `start` and `end`, both included."""

    def make(
        start: Any,
        end: Any,
        steps: int,
        base: float = 10.0,
        *,
        out: Tensor | None = None,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
    ) -> Tensor:
        check_options(name, dtype, device)
        start, end = number(name, "start", start), number(name, "end", end)
        if not isinstance(steps, (int, np.integer)):
            raise error(TypeError, name, f"argument 'steps' must be int, not {type(steps).__name__}")
        if steps < 0:
            raise error(RuntimeError, name, f"number of steps must be non-negative, got {steps}")
        imaginary = isinstance(start, complex) or isinstance(end, complex)
        default = dtypes.default_complex() if imaginary else dtypes.get_default_dtype()
        kind = working_dtype(name, dtype, out) or default
        if kind.category < dtypes.FLOAT:
            start, end = int(start), int(end)
        data = allocate(name, (int(steps),), np.empty, kind)
        data[...] = run_cast(curve(points(start, end, int(steps), working_type(kind)), base), dtype=kind)
        return finish(data, requires_grad, out, device=device)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = words
    return factory(make)


def working_type(kind: dtypes.dtype) -> np.dtype:
    """Integers are spaced in float64, everything else in itself."""
    return np.dtype(np.float64) if kind.category < dtypes.FLOAT else kind.numpy


linspace = spaced("linspace", lambda x, base: x, "Evenly spaced points.")
logspace = spaced(
    "logspace", lambda x, base: np.power(x.dtype.type(base), x), "base to the evenly spaced points."
)

# Matrices --------------------------------------------------------------------------------------------------


@factory
def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Ones on the diagonal of an n × m matrix, zeros elsewhere."""
    check_options("eye", dtype, device)
    shape = sized("eye", (n, n if m is None else m))
    data = allocate("eye", shape, np.zeros, working_dtype("eye", dtype, out) or dtypes.get_default_dtype())
    np.fill_diagonal(data[: shape[1]], 1)
    return finish(data, requires_grad, out, device=device)


def triangle_indices(name: str, indices: Callable, words: str) -> Callable:
    """tril_indices and triu_indices: row and column numbers, as a tensor of two rows."""

    def make(
        row: int,
        col: int,
        offset: int = 0,
        *,
        dtype: dtypes.dtype = dtypes.int64,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
    ) -> Tensor:
        check_options(name, dtype, device)
        if dtype not in (dtypes.int64, dtypes.int32):
            raise error(NotImplementedError, name, f"not implemented for {dtype}")
        shape = sized(name, (row, col))
        return finish(
            np.stack(indices(shape[0], offset, shape[1])).astype(dtype.numpy), requires_grad, device=device
        )

    make.__name__ = make.__qualname__ = name
    make.__doc__ = words
    return factory(make)


tril_indices = triangle_indices("tril_indices", np.tril_indices, "Where the lower triangle of a matrix is.")
triu_indices = triangle_indices("triu_indices", np.triu_indices, "Where the upper triangle of a matrix is.")
