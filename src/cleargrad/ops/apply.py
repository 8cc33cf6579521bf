"""The door: the one way into every op.

An op is called with tensors (and numbers); the door runs it on their arrays and, when a gradient is needed,
links a Node with exactly the values its vjp will ask for. A recorder, saved-tensor hooks and inference mode
are behind the word SPECIAL. `open_door` makes the general door; elementwise ops get faster, specialised ones
that fall back to `call` here. Read next: ops/declare.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.node import Output, edge_of, extra_of, make_node, pack, saved_output
from cleargrad.core.device import CPU, Driver, Elsewhere, Held, device, on_host
from cleargrad.core.layout import ghost, ghost_in_order, ghost_of
from cleargrad.core.mode import SPECIAL, gate, mode
from cleargrad.core.shape import Spec
from cleargrad.core.shortage import out_of_memory, shortage
from cleargrad.core.tensor import IN_NO_GRAD, Tensor, as_array, held, mark_inference, put, wrap, wrap_view
from cleargrad.devices.cpu.native import BETWEEN, next_call, notice
from cleargrad.errors import OutOfMemoryError, error, user_frame
from cleargrad.expr.expr import Expr, substitute
from cleargrad.ops.op import NO_GRAD, Op

NUMBERS = (int, float, complex, np.number, np.bool_)
OPERANDS = (Tensor, *NUMBERS)
COPIES = ("to_copy", "clone")  # what also treats every element by itself
SEVERAL = "it is one of several views that one call returned"


def open_door(op: Op) -> Callable:
    """The general door: positional operands, keyword attributes."""

    def door(*operands: Any, **attrs: Any) -> Any:
        return call(op, operands, attrs)

    return label(door, op)


def label(door: Callable, op: Op) -> Callable:
    door.__name__ = door.__qualname__ = op.name
    door.op = op
    return door


def call(op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
    """Runs or records one op."""
    how = gate.how or mode.how
    run = op.run
    if how == SPECIAL:
        waiter = mode.simply
        if waiter is not None:
            if not waiter.spared:
                return waiter.call(op, operands, attrs)
            waiter.spared -= 1
            how = waiter.grad
        else:
            if mode.autocast is not None:
                operands = mode.autocast.operands(op.name, operands)
            if mode.recorder is not None:
                return mode.recorder.call(op, operands, attrs)
            if mode.waiter is not None:
                return mode.waiter.call(op, operands, attrs)
            if mode.observer is not None:
                run = mode.observer.around(op)
    try:
        arrays = [x._data if isinstance(x, Tensor) else x for x in operands]
    except Elsewhere:
        return call_elsewhere(op, operands, attrs, mode.grad if how == SPECIAL else how)
    try:
        result = run(*arrays, **attrs)
    except MemoryError as failure:
        raise shortage(op.name, failure, operands) from failure
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError):
        if any(isinstance(x, Expr) for x in operands) and isinstance(op.lower, Expr):
            return substitute(op.lower, operands)  # a vjp is being traced
        check_operands(op, operands)
        op.spec(*operands, **attrs)  # raises the error in our words, when it knows better than NumPy
        raise
    if not next_call() % BETWEEN:
        notice(sys._getframe())
    return link(op, operands, attrs, result, mode.grad if how == SPECIAL else how)


def checked(op: Op) -> Callable:
    """A `run` that asks the spec first, for kernels that would not notice wrong shapes themselves."""

    def door(*operands: Any, **attrs: Any) -> Any:
        if not gate.how:
            waiter = mode.simply
            # A waiter asks the spec of calls that it has not seen before.
            if waiter is not None:
                if not waiter.spared:
                    return waiter.call(op, operands, attrs)
            else:
                if mode.autocast is not None:
                    operands = mode.autocast.operands(op.name, operands)
                if mode.waiter is not None:
                    return call(op, operands, attrs)
        check_operands(op, operands)
        op.spec(*operands, **attrs)
        return call(op, operands, attrs)

    return label(door, op)


def check_operands(op: Op, operands: tuple) -> None:
    for position, operand in enumerate(operands):
        if not isinstance(operand, OPERANDS) and operand is not None:
            name = op.tensors[position] if position < len(op.tensors) else f"operand {position}"
            rule = f"argument '{name}' must be Tensor, not {type(operand).__name__}"
            raise error(TypeError, op.name, rule)


def call_elsewhere(op: Op, operands: tuple, attrs: dict[str, Any], grad: bool | int) -> Any:
    """Runs one op on the device of its operands."""
    values = results_elsewhere(op, operands, attrs)
    if type(values) is Held:
        return link(op, operands, attrs, values.form, grad, [values])
    return link(op, operands, attrs, [each.form for each in values], grad, values)


def results_elsewhere(op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
    """What an op gives on the device of its operands: one value, or a list."""
    try:
        check_operands(op, operands)
        place, driver, given = together(op.name, operands)
        spec = op.spec(*operands, **attrs)
        if spec is None:
            return results_on_host(op, place, driver, given, attrs)
        found = layouts_of(op, operands, attrs, spec)
        forms = found if isinstance(found, list) else [found]
        results = driver.run(op, given, attrs, forms)
    except OutOfMemoryError as failure:
        known: Any = failure.shortage
        raise (failure if known is None else out_of_memory(op.name, known, operands)) from None
    except Exception as failure:
        raise failure from None  # that the array was looked for on the CPU first is no part of it
    values = [Held(place, driver, result, form) for result, form in zip(results, forms, strict=True)]
    return values if isinstance(found, list) else values[0]


def results_on_host(op: Op, place: device, driver: Driver, given: list, attrs: dict[str, Any]) -> Any:
    """What an op gives whose results have no shape that could be known before."""
    if not driver.has_values:
        rule = f"the shape of the result depends on values, which a tensor on {place} does not have"
        raise error(NotImplementedError, op.name, rule)
    arrays = [on_host(x) for x in given]
    found = op.run(*arrays, **attrs)
    several = isinstance(found, (list, tuple))
    results = map(as_array, found if several else [found])
    values = [Held(place, driver, driver.receive(result), ghost_of(result)) for result in results]
    return values if several else values[0]


def together(name: str, operands: tuple) -> tuple[device, Driver, list]:
    """The one device of all operands, and where they lie on it: numbers, and tensors of the CPU that are one,
    go to any device."""
    found: dict[device, Held] = {}
    for x in operands:
        if isinstance(x, Tensor) and (value := held(x)) is not None:
            found.setdefault(value.place, value)
    place, first = next(iter(found.items()))
    given: list = []
    for x in operands:
        if not isinstance(x, Tensor):
            given.append(x)
            continue
        value = held(x)
        if value is None:
            if x._form.ndim:
                found[CPU] = first
            value = Held(place, first.driver, first.driver.receive(x._data), x._form)
        given.append(value)
    if len(found) > 1:
        names = " and ".join(map(str, found))
        rule = f"Expected all tensors to be on the same device, but found at least two devices, {names}!"
        raise error(RuntimeError, name, rule, fix="move them with tensor.to(device)")
    return place, first.driver, given


def layouts_of(op: Op, operands: tuple, attrs: dict[str, Any], spec: Any) -> Any:
    """The layout of what an op gives, or a list: views look into the layouts of their operands."""
    forms = [x._form for x in operands if isinstance(x, Tensor)]
    if op.view:
        found = op.run(forms[0], **attrs)
        return list(found) if isinstance(found, (list, tuple)) else found
    if not isinstance(spec, Spec):
        return [ghost(part.shape, part.dtype.numpy) for part in spec]
    if op.layout is not None:
        return op.layout(*forms, **attrs)
    by_element = isinstance(op.lower, Expr) or op.name in COPIES
    return ghost_in_order(spec.shape, spec.dtype.numpy, forms if by_element else ())


def link(
    op: Op,
    operands: tuple,
    attrs: dict[str, Any],
    result: Any,
    grad: bool | int,
    values: list[Held] | None = None,
) -> Any:
    """Wraps an op's results as tensors and, when gradients are on and needed, ties them to the graph.

    Results on another device come as layouts, and as the `values` that are there.
    """
    edges: tuple | None = None
    if grad and op.vjp is not NO_GRAD:
        edges = tuple([edge_of(x) if isinstance(x, Tensor) else None for x in operands])
        if edges.count(None) == len(edges):
            edges = None
    if op.outputs != 1 or isinstance(result, (list, tuple)):
        return link_several(op, operands, attrs, result, edges, grad, values)
    data = result if type(result) is np.ndarray else np.asarray(result)
    if op.view:
        out = wrap_view(data, operands[0], None, None if grad else IN_NO_GRAD)
    else:
        out = wrap(data)
    if values is not None:
        put(out, values[0])
    if edges is not None and differentiable(data):
        out._edge = tie(op, operands, attrs, edges, data.shape, data.dtype, (out,))
    if not grad and mode.inference and not op.view:
        mark_inference(out)
    return out


def tie(op: Op, operands: tuple, attrs: dict, edges: tuple, shape: Any, dtype: Any, outputs: tuple):
    """A node of the op with the values its plan asks for."""
    plan = op.plan(tuple([edge is not None for edge in edges]))
    saved: tuple = ()
    if plan.keeps_operands or plan.keeps_output:
        scope = operands
        if plan.keeps_output:
            scope = (*operands, *[saved_output(out, k) for k, out in enumerate(outputs)])
        saved = tuple([value if keep else None for value, keep in zip(scope, plan.keeps, strict=False)])
        if mode.saved_hooks:
            saved = pack(saved)
    node = make_node(op.node, edges, saved, plan, shape, dtype)
    if attrs:
        node.attrs = attrs
    if saved:
        frame = user_frame(sys._getframe(1))
        node.place = None if frame is None else (frame.f_code, frame.f_lasti)
    return node


def link_several(
    op: Op,
    operands: tuple,
    attrs: dict,
    results: Any,
    edges: tuple | None,
    grad: bool | int,
    values: list[Held] | None = None,
) -> tuple:
    arrays = [as_array(result) for result in results]
    if op.view:
        caution = SEVERAL if grad else IN_NO_GRAD
        outs = tuple(wrap_view(data, operands[0], None, caution) for data in arrays)
    else:
        outs = tuple(wrap(data) for data in arrays)
    if values is not None:
        for out, value in zip(outs, values):
            put(out, value)
    if not grad and mode.inference and not op.view:
        for out in outs:
            mark_inference(out)
    if edges is None or not outs:
        return outs
    shapes = tuple(data.shape for data in arrays)
    dtypes = tuple(data.dtype for data in arrays)
    several = len(arrays) > 1
    node = tie(
        op, operands, attrs, edges, shapes if several else shapes[0], dtypes if several else dtypes[0],
        outs,
    )  # fmt: skip
    if several:
        extra_of(node).outputs = len(arrays)
    for number, out in enumerate(outs):
        if differentiable(out._form) and number not in op.without_grad:
            out._edge = Output(node, number) if number else node
    return outs


def differentiable(data: np.ndarray) -> bool:
    return data.dtype.kind in "fcV"  # V: bfloat16
