"""Convolutions and pooling in compiled programs: calls become `Native` statements with kernels of their own.

relu behind a convolution, and its gradient behind a gradient, are done where results are written, if nobody
else wants them without. Read next: devices/cpu/kernels/convolution.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from cleargrad.devices.cpu.kernels import convolution, pooling
from cleargrad.devices.cpu.launch import Launches
from cleargrad.ops.declare import View
from cleargrad.ops.record import Call, Value
from cleargrad.schedule.formulas import Number
from cleargrad.schedule.statements import Native

KINDS = ("float32", "float64")


def attempted(native: Callable[[Any, Call], None]) -> Callable[[Any, Call], None]:
    """Leaves to the host what kernels do not know."""

    def read(builder: Any, call: Call) -> None:
        values = [x for x in (*call.operands, *call.results) if isinstance(x, Value)]
        dtypes = {x.spec.dtype.numpy.name for x in values if x.spec.dtype.numpy.kind != "i"}
        if len(dtypes) != 1 or not dtypes <= set(KINDS) or any(0 in x.spec.shape for x in values):
            builder.host(call)
            return
        try:
            native(builder, call)
        except convolution.TooLarge:
            builder.host(call)

    return read


def add(
    builder: Any, choose: Callable[..., Launches], calls: list[Call | None], operands: dict,
    results: dict[str, Value], work: int, can_fail: bool = False, zeros: tuple[Value, ...] = (),
) -> None:  # fmt: skip
    """Appends a statement for one call, or for several of which the last one gives the only result."""
    choose(threads=1)  # raises TooLarge while the host can still take over
    loads = {name: builder.store(value, fresh=True) for name, value in operands.items() if value is not None}
    places = {}
    for name, value in results.items():
        buffer = builder.buffer(value.spec.shape, value.spec.dtype.numpy, "inside")
        places[name] = builder.forms[value.index] = builder.formulas.load(buffer)
    made = tuple(call for call in calls if call is not None)
    ends = {"place": made[-1].results[0]} if len(made) > 1 else {}
    values = {name: value for name, value in (operands | results | ends).items() if value is not None}
    builder.plan.statements.append(Native(choose, loads, places, work, made, values, can_fail, zeros))


def only_user(builder: Any, value: Value, name: str) -> Call | None:
    """The call of an op that is all that is done with a value."""
    users = builder.users[value.index]
    alone = len(users) == 1 and value.index not in builder.asked
    return users[0] if alone and users[0].op.name == name else None


def gate_of(builder: Any, value: Value) -> Call | None:
    """The gradient of relu that is all that is done with a value."""
    call = only_user(builder, value, "threshold_backward")
    if call is None:
        return None
    gradient, gate = call.operands
    (result,) = call.results
    known = gate.index in builder.forms and not isinstance(builder.forms[gate.index], Number)
    alike = gate.spec.shape == value.spec.shape and gate.spec.dtype == value.spec.dtype == result.spec.dtype
    return call if gradient.index == value.index and known and alike else None


@attempted
def convolve(builder: Any, call: Call) -> None:
    (x, w, bias), (result,) = call.operands, call.results
    relu = only_user(builder, result, "relu")
    choose = partial(
        convolution.forward, x.spec.shape, w.spec.shape, **call.attrs, kind=result.spec.dtype.numpy,
        bias=bias is not None, relu=relu is not None,
    )  # fmt: skip
    work = prod(result.spec.shape) * prod(w.spec.shape[1:])
    add(builder, choose, [call, relu], {"source": x, "weight": w, "bias": bias}, {"place": result}, work)
    if relu is not None:
        builder.forms[relu.results[0].index] = builder.forms[result.index]


@attempted
def convolve_input(builder: Any, call: Call) -> None:
    (g, w, bias), (result,) = call.operands, call.results
    gated = gate_of(builder, result)
    choose = partial(
        convolution.input_gradient, g.spec.shape, w.spec.shape, **call.attrs, kind=result.spec.dtype.numpy,
        bias=bias is not None, gate=gated is not None,
    )  # fmt: skip
    operands = {"source": g, "weight": w, "bias": bias, "gate": gated.operands[1] if gated else None}
    work = prod(g.spec.shape) * prod(w.spec.shape[1:])
    add(builder, choose, [call, gated], operands, {"place": result}, work)
    if gated is not None:
        builder.forms[gated.results[0].index] = builder.forms[result.index]


@attempted
def convolve_weight(builder: Any, call: Call) -> None:
    (g, x), (result,) = call.operands, call.results
    choose = partial(
        convolution.weight_gradient, g.spec.shape, x.spec.shape, **call.attrs, kind=result.spec.dtype.numpy
    )
    work = prod(g.spec.shape) * prod(result.spec.shape[1:])
    add(builder, choose, [call], {"source": x, "gradient": g}, {"place": result}, work)


@attempted
def max_pool(builder: Any, call: Call) -> None:
    (x,), (values, indices) = call.operands, call.results
    attrs = {name: value for name, value in call.attrs.items() if name != "ceil_mode"}

    def choose(threads: int) -> Launches:
        del threads  # planes are units enough for any number of them
        size = values.spec.shape[2:]
        return pooling.maxima(x.spec.shape, **attrs, size=size, kind=values.spec.dtype.numpy, indices=True)

    results = {"place": values, "indices": indices}
    add(builder, choose, [call], {"source": x}, results, prod(x.spec.shape) * 8)


def source_of(builder: Any, value: Value) -> tuple[Value, Call | None]:
    """What a value is a view of, and the call that made it."""
    makers = builder.makers
    while value.index in makers and isinstance(makers[value.index].op.lower, View):
        value = makers[value.index].operands[0]
    return value, makers.get(value.index)


def is_zero(builder: Any, value: Value) -> bool:
    """Whether a value is a constant of zeros, or a view of one."""
    value, _ = source_of(builder, value)
    return any(known.index == value.index and not array.any() for known, array in builder.graph.constants)


def is_own(builder: Any, index: Value) -> bool:
    """Whether indices are those of maxima, none of which is out of range."""
    _, maker = source_of(builder, index)
    return maker is not None and maker.op.name.startswith("max_pool")


@attempted
def max_pool_adjoint(builder: Any, call: Call) -> None:
    (g, index), (result,) = call.operands, call.results
    rows, gated = prod(g.spec.shape[:2]), gate_of(builder, result)

    def choose(threads: int) -> Launches:
        del threads
        count, length = prod(g.spec.shape[2:]), prod(result.spec.shape[2:])
        return pooling.scatter(rows, count, length, result.spec.dtype.numpy, gated is not None)

    operands = {"source": g, "indices": index, "gate": gated.operands[1] if gated else None}
    fails = not is_own(builder, index)
    add(builder, choose, [call, gated], operands, {"place": result}, prod(result.spec.shape) * 8, fails)
    if gated is not None:
        builder.forms[gated.results[0].index] = builder.forms[result.index]


@attempted
def scatter_add(builder: Any, call: Call) -> None:
    """scatter_add into zeros along the last dimension: the gradient of pooling at any places."""
    (base, index, source), (result,) = call.operands, call.results
    shape = result.spec.shape
    last = bool(shape) and call.attrs["dim"] % len(shape) == len(shape) - 1
    whole = index.spec.shape == source.spec.shape and index.spec.shape[:-1] == shape[:-1]
    if not (is_zero(builder, base) and last and whole and index.spec.dtype.numpy.name == "int64"):
        builder.host(call)
        return
    view = only_user(builder, result, "view")
    gated = gate_of(builder, view.results[0]) if view is not None else None

    def choose(threads: int) -> Launches:
        del threads
        rows, count = prod(shape[:-1]), index.spec.shape[-1]
        return pooling.scatter(rows, count, shape[-1], result.spec.dtype.numpy, gated is not None)

    calls = [call, *([view, gated] if gated else [])]
    operands = {"source": source, "indices": index, "gate": gated.operands[1] if gated else None}
    results, fails = {"place": result}, not is_own(builder, index)
    add(builder, choose, calls, operands, results, prod(shape) * 8, can_fail=fails, zeros=(base,))
    if gated is not None:
        seen = builder.formulas.reshape(builder.forms[result.index], gated.results[0].spec.shape)
        builder.forms[gated.results[0].index] = seen


IMAGES: dict[str, Callable[[Any, Call], None]] = {
    "convolution": convolve,
    "convolution_adjoint_input": convolve_input,
    "convolution_adjoint_weight": convolve_weight,
    **{f"max_pool{spatial}d_with_indices": max_pool for spatial in (1, 2, 3)},
    "max_pool_adjoint": max_pool_adjoint,
    "adaptive_max_pool_adjoint": max_pool_adjoint,
    "scatter_add": scatter_add,
}
