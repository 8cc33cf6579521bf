"""Recurrent layers: one layer in one direction is one op, made of steps through time, and so is its gradient.

The input's product with its weights is taken for all steps at once, outside the op; inside is what one step
hands to the next. Rows stand one behind the other, step by step, as in packed sequences; `sizes` says how many
sequences each step has. Read next: ops/recurrent_networks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.autograd.walk import walk
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.creation import zeros_like
from cleargrad.ops.declare import fused
from cleargrad.ops.joining import cat
from cleargrad.ops.normalization import statistics_dtype
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Conventional, Sample, real

Sizes = tuple[int, ...]

# Steps through time ----------------------------------------------------------------------------------------


def unrolled(
    step: Callable, x: Tensor, states: tuple, rest: tuple, sizes: Sizes, reverse: bool
) -> tuple[list, tuple]:
    """Runs `step(x, *states, *rest)` through time: all it returned, in the order of memory, and the last states.

    A step returns its new states, the first of which is its output, and then what the gradient needs.
    """
    inputs = flat(x).split(list(sizes))
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


def unrolled_back(
    step: Callable, rows: list[list[Tensor]], states: tuple, rest: tuple, sizes: Sizes, reverse: bool
) -> tuple[list, tuple]:
    """Runs `step(*rows, *states, *rest)` back through time; `states` are gradients of states.

    A step returns gradients for its rows, and then those of the states before it.
    """
    found: list[tuple] = [()] * len(sizes)
    places = range(len(sizes))
    for place in places if reverse else places[::-1]:
        batch = sizes[place]
        present = [state if batch == len(state._form) else state[:batch] for state in states]
        results = repeated(step, *[parts[place] for parts in rows], *present, *rest)
        found[place] = results[: -len(states)]
        states = tuple(
            new if batch == len(old._form) else cat([new, old[batch:]])
            for new, old in zip(results[-len(states) :], states, strict=True)
        )
    return [cat(list(parts)) for parts in zip(*found, strict=True)], states


def states_before(states: Tensor, first: Tensor, sizes: Sizes, reverse: bool) -> list[Tensor]:
    """For each step, in the order of memory, the state from which it started."""
    after = states.split(list(sizes))
    found: list[Tensor] = [first] * len(sizes)
    places = range(len(sizes))
    state = first
    for place in places[::-1] if reverse else places:
        batch = sizes[place]
        found[place] = state if batch == len(state._form) else state[:batch]
        state = after[place] if batch == len(state._form) else cat([after[place], state[batch:]])
    return found


def all_before(states: Tensor, first: Tensor, sizes: Sizes, reverse: bool) -> Tensor:
    """The same in one piece."""
    batch = sizes[0]
    if len(set(sizes)) > 1:
        return cat(states_before(states, first, sizes, reverse))
    return cat([states[batch:], first] if reverse else [first, states[:-batch]])


def flat(x: Tensor) -> Tensor:
    return x.reshape(-1, x._form.shape[-1])


def or_zeros(x: Tensor | None, like: Tensor) -> Tensor:
    """A gradient, or zeros where nothing came back: in a graph that is being recorded, one zero seen everywhere."""
    if x is not None:
        return x
    return zeros_like(like) if mode.recorder is None else like.new_zeros(()).expand(like._form.shape)


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


def rnn_gradient_parts(
    g: Any, g_h: Any, h: Tensor, weight: Tensor, out: Tensor, *, relu: bool, sizes: Sizes, reverse: bool
) -> tuple:
    outs, steps = flat(out), list(sizes)
    rows = [list(x.split(steps)) for x in (flat(or_zeros(g, out)), outs)]
    step = relu_step_gradient if relu else tanh_step_gradient
    (found,), (g_h,) = unrolled_back(step, rows, (or_zeros(g_h, h),), (weight,), sizes, reverse)
    g_weight = found.T @ all_before(outs, h, sizes, reverse)
    return found.reshape(out._form.shape), g_h, g_weight


def relu_step_gradient(g: Tensor, out: Tensor, g_h: Tensor, weight: Tensor) -> tuple:
    value = (g + g_h) * (out > 0)
    return value, value @ weight


def tanh_step_gradient(g: Tensor, out: Tensor, g_h: Tensor, weight: Tensor) -> tuple:
    value = (g + g_h) * (1 - out * out)
    return value, value @ weight


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
    g: Any, g_h: Any, g_c: Any, h: Tensor, c: Tensor, weight: Tensor, projection: Any,
    out: Tensor, gates: Tensor, cells: Tensor, *, sizes: Sizes, reverse: bool,
) -> tuple:  # fmt: skip
    outs, steps = flat(out), list(sizes)
    rows = [list(x.split(steps)) for x in (flat(or_zeros(g, out)), gates, cells)]
    rows.append(states_before(cells, c, sizes, reverse))
    states, rest = (or_zeros(g_h, h), or_zeros(g_c, c)), (weight, projection)
    (found, *seen), states = unrolled_back(lstm_step_gradient, rows, states, rest, sizes, reverse)
    g_weight = found.T @ all_before(outs, h, sizes, reverse)
    grads = (found.reshape(*out._form.shape[:-1], -1), *states, g_weight)
    if projection is None:
        return grads
    hidden = cells._form.shape[1]
    return *grads, seen[0].T @ (gates[:, 3 * hidden :] * cells.tanh())


def lstm_step_gradient(
    g: Tensor, gates: Tensor, after: Tensor, before: Tensor, g_h: Tensor, g_c: Tensor,
    weight: Tensor, projection: Any,
) -> tuple:  # fmt: skip
    """The gradients of a step's gates before their functions, of what it projects, of state and cells."""
    i, f, n, o = gates.split(after._form.shape[1], 1)
    seen, total = after.tanh(), g + g_h
    g_h = total if projection is None else total @ projection
    g_c = g_c + g_h * o * (1 - seen * seen)
    parts = (
        g_c * n * i * (1 - i),
        g_c * before * f * (1 - f),
        g_c * i * (1 - n * n),
        g_h * seen * o * (1 - o),
    )
    value = cat(parts, 1)
    kept = (value,) if projection is None else (value, total)
    return *kept, value @ weight, g_c * f


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


