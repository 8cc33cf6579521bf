"""Recurrent layers on arrays: the steps through time of RNN, LSTM and GRU, and their gradients.

The input's share of the gates comes in for all steps at once, one row per step and sequence: (rows, gates).
A step touches the first `batch` rows of a state, so one loop serves padded and packed sequences in both
directions. What does not depend on the step before is computed for all rows at once. Read next:
ops/recurrent.py.
"""

from __future__ import annotations

import numpy as np

from cleargrad.codegen.expr import identity, sigmoid, tanh
from cleargrad.codegen.native import Loop, product
from cleargrad.codegen.numpy_reading import NUMPY

sigmoid_of, tanh_of = NUMPY["sigmoid"], NUMPY["tanh"]
ndarray = np.ndarray
Order = list[tuple[slice, int]]  # for each step in the order of time: its rows, and how many they are


def order_of(sizes: tuple[int, ...], reverse: bool) -> Order:
    """The steps for these batch sizes, which lie in memory one behind the other."""
    order, start = [], 0
    for size in sizes:
        order.append((slice(start, start + size), size))
        start += size
    return order[::-1] if reverse else order


def before(states: ndarray, initial: ndarray, order: Order) -> ndarray:
    """For each row the state from which its step started."""
    previous = np.empty(states.shape, states.dtype)
    state = initial.copy()
    for rows, batch in order:
        previous[rows] = state[:batch]
        state[:batch] = states[rows]
    return previous


# One gate: h ← act(x + W h) --------------------------------------------------------------------------------


def rnn(x: ndarray, h: ndarray, weight: ndarray, order: Order, relu: bool) -> tuple[ndarray, ...]:
    """The states of all steps (rows, hidden), and the last state of each sequence."""
    out = np.empty(x.shape, x.dtype)
    state = h.copy()
    for rows, batch in order:
        value = out[rows]
        product(state[:batch], weight.T, out=value)
        value += x[rows]
        if relu:
            np.maximum(value, 0, out=value)
        else:
            tanh_of(value, value)
        state[:batch] = value
    return out, state


def rnn_gradient(
    g: ndarray | None,
    g_last: ndarray | None,
    h: ndarray,
    weight: ndarray,
    out: ndarray,
    order: Order,
    relu: bool,
) -> tuple[ndarray, ...]:
    """Gradients of x, h and the weight."""
    slope = (out > 0).astype(out.dtype) if relu else 1 - out * out
    g_state = start_gradient(g_last, h)
    for rows, batch in reversed(order):
        part = g_state[:batch]
        if g is not None:
            part += g[rows]
        value = slope[rows]
        value *= part
        product(value, weight, out=part)
    return slope, g_state, product(slope.T, before(out, h, order))


def start_gradient(given: ndarray | None, state: ndarray) -> ndarray:
    return np.zeros(state.shape, state.dtype) if given is None else given.astype(state.dtype, order="C")


# LSTM: c ← f c + i g, h ← o tanh(c), with gates i, f, g, o --------------------------------------------------


# The elementwise part of a step, after i, f, g, o = W h and x's share of them: the gates, c twice, h twice.
LSTM_STEP = Loop(
    9,
    lambda i, f, g, o, xi, xf, xg, xo, c: sigmoid(i + xi),
    lambda i, f, g, o, xi, xf, xg, xo, c, *_: sigmoid(f + xf),
    lambda i, f, g, o, xi, xf, xg, xo, c, *_: tanh(g + xg),
    lambda i, f, g, o, xi, xf, xg, xo, c, *_: sigmoid(o + xo),
    lambda i, f, g, o, xi, xf, xg, xo, c, *gates: gates[1] * c + gates[0] * gates[2],
    lambda i, f, g, o, xi, xf, xg, xo, c, *made: identity(made[4]),
    lambda i, f, g, o, xi, xf, xg, xo, c, *made: made[3] * tanh(made[4]),
    lambda i, f, g, o, xi, xf, xg, xo, c, *made: identity(made[6]),
)
# lstm_slopes below, and what h changes by when c does.
LSTM_SLOPES = Loop(
    6,
    lambda i, f, g, o, before, c: (i - i * i) * g,
    lambda i, f, g, o, before, c, *_: (f - f * f) * before,
    lambda i, f, g, o, before, c, *_: i * (1 - g * g),
    lambda i, f, g, o, before, c, *_: (o - o * o) * tanh(c),
    lambda i, f, g, o, before, c, *_: o * (1 - tanh(c) * tanh(c)),
)
# A step back, from the gradients of h and c: those of the gates' inputs, and of c before the step.
LSTM_BACK = Loop(
    9,
    lambda h, g, c, through, f, a, b, d, e: (c + (h + g) * through) * a,
    lambda h, g, c, through, f, a, b, d, e, *_: (c + (h + g) * through) * b,
    lambda h, g, c, through, f, a, b, d, e, *_: (c + (h + g) * through) * d,
    lambda h, g, c, through, f, a, b, d, e, *_: (h + g) * e,
    lambda h, g, c, through, f, a, b, d, e, *_: (c + (h + g) * through) * f,
)


