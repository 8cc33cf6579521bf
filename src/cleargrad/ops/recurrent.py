"""Recurrent layers: one layer in one direction is one op, whose kernel steps through time.

The input's product with its weights is taken for all steps at once, outside the op; inside is what one step
hands to the next (backend/cpu/recurrent.py). Rows stand one behind the other, step by step, as in packed
sequences; `sizes` says how many sequences each step has. Read next: ops/recurrent_networks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.autograd.walk import walk
from cleargrad.backend.cpu import recurrent as kernels
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.creation import zeros_like
from cleargrad.ops.declare import fused, opaque, wide
from cleargrad.ops.joining import cat
from cleargrad.ops.normalization import statistics_dtype, widened
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Conventional, Sample, real

Sizes = tuple[int, ...]

# Steps in tensor operations: what a recorder sees, and what second gradients go through --------------------


def unrolled(
    step: Callable, x: Tensor, states: tuple, rest: tuple, sizes: Sizes, reverse: bool
) -> tuple[list, tuple]:
    """Runs `step(x, *states, *rest)` through time: all it returned, in the order of memory, and the last states.

    A step returns its new states, the first of which is its output, and then what the gradient needs.
    """
    inputs = x.reshape(-1, x._form.shape[-1]).split(list(sizes))
    found = []
    for now, batch in zip(*((part[::-1] if reverse else part) for part in (inputs, sizes)), strict=True):
        present = [state if batch == len(state._form) else state[:batch] for state in states]
        results = repeated(step, now, *present, *rest)
        found.append(results)
        states = tuple(
            new if batch == len(old._form) else cat([new, old[batch:]])
            for new, old in zip(results, states, strict=False)
        )
    found = found[::-1] if reverse else found
    return [cat(list(parts)) for parts in zip(*found, strict=True)], states


def repeated(step: Callable, *operands: Any) -> tuple:
    """A step, which a recorder looks at once for all steps of the same layout."""
    return step(*operands) if mode.recorder is None else mode.recorder.repeated(step, *operands)


def rnn_parts(x: Tensor, h: Tensor, weight: Tensor, *, relu: bool, sizes: Sizes, reverse: bool) -> tuple:
    (out,), (last,) = unrolled(relu_step if relu else tanh_step, x, (h,), (weight,), sizes, reverse)
    return out.reshape(x._form.shape), last


def relu_step(x: Tensor, h: Tensor, weight: Tensor) -> tuple:
    return ((x + h @ weight.T).relu(),)


def tanh_step(x: Tensor, h: Tensor, weight: Tensor) -> tuple:
    return ((x + h @ weight.T).tanh(),)


def lstm_parts(
    x: Tensor, h: Tensor, c: Tensor, weight: Tensor, projection: Any, *, sizes: Sizes, reverse: bool
) -> tuple:
    (out, cells, gates), (h, c) = unrolled(lstm_step, x, (h, c), (weight, projection), sizes, reverse)
    return out.reshape(*x._form.shape[:-1], -1), h, c, gates, cells


def lstm_step(x: Tensor, h: Tensor, c: Tensor, weight: Tensor, projection: Any) -> tuple:
    value = x + h @ weight.T
    i, f, g, o = value.split(c._form.shape[1], 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    h = o * c.tanh()
    return h if projection is None else h @ projection.T, c, cat([i, f, g, o], 1)


def lstm_gradient_parts(
    g: Any, g_h: Any, g_c: Any, h: Tensor, c: Tensor, weight: Tensor, out: Tensor, gates: Tensor, cells: Tensor,
    *, sizes: Sizes, reverse: bool,
) -> tuple:  # fmt: skip
    """The gradient of a layer without projection whose steps all have the same sequences, back through time."""
    batch, hidden = c._form.shape
    g = zeros_like(out) if g is None else g
    g, out, h, c, weight = map(wide, (g, out, h, c, weight))
    outs = out.reshape(-1, hidden)
    by_step = [rows.split(batch) for rows in (g.reshape(-1, hidden), gates, cells)]
    order = range(len(sizes))[::-1] if reverse else range(len(sizes))
    g_h, g_c = (zeros_like(c) if part is None else wide(part) for part in (g_h, g_c))
    found: dict[int, Tensor] = {}
    for place in order[::-1]:
        now, kept, after = (rows[place] for rows in by_step)
        before = c if place == order[0] else by_step[2][place + 1 if reverse else place - 1]
        found[place], g_h, g_c = repeated(lstm_step_gradient, now, g_h, g_c, kept, before, after, weight)
    whole = cat([found[place] for place in range(len(sizes))])
    first, later = (whole[-batch:], whole[:-batch]) if reverse else (whole[:batch], whole[batch:])
    g_weight = first.T @ h
    if len(sizes) > 1:
        g_weight = g_weight + later.T @ (outs[batch:] if reverse else outs[:-batch])
    return whole.reshape(*out._form.shape[:-1], -1), g_h, g_c, g_weight


def lstm_step_gradient(
    g: Tensor, g_h: Tensor, g_c: Tensor, gates: Tensor, before: Tensor, after: Tensor, weight: Tensor
) -> tuple:
    """The gradients of a step's gates before their functions, of the state and of the cells."""
    i, f, n, o = gates.split(after._form.shape[1], 1)
    seen, g_h = after.tanh(), g + g_h
    g_c = g_c + g_h * o * (1 - seen * seen)
    parts = (
        g_c * n * i * (1 - i),
        g_c * before * f * (1 - f),
        g_c * i * (1 - n * n),
        g_h * seen * o * (1 - o),
    )
    value = cat(parts, 1)
    return value, value @ weight, g_c * f


