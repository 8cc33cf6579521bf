"""Writing in place: what may be written, and what the write does to the graph.

A write through a view changes its base: the base's new history is `as_strided_scatter` of the written value
into the old base, and every view gets its edge from the base again when it is next used. Read next:
ops/record.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.node import (
    AccumulateGrad,
    Node,
    Output,
    edge_of,
    geometry,
    move_keepers,
    refresh,
    split_edge,
)
from cleargrad.core.device import Elsewhere, Held, on_host
from cleargrad.core.dtype import OF_NUMPY, can_cast
from cleargrad.core.layout import ghost
from cleargrad.core.mode import SPECIAL, at_once, mode, settle
from cleargrad.core.tensor import Tensor, as_array, cell_of, held, put, room_of, tick, value_in, wrap
from cleargrad.errors import error
from cleargrad.ops.apply import check_operands, results_elsewhere, tie
from cleargrad.ops.op import NO_GRAD, OPS, Op


def call_inplace(op: Op, operands: tuple, attrs: dict[str, Any]) -> Tensor:
    """Runs an op and writes its result into the first operand."""
    target = operands[0]
    name = op.name + "_"
    check_memory(target, name)
    if mode.waiter is not None and mode.recorder is None and not mode.waiter.takes(operands):
        with at_once():
            return call_inplace(op, operands, attrs)
    if mode.simply is not None and mode.simply.change(op, operands, attrs):
        return target
    if mode.waiter is not None and mode.recorder is None and converts(op, operands, attrs):
        settle("a write that converts")
        with at_once():
            return call_inplace(op, operands, attrs)
    edges = None
    if mode.grad and op.vjp is not NO_GRAD:
        edges = tuple(edge_of(x) if isinstance(x, Tensor) else None for x in operands)
        recorded = any(edge is not None for edge in edges)
        if recorded or looks_into_history(target):
            check_history(target, name)
        if recorded:
            operands = keep_old_value(op, operands, edges)
        else:
            edges = None
    if mode.how == SPECIAL:
        if mode.recorder is not None:
            return assign(target, mode.recorder.call(op, operands, attrs), name)
        if mode.waiter is not None:
            with mode.waiter.together():
                return assign(target, mode.waiter.call(op, operands, attrs), name, made_for_it=True)
    run = op.run if mode.observer is None else mode.observer.around(op)
    try:
        arrays = [x._data if isinstance(x, Tensor) else x for x in operands]
        result = as_array(run(*arrays, **attrs))
    except Elsewhere:
        result = results_elsewhere(op, operands, attrs)
    except (ValueError, TypeError, AttributeError):
        check_operands(op, operands)
        op.spec(*operands, **attrs)
        raise
    check_result(target, result.shape, result.dtype, name)
    write(target, result)
    target.bump()
    if edges is not None:
        data = target._form
        rebase(target, tie(op, operands, attrs, edges, data.shape, data.dtype, (target,)))
    return target


def write(target: Tensor, value: np.ndarray | Held) -> None:
    """Copies a value of the same shape into the memory of a tensor, from any device to any."""
    place = held(target)
    if place is None:
        np.copyto(target._data, on_host(value), casting="unsafe")
        return
    if isinstance(value, Held) and value.driver is place.driver:
        memory = value.memory
    else:
        memory = place.driver.receive(on_host(value))
    place.driver.write(place.memory, place.form, memory)


def converts(op: Op, operands: tuple, attrs: dict[str, Any]) -> bool:
    """Whether what is written has another dtype than the target: a conversion without a node of its own."""
    kind = operands[0]._form.dtype
    if all(x._form.dtype is kind for x in operands if isinstance(x, Tensor)):
        return False
    return op.spec(*operands, **attrs).dtype.numpy != kind


def keep_old_value(op: Op, operands: tuple, edges: tuple) -> tuple:
    """When the vjp needs what is about to be overwritten, it gets a copy."""
    target = operands[0]
    plan = op.plan(tuple(edge is not None for edge in edges))
    kept = []
    for x, edge, keep in zip(operands, edges, plan.keeps, strict=False):
        overwritten = keep and isinstance(x, Tensor) and (x is target or shares_memory(x, target))
        kept.append(old_value(x, edge) if overwritten else x)
    return tuple(kept)


def old_value(x: Tensor, edge: Node | Output | None) -> Tensor:
    """A tensor that keeps what another holds now."""
    if (mode.waiter is not None and mode.recorder is None) or held(x) is not None:
        before = mode.turn(False)
        try:
            kept = x.clone()
        finally:
            mode.turn(before)
        kept._edge = edge
        return kept
    kept = wrap(x._data.copy(), edge)
    if mode.recorder is not None:
        mode.recorder.rename(x, kept)
    return kept


def shares_memory(x: Tensor, target: Tensor) -> bool:
    return x._ver is not None and x._ver is target._ver


def inplace_form(function: Callable, name: str) -> Callable:
    """The in-place method of a composite: compute, then assign."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_memory(self, name)
        source = self
        if mode.grad and any(needs_grad(x) for x in (self, *args, *kwargs.values())):
            check_history(self, name)
            source = old_value(self, self._edge)
        return assign(self, function(source, *args, **kwargs), name)

    method.__name__ = method.__qualname__ = name
    return method