def quarters(x: ndarray, hidden: int) -> tuple[ndarray, ...]:
    return tuple(x[:, first : first + hidden] for first in range(0, 4 * hidden, hidden))


def lstm(
    x: ndarray, h: ndarray, c: ndarray, weight: ndarray, projection: ndarray | None, order: Order
) -> tuple[ndarray, ...]:
    """All h (rows, hidden or projected), the last h and c, and for the gradient all gates and all c."""
    hidden = x.shape[1] // 4
    gates = np.empty(x.shape, x.dtype)
    out = np.empty((len(x), h.shape[1]), x.dtype)
    cells = np.empty((len(x), hidden), x.dtype)
    h, c = h.copy(), c.copy()
    code = LSTM_STEP.code(x) if projection is None and x.flags.c_contiguous else None
    if code is not None:
        parts = quarters(gates, hidden)
        matrices = ((*parts, c, cells, h, out), (*parts, *quarters(x, hidden), c))
        if code.through_time(*matrices, (h, weight.T, gates), order, True):
            return out, h, c, gates, cells
        step = code.bound(*matrices)
        for rows, batch in order:
            product(h[:batch], weight.T, out=gates[rows])
            step(rows.start, batch)
        return out, h, c, gates, cells
    for rows, batch in order:
        value, state, cell = gates[rows], h[:batch], c[:batch]
        product(state, weight.T, out=value)
        value += x[rows]
        sigmoid_of(value[:, : 2 * hidden], value[:, : 2 * hidden])
        sigmoid_of(value[:, 3 * hidden :], value[:, 3 * hidden :])
        candidate = value[:, 2 * hidden : 3 * hidden]
        tanh_of(candidate, candidate)
        cell *= value[:, hidden : 2 * hidden]
        cell += value[:, :hidden] * candidate
        cells[rows] = cell
        result = tanh_of(cell)
        result *= value[:, 3 * hidden :]
        state[...] = out[rows] = result if projection is None else product(result, projection.T)
    return out, h, c, gates, cells


def lstm_gradient(
    g: ndarray | None, g_h: ndarray | None, g_c: ndarray | None,
    h: ndarray, c: ndarray, weight: ndarray, projection: ndarray | None,
    out: ndarray, gates: ndarray, cells: ndarray, order: Order,
) -> tuple:  # fmt: skip
    """Gradients of x, h, c, the weight and the projection."""
    hidden = cells.shape[1]
    f, o = gates[:, hidden : 2 * hidden], gates[:, 3 * hidden :]
    if projection is None and LSTM_BACK.code(gates) is not None:
        return *lstm_gradient_native(g, g_h, g_c, h, c, weight, out, gates, cells, order), None
    squashed = tanh_of(cells)
    g_x = lstm_slopes(gates, squashed, before(cells, c, order), hidden)
    through_cell = o * (1 - squashed * squashed)
    g_h, g_c = start_gradient(g_h, h), start_gradient(g_c, c)
    g_projected = None if projection is None else np.empty_like(out)
    for rows, batch in reversed(order):
        state, cell = g_h[:batch], g_c[:batch]
        if g is not None:
            state += g[rows]
        part = state
        if projection is not None and g_projected is not None:
            g_projected[rows] = state
            part = product(state, projection)
        cell += part * through_cell[rows]
        value = g_x[rows]  # (batch, 4, hidden)
        value[:, :3] *= cell[:, None]
        value[:, 3] *= part
        cell *= f[rows]
        product(value.reshape(batch, -1), weight, out=state)
    g_x = g_x.reshape(gates.shape)
    g_weight = product(g_x.T, before(out, h, order))
    g_projection = None if g_projected is None else product(g_projected.T, o * squashed)
    return g_x, g_h, g_c, g_weight, g_projection


