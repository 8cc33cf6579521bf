"""Scaled dot-product attention: softmax(q kᵀ · scale + mask) v.

Without dropout it is one op, whose kernels (devices/cpu/kernels/attention.py) never hold all scores; with
dropout, or when the mask wants a gradient, it is made of other ops. Read next: ops/multi_head_attention.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.arrays import attention as kernels
from cleargrad.devices.cpu.native import ufuncs
from cleargrad.errors import error
from cleargrad.ops.declare import face, fused, opaque, wide
from cleargrad.ops.dropout import dropout_
from cleargrad.ops.normalization import statistics_dtype
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.rearranging import diagonals
from cleargrad.ops.samples import Fails, Sample, real, truth
from cleargrad.ops.views import check_tensor

WIDEST = 1024  # columns of queries and of values, for which the memory of kernels suffices

# Softmax of rows that may be hidden entirely ---------------------------------------------------------------


def exponentials(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """exp(scores − highest), each row's highest score, and its sum; infinite where nothing is seen."""
    if not scores._form.shape[-1]:
        nothing = scores.sum(-1, keepdim=True)
        return scores, nothing, nothing + math.inf
    highest = scores.amax(-1, keepdim=True)
    highest = highest.masked_fill(highest == -math.inf, 0)
    weights = (scores - highest).exp()
    total = weights.sum(-1, keepdim=True)
    return weights, highest, total.masked_fill(total == 0, math.inf)


def safe_softmax_parts(x: Tensor) -> Tensor:
    weights, _, total = exponentials(x)
    return weights / total


safe_softmax = fused(
    "safe_softmax",
    safe_softmax_parts,
    spec=lambda x: Spec(x._form.shape, x.dtype),
    vjp=lambda g, out: softmax_gradient(g, out),
    samples=lambda: iter([Sample(real(3, 4)), Sample(real(2, 3, 4)), Sample(np.full((2, 3), -np.inf))]),
)


def softmax_gradient(g: Tensor, weights: Tensor) -> Tensor:
    return (g - (g * weights).sum(-1, keepdim=True)) * weights


# The formula -----------------------------------------------------------------------------------------------


def scores_of(q: Tensor, k: Tensor, mask: Tensor | None, scale: float, causal: bool) -> Tensor:
    """q kᵀ · scale + mask."""
    # The root on either side, as PyTorch has it: large values lose less.
    root = math.sqrt(abs(scale))
    scores = (q * math.copysign(root, scale)) @ (k * root).transpose(-2, -1)
    if causal:
        scores = scores.masked_fill(diagonals(scores) > 0, -math.inf)
    if mask is None:
        return scores
    if mask.dtype is dtypes.bool_:
        return scores.masked_fill(~mask, -math.inf)
    return scores + mask


def weights_of(q: Tensor, k: Tensor, mask: Tensor | None, scale: float, causal: bool) -> Tensor:
    """softmax(q kᵀ · scale + mask), zero in rows that see nothing."""
    return safe_softmax(scores_of(q, k, mask, scale, causal))