def needs_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and edge_of(value) is not None


def assign(
    target: Tensor, value: Tensor, name: str, replaces: bool = False, made_for_it: bool = False
) -> Tensor:
    """Writes a value and its history into a tensor; with `replaces` the old one has no part in it.

    What the node of a value that was `made_for_it` saves of its results is, from then on, what the target holds.
    """
    check_memory(target, name)
    check_result(target, value._form.shape, value._form.dtype, name)
    edge = edge_of(value) if mode.grad else None
    target_edge = edge_of(target) if mode.grad else None
    if edge is not None or target_edge is not None or (mode.grad and looks_into_history(target)):
        check_history(target, name)
    if value._form.dtype != target._form.dtype:
        value = value.to(OF_NUMPY[target._form.dtype])
        edge = edge_of(value) if mode.grad else None
    if mode.recorder is not None:
        mode.recorder.write(target, value)
    elif mode.waiter is not None and mode.waiter.takes((target, value)):
        mode.waiter.write(target, value)
    else:
        write(target, value_in(value))
    target.bump()
    if made_for_it and edge is not None:
        save_target(split_edge(edge)[0], target)
    if edge is None and target_edge is not None:
        edge = forget(target, target_edge)
    elif edge is not None and target._base is None and (replaces or type(edge) is AccumulateGrad):
        edge = replace(target, value, target_edge, edge)
    if edge is not None:
        rebase(target, edge)
    return target


def save_target(node: Node, target: Tensor) -> None:
    """A result that a node has saved lies in a tensor, and is spoilt by later writes to it."""
    if any(type(value) is tuple for value in node.saved):
        cell = cell_of(target)
        node.saved = tuple([(x[0], cell, x[2]) if type(x) is tuple else x for x in node.saved])
        node.tick = tick()


def forget(target: Tensor, edge: Node | Output) -> Node:
    """The history of a value that replaced another without depending on it: what flows back is zero."""
    data = target._form
    return tie(OPS["overwrite"], (target,), {}, (edge,), data.shape, data.dtype, ())


def replace(target: Tensor, value: Tensor, old: Node | Output | None, new: Any) -> Node:
    """The history of a copy: the gradient goes to the source, zeros to what was there before."""
    data = target._form
    return tie(OPS["copy"], (target, value), {}, (old, new), data.shape, data.dtype, ())


