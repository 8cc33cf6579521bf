"""Recurrent layers on arrays: the steps through time of RNN, LSTM and GRU, and their gradients.

The input's share of the gates comes in for all steps at once, one row per step and sequence: (rows, gates).
A step touches the first `batch` rows of a state, so one loop serves padded and packed sequences in both
directions. What does not depend on the step before is computed for all rows at once. Read next:
ops/recurrent.py.
"""

from __future__ import annotations

import numpy as np

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


def sigmoid_(x: ndarray) -> None:
    """1 / (1 + exp(−x)), in place."""
    np.negative(x, x)
    np.exp(x, x)
    x += 1
    np.reciprocal(x, x)


# One gate: h ← act(x + W h) --------------------------------------------------------------------------------


def rnn(x: ndarray, h: ndarray, weight: ndarray, order: Order, relu: bool) -> tuple[ndarray, ...]:
    """The states of all steps (rows, hidden), and the last state of each sequence."""
    out = np.empty(x.shape, x.dtype)
    state = h.copy()
    for rows, batch in order:
        value = out[rows]
        np.dot(state[:batch], weight.T, value)
        value += x[rows]
        if relu:
            np.maximum(value, 0, out=value)
        else:
            np.tanh(value, value)
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
        np.dot(value, weight, part)
    return slope, g_state, slope.T.dot(before(out, h, order))


def start_gradient(given: ndarray | None, state: ndarray) -> ndarray:
    return np.zeros(state.shape, state.dtype) if given is None else given.astype(state.dtype, order="C")


# LSTM: c ← f c + i g, h ← o tanh(c), with gates i, f, g, o --------------------------------------------------


def lstm(
    x: ndarray, h: ndarray, c: ndarray, weight: ndarray, projection: ndarray | None, order: Order
) -> tuple[ndarray, ...]:
    """All h (rows, hidden or projected), the last h and c, and for the gradient all gates and all c."""
    hidden = x.shape[1] // 4
    gates = np.empty(x.shape, x.dtype)
    out = np.empty((len(x), h.shape[1]), x.dtype)
    cells = np.empty((len(x), hidden), x.dtype)
    h, c = h.copy(), c.copy()
    for rows, batch in order:
        value, state, cell = gates[rows], h[:batch], c[:batch]
        np.dot(state, weight.T, value)
        value += x[rows]
        sigmoid_(value[:, : 2 * hidden])
        sigmoid_(value[:, 3 * hidden :])
        candidate = value[:, 2 * hidden : 3 * hidden]
        np.tanh(candidate, candidate)
        cell *= value[:, hidden : 2 * hidden]
        cell += value[:, :hidden] * candidate
        cells[rows] = cell
        result = np.tanh(cell)
        result *= value[:, 3 * hidden :]
        state[...] = out[rows] = result if projection is None else result.dot(projection.T)
    return out, h, c, gates, cells


def lstm_gradient(
    g: ndarray | None, g_h: ndarray | None, g_c: ndarray | None,
    h: ndarray, c: ndarray, weight: ndarray, projection: ndarray | None,
    out: ndarray, gates: ndarray, cells: ndarray, order: Order,
) -> tuple:  # fmt: skip
    """Gradients of x, h, c, the weight and the projection."""
    hidden = cells.shape[1]
    f, o = gates[:, hidden : 2 * hidden], gates[:, 3 * hidden :]
    squashed = np.tanh(cells)
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
            part = state.dot(projection)
        cell += part * through_cell[rows]
        value = g_x[rows]  # (batch, 4, hidden)
        value[:, :3] *= cell[:, None]
        value[:, 3] *= part
        cell *= f[rows]
        np.dot(value.reshape(batch, -1), weight, state)
    g_x = g_x.reshape(gates.shape)
    g_weight = g_x.T.dot(before(out, h, order))
    g_projection = None if g_projected is None else g_projected.T.dot(o * squashed)
    return g_x, g_h, g_c, g_weight, g_projection


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
        np.dot(state, weight.T, value)
        if bias is not None:
            value += bias
        candidate = value[:, 2 * hidden :]
        inner[rows] = candidate
        value[:, : 2 * hidden] += x[rows, : 2 * hidden]
        sigmoid_(value[:, : 2 * hidden])
        candidate *= value[:, :hidden]
        candidate += x[rows, 2 * hidden :]
        np.tanh(candidate, candidate)
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
        part += value.reshape(batch, -1)[:, : 3 * hidden].dot(weight)
    g_inner = slopes.reshape(len(out), -1)[:, : 3 * hidden]
    g_x = slopes[:, (0, 1, 3)].reshape(gates.shape)
    return g_x, g_state, g_inner.T.dot(previous), np.ascontiguousarray(g_inner)


def gru_slopes(gates: ndarray, inner: ndarray, previous: ndarray) -> ndarray:
    """What h changes by when the inputs of r, z, W h + b and n change: (rows, 4, hidden)."""
    r, z, n = (gates[:, k] for k in range(3))
    slopes = np.empty((len(gates), 4, gates.shape[2]), gates.dtype)
    slopes[:, 3] = (1 - z) * (1 - n * n)
    slopes[:, 2] = slopes[:, 3] * r
    slopes[:, 1] = (previous - n) * z * (1 - z)
    slopes[:, 0] = slopes[:, 2] * inner * (1 - r)
    return slopes
