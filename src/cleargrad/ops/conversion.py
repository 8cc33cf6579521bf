"""Copies and conversions: clone, contiguous, to, and the writes copy_, fill_ and zero_.

Read next: ops/creation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import numpy as np

from cleargrad.autograd.node import moves
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.layout import ghost, ghost_in_order
from cleargrad.core.mode import at_once, mode
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor, held, place_of, value_in, wrap
from cleargrad.errors import error
from cleargrad.ops.apply import NUMBERS, link
from cleargrad.ops.declare import as_type, composite, face, fused, opaque
from cleargrad.ops.inplace import assign
from cleargrad.ops.samples import Fails, Sample, real, truth, whole
from cleargrad.ops.views import check_tensor, expand


class named:
    """A constant of the top level that prints as PyTorch's."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format(named):
    """How dimensions are ordered in memory."""


class layout(named):
    """How elements are stored; every tensor here is strided."""


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
LAST = {
    channels_last: (4, (0, 2, 3, 1), (0, 3, 1, 2)),
    channels_last_3d: (5, (0, 2, 3, 4, 1), (0, 4, 1, 2, 3)),
}


def is_repeated(x: np.ndarray) -> bool:
    """Whether an expanded array shows one element in several places; its strides tell no order then."""
    return 0 in x.strides and any(n > 1 and step == 0 for n, step in zip(x.shape, x.strides, strict=True))


def laid_out(x: np.ndarray, layout: memory_format) -> np.ndarray:
    """A copy of an array in a memory format; `preserve_format` keeps the order of dimensions."""
    if layout is preserve_format:
        return x.copy(order="C" if is_repeated(x) else "K")
    if layout is contiguous_format:
        return x.copy(order="C")
    there, back = orders_of(x, layout)
    return x.transpose(there).copy(order="C").transpose(back)


def orders_of(x: np.ndarray, layout: memory_format) -> tuple[tuple, tuple]:
    """The dimensions as they lie in a memory format, and the way back."""
    rank, there, back = LAST[layout]
    if x.ndim != rank:
        rule = f"required rank {rank} tensor to use {layout} format, got rank {x.ndim}"
        raise error(RuntimeError, "contiguous", rule)
    return there, back


def form_laid_out(x: np.ndarray, layout: memory_format, dtype: np.dtype | None = None) -> np.ndarray:
    """The layout of such a copy, or of one in another dtype."""
    kind = dtype or x.dtype
    if layout is preserve_format:
        return ghost(x.shape, kind) if is_repeated(x) else ghost_in_order(x.shape, kind, (x,))
    if layout is contiguous_format:
        return ghost(x.shape, kind)
    there, back = orders_of(x, layout)
    return ghost(x.transpose(there).shape, kind).transpose(back)


def is_laid_out(x: np.ndarray, layout: memory_format) -> bool:
    if layout in LAST:
        rank, there, _ = LAST[layout]
        return x.ndim == rank and x.transpose(there).flags.c_contiguous
    return x.flags.c_contiguous


copy_of = opaque(
    "clone",
    spec=lambda x, *, layout: Spec(x._form.shape, x.dtype),
    run=lambda x, *, layout: laid_out(x, layout),
    vjp=lambda g: g,
    samples=lambda: iter([Sample(real(3, 4)), Sample(real()), Sample(real(0, 2))]),
    layout=form_laid_out,
)


@face(copy_of, method=True)
def clone(input: Tensor, *, memory_format: memory_format = preserve_format) -> Tensor:
    """A copy with memory of its own, tied to the graph."""
    check_tensor("clone", input)
    return copy_of(input, layout=memory_format)


