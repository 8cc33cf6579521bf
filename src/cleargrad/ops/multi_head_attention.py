"""Multi-head attention as a function: projections, masks, attention in each head, and the output projection.

Sequences come first: query is (targets, batch, width), key and value are (sources, batch, width), or without
the batch. Read next: ops/convolution.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.attention import scaled_dot_product_attention
from cleargrad.ops.declare import composite
from cleargrad.ops.dropout import dropout
from cleargrad.ops.joining import cat
from cleargrad.ops.linear import linear
from cleargrad.ops.samples import Fails, Sample, real, truth

NAME = "multi_head_attention_forward"

# Checks ----------------------------------------------------------------------------------------------------


def require(holds: bool, rule: str, **facts: Any) -> None:
    """PyTorch raises AssertionError here."""
    if not holds:
        raise error(AssertionError, NAME, rule, **facts)


def is_batched(query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, heads: int) -> bool:
    rank = query.ndim
    require(rank in (2, 3), f"query should be unbatched 2D or batched 3D, but is {rank}D", query=query)
    require(
        key.ndim == value.ndim == rank,
        f"expected key and value to be {rank}D as query is",
        key=key,
        value=value,
    )
    if padding is not None:
        rule = f"expected key_padding_mask to be {rank - 1}D beside a {rank}D query"
        require(padding.ndim == rank - 1, rule, key_padding_mask=padding)
    if mask is not None:
        require(mask.ndim in (2, 3), "expected attn_mask to be 2D or 3D", attn_mask=mask)
        if rank == 2 and mask.ndim == 3:
            shape = (heads, query.shape[0], key.shape[0])
            require(mask.shape == shape, f"expected attn_mask to have shape {shape}", attn_mask=mask)
    return rank == 3


def check_mask_shape(mask: Tensor | None, batch: int, heads: int, targets: int, sources: int) -> None:
    if mask is None:
        return
    expected = (targets, sources) if mask.ndim == 2 else (batch * heads, targets, sources)
    if mask.shape != expected:
        raise error(RuntimeError, NAME, f"the shape of attn_mask should be {expected}", attn_mask=mask)


def additive(mask: Tensor | None, name: str, kind: dtypes.dtype) -> Tensor | None:
    """A mask that is added to scores: a boolean one hides with minus infinity."""
    if mask is None:
        return None
    boolean = mask.dtype is dtypes.bool_
    rule = f"only bool and floating types of {name} are supported"
    require(boolean or mask.dtype.is_floating_point, rule, mask=mask)
    return mask.new_zeros(mask.shape, dtype=kind).masked_fill(mask, -math.inf) if boolean else mask


# Parts -----------------------------------------------------------------------------------------------------


def project(
    query: Tensor, key: Tensor, value: Tensor, weights: Tensor | tuple[Tensor, ...], bias: Tensor | None
) -> tuple[Tensor, ...]:
    """The projected queries, keys and values; weights are packed into one, or three."""
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if isinstance(weights, tuple):
        width = query.shape[-1]
        for name, x, weight in zip(["query", "key", "value"], (query, key, value), weights, strict=True):
            shape = (width, x.shape[-1])
            require(weight.shape == shape, f"expecting {name} weights of shape {shape}", weight=weight)
    elif query is key is value:
        return linear(query, weights, bias).chunk(3, -1)
    else:
        weights = weights.chunk(3)
    return tuple(linear(*triple) for triple in zip((query, key, value), weights, biases, strict=True))


def chosen_weights(
    key: Tensor, value: Tensor, packed: Tensor | None, separate: tuple | None
) -> Tensor | tuple[Tensor, ...]:
    facts = {"key": key, "value": value}
    if separate is None:
        require(key.shape == value.shape, "key and value differ in shape", **facts)
        require(packed is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        return packed  # type: ignore[return-value]
    require(key.shape[:2] == value.shape[:2], "key and value differ in length or batch", **facts)
    complete = all(weight is not None for weight in separate)
    require(complete, "use_separate_proj_weight is True but a projection's weight is None")
    return separate


def split_heads(x: Tensor, batch: int, heads: int) -> Tensor:
    """(length, batch, width) to (batch · heads, length, width of a head)."""
    return x.reshape(x.shape[0], batch * heads, -1).transpose(0, 1)


def static(x: Tensor, name: str, rows: int, width: int) -> Tensor:
    """Keys or values given by the caller, already in heads."""
    fits = x.shape[0] == rows and x.shape[2] == width
    require(fits, f"expecting {name} of shape ({rows}, length, {width})", given=x)
    return x


def extended(mask: Tensor | None) -> Tensor | None:
    """A mask with one more key, which everybody sees."""
    if mask is None:
        return None
    return cat([mask, mask.new_zeros((*mask.shape[:-1], 1))], -1)


def merged(
    mask: Tensor | None, padding: Tensor | None, batch: int, heads: int, sources: int
) -> Tensor | None:
    """The attention mask and the padding of keys as one, (1 or batch · heads, targets or 1, sources)."""
    if mask is not None and mask.ndim == 2:
        mask = mask.unsqueeze(0)
    if padding is None:
        return mask
    rule = f"expected key_padding_mask to have shape {(batch, sources)}"
    require(padding.shape == (batch, sources), rule, key_padding_mask=padding)
    padding = (
        padding.reshape(batch, 1, 1, sources).expand(-1, heads, -1, -1).reshape(batch * heads, 1, sources)
    )
    return padding if mask is None else mask + padding


def attend_with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Attention in each head, and the weights it used; a row that sees nothing is NaN here, as in PyTorch."""
    scores = (q * math.sqrt(1.0 / q.shape[-1])) @ k.transpose(-2, -1)
    weights = dropout((scores if mask is None else scores + mask.to(scores.dtype)).softmax(-1), dropout_p)
    return weights @ v, weights


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, causal: bool, batch: int
) -> Tensor:
    """Attention in each head."""
    q, k, v = (x.reshape(batch, -1, *x.shape[1:]) for x in (q, k, v))
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.shape[0] == 1 else mask.reshape(batch, -1, *mask.shape[1:])
    return scaled_dot_product_attention(q, k, v, mask, dropout_p, causal).flatten(0, 1)