def gru_parts(x: Tensor, h: Tensor, weight: Tensor, bias: Any, *, sizes: Sizes, reverse: bool) -> tuple:
    (out, gates, inner), (last,) = unrolled(gru_step, x, (h,), (weight, bias), sizes, reverse)
    return out.reshape(*x._form.shape[:-1], -1), last, gates, inner


def gru_step(x: Tensor, h: Tensor, weight: Tensor, bias: Any) -> tuple:
    hidden = h._form.shape[1]
    value = h @ weight.T
    r, z, inner = (value if bias is None else value + bias).split(hidden, 1)
    x_r, x_z, x_n = x.split(hidden, 1)
    r, z = (r + x_r).sigmoid(), (z + x_z).sigmoid()
    n = (x_n + r * inner).tanh()
    return n + z * (h - n), cat([r, z, n], 1), inner.contiguous()


def pulled_through(parts: Callable, g: list, operands: tuple, **attrs: Any) -> list:
    """Gradients of operands by way of the parts: slower than kernels, but with gradients of their own."""
    create = mode.grad
    before = mode.set(grad=True)
    try:
        inputs = [None if x is None else x.view_as(x) if create else x.detach() for x in operands]
        for x in inputs:
            if x is not None and not x.requires_grad:
                x.requires_grad_(True)
        outputs = parts(*inputs, **attrs)
        pairs = [(out, part) for out, part in zip(outputs, g, strict=False) if part is not None]
        found = walk(
            [out for out, _ in pairs], [part for _, part in pairs], retain_graph=create, create_graph=create,
            targets=[x for x in inputs if x is not None], accumulate=False,
        )  # fmt: skip
    finally:
        mode.set(**before)
    grads = iter(found)
    return [None if x is None else next(grads) for x in inputs]


def either(kernel: Callable, parts: Callable) -> Any:
    """A gradient by a kernel, or made of ops: to be differentiated, or to be recorded."""
    return parts() if mode.grad or mode.recorder is not None else kernel()


# Shapes ----------------------------------------------------------------------------------------------------


