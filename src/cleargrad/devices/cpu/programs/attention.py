"""Attention in compiled programs: the op and its gradient become `Native` statements with kernels of their own.

Operands are read where they lie, so queries, keys and values may be parts of one projection; results are laid
out in the order of the operand they belong to, so that heads are joined again without a copy. Read next:
devices/cpu/kernels/attention.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from cleargrad.devices.cpu.kernels import attention
from cleargrad.devices.cpu.launch import Launches
from cleargrad.devices.cpu.programs.images import KINDS
from cleargrad.ops.record import Call, Value
from cleargrad.schedule.formulas import Load, contiguous
from cleargrad.schedule.statements import Native


def rows_of(builder: Any, value: Value) -> Load:
    """An operand as it lies, if the entries of a row are neighbours; else a copy."""
    load = builder.store(value)
    if load.shape[-1] == 1 or load.strides[-1] == 1:
        return load
    return builder.store(value, fresh=True)


def placed_like(builder: Any, value: Value, like: Load | None) -> Load:
    """Memory for a result, with its dimensions in the order in which those of an operand lie.

    What the program hands out lies in rows.
    """
    shape = value.spec.shape
    if like is None or value.index in builder.asked:
        builder.forms[value.index] = load = builder.formulas.load(
            builder.buffer(shape, value.spec.dtype.numpy, "inside")
        )
        return load
    order = sorted(range(len(shape) - 1), key=lambda axis: (like.strides[axis] > 0, -like.strides[axis]))
    order.append(len(shape) - 1)
    extents = tuple(shape[axis] for axis in order)
    steps = dict(zip(order, contiguous(extents), strict=True))
    buffer = builder.buffer(extents, value.spec.dtype.numpy, "inside")
    load = builder.formulas.load(buffer, shape, tuple(steps[axis] for axis in range(len(shape))))
    builder.forms[value.index] = load
    return load


def known(call: Call) -> bool:
    """Whether kernels can do a call: floats of one dtype, but for a mask of booleans, and nothing empty."""
    values = [x for x in (*call.operands, *call.results) if isinstance(x, Value)]
    kinds = {x.spec.dtype.numpy.name for x in values} - {"bool"}
    return len(kinds) == 1 and kinds <= set(KINDS) and not any(0 in x.spec.shape for x in values)


def add(builder: Any, choose: Callable[..., Launches], call: Call, names: dict, results: dict) -> None:
    """Appends the statement of a call; `names` are its operands, `results` say which of those to lie like."""
    operands = {
        name: builder.store(x, fresh=True) if name in STATISTICS else rows_of(builder, x)
        for name, x in names.items()
        if name != "mask"
    }
    q, k, v, mask = operands["q"], operands["k"], operands["v"], names["mask"]
    if mask is not None:
        operands["mask"] = builder.formulas.expand(builder.store(mask), (*q.shape[:-1], k.shape[-2]))
    places = {
        name: placed_like(builder, value, operands.get(like))
        for (name, like), value in zip(results.items(), call.results, strict=True)
    }
    strides = {name: load.strides for name, load in (operands | places).items() if name not in STATISTICS}
    sizes = attention.AttentionSizes(
        q.shape[:-2], q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1], q.dtype.name,
        "none" if mask is None else "bool" if mask.spec.dtype.numpy.kind == "b" else "float",
        call.attrs["causal"], call.attrs["scale"], strides,
    )  # fmt: skip
    work = prod(q.shape) * k.shape[-2] * 2 // (2 if sizes.causal else 1)
    values = {name: value for name, value in names.items() if value is not None}
    values.update(zip(results, call.results, strict=True))
    builder.plan.statements.append(Native(partial(choose, sizes), operands, places, work, (call,), values))


STATISTICS = ("peaks", "totals")


def attend(builder: Any, call: Call) -> None:
    if not known(call):
        builder.host(call)
        return
    q, k, v, mask = call.operands
    names = {"q": q, "k": k, "v": v, "mask": mask}
    add(builder, attention.forward, call, names, {"out": "q", "peaks": "", "totals": ""})


def attend_back(builder: Any, call: Call) -> None:
    if not known(call):
        builder.host(call)
        return
    names = dict(zip(("g", "q", "k", "v", "mask", "out", *STATISTICS), call.operands, strict=True))
    add(builder, attention.gradient, call, names, {"dq": "q", "dk": "k", "dv": "v"})


def written_at(builder: Any, value: Value, place: Load) -> bool:
    """Whether a gradient of attention that is needed at one place only is now written there at once.

    So the gradients of queries, keys and values become that of one projection without a copy.
    """
    form = builder.forms[value.index]
    if not isinstance(form, Load) or not whole(form):
        return False
    statement = next((s for s in reversed(builder.plan.statements) if form.buffer in s.writes), None)
    if not isinstance(statement, Native) or "dq" not in statement.results or not only_seen(builder, value):
        return False
    target = builder.formulas.reshape(place, form.buffer.shape)
    if target is None or target.strides[-1] not in (0, 1):
        return False
    (name,) = [name for name, load in statement.results.items() if load.buffer is form.buffer]
    old = statement.results[name]
    extents = zip(form.buffer.shape, form.buffer.strides, target.strides, strict=True)
    steps = {step: new for extent, step, new in extents if extent > 1}
    strides = tuple(steps[step] if extent > 1 else 0 for extent, step in zip(old.shape, old.strides))
    statement.results[name] = builder.formulas.load(place.buffer, old.shape, strides, place.offset)
    function, sizes = statement.choose.func, statement.choose.args[0]  # type: ignore[attr-defined]
    statement.choose = partial(function, replace(sizes, strides={**sizes.strides, name: strides}))
    return True


def whole(load: Load) -> bool:
    """Whether a load is all of its buffer, in the order in which that lies."""
    extents = [(n, step) for n, step in zip(load.shape, load.strides) if n > 1]
    after = [n * step for n, step in extents[1:]] + [1]
    return (
        load.offset == 0
        and not load.index
        and prod(load.shape) == load.buffer.size
        and all(step == reach for (_, step), reach in zip(extents, after))
    )


def only_seen(builder: Any, value: Value) -> bool:
    """Whether a value and what it is a view of have no user but the one in question."""
    makers = builder.makers
    while True:
        if len(builder.users[value.index]) != 1 or value.index in builder.asked or value.index not in makers:
            return False
        if makers[value.index].op.name == "flash_attention_gradient":
            return True
        value = makers[value.index].operands[0]


ATTENTION: dict[str, Callable[[Any, Call], None]] = {
    "flash_attention": attend,
    "flash_attention_gradient": attend_back,
}