# The function ----------------------------------------------------------------------------------------------


def mha_samples() -> Iterator[Sample]:
    x, y = real(3, 2, 4, low=-1, high=1), real(5, 2, 4, seed=1, low=-1, high=1)
    packed = (real(12, 4, seed=2), real(12, seed=3))
    output = (real(4, 4, seed=4), real(4, seed=5))
    plain = (4, 2, *packed, None, None, False, 0.0, *output)
    yield Sample(x, y, y + 1, *plain)
    yield Sample(x, y, y + 1, *plain, attn_mask=truth(3, 5) & truth(3, 5, seed=1), need_weights=False)
    yield Sample(x, y, y + 1, *plain, attn_mask=real(4, 3, 5), average_attn_weights=False)
    yield Sample(x[:, 0], y[:, 0], y[:, 0] + 1, *plain, key_padding_mask=real(5))
    extras = (real(1, 1, 4, seed=6), real(1, 1, 4, seed=7), True, 0.5)
    yield Sample(
        x, y, y + 1, 4, 2, *packed, *extras, *output, key_padding_mask=real(2, 5), attn_mask=real(3, 5)
    )
    yield Sample(
        x, y, y + 1, 4, 2, *packed, None, None, False, 0.5, *output, training=False, need_weights=False
    )
    separate = {"q_proj_weight": real(4, 4), "k_proj_weight": real(4, 4, seed=1), "v_proj_weight": real(4, 3)}
    yield Sample(x, y, real(5, 2, 3), 4, 2, None, packed[1], None, None, False, 0.0, *output,
                 use_separate_proj_weight=True, **separate)  # fmt: skip
    yield Sample(x, y, y + 1, *plain, static_k=real(4, 6, 2), static_v=real(4, 6, 2, seed=1))
    yield Fails(AssertionError, x, y, y + 1, 5, 2, *plain[2:])
    yield Fails(AssertionError, x, y, y + 1, 4, 3, *plain[2:])
    yield Fails(AssertionError, x, y[:, 0], y + 1, *plain)
    yield Fails(RuntimeError, x, y, y + 1, *plain, attn_mask=real(3, 4))
    yield Fails(RuntimeError, x, y, y + 1, *plain, is_causal=True)


