"""Padding: entries around a tensor, constant or read from the tensor itself.

`pads` holds one (before, after) pair for each of the last dimensions, in their order; negative numbers crop.
Padding with a constant is its own family: its adjoint pads by the negated numbers. The other modes read
entries of the input again, so their adjoint adds up. Read next: ops/convolution.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec, as_index
from cleargrad.core.tensor import Tensor, wrap_beside
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, fused
from cleargrad.ops.joining import cat
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor

Pads = tuple[tuple[int, int], ...]

# A constant ------------------------------------------------------------------------------------------------


def padded_shape(shape: tuple[int, ...], pads: Pads) -> tuple[int, ...]:
    lead = len(shape) - len(pads)
    return (*shape[:lead], *(n + before + after for n, (before, after) in zip(shape[lead:], pads)))


def pad_spec(x: Tensor, *, pads: Pads, value: Any) -> Spec:
    shape = padded_shape(x._form.shape, pads)
    if any(extent < 0 for extent in shape):
        raise error(
            RuntimeError, "pad", f"negative padding leaves a negative size, {shape}", input=x, pad=pads
        )
    return Spec(shape, x.dtype)


def run_pad_constant(x: np.ndarray, *, pads: Pads, value: Any) -> np.ndarray:
    result = np.full(padded_shape(x.shape, pads), value, x.dtype)
    target: list[Any] = [...]
    source: list[Any] = [...]
    for n, (before, after) in zip(x.shape[x.ndim - len(pads) :], pads):
        target.append(slice(max(before, 0), n + before + min(after, 0)))
        source.append(slice(max(-before, 0), n + min(after, 0)))
    result[*target] = x[*source]
    return result


def negated(pads: Pads) -> Pads:
    return tuple((-before, -after) for before, after in pads)


def pad_parts(x: Tensor, *, pads: Pads, value: Any) -> Tensor:
    """Crops, then joins blocks of the value on both sides, one dimension after the other."""
    for dim, (before, after) in enumerate(pads, x._form.ndim - len(pads)):
        if before < 0 or after < 0:
            start = max(-before, 0)
            x = x.narrow(dim, start, x._form.shape[dim] + min(after, 0) - start)
        if before > 0 or after > 0:
            shape, border = x._form.shape, x.new_full((), value)
            blocks = [border.expand(*shape[:dim], max(n, 0), *shape[dim + 1 :]) for n in (before, after)]
            x = cat([blocks[0], x, blocks[1]], dim)
    return x


pad_constant = fused(
    "constant_pad_nd",
    pad_parts,
    spec=pad_spec,
    run=run_pad_constant,
    vjp=lambda g, *, pads: pad_constant(g, pads=negated(pads), value=0.0),
    samples=lambda: iter(
        [
            Sample(real(2, 3), (1, 2)),
            Sample(real(2, 3), (1, -1, 0, 2), 1.5),
            Sample(real(2, 3), [-1, -2]),
            Sample(real(0, 3), (1, 1, 1, 0)),
            Fails(RuntimeError, real(2, 3), (1,)),
            Fails(RuntimeError, real(3), (1, 1, 1, 1)),
            Fails(RuntimeError, real(3), (-2, -2)),
        ]
    ),
    rounds=False,
)


def pairs(op: str, input: Tensor, pad: Any) -> Pads:
    """PyTorch's flat list, which begins with the last dimension, as pairs in the order of the dimensions."""
    check_tensor(op, input)
    numbers = tuple(entry if type(entry) is int else as_index(op, entry) for entry in pad)
    if len(numbers) % 2:
        raise error(RuntimeError, op, "the padding's length must be divisible by 2", pad=numbers)
    if len(numbers) > 2 * input._form.ndim:
        rule = f"padding {len(numbers) // 2} dimensions of a tensor that has {input._form.ndim}"
        raise error(RuntimeError, op, rule, input=input, pad=numbers)
    return tuple(zip(numbers[::2], numbers[1::2]))[::-1]


@face(pad_constant)
def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """`value` around the input; `pad` counts (before, after) from the last dimension on."""
    return pad_constant(input, pads=pairs("constant_pad_nd", input, pad), value=value)


# Entries of the tensor itself ------------------------------------------------------------------------------


def reflected(places: np.ndarray, n: int, kept: range) -> np.ndarray:
    places = np.abs(places)
    return np.where(places < n, places, 2 * (n - 1) - places)


# Which entry of n stands at each place, places counted from the first entry; cropping leaves those in `kept`.
READERS: dict[str, Callable] = {
    "reflect": reflected,
    "replicate": lambda places, n, kept: np.clip(places, 0, n - 1),
    "circular": lambda places, n, kept: (places - kept.start) % max(len(kept), 1) + kept.start,
}


def read_places(n: int, before: int, after: int, mode: str) -> np.ndarray:
    kept = range(max(-before, 0), n + min(after, 0))
    return READERS[mode](np.arange(-before, n + after), n, kept)


def run_read_pad(x: np.ndarray, *, pads: Pads, mode: str) -> np.ndarray:
    for axis, (before, after) in zip(range(-len(pads), 0), pads):
        x = np.take(x, read_places(x.shape[axis], before, after, mode), axis)
    return x