def write_out(out: Tensor | tuple, result: Any, name: str) -> Any:
    """The `out=` argument: the result goes into a tensor the caller owns, resized when its shape differs."""
    if isinstance(result, tuple):
        written = [write_out(target, value, name) for target, value in zip(out, result, strict=True)]
        return type(result)(*written) if hasattr(result, "_fields") else tuple(written)
    if not isinstance(out, Tensor):
        raise error(TypeError, name, f"argument 'out' must be Tensor, not {type(out).__name__}")
    if mode.grad and (edge_of(out) is not None or edge_of(result) is not None):
        rule = "functions with out=... arguments don't support automatic differentiation, but one of the "
        raise error(RuntimeError, name, rule + "arguments requires grad")
    if not can_cast(result.dtype, out.dtype):
        rule = f"result type {result.dtype} can't be cast to the desired output type {out.dtype}"
        raise error(RuntimeError, name, rule)
    if mode.recorder is not None and out._form.shape == result._form.shape:
        return assign(out, result, name)
    settle()
    if out._form.shape != result._form.shape:
        if mode.recorder is not None:
            mode.recorder.refuse(name)
        room_of(out).known = False
        form = ghost(result._form.shape, out._form.dtype)
        place = held(out)
        if place is None:
            out._data = out._form = np.empty(form.shape, form.dtype)
        else:
            put(out, Held(place.place, place.driver, place.driver.allocate(form), form))
    write(out, value_in(result))
    out.bump()
    return out


# What may be written ---------------------------------------------------------------------------------------


def check_memory(target: Any, name: str) -> None:
    """Refuses targets that are not tensors, and memory where two elements are one."""
    if not isinstance(target, Tensor):
        raise error(TypeError, name, f"argument 'self' must be Tensor, not {type(target).__name__}")
    data = target._form
    if (
        data.size
        and 0 in data.strides
        and any(s == 0 and n > 1 for s, n in zip(data.strides, data.shape, strict=True))
    ):
        rule = (
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location"
        )
        raise error(RuntimeError, name, rule, target=target, fix="clone() the tensor before writing to it")
    if not data.flags.writeable:
        raise error(RuntimeError, name, "the tensor's memory is read-only", target=target, fix="clone() it")
    if target._ver is not None and target._inference and not mode.inference:
        rule = "Inplace update to inference tensor outside InferenceMode is not allowed."
        raise error(RuntimeError, name, rule, fix="write to a clone()")


def looks_into_history(target: Tensor) -> bool:
    """Whether a tensor is a view of one with a history: a view made without recording has none of its own."""
    return target._base is not None and target._base._edge is not None


def check_history(target: Tensor, name: str) -> None:
    """Refuses writes whose gradient could not be tracked."""
    base = target._base
    if type(target._edge) is AccumulateGrad:
        rule = "a leaf Variable that requires grad is being used in an in-place operation."
        fix = "wrap the write in torch.no_grad(), or write to a clone()"
        raise error(RuntimeError, name, rule, target=target, fix=fix)
    if base is None:
        return
    if type(base._edge) is AccumulateGrad:
        rule = "a view of a leaf Variable that requires grad is being used in an in-place operation."
        fix = "wrap the write in torch.no_grad(), or write to a view of a clone()"
        raise error(RuntimeError, name, rule, target=target, fix=fix)
    if target._caution is not None:
        rule = f"this view may not be modified inplace: {target._caution}"
        raise error(RuntimeError, name, rule, target=target, fix="write to a clone()")


def check_result(target: Tensor, shape: tuple[int, ...], dtype: np.dtype, name: str) -> None:
    if target._form.shape != shape:
        rule = f"output with shape {list(target._form.shape)} doesn't match the broadcast shape {list(shape)}"
        raise error(RuntimeError, name, rule, target=target)
    if dtype is not target._form.dtype and not can_cast(OF_NUMPY[dtype], target.dtype):
        rule = f"result type {OF_NUMPY[dtype]} can't be cast to the desired output type {target.dtype}"
        raise error(RuntimeError, name, rule, target=target)


def rebase(target: Tensor, edge: Node | Output | None) -> None:
    """Gives a tensor that was just written its new place in the graph."""
    base = target._base
    if base is None:
        move_keepers(target._edge, edge)
        target._edge = edge
        return
    scatter = OPS["as_strided_scatter"]
    attrs = geometry(target, base)
    edges = (base._edge, edge)
    data = base._form
    before = base._edge
    base._edge = tie(scatter, (base, target), attrs, edges, data.shape, data.dtype, ())
    move_keepers(before, base._edge)
    refresh(target)