def kept_whole(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> bool:
    """Whether there are kernels for attention on such arrays."""
    float_kinds = {x.dtype.name for x in (q, k, v)} in ({"float32"}, {"float64"})
    return float_kinds and ufuncs() is not None and all(x.size and x.shape[-1] <= WIDEST for x in (q, k, v))


def as_added(mask: Any, q: Tensor) -> Any:
    """A mask of booleans as it is, another one in the dtype of the scores."""
    return mask if mask is None or mask.dtype is dtypes.bool_ else mask.to(q.dtype)


def attention_parts(q: Tensor, k: Tensor, v: Tensor, mask: Any, *, scale: float, causal: bool) -> tuple:
    if kept_whole(q._form, k._form, v._form):
        return flash_attention(q, k, v, as_added(mask, q), scale=scale, causal=causal)
    weights, highest, total = exponentials(scores_of(q, k, mask, scale, causal))
    return weights / total @ v, highest, total


def attention_gradient_parts(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Any, out: Tensor, peaks: Tensor, totals: Tensor,
    *, scale: float, causal: bool,
) -> tuple:  # fmt: skip
    if kept_whole(q._form, k._form, v._form):
        others = (as_added(mask, q), out, peaks, totals)
        return flash_attention_gradient(g, q, k, v, *others, scale=scale, causal=causal)
    weights = (scores_of(q, k, mask, scale, causal) - peaks).exp() / totals
    slope = (g @ v.transpose(-2, -1) - (g * out).sum(-1, keepdim=True)) * weights * scale
    return slope @ k, slope.transpose(-2, -1) @ q, weights.transpose(-2, -1) @ g


# The op ----------------------------------------------------------------------------------------------------


def attention_spec(q: Tensor, k: Tensor, v: Tensor, mask: Any, *, scale: float, causal: bool) -> list[Spec]:
    lead = q._form.shape[:-1]
    statistics = Spec((*lead, 1), statistics_dtype(q))
    return [Spec((*lead, v._form.shape[-1]), q.dtype), statistics, statistics]


def gradient_samples() -> Iterator[Sample]:
    q, k, v, out = real(3, 4), real(5, 4, seed=1), real(5, 2, seed=2), real(3, 2)
    statistics = (real(3, 1), real(3, 1, low=1.0))
    yield Sample(out, q, k, v, None, out, *statistics, scale=0.5, causal=False)


attention_gradient = fused(
    "attention_gradient",
    attention_gradient_parts,
    spec=lambda g, q, k, v, mask, out, peaks, totals, **_: [Spec(x._form.shape, x.dtype) for x in (q, k, v)],
    vjp=NO_GRAD,
    samples=gradient_samples,
    outputs=3,
)


def attention_vjp(
    g: list, q: Tensor, k: Tensor, v: Tensor, mask: Any, out0: Tensor, out1: Tensor, out2: Tensor,
    *, scale: float, causal: bool,
) -> tuple:  # fmt: skip
    if not mode.grad:
        saved = (q, k, v, mask, out0, out1, out2)
        return *attention_gradient(g[0], *saved, scale=scale, causal=causal), None
    g, q, k, v = map(wide, (g[0], q, k, v))
    weights = weights_of(q, k, mask, scale, causal)
    slope = softmax_gradient(g @ v.transpose(-2, -1), weights) * scale
    return slope @ k, slope.transpose(-2, -1) @ q, weights.transpose(-2, -1) @ g, None


def attention_samples() -> Iterator[Sample]:
    q, k, v = real(2, 3, 4, low=-1, high=1), real(2, 5, 4, seed=1, low=-1, high=1), real(2, 5, 2, seed=2)
    yield Sample(q, k, v)
    yield Sample(q, k, v, truth(3, 5))
    yield Sample(q, k, v, np.zeros((3, 5), np.bool_))
    yield Sample(q, k, v, real(2, 3, 5))
    yield Sample(q, k, v, is_causal=True)
    yield Sample(q[None], k[None], v[None], truth(1, 2, 3, 5), scale=0.3)
    yield Sample(real(4, 3, 2), real(2, 3, 2, seed=1), real(2, 3, 2, seed=2), enable_gqa=True)
    yield Sample(real(2, 3), real(2, 3, seed=1), real(2, 3, seed=2), dropout_p=0.5)
    yield Fails(RuntimeError, q, real(2, 5, 3), v)
    yield Fails(RuntimeError, real(3), k, v)
    yield Fails(RuntimeError, q, k, v, real(2, 5))
    yield Fails(RuntimeError, q, k, v, dropout_p=1.5)
    yield Fails(RuntimeError, real(3, 3, 2), real(2, 3, 2), real(2, 3, 2), enable_gqa=True)


attention_op = fused(
    "scaled_dot_product_flash_attention_for_cpu",
    attention_parts,
    spec=attention_spec,
    vjp=attention_vjp,
    samples=attention_samples,
    outputs=3,
    without_grad=(1, 2),
)

# Where there are kernels ------------------------------------------------------------------------------------


def flash_samples() -> Iterator[Sample]:
    q, k, v = real(2, 3, 4, low=-1, high=1), real(2, 5, 4, seed=1, low=-1, high=1), real(2, 5, 2, seed=2)
    yield Sample(q, k, v, None, scale=0.5, causal=True)
    yield Sample(q, k, v, truth(3, 5), scale=0.5, causal=False)


flash_attention = opaque(
    "flash_attention",
    spec=attention_spec,
    run=kernels.attend,
    vjp=NO_GRAD,
    samples=flash_samples,
    outputs=3,
    spec_first=False,
)
flash_attention_gradient = opaque(
    "flash_attention_gradient",
    spec=attention_gradient.op.spec,
    run=kernels.attend_gradient,
    vjp=NO_GRAD,
    samples=gradient_samples,
    outputs=3,
    spec_first=False,
)

NAME = "scaled_dot_product_attention"


def check_attention(query: Any, key: Any, value: Any, mask: Any, dropout_p: float) -> None:
    facts = {"query": query, "key": key, "value": value}
    for name, tensor in facts.items():
        check_tensor(NAME, tensor, name)
    if not query.dtype is key.dtype is value.dtype:
        raise error(RuntimeError, NAME, "expected query, key, and value to have the same dtype", **facts)
    if query.dtype.category < dtypes.FLOAT:
        raise error(RuntimeError, NAME, "expected floating point query, key and value", **facts)
    if min(query._form.ndim, key._form.ndim, value._form.ndim) < 2:
        raise error(RuntimeError, NAME, "query, key and value must be at least 2 dimensional", **facts)
    if query._form.shape[-1] != key._form.shape[-1]:
        raise error(RuntimeError, NAME, "query and key must have the same width (last dimension)", **facts)
    if key._form.shape[-2] != value._form.shape[-2]:
        raise error(RuntimeError, NAME, "there must be as many keys as values", **facts)
    if not 0 <= dropout_p <= 1:
        raise error(RuntimeError, NAME, f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if mask is not None:
        check_tensor(NAME, mask, "attn_mask")
        if mask.dtype not in (dtypes.bool_, dtypes.float32, query.dtype):
            rule = "expected attn_mask to be bool, float or of the query's dtype"
            raise error(RuntimeError, NAME, rule, attn_mask=mask, query=query)


def share_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Grouped queries: each head of keys and values serves several heads of queries."""
    heads = [x._form.shape[-3] if x._form.ndim > 2 else 0 for x in (query, key, value)]
    if not all(heads) or heads[0] % heads[1] or heads[0] % heads[2]:
        rule = "the number of heads in key and value must divide the number of heads in query"
        raise error(RuntimeError, NAME, rule, query=query, key=key, value=value)
    return repeated(key, heads[0] // heads[1]), repeated(value, heads[0] // heads[2])


def repeated(x: Tensor, times: int) -> Tensor:
    *lead, heads, rows, width = x._form.shape
    wide_shape = (*lead, heads, times, rows, width)
    return x.unsqueeze(-3).expand(wide_shape).reshape(*lead, heads * times, rows, width)


@face(attention_op, spaces=("nn.functional",))
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query keyᵀ · scale + mask) value; a boolean mask is True where a row may look.

    Rows that see nothing give zero. `scale` is 1 / √width when not given; `is_causal` hides keys behind a
    row's own place; `enable_gqa` lets several query heads share a head of keys and values.
    """
    check_attention(query, key, value, attn_mask, dropout_p)
    if enable_gqa:
        key, value = share_heads(query, key, value)
    tensors = (query, key, value)
    lead = broadcast(NAME, *(x._form.shape[:-2] for x in tensors))
    query, key, value = (
        x if x._form.shape[:-2] == lead else x.expand((*lead, *x._form.shape[-2:])) for x in tensors
    )
    if attn_mask is not None:
        scores = (*lead, query._form.shape[-2], key._form.shape[-2])
        if broadcast(NAME, attn_mask._form.shape, scores) != scores:
            raise error(RuntimeError, NAME, f"attn_mask does not broadcast to {scores}", attn_mask=attn_mask)
        if attn_mask._form.ndim < 2:
            attn_mask = attn_mask.expand(scores[-2:])
    factor = 1 / math.sqrt(query._form.shape[-1]) if scale is None else scale
    if dropout_p == 0 and (attn_mask is None or not attn_mask.requires_grad):
        return attention_op(query, key, value, attn_mask, scale=factor, causal=is_causal)[0]
    kind = query.dtype
    weights = weights_of(wide(query), wide(key), attn_mask, factor, is_causal)
    return dropout_(weights, dropout_p, True).matmul(wide(value)).to(kind)
