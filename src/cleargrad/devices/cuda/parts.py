"""Ops that are opaque on the CPU, made of others for the GPU: convolutions, pooling, attention.

Windows over images are views by strides; what they see is copied and multiplied by cuBLAS. The way back is a sum of
what is looked up in a table of places, so that no two threads write to one place and every sum has one order.
`expanded` puts the parts into a graph in the place of the calls. Read next: devices/cuda/calls.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import inf, prod
from typing import Any

import numpy as np

from cleargrad.core.layout import ghost
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.devices.cuda.tiled import is_tiled
from cleargrad.ops.attention import as_added, exponentials, scores_of
from cleargrad.ops.padding import pad_constant
from cleargrad.ops.record import Call, CaptureError, Graph, Recorder, Value

# Windows ---------------------------------------------------------------------------------------------------


def outputs_of(
    size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil: bool
) -> tuple:
    """How many windows fit along each dimension; with `ceil` also one that overhangs but begins inside."""
    counts = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation):
        room = n + 2 * p - d * (k - 1) - 1
        count = (-(-room // s) if ceil else room // s) + 1
        counts.append(count - 1 if ceil and (count - 1) * s >= n + p else count)
    return tuple(counts)


def windows(
    x: Any, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, count: tuple, value: float
) -> Any:
    """What every window sees, as (N, C, *count, *kernel), with a value around the image."""
    reach = [(t - 1) * s + d * (k - 1) + 1 for t, s, d, k in zip(count, stride, dilation, kernel)]
    pads = tuple((p, r - n - p) for n, p, r in zip(x.shape[2:], padding, reach))
    x = pad_constant(x, pads=pads, value=value) if any(map(any, pads)) else x.contiguous()
    steps = [prod(x.shape[axis + 1 :]) for axis in range(x.dim())]
    around = [step * s for step, s in zip(steps[2:], stride)]
    inside = [step * d for step, d in zip(steps[2:], dilation)]
    return x.as_strided((*x.shape[:2], *count, *kernel), (*steps[:2], *around, *inside))


@lru_cache(maxsize=256)
def places(size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, count: tuple) -> tuple:
    """For every place of an image and every tap of a window: which window sees it by that tap, and if any does."""
    found = np.zeros((1,), np.int64)
    seen = np.ones((1,), np.bool_)
    for n, k, s, p, d, t in zip(size, kernel, stride, padding, dilation, count):
        moved = np.arange(n)[:, None] + p - np.arange(k)[None, :] * d
        good = (moved % s == 0) & (moved >= 0) & (moved // s < t)
        found = found[..., None, None] * t + np.where(good, moved // s, 0)
        seen = seen[..., None, None] & good
    rank = len(size)
    order = (0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2))
    shape = (prod(size), prod(kernel))
    found, seen = found.transpose(order).reshape(shape), seen.transpose(order).reshape(shape)
    return found * 1 + np.arange(shape[1]) * prod(count), seen


def known(array: np.ndarray) -> Any:
    """A tensor of known elements, in the program that is being recorded."""
    return mode.recorder.constant(array)  # type: ignore[union-attr]


def summed_back(
    columns: Any, size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, count: tuple
):
    """The adjoint of `windows`, from (N, C, kernel · count): what belongs to one place of the image is added up."""
    found, seen = places(size, kernel, stride, padding, dilation, count)
    lead = columns.shape[:2]
    flat = columns.reshape(prod(lead), prod(kernel) * prod(count))
    picked = flat.index_select(1, known(found.reshape(-1))).view(prod(lead), prod(size), prod(kernel))
    return (picked * known(seen)).sum(-1).view(*lead, *size)


# Convolutions ----------------------------------------------------------------------------------------------


def convolve(
    x: Any, w: Any, bias: Any, *, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Any:
    kernel, batch, outputs = w.shape[2:], x.shape[0], w.shape[0]
    count = outputs_of(x.shape[2:], kernel, stride, padding, dilation, False)
    seen = windows(x, kernel, stride, padding, dilation, count, 0.0)
    rank, taps, spots = len(kernel), prod(kernel), prod(count)
    # (N, C, *T, *K) as (N, C, *K, *T)
    seen = seen.permute(0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    if groups == 1:
        seen = seen.reshape(batch, x.shape[1] * taps, spots)
        out = w.reshape(1, outputs, -1).expand(batch, -1, -1) @ seen
    else:
        seen = seen.reshape(batch, groups, w.shape[1] * taps, spots)
        out = w.reshape(1, groups, outputs // groups, -1).expand(batch, -1, -1, -1) @ seen
    out = out.reshape(batch, outputs, *count)
    return out if bias is None else out + bias.view(1, outputs, *(1,) * rank)


def convolve_input(
    g: Any, w: Any, bias: Any, *, size: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Any:
    kernel, batch, count = tuple(w.shape[2:]), g.shape[0], tuple(g.shape[2:])
    outputs, inputs = w.shape[0], w.shape[1] * groups
    turned = w.reshape(groups, outputs // groups, -1).transpose(1, 2)
    if groups == 1:
        columns = turned.expand(batch, -1, -1) @ g.reshape(batch, outputs, prod(count))
    else:
        columns = turned[None].expand(batch, -1, -1, -1) @ g.reshape(
            batch, groups, outputs // groups, prod(count)
        )
    columns = columns.reshape(batch, inputs, prod(kernel) * prod(count))
    out = summed_back(columns, tuple(size), kernel, stride, padding, dilation, count)
    return out if bias is None else out + bias.view(1, inputs, *(1,) * len(kernel))


def convolve_weight(
    g: Any, x: Any, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Any:
    count, rank, outputs, inputs = tuple(g.shape[2:]), len(kernel), g.shape[1], x.shape[1]
    seen = windows(x, kernel, stride, padding, dilation, count, 0.0)
    seen = seen.permute(0, *range(2, 2 + rank), 1, *range(2 + rank, 2 + 2 * rank))  # (N, *T, C, *K)
    seen = seen.reshape(x.shape[0] * prod(count), groups, inputs // groups * prod(kernel)).permute(1, 0, 2)
    g = g.reshape(g.shape[0], groups, outputs // groups, prod(count)).permute(1, 2, 0, 3)
    out = g.reshape(groups, outputs // groups, -1) @ seen
    return out.reshape(outputs, inputs // groups, *kernel)


# Pooling ---------------------------------------------------------------------------------------------------


def max_pool(
    x: Any, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> tuple:
    """Maxima of windows, and where they are in the image: the first of equal ones, and NaN before all others."""
    size = tuple(x.shape[2:])
    count = outputs_of(size, kernel, stride, padding, dilation, ceil_mode)
    floating = x.dtype.is_floating_point
    low = -inf if floating else int(np.iinfo(x._form.dtype).min)
    seen = windows(x, kernel, stride, padding, dilation, count, low).flatten(2 + len(kernel))
    best = seen.amax(-1)
    at, inside = spots_of(size, kernel, stride, padding, dilation, count)
    wins = seen == best.unsqueeze(-1)
    if floating:
        wins = wins | (seen != seen)
    first = known(at).expand(seen.shape).masked_fill(~(wins & known(inside)), prod(size)).amin(-1)
    return best, first


def max_values(x: Any, **attrs: Any) -> Any:
    return max_pool(x, **attrs)[0]


@lru_cache(maxsize=256)
def spots_of(
    size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, count: tuple
) -> tuple:
    """The place in the image of every tap of every window, as (*count, taps), and whether it is inside."""
    at, inside = np.zeros((1,) * (2 * len(size)), np.int64), np.ones((1,) * (2 * len(size)), np.bool_)
    rank = len(size)
    for axis, (n, k, s, p, d, t) in enumerate(zip(size, kernel, stride, padding, dilation, count)):
        spot = np.arange(t)[:, None] * s + np.arange(k)[None, :] * d - p
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = t, k
        at = at * n + spot.reshape(shape)
        inside = inside & ((spot >= 0) & (spot < n)).reshape(shape)
    whole = (*count, prod(kernel))
    return at.reshape(whole), np.broadcast_to(inside, (*count, *kernel)).reshape(whole)


def divisors(
    size: tuple, count: tuple, kernel: tuple, stride: tuple, padding: tuple, pads: bool
) -> np.ndarray:
    """How many places of the image each window counts."""
    whole = np.ones(())
    for n, t, k, s, p in zip(size, count, kernel, stride, padding):
        begin = np.arange(t) * s - p
        end = np.minimum(begin + k, n + p)
        length = end - begin if pads else np.minimum(end, n) - np.maximum(begin, 0)
        whole = whole[..., None] * length
    return whole


def avg_pool(
    x: Any,
    *,
    kernel: tuple,
    stride: tuple,
    padding: tuple,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Any,
) -> Any:
    size, ones = tuple(x.shape[2:]), (1,) * len(kernel)
    count = outputs_of(size, kernel, stride, padding, ones, ceil_mode)
    seen = windows(x.float() if x.element_size() < 4 else x, kernel, stride, padding, ones, count, 0.0)
    total = seen.flatten(2 + len(kernel)).sum(-1)
    if divisor is None:
        parts = divisors(size, count, kernel, stride, padding, count_include_pad)
        return (total / known(parts.astype(total._form.dtype))).to(x.dtype)
    return (total / divisor).to(x.dtype)


def avg_pool_back(
    g: Any, *, size: tuple, kernel: tuple, stride: tuple, padding: tuple, ceil_mode: bool, count_include_pad: bool,
    divisor: Any,
) -> Any:  # fmt: skip
    count, ones = tuple(g.shape[2:]), (1,) * len(kernel)
    share = g.float() if g.element_size() < 4 else g
    if divisor is None:
        parts = divisors(tuple(size), count, kernel, stride, padding, count_include_pad)
        share = share / known(parts.astype(share._form.dtype))
    else:
        share = share / divisor
    found, seen = places(tuple(size), kernel, stride, padding, ones, count)
    lead = g.shape[:2]
    flat = share.reshape(prod(lead), prod(count))
    picked = flat.index_select(1, known(found.reshape(-1) % prod(count))).view(
        prod(lead), prod(size), prod(kernel)
    )
    return (picked * known(seen)).sum(-1).view(*lead, *size).to(g.dtype)


# Attention -------------------------------------------------------------------------------------------------


def attend(q: Any, k: Any, v: Any, mask: Any, *, scale: float, causal: bool) -> tuple:
    weights, highest, total = exponentials(scores_of(q, k, as_added(mask, q), scale, causal))
    return weights / total @ v, highest, total


def attend_back(
    g: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    out: Any,
    peaks: Any,
    totals: Any,
    *,
    scale: float,
    causal: bool,
) -> tuple:
    weights = (scores_of(q, k, as_added(mask, q), scale, causal) - peaks).exp() / totals
    slope = (g @ v.transpose(-2, -1) - (g * out).sum(-1, keepdim=True)) * weights * scale
    return slope @ k, slope.transpose(-2, -1) @ q, weights.transpose(-2, -1) @ g


# The table -------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable] = {
    "convolution": convolve,
    "convolution_adjoint_input": convolve_input,
    "convolution_adjoint_weight": convolve_weight,
    **{f"max_pool{n}d_with_indices": max_pool for n in (1, 2, 3)},
    **{f"max_pool{n}d": max_values for n in (1, 2, 3)},
    **{f"avg_pool{n}d": avg_pool for n in (1, 2, 3)},
    **{f"avg_pool{n}d_adjoint": avg_pool_back for n in (1, 2, 3)},
    "flash_attention": attend,
    "flash_attention_gradient": attend_back,
}
FLOATS = ("float16", "bfloat16", "float32", "float64")


def expanded(graph: Graph, architecture: int | None) -> Graph:
    """The graph with calls that have parts here, and no kernels of their own, replaced by them."""
    calls: list[Call] = []
    found = replace(graph, calls=calls, outside=[*graph.outside], constants=[*graph.constants])
    for call in graph.calls:
        has_parts = call.op.name in PARTS or call.op.parts is not None
        parts = recorded(call) if has_parts and not is_tiled(call, architecture) else None
        if parts is None:
            calls.append(call)
        else:
            splice(found, call, expanded(parts, architecture))
    return found


def recorded(call: Call) -> Graph | None:
    """The parts of a call as a graph of their own; None where there are none for its dtypes."""
    kinds = [x.spec.dtype.name.removeprefix("torch.") for x in call.operands if isinstance(x, Value)]
    if not all(kind in FLOATS or kind in ("bool", "int64") for kind in kinds):
        return None
    if any(0 in x.spec.shape for x in (*call.operands, *call.results) if isinstance(x, Value)):
        return None
    before = mode.set(
        grad=False,
        autocast=None,
        observer=None,
        saved_hooks=None,
        inference=False,
        waiter=None,
        anomaly=False,
    )
    try:
        with Recorder() as recorder:
            operands = [
                recorder.input(wrap(ghost(x.spec.shape, x.spec.dtype.numpy))) if isinstance(x, Value) else x
                for x in call.operands
            ]
            outs: Any
            if call.op.name in PARTS:
                outs = PARTS[call.op.name](*operands, **call.attrs)
                outs = [outs] if isinstance(outs, Tensor) else list(outs)
            else:
                specs: Any = [x.spec for x in call.results]
                specs = specs[0] if call.op.outputs == 1 else specs
                outs = recorder.parts_of(call.op, tuple(operands), call.attrs, specs)
            # What a result is may be an operand, or another result: it becomes a value of its own.
            outs = [out.to(value.spec.dtype).clone() for out, value in zip(outs, call.results, strict=True)]
            return recorder.finish(outs)
    except CaptureError:
        return None
    finally:
        mode.set(**before)


def splice(graph: Graph, call: Call, parts: Graph) -> None:
    """Puts the calls of parts into a graph, on the operands of the call and for its results."""
    given = [x for x in call.operands if isinstance(x, Value)]
    stands: dict[int, Value] = {own.index: x for own, x in zip(parts.inputs, given, strict=True)}
    stands |= {own.index: x for own, x in zip(parts.outputs, call.results, strict=True)}
    first = graph.size
    graph.size += parts.size

    def now(x: Any) -> Any:
        if not isinstance(x, Value):
            return x
        if x.index not in stands:
            stands[x.index] = Value(first + x.index, x.spec)
        return stands[x.index]

    graph.constants += [(now(value), array) for value, array in parts.constants]
    graph.outside += [(now(value), tensor) for value, tensor in parts.outside]
    for each in parts.calls:
        operands, results = tuple(map(now, each.operands)), tuple(map(now, each.results))
        graph.calls.append(Call(each.op, operands, each.attrs, results))