@composite(
    lambda: iter([Sample(real(3, 4)), Fails(TypeError, None)]),
    method=True,
    spaces=(),
    reference=lambda torch: torch.Tensor.contiguous,
)
def contiguous(input: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """The tensor itself when it is laid out so already, else a copy."""
    check_tensor("contiguous", input)
    if is_laid_out(input._form, memory_format):
        return input
    return copy_of(input, layout=memory_format)


def cast_vjp(g: Tensor) -> Tensor:
    return g  # the walk converts a gradient to its input's dtype


def run_cast(x: np.ndarray, *, dtype: dtypes.dtype) -> np.ndarray:
    if x.dtype.kind == "c" and not dtype.is_complex:
        x = x.real
    if x.dtype.kind in "fV" and dtype.category == dtypes.INTEGER:
        return x.astype(np.int64).astype(dtype.numpy)  # PyTorch wraps what does not fit
    return x.astype(dtype.numpy)


cast = opaque(
    "to_copy",
    spec=lambda x, *, dtype: Spec(x._form.shape, dtype),
    run=run_cast,
    vjp=cast_vjp,
    samples=lambda: iter([Sample(real(3, 4), dtype=dtypes.float64), Sample(real(2), dtype=dtypes.int64)]),
    node="ToCopyBackward0",
)


# From one device to another; it runs in `transfer`, since doors want all operands on one device.
moved = opaque(
    "to_device",
    spec=lambda x, *, device, source: Spec(x._form.shape, x.dtype),
    run=lambda x, *, device, source: x.copy(),
    vjp=lambda g, *, source: g.to(source),
    samples=lambda: iter([Sample(real(3, 4), device=devices.CPU, source=devices.CPU)]),
    node="ToCopyBackward0",
)


def transfer(input: Tensor, place: devices.device, later: bool = False) -> Tensor:
    """A copy on another device, tied to the graph; it may be made `later` than Python goes on."""
    if mode.recorder is not None:
        mode.recorder.refuse("to")
    value = devices.on_device(value_in(input), place, later)
    there, form = ([value], value.form) if type(value) is devices.Held else (None, value)
    attrs = {"device": place, "source": place_of(input)}
    with at_once():
        result = link(moved.op, (input,), attrs, form, mode.grad, there)
    if result._edge is not None:
        moves.add(ref(result._edge, moves.discard))
    return result


def to_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), "cpu")
    yield Sample(real(3, 4), real(2))
    yield Sample(real(3, 4), dtypes.int64)
    yield Sample(real(3, 4), "cpu", dtypes.float64, False, True)
    yield Sample(whole(3), dtypes.float16)
    yield Fails(RuntimeError, real(3, 4), "nowhere")