def check_layer(name: str, x: Tensor, weight: Tensor, gates: int, *states: Tensor) -> None:
    h, width = states[0], x._form.shape[-1]
    if not x.dtype is weight.dtype is h.dtype:
        rule = "input, states and weights must have one dtype"
        raise error(RuntimeError, name, rule, gates=x, weight=weight, state=h)
    if weight._form.shape != (width, h._form.shape[1]) or width % gates:
        rule = f"the weight must be ({gates} · hidden, width of the state)"
        raise error(RuntimeError, name, rule, gates=x, weight=weight, state=h)


def rnn_spec(x: Tensor, h: Tensor, weight: Tensor, **_: Any) -> list[Spec]:
    check_layer("rnn", x, weight, 1, h)
    return [Spec(x._form.shape, x.dtype), Spec(h._form.shape, x.dtype)]


def lstm_spec(x: Tensor, h: Tensor, c: Tensor, weight: Tensor, projection: Any, **_: Any) -> list[Spec]:
    check_layer("lstm", x, weight, 4, h, c)
    lead, width, kept = x._form.shape[:-1], x._form.shape[-1], statistics_dtype(x)
    rows = int(np.prod(lead))
    return [
        Spec((*lead, h._form.shape[1]), x.dtype),
        Spec(h._form.shape, x.dtype),
        Spec(c._form.shape, x.dtype),
        Spec((rows, width), kept),
        Spec((rows, width // 4), kept),
    ]


def gru_spec(x: Tensor, h: Tensor, weight: Tensor, bias: Any, **_: Any) -> list[Spec]:
    check_layer("gru", x, weight, 3, h)
    lead, width, kept = x._form.shape[:-1], x._form.shape[-1], statistics_dtype(x)
    rows = int(np.prod(lead))
    return [
        Spec((*lead, width // 3), x.dtype),
        Spec(h._form.shape, x.dtype),
        Spec((rows, width), kept),
        Spec((rows, width // 3), kept),
    ]


# Kernels on rows -------------------------------------------------------------------------------------------


def flat(x: np.ndarray | None) -> Any:
    return x if x is None or x.ndim == 2 else x.reshape(-1, x.shape[-1])


def finished(results: tuple, like: np.ndarray, public: int) -> tuple:
    """The first result in the leading dimensions of the input, the first `public` ones in its dtype."""
    out = results[0].reshape(*like.shape[:-1], -1) if like.ndim > 2 else results[0]
    values = (out, *results[1:])
    return tuple(
        value.astype(like.dtype, copy=False) if number < public else value
        for number, value in enumerate(values)
    )


def run_rnn(
    x: np.ndarray, h: np.ndarray, weight: np.ndarray, *, relu: bool, sizes: Sizes, reverse: bool
) -> tuple:
    order = kernels.order_of(sizes, reverse)
    wide = widened(flat(x), h, weight)
    return finished(kernels.rnn(*wide, order=order, relu=relu), x, 2)


def run_lstm(
    x: np.ndarray, h: np.ndarray, c: np.ndarray, weight: np.ndarray, projection: Any,
    *, sizes: Sizes, reverse: bool,
) -> tuple:  # fmt: skip
    order = kernels.order_of(sizes, reverse)
    wide = widened(flat(x), h, c, weight, projection)
    return finished(kernels.lstm(*wide, order=order), x, 3)


def run_gru(
    x: np.ndarray, h: np.ndarray, weight: np.ndarray, bias: Any, *, sizes: Sizes, reverse: bool
) -> tuple:
    order = kernels.order_of(sizes, reverse)
    wide = widened(flat(x), h, weight, bias)
    return finished(kernels.gru(*wide, order=order), x, 2)


def run_rnn_gradient(
    g: Any, g_h: Any, h: np.ndarray, weight: np.ndarray, out: np.ndarray,
    *, relu: bool, sizes: Sizes, reverse: bool,
) -> tuple:  # fmt: skip
    order = kernels.order_of(sizes, reverse)
    wide = widened(flat(g), g_h, h, weight, flat(out))
    g_x, *rest = kernels.rnn_gradient(*wide, order=order, relu=relu)
    return g_x.reshape(out.shape), *rest


def run_lstm_gradient(
    g: Any, g_h: Any, g_c: Any, h: np.ndarray, c: np.ndarray, weight: np.ndarray, projection: Any,
    out: np.ndarray, gates: np.ndarray, cells: np.ndarray, *, sizes: Sizes, reverse: bool,
) -> tuple:  # fmt: skip
    order = kernels.order_of(sizes, reverse)
    wide = widened(flat(g), g_h, g_c, h, c, weight, projection, flat(out), gates, cells)
    g_x, *rest, g_projection = kernels.lstm_gradient(*wide, order=order)
    found = (g_x.reshape(*out.shape[:-1], -1), *rest)
    return found if projection is None else (*found, g_projection)


def run_gru_gradient(
    g: Any, g_h: Any, h: np.ndarray, weight: np.ndarray,
    out: np.ndarray, gates: np.ndarray, inner: np.ndarray, *, sizes: Sizes, reverse: bool,
) -> tuple:  # fmt: skip
    order = kernels.order_of(sizes, reverse)
    wide = widened(flat(g), g_h, h, weight, flat(out), gates, inner)
    g_x, *rest = kernels.gru_gradient(*wide, order=order)
    return g_x.reshape(*out.shape[:-1], -1), *rest


# The ops ---------------------------------------------------------------------------------------------------

PACKED: dict[str, Any] = {"sizes": (3, 2, 2), "reverse": False}
BACKWARDS: dict[str, Any] = {"sizes": (3, 2, 2), "reverse": True}


def rnn_gradient_spec(g: Any, g_h: Any, h: Tensor, weight: Tensor, out: Tensor, **_: Any) -> list[Spec]:
    return [Spec(t._form.shape, statistics_dtype(out)) for t in (out, h, weight)]


rnn_gradient = opaque(
    "rnn_layer_gradient",
    spec=rnn_gradient_spec,
    run=run_rnn_gradient,
    vjp=NO_GRAD,
    samples=lambda: iter(
        [Sample(real(7, 2), None, real(3, 2), real(2, 2), real(7, 2), relu=False, **PACKED)]
    ),
    outputs=3,
    spec_first=False,
)


def lstm_gradient_spec(
    g: Any, g_h: Any, g_c: Any, h: Tensor, c: Tensor, weight: Tensor, projection: Any,
    out: Tensor, gates: Tensor, cells: Tensor, **_: Any,
) -> list[Spec]:  # fmt: skip
    kind = statistics_dtype(out)
    found = [Spec((*out._form.shape[:-1], gates._form.shape[1]), kind)]
    others = (h, c, weight) if projection is None else (h, c, weight, projection)
    return found + [Spec(t._form.shape, kind) for t in others]


lstm_gradient = opaque(
    "lstm_layer_gradient",
    spec=lstm_gradient_spec,
    run=run_lstm_gradient,
    vjp=NO_GRAD,
    samples=lambda: iter(
        [
            Sample(
                real(7, 2),
                None,
                None,
                real(3, 2),
                real(3, 2),
                real(8, 2),
                None,
                real(7, 2),
                real(7, 8),
                real(7, 2),
                **PACKED,
            )
        ]
    ),
    outputs=4,
    spec_first=False,
)


def gru_gradient_spec(
    g: Any, g_h: Any, h: Tensor, weight: Tensor, out: Tensor, gates: Tensor, inner: Tensor, **_: Any
) -> list[Spec]:
    kind, lead = statistics_dtype(out), out._form.shape[:-1]
    shapes = ((*lead, gates._form.shape[1]), h._form.shape, weight._form.shape, gates._form.shape)
    return [Spec(shape, kind) for shape in shapes]


gru_gradient = opaque(
    "gru_layer_gradient",
    spec=gru_gradient_spec,
    run=run_gru_gradient,
    vjp=NO_GRAD,
    samples=lambda: iter(
        [Sample(real(7, 2), None, real(3, 2), real(6, 2), real(7, 2), real(7, 6), real(7, 2), **PACKED)]
    ),
    outputs=4,
    spec_first=False,
)


def rnn_vjp(
    g: list, x: Tensor, h: Tensor, weight: Tensor, out0: Tensor, *, relu: bool, sizes: Sizes, reverse: bool
) -> Any:
    attrs = {"relu": relu, "sizes": sizes, "reverse": reverse}
    return either(
        lambda: rnn_gradient(*g[:2], h, weight, out0, **attrs),
        lambda: pulled_through(rnn_parts, g, (x, h, weight), **attrs),
    )


def lstm_vjp(
    g: list, x: Tensor, h: Tensor, c: Tensor, weight: Tensor, projection: Any,
    out0: Tensor, out3: Tensor, out4: Tensor, *, sizes: Sizes, reverse: bool,
) -> Any:  # fmt: skip
    attrs: dict[str, Any] = {"sizes": sizes, "reverse": reverse}

    def kernel() -> tuple:
        found = lstm_gradient(*g[:3], h, c, weight, projection, out0, out3, out4, **attrs)
        return found if projection is not None else (*found, None)

    def parts() -> Any:
        if mode.grad or projection is not None or len(set(sizes)) > 1:
            return pulled_through(lstm_parts, g[:3], (x, h, c, weight, projection), **attrs)
        g_out, g_h, g_c = g[:3]
        return *lstm_gradient_parts(g_out, g_h, g_c, h, c, weight, out0, out3, out4, **attrs), None

    return either(kernel, parts)


def gru_vjp(
    g: list, x: Tensor, h: Tensor, weight: Tensor, bias: Any,
    out0: Tensor, out2: Tensor, out3: Tensor, *, sizes: Sizes, reverse: bool,
) -> Any:  # fmt: skip
    attrs: dict[str, Any] = {"sizes": sizes, "reverse": reverse}

    def kernel() -> tuple:
        *found, inner = gru_gradient(*g[:2], h, weight, out0, out2, out3, **attrs)
        return *found, None if bias is None else inner.sum(0)

    return either(kernel, lambda: pulled_through(gru_parts, g[:2], (x, h, weight, bias), **attrs))


def rnn_samples() -> Iterator[Sample]:
    for relu, steps in ((False, PACKED), (True, BACKWARDS)):
        yield Sample(real(7, 2), real(3, 2), real(2, 2, seed=1), relu=relu, **steps)


def lstm_samples() -> Iterator[Sample]:  # Conventional: some outputs have no gradient
    states = real(3, 2), real(3, 2, seed=1)
    yield Conventional(real(7, 8), *states, real(8, 2), None, **PACKED)
    yield Conventional(real(7, 8), *states, real(8, 2), None, **BACKWARDS)
    yield Conventional(real(3, 8), real(3, 1), states[1], real(8, 1), real(1, 2), sizes=(3,), reverse=False)


def gru_samples() -> Iterator[Sample]:
    yield Conventional(real(7, 6), real(3, 2), real(6, 2), real(6), **PACKED)
    yield Conventional(real(7, 6), real(3, 2), real(6, 2), None, **BACKWARDS)


rnn_layer = fused(
    "rnn_layer",
    rnn_parts,
    spec=rnn_spec,
    run=run_rnn,
    vjp=rnn_vjp,
    samples=rnn_samples,
    node="StackBackward0",
    outputs=2,
)
lstm_layer = fused(
    "lstm_layer",
    lstm_parts,
    spec=lstm_spec,
    run=run_lstm,
    vjp=lstm_vjp,
    samples=lstm_samples,
    node="MkldnnRnnLayerBackward0",
    outputs=5,
    without_grad=(3, 4),
)
gru_layer = fused(
    "gru_layer",
    gru_parts,
    spec=gru_spec,
    run=run_gru,
    vjp=gru_vjp,
    samples=gru_samples,
    node="StackBackward0",
    outputs=4,
    without_grad=(2, 3),
)
for door in (rnn_layer, lstm_layer, gru_layer):
    door.op.node.fills_zeros = False  # the kernels take None for outputs nobody used