def gru_gradient_parts(
    g: Any, g_h: Any, h: Tensor, weight: Tensor, out: Tensor, gates: Tensor, inner: Tensor,
    *, sizes: Sizes, reverse: bool,
) -> tuple:  # fmt: skip
    """The gradients of x, of the first state, of the weight, and of W h + b, whose sum is the bias's."""
    outs, steps = flat(out), list(sizes)
    rows = [list(x.split(steps)) for x in (flat(or_zeros(g, out)), gates, inner)]
    rows.append(states_before(outs, h, sizes, reverse))
    (found, within), (g_h,) = unrolled_back(
        gru_step_gradient, rows, (or_zeros(g_h, h),), (weight,), sizes, reverse
    )
    g_weight = within.T @ all_before(outs, h, sizes, reverse)
    return found.reshape(*out._form.shape[:-1], -1), g_h, g_weight, within


def gru_step_gradient(
    g: Tensor, gates: Tensor, inner: Tensor, before: Tensor, g_h: Tensor, weight: Tensor
) -> tuple:
    r, z, n = gates.split(before._form.shape[1], 1)
    total = g + g_h
    g_n = total * (1 - z) * (1 - n * n)
    g_r, g_z = g_n * r * inner * (1 - r), total * (before - n) * z * (1 - z)
    within = cat([g_r, g_z, g_n * r], 1)
    return cat([g_r, g_z, g_n], 1), within, total * z + within @ weight


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


# The ops ---------------------------------------------------------------------------------------------------

PACKED: dict[str, Any] = {"sizes": (3, 2, 2), "reverse": False}
BACKWARDS: dict[str, Any] = {"sizes": (3, 2, 2), "reverse": True}


def rnn_gradient_spec(g: Any, g_h: Any, h: Tensor, weight: Tensor, out: Tensor, **_: Any) -> list[Spec]:
    return [Spec(t._form.shape, statistics_dtype(out)) for t in (out, h, weight)]


rnn_gradient = fused(
    "rnn_layer_gradient",
    rnn_gradient_parts,
    spec=rnn_gradient_spec,
    vjp=NO_GRAD,
    samples=lambda: iter(
        [Sample(real(7, 2), None, real(3, 2), real(2, 2), real(7, 2), relu=False, **PACKED)]
    ),
    outputs=3,
    at_first_sight=False,
)