@composite(to_samples, method=True, spaces=(), reference=lambda torch: torch.Tensor.to)
def to(
    input: Tensor,
    *args: Any,
    dtype: dtypes.dtype | None = None,
    device: Any = None,
    other: Tensor | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """The tensor with another dtype or device: itself when nothing changes."""
    check_tensor("to", input)
    flags = []
    for arg in args:
        if isinstance(arg, bool):
            flags.append(arg)
        elif isinstance(arg, dtypes.dtype):
            dtype = arg
        elif isinstance(arg, Tensor):
            other = arg
        elif isinstance(arg, (str, devices.device, int)):
            device = arg
        elif arg is not None:
            raise error(TypeError, "to", f"expected a dtype, a device or a tensor, got {type(arg).__name__}")
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise error(TypeError, "to", f"argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    place = place_of(input)
    if other is not None:
        device = place_of(other)
    there = place if device is None else devices.check(device)
    target = other.dtype if other is not None else dtype or input.dtype
    copy = flags[1] if len(flags) > 1 else copy
    if target.numpy != input._form.dtype or (copy and there == place):
        input = cast(input, dtype=target)
    if there != place:
        input = transfer(input, there, flags[0] if flags else non_blocking)
    if memory_format is preserve_format or is_laid_out(input._form, memory_format):
        return input
    return copy_of(input, layout=memory_format)


@composite(
    lambda: iter([Sample(real(3), real(3, seed=1)), Sample(real(3), np.array([1]))]),
    method=True,
    spaces=(),
    reference=lambda torch: torch.Tensor.type_as,
)
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor with the dtype of another."""
    check_tensor("type_as", other, "other")
    return to(input, other.dtype)


def converting(name: str, kind: dtypes.dtype) -> Callable:
    """The family of `x.float()`: conversion to one dtype."""

    def convert(input: Tensor, *, memory_format: memory_format = preserve_format) -> Tensor:
        return to(input, kind, memory_format=memory_format)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The tensor as {kind}: itself when it is one."
    # A gradient cannot be checked by differences of numbers that were rounded.
    exact = kind.category == dtypes.INTEGER or kind.itemsize >= 8
    return composite(
        lambda: iter(
            [Sample(real(2, 3) if exact else whole(2, 3)), Sample(truth(3)), Fails(TypeError, None)]
        ),
        method=True,
        spaces=(),
        reference=lambda torch: getattr(torch.Tensor, name),
    )(convert)


for _name, _kind in {
    **dtypes.ALIASES,
    "bfloat16": dtypes.bfloat16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
}.items():
    converting(_name, _kind)


@composite(lambda: iter([Sample(real(3))]), method=True, spaces=(), reference=lambda torch: torch.Tensor.cpu)
def cpu(input: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor on the CPU: itself."""
    return to(input, "cpu", memory_format=memory_format)


def cuda(
    self: Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """The tensor on a GPU."""
    where = "cuda" if device is None else device
    return to(self, where, non_blocking=non_blocking, memory_format=memory_format)


Tensor.cuda = cuda
Tensor.layout = property(lambda self: strided)


# The history of a tensor whose every element was replaced by a constant; it never runs.
overwrite = opaque(
    "overwrite",
    spec=lambda x: Spec(x._form.shape, x.dtype),
    run=lambda x: np.zeros_like(x),
    vjp=lambda g, *, x_shape: g.new_zeros(x_shape),
    samples=lambda: iter([Sample(real(3, 4))]),
    node="CopyBackwards",
)

copy = fused(
    "copy",
    lambda x, y: y.expand(x._form.shape),
    spec=lambda x, y: Spec(x._form.shape, x.dtype),
    run=lambda x, y: np.array(np.broadcast_to(y, x.shape), x.dtype),
    vjp=(lambda g, *, x_shape: g.new_zeros(x_shape), lambda g: g),
    samples=lambda: iter([Sample(real(3, 4), real(3, 4, seed=1))]),
    node="CopyBackwards",
    rounds=False,
)

# Writes ----------------------------------------------------------------------------------------------------


def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Writes `src`, broadcast and converted, into this tensor."""
    check_tensor("copy_", src, "src")
    if place_of(src) != place_of(self):
        src = transfer(src, place_of(self), non_blocking)
    if src._form.shape != self._form.shape:
        if broadcast("copy_", self._form.shape, src._form.shape) != self._form.shape:
            rule = f"output with shape {list(self._form.shape)} doesn't match {list(src._form.shape)}"
            raise error(RuntimeError, "copy_", rule, target=self, source=src)
        src = expand(src, self._form.shape)
    if src._form.dtype != self._form.dtype:
        src = cast(src, dtype=self.dtype)
    here = mode.waiter is None and held(self) is None
    if self is src or (here and np.may_share_memory(src._data, self._data)):
        src = clone(src)
    return assign(self, src, "copy_", replaces=True)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Writes one value, a number or a 0-d tensor, into every element."""
    if isinstance(value, NUMBERS):
        value = wrap(as_type(value, self._form.dtype))
    elif not isinstance(value, Tensor):
        raise error(TypeError, "fill_", f"argument 'value' must be Number, not {type(value).__name__}")
    elif value._form.ndim:
        rule = f"the value must be a 0-dimensional tensor, but it has {value._form.ndim} dimensions"
        raise error(RuntimeError, "fill_", rule, value=value)
    return copy_(self, value)


def zero_(self: Tensor) -> Tensor:
    """Writes zero into every element."""
    return fill_(self, 0)