@composite(mha_samples, spaces=("nn.functional",))
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention in `num_heads` heads: the output, and the weights when they are needed.

    Masks hide where they are True, or are added to the scores. `bias_k` and `bias_v`, and `add_zero_attn`,
    each add one more key and value that everybody sees. `is_causal` says that attn_mask is the causal one.
    """
    batched = is_batched(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = query is key is value
        query = query.unsqueeze(1)
        key, value = (query, query) if same else (key.unsqueeze(1), value.unsqueeze(1))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    targets, batch, width = query.shape
    kind = query.dtype
    if is_causal and attn_mask is None:
        raise error(RuntimeError, NAME, "need attn_mask if specifying the is_causal hint")
    warn_of_mixture(key_padding_mask, attn_mask)
    is_causal = is_causal and key_padding_mask is None and not need_weights
    padding = additive(key_padding_mask, "key_padding_mask", kind)
    mask = None if is_causal else additive(attn_mask, "attn_mask", kind)
    require(width == embed_dim_to_check, f"expected embedding dimension {embed_dim_to_check}", query=query)
    require(width % num_heads == 0, f"embed_dim {width} not divisible by num_heads {num_heads}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    weights = chosen_weights(key, value, in_proj_weight, separate)
    q, k, v = project(query, key, value, weights, in_proj_bias)
    check_mask_shape(mask, batch, num_heads, targets, key.shape[0])
    require((bias_k is None) == (bias_v is None), "bias_k and bias_v must be given together")
    if bias_k is not None and bias_v is not None:
        require(static_k is None and static_v is None, "bias cannot be added to static key or value")
        k = cat([k, bias_k.expand(1, batch, -1)], 0)
        v = cat([v, bias_v.expand(1, batch, -1)], 0)
        mask, padding = extended(mask), extended(padding)

    rows, head_width = batch * num_heads, width // num_heads
    q = split_heads(q, batch, num_heads)  # (batch · heads, targets, head_width)
    k = (
        split_heads(k, batch, num_heads)
        if static_k is None
        else static(static_k, "static_k", rows, head_width)
    )
    v = (
        split_heads(v, batch, num_heads)
        if static_v is None
        else static(static_v, "static_v", rows, head_width)
    )
    if add_zero_attn:
        nothing = k.new_zeros((rows, 1, head_width), dtype=kind)
        k, v = cat([k, nothing], 1), cat([v, nothing], 1)
        mask, padding = extended(mask), extended(padding)
    mask = merged(mask, padding, batch, num_heads, k.shape[1])
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        heads, attention = attend_with_weights(q, k, v, mask, dropout_p)
        attention = attention.reshape(batch, num_heads, targets, -1)
        attention = attention.mean(1) if average_attn_weights else attention
        attention = attention if batched else attention.squeeze(0)
    else:
        heads, attention = attend(q, k, v, mask, dropout_p, is_causal, batch), None
    output = linear(heads.transpose(0, 1).reshape(targets, batch, width), out_proj_weight, out_proj_bias)
    return output if batched else output.squeeze(1), attention


def warn_of_mixture(padding: Tensor | None, mask: Tensor | None) -> None:
    if padding is not None and mask is not None and padding.dtype is not mask.dtype:
        warnings.warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. "
            "Use same type for both instead.",
            stacklevel=3,
        )
