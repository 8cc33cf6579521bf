"""Attention on arrays, without ever holding all scores: softmax(q kᵀ · scale + mask) v, and its gradient.

Arrays are (heads, rows, width), where heads counts everything before the last two dimensions. Work goes
through in blocks of scores that fit the cache: many heads at once when they are small, some rows of one head
when it is large. Beside the result the gradient needs each row's highest score and sum of exponentials.
Read next: ops/attention.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

BLOCK = 1 << 17  # scores held at a time

Array = np.ndarray


class Part(NamedTuple):
    """Some heads, some rows of queries, and the keys those rows can see."""

    heads: slice
    rows: slice
    keys: slice
    hidden: Array | None  # for causal attention: which of the last keys are hidden from which rows


def parts(q: Array, k: Array, causal: bool) -> Iterator[Part]:
    heads, rows, _ = q.shape
    keys = k.shape[1]
    head_step = max(1, BLOCK // max(rows * keys, 1))
    row_step = rows if head_step > 1 else max(16, BLOCK // max(keys, 1))
    for first in range(0, heads, head_step):
        for row in range(0, rows, max(row_step, 1)):
            last = min(row + row_step, rows)
            seen = min(last, keys) if causal else keys
            hidden = np.arange(row, seen) > np.arange(row, last)[:, None] if causal and row < seen else None
            yield Part(slice(first, first + head_step), slice(row, last), slice(0, seen), hidden)


def scores_of(q: Array, k: Array, mask: Array | None, scale: float, part: Part) -> Array:
    scaled = q[part.heads, part.rows] * q.dtype.type(scale)
    scores = scaled @ k[part.heads, part.keys].swapaxes(1, 2)
    if mask is not None:
        piece = mask[part.heads if len(mask) > 1 else slice(None), part.rows, part.keys]
        if piece.dtype == np.bool_:
            np.copyto(scores, -np.inf, where=~piece)
        else:
            scores += piece
    if part.hidden is not None:
        np.copyto(scores[..., part.rows.start :], -np.inf, where=part.hidden)
    return scores


def attend(
    q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool
) -> tuple[Array, Array, Array]:
    """The result, each row's highest score and sum of exponentials; rows that see nothing give zero."""
    out = np.zeros((*q.shape[:2], v.shape[2]), q.dtype)
    peaks, totals = np.zeros((*q.shape[:2], 1), q.dtype), np.zeros((*q.shape[:2], 1), q.dtype)
    for part in parts(q, k, causal):
        scores = scores_of(q, k, mask, scale, part)
        peak = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        peak[peak == -np.inf] = 0
        scores -= peak
        np.exp(scores, out=scores)
        total = (scores @ np.ones(scores.shape[-1], q.dtype))[..., None]
        total[total == 0] = np.inf  # divides to zero, here and in the gradient
        result = scores @ v[part.heads, part.keys]
        result /= total
        for whole, piece in ((out, result), (peaks, peak), (totals, total)):
            whole[part.heads, part.rows] = piece
    return out, peaks, totals


def attend_gradient(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, peaks: Array, totals: Array,
    scale: float, causal: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of q, k and v.

    With weights p and dp = g vᵀ, the gradient of the scores is p · (dp − rows' sum of g · out). The weights
    are exponentials over a row's total; here that total divides g instead, which is smaller.
    """
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    g = g / totals
    inner = np.vecdot(g, out)[..., None]
    for part in parts(q, k, causal):
        heads, rows, keys, _ = part
        weights = scores_of(q, k, mask, scale, part)
        weights -= peaks[heads, rows]
        np.exp(weights, out=weights)
        grad = g[heads, rows]
        dv[heads, keys] += weights.swapaxes(1, 2) @ grad
        slope = grad @ v[heads, keys].swapaxes(1, 2)
        slope -= inner[heads, rows]
        slope *= weights
        slope *= q.dtype.type(scale)
        dq[heads, rows] = slope @ k[heads, keys]
        dk[heads, keys] += slope.swapaxes(1, 2) @ q[heads, rows]
    return dq, dk, dv