def read_pad_spec(x: Tensor, *, pads: Pads, mode: str) -> Spec:
    op, shape, count = f"pad(mode={mode!r})", x._form.shape, len(pads)
    if len(shape) not in (count + 1, count + 2) or count > 3:
        rule = f"padding {count} dimensions is not supported for {len(shape)}D input"
        fix = f"pad as many dimensions as follow the channels, {max(len(shape) - 2, 1)} here"
        raise error(NotImplementedError, op, rule, input=x, pad=pads, fix=fix)
    if 0 in shape[len(shape) - count - 1 :]:
        raise error(RuntimeError, op, "expected non-zero sizes but for the batch", input=x)
    for n, pair in zip(shape[-count:], pads):
        if mode == "reflect" and max(pair) >= n:
            rule = f"the padding should be less than the dimension, but got {pair} around {n} entries"
            raise error(RuntimeError, op, rule, input=x, pad=pads)
        if mode == "circular" and max(pair) > n:
            rule = f"the padding causes wrapping around more than once, {pair} around {n} entries"
            raise error(RuntimeError, op, rule, input=x, pad=pads)
    if x._form.dtype.kind == "b" and mode != "circular":
        raise error(NotImplementedError, op, "not implemented for torch.bool", input=x)
    return pad_spec(x, pads=pads, value=None)


def add_pad_spec(g: Tensor, *, pads: Pads, mode: str) -> Spec:
    return Spec(padded_shape(g._form.shape, negated(pads)), g.dtype)


def read_pad_parts(x: Tensor, *, pads: Pads, mode: str) -> Tensor:
    for dim, (before, after) in enumerate(pads, x._form.ndim - len(pads)):
        x = x.index_select(dim, wrap_beside(read_places(x._form.shape[dim], before, after, mode), x))
    return x


def add_pad_parts(g: Tensor, *, pads: Pads, mode: str) -> Tensor:
    for dim, (before, after) in reversed(list(enumerate(pads, g._form.ndim - len(pads)))):
        shape = list(g._form.shape)
        shape[dim] -= before + after
        places = wrap_beside(read_places(shape[dim], before, after, mode), g)
        g = g.new_zeros(()).expand(shape).index_add(dim, places, g)
    return g


def read_pad_of(mode: str, name: str, count: int) -> Callable:
    """Padding of `count` dimensions in one mode; PyTorch gives each its own name."""
    size = (3, 4, 3)[:count]
    return fused(
        f"{name}_pad{count}d",
        read_pad_parts,
        spec=read_pad_spec,
        run=run_read_pad,
        vjp=lambda g, *, pads, mode: add_pad(g, pads=pads, mode=mode),
        samples=lambda: iter([Sample(real(2, *size), pads=((1, 2),) * count, mode=mode)]),
        node=f"{name.capitalize()}Pad{count}DBackward0",
        rounds=False,
    )


READ_PADS = {
    (mode, count): read_pad_of(mode, name, count)
    for mode, name in (("reflect", "reflection"), ("replicate", "replication"), ("circular", "circular"))
    for count in (1, 2, 3)
}
add_pad = fused(
    "pad_adjoint",
    add_pad_parts,
    spec=add_pad_spec,
    vjp=lambda c, *, pads, mode: READ_PADS[mode, len(pads)](c, pads=pads, mode=mode),
    samples=lambda: iter([Sample(real(2, 6, 4), pads=((1, 2), (-1, 1)), mode=mode) for mode in READERS]),
)


def pad_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), (1, 2))
    yield Sample(real(2, 3, 4), (1, -1, 2, 0), "constant", 0.5)
    for mode in READERS:
        yield Sample(real(2, 4), (1, 2), mode)
        yield Sample(real(1, 2, 4), (3, -1), mode)
        yield Sample(real(1, 2, 3, 4), (3, 1, 0, 2), mode)
        yield Sample(real(2, 2, 3, 3), (1, 1, 1, 0, 1, 1), mode)
        yield Fails(NotImplementedError, real(3), (1, 1), mode)
        yield Fails(RuntimeError, real(1, 2, 3), (1, 1), mode, 1.0)
    yield Sample(real(0, 2, 3), (1, 1), "reflect")
    yield Fails(RuntimeError, real(1, 2, 3), (3, 1), "reflect")
    yield Fails(RuntimeError, real(1, 2, 3), (4, 1), "circular")
    yield Fails(NotImplementedError, real(1, 2, 3), (1, 1), "mirror")
    yield Fails(RuntimeError, real(2, 3), (1, 2, 3))
    yield Fails(TypeError, real(2, 3), (1.5, 2))


@composite(pad_samples, spaces=("nn.functional",))
def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Entries around the input: constant, or its own by reflection, replication or wrapping around."""
    pads = pairs("pad", input, pad)
    if mode == "constant":
        return pad_constant(input, pads=pads, value=0.0 if value is None else value)
    if mode not in READERS:
        rule = f"unrecognised padding mode {mode!r}: it is 'constant', 'reflect', 'replicate' or 'circular'"
        raise error(NotImplementedError, "pad", rule)
    if value is not None and value != 0:
        raise error(RuntimeError, "pad", f"padding mode {mode!r} doesn't take in a value", value=value)
    door = READ_PADS.get((mode, len(pads)))
    if door is None:
        read_pad_spec(input, pads=pads, mode=mode)  # always an error: no or too many dimensions
    return door(input, pads=pads, mode=mode)
