"""Attention in tiles, in Triton: kernels that never hold all scores, for the way there and the way back.

Pointers come in, and as constants how many elements lie between neighbours of each tensor: a tuple (batch, head,
row, column). A row's scores become weights by exp2(score · log2 e − ...). Where the scale is positive and nothing
is added to scores, scale and log2 e are one factor (EXACT is false, the highest score is kept times log2 e).
Otherwise the highest score is subtracted first: a mask of very low numbers would become infinite by the factor.

Each loop stands in an `if` of its own, which asks whether it runs at all. If a way around the loop met it where its
last product is waited for, ptxas would wait for every product by itself (its remark C7515).
This file alone imports Triton; who has none does not read it. Read next: devices/cuda/flash.py.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Places ----------------------------------------------------------------------------------------------------


@triton.jit
def place_of(TILES: tl.constexpr, HEADS: tl.constexpr, TOGETHER: tl.constexpr, LAST_FIRST: tl.constexpr):
    """A program's tile and head: the same tile of several heads, then their next one, so that caches serve it."""
    program = tl.program_id(0)
    group = program // (TILES * TOGETHER)
    first = group * TOGETHER
    heads = tl.minimum(HEADS - first, TOGETHER)
    within = program - group * (TILES * TOGETHER)
    tile = within // heads
    if LAST_FIRST:
        tile = TILES - 1 - tile
    return tile, first + within % heads


