"""Ops that are opaque on the CPU, made of others for the GPU: convolutions, pooling, attention.

Windows over images are views by strides; what they see is copied and multiplied by cuBLAS. The way back is a sum of
what is looked up in a table of places, so that no two threads write to one place and every sum has one order.
`expanded` puts the parts into a graph in the place of the calls. Read next: devices/cuda/calls.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np

from cleargrad.core.dtype import int32, int64
from cleargrad.core.layout import ghost
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.devices.cuda.tiled import is_one_product, is_tiled
from cleargrad.ops.attention import as_added, exponentials, scores_of
from cleargrad.ops.bounds import maximum
from cleargrad.ops.comparison import where
from cleargrad.ops.padding import pad_constant
from cleargrad.ops.record import Call, CaptureError, Graph, Recorder, Value

UNROLLED = 32  # taps of a window up to which each of them is written out

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
    """Maxima of windows, and where they are in the image: the first of equal ones, but the last NaN."""
    size = tuple(x.shape[2:])
    count = outputs_of(size, kernel, stride, padding, dilation, ceil_mode)
    seen = windows(x, kernel, stride, padding, dilation, count, lowest(x))
    at, inside = spots_of(size, kernel, stride, padding, dilation, count)
    if prod(kernel) > UNROLLED:
        return largest_of_row(seen.flatten(2 + len(kernel)), at, inside)
    # Taps one after the other, as places behind the first one, so that no table is read for them.
    begin, first = at[..., 0], np.take_along_axis(at, inside.argmax(-1)[..., None], -1)[..., 0]
    best: Any = None
    place = known((first - begin).astype(np.int32))
    for tap, moved in zip(np.ndindex(kernel), moves_of(size, kernel, dilation)):
        value = seen[(..., *tap)]
        if best is None:  # it is the first inside, or lower than all that are inside, or equal to them
            best = value
            continue
        wins = value > best
        wins = wins | (value != value) if x.dtype.is_floating_point else wins
        best, place = where(wins, value, best), where(wins, moved, place)
    return best, known(begin) + place.expand(best.shape).to(int64)


def max_values(
    x: Any, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> Any:
    count = outputs_of(tuple(x.shape[2:]), kernel, stride, padding, dilation, ceil_mode)
    seen = windows(x, kernel, stride, padding, dilation, count, lowest(x))
    if prod(kernel) > UNROLLED:
        return seen.flatten(2 + len(kernel)).amax(-1)
    return reduce(maximum, [seen[(..., *tap)] for tap in np.ndindex(kernel)])


def lowest(x: Any) -> float:
    return -inf if x.dtype.is_floating_point else int(np.iinfo(x._form.dtype).min)


def moves_of(size: tuple, kernel: tuple, dilation: tuple) -> list[int]:
    """How far behind the first tap of a window, in the plane, every tap is."""
    steps = [prod(size[axis + 1 :]) * d for axis, d in enumerate(dilation)]
    return [sum(k * step for k, step in zip(tap, steps)) for tap in np.ndindex(kernel)]


def largest_of_row(seen: Any, at: np.ndarray, inside: np.ndarray) -> tuple:
    """The largest of every row, and its place: each of them is known, and whether it counts."""
    best = seen.amax(-1)
    wins, place = seen == best.unsqueeze(-1), known(at).expand(seen.shape)
    if seen.dtype.is_floating_point:
        missing = seen != seen  # places below 0, so that the last of them is the least
        wins, place = wins | missing, where(missing, -1 - place, place)
    least = place.masked_fill(~(wins & known(inside)), int(at.max(initial=0)) + 1).amin(-1)
    return best, where(least < 0, -1 - least, least)


def max_pool_back(
    g: Any, indices: Any, *, size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> Any:
    """Every place of the image adds up g of the windows that may cover it and whose index names it.

    A place is s·a + r along an axis; for all r together the windows a + low .. a + high are looked at, which
    are views of g and of the indices that move along with a.
    """
    size, count = tuple(size), tuple(g.shape[2:])
    low = [-((d * (k - 1) - p) // s) for k, s, p, d in zip(kernel, stride, padding, dilation)]
    high = [(s - 1 + p) // s for s, p in zip(stride, padding)]
    groups = tuple(-(-n // s) for n, s in zip(size, stride))
    pads = tuple((-first, a + last - t) for first, last, a, t in zip(low, high, groups, count))
    share = g.float() if g.element_size() < 4 else g
    names = indices.to(int32) if prod(size) < 1 << 31 else indices
    share, names = (
        pad_constant(x, pads=pads, value=value) if any(map(any, pads)) else x.contiguous()
        for x, value in ((share, 0), (names, -1))
    )
    steps = [prod(share.shape[axis + 1 :]) for axis in range(share.dim())]
    shape = (*g.shape[:2], *(extent for pair in zip(groups, stride) for extent in pair))
    strides = (*steps[:2], *(step for each in steps[2:] for step in (each, 0)))
    at = grid_of(groups, stride, size)
    at = known(at.astype(np.int32) if names.dtype is int32 else at)
    total: Any = None
    for taps in product(*[range(last - first + 1) for first, last in zip(low, high)]):
        first = sum(tap * step for tap, step in zip(taps, steps[2:]))
        named, part = (x.as_strided(shape, strides, first) for x in (names, share))
        part = where(named == at, part, 0)
        total = part if total is None else total + part
    whole = tuple(a * s for a, s in zip(groups, stride))
    total = total.to(g.dtype).reshape(*g.shape[:2], *whole)
    for axis, n in enumerate(size, start=2):
        total = total.narrow(axis, 0, n)
    return total


@lru_cache(maxsize=256)
def grid_of(groups: tuple, stride: tuple, size: tuple) -> np.ndarray:
    """The index in the plane of every place, as (a, r, ...); what is outside has one that no window names."""
    at = np.zeros(())
    for a, s, n in zip(groups, stride, size):
        along = np.arange(a * s).reshape(a, s)
        at = np.where((at[..., None, None] < 0) | (along >= n), -2, at[..., None, None] * n + along)
    return at.astype(np.int64)


# Adaptive pooling ------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def spans_of(size: tuple, count: tuple) -> tuple:
    """The places of the image in every evenly spread window, as (*count, places), and if they count."""
    rank = len(size)
    at, inside = np.zeros((1,) * (2 * rank), np.int64), np.ones((1,) * (2 * rank), np.bool_)
    for axis, (n, t) in enumerate(zip(size, count)):
        begin = np.arange(t) * n // t
        length = -(-(np.arange(t) + 1) * n // t) - begin
        along = np.arange(length.max(initial=1))
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = t, len(along)
        at = at * n + np.minimum(begin[:, None] + along, n - 1).reshape(shape)
        inside = inside & (along < length[:, None]).reshape(shape)
    whole = (*count, -1)
    return at.reshape(whole), inside.reshape(whole)


def picked(x: Any, at: np.ndarray) -> Any:
    """What lies at places of the planes of (N, C, *S), as (N, C, *shape of the places)."""
    return x.flatten(2).index_select(2, known(at.reshape(-1))).view(*x.shape[:2], *at.shape)


def adaptive_max_pool(x: Any, *, size: tuple) -> tuple:
    at, inside = spans_of(tuple(x.shape[2:]), tuple(size))
    return largest_of_row(picked(x, at).masked_fill(~known(inside), lowest(x)), at, inside)


def adaptive_max_pool_back(g: Any, indices: Any, *, size: tuple) -> Any:
    at, inside = spans_of(tuple(g.shape[2:]), tuple(size))  # a place is in the parts that are in its part
    share = picked(g.float() if g.element_size() < 4 else g, at)
    own = known(np.arange(prod(size)).reshape(*size, 1))
    return where((picked(indices, at) == own) & known(inside), share, 0).sum(-1).to(g.dtype)


def adaptive_avg_pool(x: Any, *, size: tuple) -> Any:
    at, inside = spans_of(tuple(x.shape[2:]), tuple(size))
    seen = picked(x.float() if x.element_size() < 4 else x, at)
    total = where(known(inside), seen, 0).sum(-1)
    return (total / known(inside.sum(-1).astype(total._form.dtype))).to(x.dtype)


def adaptive_avg_pool_back(g: Any, *, size: tuple) -> Any:
    share = g.float() if g.element_size() < 4 else g
    lengths = spans_of(tuple(size), tuple(g.shape[2:]))[1].sum(-1)
    share = share / known(lengths.astype(share._form.dtype))
    at, inside = spans_of(tuple(g.shape[2:]), tuple(size))
    return where(known(inside), picked(share, at), 0).sum(-1).to(g.dtype)


# Windows of means ------------------------------------------------------------------------------------------


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
    "max_pool_adjoint": max_pool_back,
    "adaptive_max_pool_adjoint": adaptive_max_pool_back,
    **{f"adaptive_max_pool{n}d": adaptive_max_pool for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": adaptive_avg_pool for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d_adjoint": adaptive_avg_pool_back for n in (1, 2, 3)},
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
        kept = is_tiled(call, architecture) or is_one_product(call)
        parts = recorded(call) if has_parts and not kept else None
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