def lstm_gradient_spec(
    g: Any, g_h: Any, g_c: Any, h: Tensor, c: Tensor, weight: Tensor, projection: Any,
    out: Tensor, gates: Tensor, cells: Tensor, **_: Any,
) -> list[Spec]:  # fmt: skip
    kind = statistics_dtype(out)
    found = [Spec((*out._form.shape[:-1], gates._form.shape[1]), kind)]
    others = (h, c, weight) if projection is None else (h, c, weight, projection)
    return found + [Spec(t._form.shape, kind) for t in others]


lstm_gradient = fused(
    "lstm_layer_gradient",
    lstm_gradient_parts,
    spec=lstm_gradient_spec,
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
    at_first_sight=False,
)


def gru_gradient_spec(
    g: Any, g_h: Any, h: Tensor, weight: Tensor, out: Tensor, gates: Tensor, inner: Tensor, **_: Any
) -> list[Spec]:
    kind, lead = statistics_dtype(out), out._form.shape[:-1]
    shapes = ((*lead, gates._form.shape[1]), h._form.shape, weight._form.shape, gates._form.shape)
    return [Spec(shape, kind) for shape in shapes]


gru_gradient = fused(
    "gru_layer_gradient",
    gru_gradient_parts,
    spec=gru_gradient_spec,
    vjp=NO_GRAD,
    samples=lambda: iter(
        [Sample(real(7, 2), None, real(3, 2), real(6, 2), real(7, 2), real(7, 6), real(7, 2), **PACKED)]
    ),
    outputs=4,
    at_first_sight=False,
)


def rnn_vjp(
    g: list, x: Tensor, h: Tensor, weight: Tensor, out0: Tensor, *, relu: bool, sizes: Sizes, reverse: bool
) -> Any:
    attrs = {"relu": relu, "sizes": sizes, "reverse": reverse}
    if mode.grad:  # it will itself be differentiated
        return pulled_through(rnn_parts, g, (x, h, weight), **attrs)
    return rnn_gradient(*g[:2], h, weight, out0, **attrs)


def lstm_vjp(
    g: list, x: Tensor, h: Tensor, c: Tensor, weight: Tensor, projection: Any,
    out0: Tensor, out3: Tensor, out4: Tensor, *, sizes: Sizes, reverse: bool,
) -> Any:  # fmt: skip
    attrs: dict[str, Any] = {"sizes": sizes, "reverse": reverse}
    if mode.grad:
        return pulled_through(lstm_parts, g[:3], (x, h, c, weight, projection), **attrs)
    found = lstm_gradient(*g[:3], h, c, weight, projection, out0, out3, out4, **attrs)
    return found if projection is not None else (*found, None)


def gru_vjp(
    g: list, x: Tensor, h: Tensor, weight: Tensor, bias: Any,
    out0: Tensor, out2: Tensor, out3: Tensor, *, sizes: Sizes, reverse: bool,
) -> Any:  # fmt: skip
    attrs: dict[str, Any] = {"sizes": sizes, "reverse": reverse}
    if mode.grad:
        return pulled_through(gru_parts, g[:2], (x, h, weight, bias), **attrs)
    *found, inner = gru_gradient(*g[:2], h, weight, out0, out2, out3, **attrs)
    return *found, None if bias is None else inner.sum(0)


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
    vjp=rnn_vjp,
    samples=rnn_samples,
    node="StackBackward0",
    outputs=2,
    at_first_sight=False,
)
lstm_layer = fused(
    "lstm_layer",
    lstm_parts,
    spec=lstm_spec,
    vjp=lstm_vjp,
    samples=lstm_samples,
    node="MkldnnRnnLayerBackward0",
    outputs=5,
    without_grad=(3, 4),
    at_first_sight=False,
)
gru_layer = fused(
    "gru_layer",
    gru_parts,
    spec=gru_spec,
    vjp=gru_vjp,
    samples=gru_samples,
    node="StackBackward0",
    outputs=4,
    without_grad=(2, 3),
    at_first_sight=False,
)
for door in (rnn_layer, lstm_layer, gru_layer):
    door.op.node.fills_zeros = False  # the kernels take None for outputs nobody used