def lstm_gradient_native(
    g: ndarray | None, g_h: ndarray | None, g_c: ndarray | None,
    h: ndarray, c: ndarray, weight: ndarray,
    out: ndarray, gates: ndarray, cells: ndarray, order: Order,
) -> tuple:  # fmt: skip
    """The same by machine code, without a projection."""
    hidden = cells.shape[1]
    slopes, code = LSTM_SLOPES.code(gates), LSTM_BACK.code(gates)
    assert slopes is not None and code is not None
    g_x, through = np.empty(gates.shape, gates.dtype), np.empty(cells.shape, cells.dtype)
    parts, gate_parts = quarters(g_x, hidden), quarters(gates, hidden)
    slopes.bound((*parts, through), (*gate_parts, before(cells, c, order), cells))(0, len(cells))
    g = np.zeros(out.shape, out.dtype) if g is None else np.ascontiguousarray(g)
    g_h, g_c = start_gradient(g_h, h), start_gradient(g_c, c)
    matrices = ((*parts, g_c), (g_h, g, g_c, through, gate_parts[1], *parts))
    if not code.through_time(*matrices, (g_x, weight, g_h), order[::-1], False):
        back = code.bound(*matrices)
        for rows, batch in reversed(order):
            back(rows.start, batch)
            product(g_x[rows], weight, out=g_h[:batch])
    return g_x, g_h, g_c, product(g_x.T, before(out, h, order))


def lstm_slopes(gates: ndarray, squashed: ndarray, previous: ndarray, hidden: int) -> ndarray:
    """What c (for i, f, g) and h (for o) change by when the gates' inputs change: (rows, 4, hidden)."""
    gates = gates.reshape(-1, 4, hidden)
    i, candidate = gates[:, 0], gates[:, 2]
    slopes = gates * gates
    np.subtract(gates, slopes, slopes)  # σ′ = σ − σ²
    slopes[:, 0] *= candidate
    slopes[:, 1] *= previous
    slopes[:, 2] = i * (1 - candidate * candidate)
    slopes[:, 3] *= squashed
    return slopes


# GRU: n ← tanh(x + r (W h + b)), h ← n + z (h − n), with gates r, z, n -------------------------------------


def gru(x: ndarray, h: ndarray, weight: ndarray, bias: ndarray | None, order: Order) -> tuple[ndarray, ...]:
    """All h (rows, hidden), the last h, and for the gradient all gates and W h + b of the third."""
    hidden = h.shape[1]
    gates = np.empty(x.shape, x.dtype)
    out = np.empty((len(x), hidden), x.dtype)
    inner = np.empty_like(out)
    h = h.copy()
    for rows, batch in order:
        value, state = gates[rows], h[:batch]
        product(state, weight.T, out=value)
        if bias is not None:
            value += bias
        candidate = value[:, 2 * hidden :]
        inner[rows] = candidate
        value[:, : 2 * hidden] += x[rows, : 2 * hidden]
        sigmoid_of(value[:, : 2 * hidden], value[:, : 2 * hidden])
        candidate *= value[:, :hidden]
        candidate += x[rows, 2 * hidden :]
        tanh_of(candidate, candidate)
        state -= candidate
        state *= value[:, hidden : 2 * hidden]
        state += candidate
        out[rows] = state
    return out, h, gates, inner


def gru_gradient(
    g: ndarray | None, g_last: ndarray | None, h: ndarray, weight: ndarray,
    out: ndarray, gates: ndarray, inner: ndarray, order: Order,
) -> tuple[ndarray, ...]:  # fmt: skip
    """Gradients of x, h, the weight, and of W h + b, whose sum is the bias's."""
    hidden = h.shape[1]
    previous = before(out, h, order)
    slopes = gru_slopes(gates.reshape(-1, 3, hidden), inner, previous)
    z = gates[:, hidden : 2 * hidden]
    g_state = start_gradient(g_last, h)
    for rows, batch in reversed(order):
        part = g_state[:batch]
        if g is not None:
            part += g[rows]
        value = slopes[rows]  # (batch, 4, hidden)
        value *= part[:, None]
        part *= z[rows]
        part += product(value.reshape(batch, -1)[:, : 3 * hidden], weight)
    g_inner = slopes.reshape(len(out), -1)[:, : 3 * hidden]
    g_x = slopes[:, (0, 1, 3)].reshape(gates.shape)
    return g_x, g_state, product(g_inner.T, previous), np.ascontiguousarray(g_inner)


def gru_slopes(gates: ndarray, inner: ndarray, previous: ndarray) -> ndarray:
    """What h changes by when the inputs of r, z, W h + b and n change: (rows, 4, hidden)."""
    r, z, n = (gates[:, k] for k in range(3))
    slopes = np.empty((len(gates), 4, gates.shape[2]), gates.dtype)
    slopes[:, 3] = (1 - z) * (1 - n * n)
    slopes[:, 2] = slopes[:, 3] * r
    slopes[:, 1] = (previous - n) * z * (1 - z)
    slopes[:, 0] = slopes[:, 2] * inner * (1 - r)
    return slopes