@triton.jit
def matrix(pointer, STRIDES: tl.constexpr, head, HEADS: tl.constexpr, row):
    """A row of the matrix of a head."""
    pointer += tl.cast(head // HEADS, tl.int64) * STRIDES[0] + tl.cast(head % HEADS, tl.int64) * STRIDES[1]
    return pointer + tl.cast(row, tl.int64) * STRIDES[2]


@triton.jit
def moved(base, STRIDES: tl.constexpr, row, col):
    """A pointer, some rows and columns further."""
    return base + tl.cast(row, tl.int64) * STRIDES[2] + tl.cast(col, tl.int64) * STRIDES[3]


@triton.jit
def tile_at(base, STRIDES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Pointers to a tile's elements; 64 bits count what one tile may not span with 32."""
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    if STRIDES[2] >= 8388608 or STRIDES[3] >= 8388608:
        rows, cols = rows.to(tl.int64), cols.to(tl.int64)
    return base + (rows[:, None] * STRIDES[2] + cols[None, :] * STRIDES[3])


@triton.jit
def read(
    base, STRIDES: tl.constexpr, row, col,
    ROWS: tl.constexpr, COLS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The tile at `base`, zero outside of the matrix; a HEIGHT or WIDTH that tiles divide asks for no look."""
    places = tile_at(base, STRIDES, ROWS, COLS)
    low, left = (row + tl.arange(0, ROWS))[:, None] < HEIGHT, (col + tl.arange(0, COLS))[None, :] < WIDTH
    if HEIGHT % ROWS == 0 and WIDTH % COLS == 0:
        found = tl.load(places)
    elif WIDTH % COLS == 0:
        found = tl.load(places, mask=low, other=0)
    elif HEIGHT % ROWS == 0:
        found = tl.load(places, mask=left, other=0)
    else:
        found = tl.load(places, mask=low & left, other=0)
    return found


@triton.jit
def write(
    base, STRIDES: tl.constexpr, row, values,
    ROWS: tl.constexpr, COLS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Writes the part of a tile, at `base`, that lies in the matrix."""
    places = tile_at(base, STRIDES, ROWS, COLS)
    low, left = (row + tl.arange(0, ROWS))[:, None] < HEIGHT, tl.arange(0, COLS)[None, :] < WIDTH
    values = values.to(base.dtype.element_ty)
    if HEIGHT % ROWS == 0 and WIDTH == COLS:
        tl.store(places, values)
    else:
        tl.store(places, values, mask=low & left)


# Scores ----------------------------------------------------------------------------------------------------


@triton.jit
def scored(scores, seen, SCALE: tl.constexpr, KIND: tl.constexpr, EXACT: tl.constexpr):
    """Scores with what a mask adds to them; not yet scaled unless EXACT."""
    if EXACT:
        scores *= SCALE
    if KIND == "added":
        scores += seen.to(tl.float32)
    return scores


@triton.jit
def hidden(
    values, EMPTY: tl.constexpr, seen, ahead, left, ROWS: tl.constexpr, COLS: tl.constexpr,
    CAUSAL: tl.constexpr, KIND: tl.constexpr, TAIL: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """EMPTY where a query may not see a key; the rows of a tile are queries, or keys where it is TURNED.

    In the tile's corner the key's place is `ahead` of the query's. TAIL: only `left` keys exist from there on.
    """
    queries, keys = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    if TURNED:
        queries, keys = keys, queries
    if KIND == "bool":
        values = tl.where(seen, values, EMPTY)
    if CAUSAL:
        values = tl.where(keys + ahead <= queries, values, EMPTY)
    if TAIL:
        values = tl.where(keys < left, values, EMPTY)
    return values


@triton.jit
def recomputed(scores, level, shift, SCALE: tl.constexpr, EXACT: tl.constexpr):
    """Weights, from scores and what `prepare` keeps of rows."""
    if EXACT:
        weights = tl.exp2((scores - level) * 1.4426950408889634 - shift)
    else:
        weights = tl.exp2(scores * (SCALE * 1.4426950408889634) - shift)
    return weights


# The way there ---------------------------------------------------------------------------------------------


@triton.jit
def attend_over(
    first, last, highest, total, sums, q_tile, row, k, v, mask,
    K: tl.constexpr, V: tl.constexpr, MASK: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PADDED_WIDTH: tl.constexpr, PADDED_DEPTH: tl.constexpr,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, KIND: tl.constexpr, EXACT: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Looks at keys from `first` to `last`; only those at an EDGE may be hidden by their place."""
    height: tl.constexpr = KEYS if EDGE else 0
    factor: tl.constexpr = 1.4426950408889634 if EXACT else SCALE * 1.4426950408889634
    k, v = moved(k, K, first, 0), moved(v, V, first, 0)
    if KIND != "none":
        mask = moved(mask, MASK, 0, first)
    for start in tl.range(first, last, COLS):
        k_tile = read(k, K, start, 0, COLS, PADDED_WIDTH, height, WIDTH)
        scores = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
        seen = 0
        if KIND != "none":
            seen = read(mask, MASK, row, start, ROWS, COLS, QUERIES, height)
            mask = moved(mask, MASK, 0, COLS)
        scores = hidden(
            scored(scores, seen, SCALE, KIND, EXACT), float("-inf"), seen, start - row, KEYS - start, ROWS, COLS,
            EDGE and CAUSAL, KIND, EDGE and KEYS % COLS != 0, False,
        )  # fmt: skip
        top = tl.max(scores, 1)
        if not EXACT:
            top *= factor
        top = tl.maximum(highest, top)
        level = top
        if KIND != "none":  # a row may have seen nothing so far
            level = tl.where(top == float("-inf"), 0.0, top)
        if EXACT:
            weights = tl.exp2((scores - level[:, None]) * factor)
            fading = tl.exp2((highest - level) * factor)
        else:
            weights = tl.exp2(scores * factor - level[:, None])
            fading = tl.exp2(highest - level)
        highest = top
        total = total * fading + tl.sum(weights, 1)
        v_tile = read(v, V, start, 0, COLS, PADDED_DEPTH, height, DEPTH)
        sums = tl.dot(weights.to(v_tile.dtype), v_tile, sums * fading[:, None], input_precision="ieee")
        k, v = moved(k, K, COLS, 0), moved(v, V, COLS, 0)
    return highest, total, sums


@triton.jit
def attend(
    q, k, v, mask, out, peaks, totals,
    Q: tl.constexpr, K: tl.constexpr, V: tl.constexpr, MASK: tl.constexpr,
    OUT: tl.constexpr, PEAKS: tl.constexpr, TOTALS: tl.constexpr,
    HEADS: tl.constexpr, ALL_HEADS: tl.constexpr, TOGETHER: tl.constexpr, TILES: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PADDED_WIDTH: tl.constexpr, PADDED_DEPTH: tl.constexpr,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, KIND: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """out = softmax(q kᵀ · scale + mask) v for a tile of queries, with what the way back needs of their rows."""
    tile, head = place_of(TILES, ALL_HEADS, TOGETHER, CAUSAL)
    row = tile * ROWS
    k, v = matrix(k, K, head, HEADS, 0), matrix(v, V, head, HEADS, 0)
    if KIND != "none":
        mask = matrix(mask, MASK, head, HEADS, row)
    q_tile = read(matrix(q, Q, head, HEADS, row), Q, row, 0, ROWS, PADDED_WIDTH, QUERIES, WIDTH)
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, PADDED_DEPTH], tl.float32)
    whole, last = KEYS // COLS * COLS, KEYS
    if CAUSAL:
        whole, last = tl.minimum(whole, row // COLS * COLS), tl.minimum(KEYS, row + ROWS)
    if whole > 0:
        highest, total, sums = attend_over(
            0, whole, highest, total, sums, q_tile, row, k, v, mask, K, V, MASK,
            QUERIES, KEYS, WIDTH, DEPTH, ROWS, COLS, PADDED_WIDTH, PADDED_DEPTH,
            SCALE, CAUSAL, KIND, EXACT, False,
        )  # fmt: skip
    if whole < last:
        highest, total, sums = attend_over(
            whole, last, highest, total, sums, q_tile, row, k, v, mask, K, V, MASK,
            QUERIES, KEYS, WIDTH, DEPTH, ROWS, COLS, PADDED_WIDTH, PADDED_DEPTH,
            SCALE, CAUSAL, KIND, EXACT, True,
        )  # fmt: skip
    nothing = highest == float("-inf")
    highest = tl.where(nothing, 0.0, highest)
    total = tl.where(nothing, float("inf"), total)
    if not EXACT:
        highest *= 0.6931471805599453
    sums *= (1 / total)[:, None]
    write(matrix(out, OUT, head, HEADS, row), OUT, row, sums, ROWS, PADDED_DEPTH, QUERIES, DEPTH)
    write(matrix(peaks, PEAKS, head, HEADS, row), PEAKS, row, highest[:, None], ROWS, 1, QUERIES, 1)
    write(matrix(totals, TOTALS, head, HEADS, row), TOTALS, row, total[:, None], ROWS, 1, QUERIES, 1)


# The way back ----------------------------------------------------------------------------------------------


@triton.jit
def prepare(
    g, out, peaks, totals, deltas, shifts, levels,
    G: tl.constexpr, OUT: tl.constexpr, PEAKS: tl.constexpr, TOTALS: tl.constexpr,
    HEADS: tl.constexpr, QUERIES: tl.constexpr, LENGTH: tl.constexpr, DEPTH: tl.constexpr,
    ROWS: tl.constexpr, PADDED_DEPTH: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Of every row: the sum of g · out, and the logarithm by which weights are recomputed.

    LENGTH rows of a head lie side by side. Those behind the last query have an infinite logarithm, so that they
    weigh nothing and no one must ask for them.
    """
    tiles: tl.constexpr = LENGTH // ROWS
    head, row = tl.program_id(0) // tiles, tl.program_id(0) % tiles * ROWS
    g_tile = read(matrix(g, G, head, HEADS, row), G, row, 0, ROWS, PADDED_DEPTH, QUERIES, DEPTH)
    out_tile = read(matrix(out, OUT, head, HEADS, row), OUT, row, 0, ROWS, PADDED_DEPTH, QUERIES, DEPTH)
    peak = read(matrix(peaks, PEAKS, head, HEADS, row), PEAKS, row, 0, ROWS, 1, QUERIES, 1)
    total = read(matrix(totals, TOTALS, head, HEADS, row), TOTALS, row, 0, ROWS, 1, QUERIES, 1)
    rows = row + tl.arange(0, ROWS)[:, None]
    shift = tl.log2(total)
    place = tl.cast(head, tl.int64) * LENGTH + rows
    if EXACT:
        tl.store(levels + place, peak)
    else:
        shift += peak * 1.4426950408889634
    tl.store(shifts + place, tl.where(rows < QUERIES, shift, float("inf")))
    delta = tl.sum(g_tile.to(tl.float32) * out_tile.to(tl.float32), 1)
    tl.store(deltas + place, delta[:, None])


@triton.jit
def keys_over(
    first, last, dk_tile, dv_tile, k_tile, v_tile, col, g, q, mask, deltas, shifts, levels,
    G: tl.constexpr, Q: tl.constexpr, MASK: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PADDED_WIDTH: tl.constexpr, PADDED_DEPTH: tl.constexpr,
    SCALE: tl.constexpr, KIND: tl.constexpr, EXACT: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Looks at queries from `first` to `last`; a row of a tile is a key, a column is a query."""
    g, q = moved(g, G, first, 0), moved(q, Q, first, 0)
    if KIND != "none":
        mask = moved(mask, MASK, 0, first)
    for start in tl.range(first, last, ROWS):
        i = start + tl.arange(0, ROWS)
        q_tile = read(q, Q, start, 0, ROWS, PADDED_WIDTH, QUERIES, WIDTH)
        g_tile = read(g, G, start, 0, ROWS, PADDED_DEPTH, QUERIES, DEPTH).to(v_tile.dtype)
        shift, level = tl.load(shifts + i)[None, :], 0.0
        if EXACT:
            level = tl.load(levels + i)[None, :]
        seen = 0
        if KIND != "none":
            seen = read(mask, MASK, col, start, COLS, ROWS, KEYS, QUERIES)
            mask = moved(mask, MASK, 0, ROWS)
        scores = tl.dot(k_tile, tl.trans(q_tile), input_precision="ieee")
        slope = tl.dot(v_tile, tl.trans(g_tile), input_precision="ieee")
        weights = recomputed(scored(scores, seen, SCALE, KIND, EXACT), level, shift, SCALE, EXACT)
        weights = hidden(weights, 0.0, seen, col - start, 0, COLS, ROWS, EDGE, KIND, False, True)
        dv_tile = tl.dot(weights.to(v_tile.dtype), g_tile, dv_tile, input_precision="ieee")
        slope = weights * (slope - tl.load(deltas + i)[None, :])
        dk_tile = tl.dot(slope.to(v_tile.dtype), q_tile, dk_tile, input_precision="ieee")
        g, q = moved(g, G, ROWS, 0), moved(q, Q, ROWS, 0)
    return dk_tile, dv_tile


@triton.jit
def gradient_of_keys(
    g, q, k, v, mask, deltas, shifts, levels, dk, dv,
    G: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, V: tl.constexpr, MASK: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr,
    HEADS: tl.constexpr, ALL_HEADS: tl.constexpr, TOGETHER: tl.constexpr, TILES: tl.constexpr,
    LENGTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PADDED_WIDTH: tl.constexpr, PADDED_DEPTH: tl.constexpr,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, KIND: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """The gradients of a tile of keys and values. MASK has the strides of the mask transposed."""
    tile, head = place_of(TILES, ALL_HEADS, TOGETHER, False)
    col = tile * COLS
    g, q = matrix(g, G, head, HEADS, 0), matrix(q, Q, head, HEADS, 0)
    if KIND != "none":
        mask = matrix(mask, MASK, head, HEADS, col)
    rows = tl.cast(head, tl.int64) * LENGTH
    deltas, shifts = deltas + rows, shifts + rows
    if EXACT:
        levels += rows
    k_tile = read(matrix(k, K, head, HEADS, col), K, col, 0, COLS, PADDED_WIDTH, KEYS, WIDTH)
    v_tile = read(matrix(v, V, head, HEADS, col), V, col, 0, COLS, PADDED_DEPTH, KEYS, DEPTH)
    dk_tile = tl.zeros([COLS, PADDED_WIDTH], tl.float32)
    dv_tile = tl.zeros([COLS, PADDED_DEPTH], tl.float32)
    edge, first = 0, 0
    if CAUSAL:
        edge = col // ROWS * ROWS
        first = tl.minimum((col + COLS + ROWS - 1) // ROWS * ROWS, QUERIES)
    if edge < first:
        dk_tile, dv_tile = keys_over(
            edge, first, dk_tile, dv_tile, k_tile, v_tile, col, g, q, mask, deltas, shifts, levels, G, Q, MASK,
            QUERIES, KEYS, WIDTH, DEPTH, ROWS, COLS, PADDED_WIDTH, PADDED_DEPTH, SCALE, KIND, EXACT, True,
        )  # fmt: skip
    if first < QUERIES:
        dk_tile, dv_tile = keys_over(
            first, QUERIES, dk_tile, dv_tile, k_tile, v_tile, col, g, q, mask, deltas, shifts, levels, G, Q, MASK,
            QUERIES, KEYS, WIDTH, DEPTH, ROWS, COLS, PADDED_WIDTH, PADDED_DEPTH, SCALE, KIND, EXACT, False,
        )  # fmt: skip
    write(matrix(dk, DK, head, HEADS, col), DK, col, dk_tile * SCALE, COLS, PADDED_WIDTH, KEYS, WIDTH)
    write(matrix(dv, DV, head, HEADS, col), DV, col, dv_tile, COLS, PADDED_DEPTH, KEYS, DEPTH)


@triton.jit
def queries_over(
    first, last, dq_tile, q_tile, g_tile, delta, shift, level, row, k, v, mask,
    K: tl.constexpr, V: tl.constexpr, MASK: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PADDED_WIDTH: tl.constexpr, PADDED_DEPTH: tl.constexpr,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, KIND: tl.constexpr, EXACT: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Looks at keys from `first` to `last`; only those at an EDGE may be hidden by their place."""
    height: tl.constexpr = KEYS if EDGE else 0
    k, v = moved(k, K, first, 0), moved(v, V, first, 0)
    if KIND != "none":
        mask = moved(mask, MASK, 0, first)
    for start in tl.range(first, last, COLS):
        k_tile = read(k, K, start, 0, COLS, PADDED_WIDTH, height, WIDTH)
        v_tile = read(v, V, start, 0, COLS, PADDED_DEPTH, height, DEPTH)
        seen = 0
        if KIND != "none":
            seen = read(mask, MASK, row, start, ROWS, COLS, QUERIES, height)
            mask = moved(mask, MASK, 0, COLS)
        scores = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
        slope = tl.dot(g_tile, tl.trans(v_tile), input_precision="ieee")
        weights = recomputed(scored(scores, seen, SCALE, KIND, EXACT), level, shift, SCALE, EXACT)
        weights = hidden(
            weights, 0.0, seen, start - row, KEYS - start, ROWS, COLS,
            EDGE and CAUSAL, KIND, EDGE and KEYS % COLS != 0, False,
        )  # fmt: skip
        slope = weights * (slope - delta)
        dq_tile = tl.dot(slope.to(k_tile.dtype), k_tile, dq_tile, input_precision="ieee")
        k, v = moved(k, K, COLS, 0), moved(v, V, COLS, 0)
    return dq_tile


@triton.jit
def gradient_of_queries(
    g, q, k, v, mask, deltas, shifts, levels, dq,
    G: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, V: tl.constexpr, MASK: tl.constexpr, DQ: tl.constexpr,
    HEADS: tl.constexpr, ALL_HEADS: tl.constexpr, TOGETHER: tl.constexpr, TILES: tl.constexpr,
    LENGTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PADDED_WIDTH: tl.constexpr, PADDED_DEPTH: tl.constexpr,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, KIND: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """The gradient of a tile of queries."""
    tile, head = place_of(TILES, ALL_HEADS, TOGETHER, CAUSAL)
    row = tile * ROWS
    k, v = matrix(k, K, head, HEADS, 0), matrix(v, V, head, HEADS, 0)
    if KIND != "none":
        mask = matrix(mask, MASK, head, HEADS, row)
    q_tile = read(matrix(q, Q, head, HEADS, row), Q, row, 0, ROWS, PADDED_WIDTH, QUERIES, WIDTH)
    g_tile = read(matrix(g, G, head, HEADS, row), G, row, 0, ROWS, PADDED_DEPTH, QUERIES, DEPTH).to(
        q_tile.dtype
    )
    rows = tl.cast(head, tl.int64) * LENGTH + row + tl.arange(0, ROWS)[:, None]
    delta, shift, level = tl.load(deltas + rows), tl.load(shifts + rows), 0.0
    if EXACT:
        level = tl.load(levels + rows)
    dq_tile = tl.zeros([ROWS, PADDED_WIDTH], tl.float32)
    whole, last = KEYS // COLS * COLS, KEYS
    if CAUSAL:
        whole, last = tl.minimum(whole, row // COLS * COLS), tl.minimum(KEYS, row + ROWS)
    if whole > 0:
        dq_tile = queries_over(
            0, whole, dq_tile, q_tile, g_tile, delta, shift, level, row, k, v, mask, K, V, MASK,
            QUERIES, KEYS, WIDTH, DEPTH, ROWS, COLS, PADDED_WIDTH, PADDED_DEPTH,
            SCALE, CAUSAL, KIND, EXACT, False,
        )  # fmt: skip
    if whole < last:
        dq_tile = queries_over(
            whole, last, dq_tile, q_tile, g_tile, delta, shift, level, row, k, v, mask, K, V, MASK,
            QUERIES, KEYS, WIDTH, DEPTH, ROWS, COLS, PADDED_WIDTH, PADDED_DEPTH,
            SCALE, CAUSAL, KIND, EXACT, True,
        )  # fmt: skip
    write(matrix(dq, DQ, head, HEADS, row), DQ, row, dq_tile * SCALE, ROWS, PADDED_WIDTH, QUERIES, WIDTH)
