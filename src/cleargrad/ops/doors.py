"""The doors of elementwise ops, written out flat: they are what every small op costs.

Their common path is float32 or float64 tensors and Python numbers; everything else goes through apply.call.
What the pieces cost is in docs/design/06-small-ops.md. Read next: ops/samples.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import CodeType, FrameType
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.core.device import Elsewhere
from cleargrad.core.mode import SPECIAL, gate, mode
from cleargrad.core.tensor import INFERENCE, Tensor, new, tick
from cleargrad.devices.cpu.native import BETWEEN, large_for, next_call, notice, quickened
from cleargrad.errors import PACKAGE, user_frame
from cleargrad.expr import numpy_reading
from cleargrad.ops.apply import call, label
from cleargrad.ops.inplace import call_inplace, check_memory, write_out
from cleargrad.ops.op import NO_GRAD, Op

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
ndarray = np.ndarray
getframe = sys._getframe
NONE: dict[str, Any] = {}  # the attributes of an op that has none


class Seen:
    """The user code a node was last recorded from; most ops come from the same function as the one before."""

    code: CodeType | None = None


def place_of(frame: FrameType) -> tuple | None:
    """The user's place, from the frame that called a door: usually that frame itself."""
    code = frame.f_code
    if code is not Seen.code:
        if code.co_filename.startswith(PACKAGE):
            found = user_frame(frame)
            return None if found is None else (found.f_code, found.f_lasti)
        Seen.code = code
    return code, frame.f_lasti


# The two doors below are written out flat: they are what every small op costs. Their common path is float32
# or float64 tensors; everything else goes through `call`.


def unary_door(op: Op, kernel: Callable) -> Callable:
    kind_of_node, wants_grad = op.node, op.vjp is not NO_GRAD
    plan = op.plan((True,)) if wants_grad else None
    keeps_input = bool(plan and plan.keeps_operands)
    keeps_output = bool(plan and plan.keeps_output)
    kernel32, kernel64 = (numpy_reading.specialise(kernel, kind) for kind in (F32, F64))
    large32, large64 = (quickened(each, op.lower) for each in (kernel32, kernel64))
    large = large_for(op.lower)  # known here, so that small arrays are spared one more call

    def door(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        how = gate.how or mode.how
        if how == SPECIAL and out is None and (waiter := mode.simply) is not None:
            if not waiter.spared:
                return waiter.call(op, (input,), NONE)
            waiter.spared -= 1
            how = waiter.grad
        if how == SPECIAL or out is not None or not isinstance(input, Tensor):
            result = call(op, (input,), {})
            return result if out is None else write_out(out, result, op.name)
        try:
            data = input._data
            kind = data.dtype
            if kind is F32:
                value = kernel32(data) if large is None or data.size < large else large32(data)
            elif kind is F64:
                value = kernel64(data) if large is None or data.size < large else large64(data)
            else:
                return call(op, (input,), {})
        except (MemoryError, Elsewhere):
            return call(op, (input,), {})
        if type(value) is not ndarray:
            value = np.asarray(value)
        if not next_call() % BETWEEN:
            notice(getframe())
        tensor = new(Tensor)
        tensor._data = tensor._form = value
        tensor._grad = tensor._ver = tensor._base = None
        if how and wants_grad:
            edge = input._edge if input._base is None else edge_of(input)
            if edge is not None:
                tensor._edge = node = kind_of_node()
                node.edges = (edge,)
                node.plan = plan
                node.shape = value.shape
                node.dtype = kind
                node.tick = tick()
                if keeps_output:
                    tensor._ver = cell = [0, 0, None, None]
                    node.saved = (input if keeps_input else None, (value, cell, 0))
                elif keeps_input:
                    node.saved = (input,)
                else:
                    node.saved = ()
                    node.place = node.attrs = node.extra = None
                    return tensor
                node.attrs = node.extra = None
                frame = getframe(1)
                code = frame.f_code
                node.place = (code, frame.f_lasti) if code is Seen.code else place_of(frame)
                return tensor
        tensor._edge = None
        return tensor

    return label(door, op)


def binary_door(
    op: Op, kernel: Callable, rank: int | None = None, otherwise: Callable | None = None
) -> Callable:
    """With `rank`, the kernel is for tensors of that rank alone, and `otherwise` takes the rest."""
    kind_of_node, wants_grad = op.node, op.vjp is not NO_GRAD
    if wants_grad:
        plan_left, plan_right, plan_both = map(op.plan, ((True, False), (False, True), (True, True)))
    kernel32, kernel64 = (quickened(numpy_reading.specialise(kernel, kind), op.lower) for kind in (F32, F64))
    if otherwise is None:
        otherwise = partial(call_two, op)

    def door(input: Tensor, other: Any) -> Tensor:
        how = gate.how or mode.how
        if how == SPECIAL and (waiter := mode.simply) is not None:
            if waiter.spared:
                waiter.spared -= 1
                how = waiter.grad
            elif rank is None:
                return waiter.call(op, (input, other), NONE)
        if how == SPECIAL or not isinstance(input, Tensor):
            return otherwise(input, other)
        try:
            left = input._data
            kind = left.dtype
            if isinstance(other, Tensor):
                right = other._data
                fits = right.dtype is kind
            else:
                right = other
                fits = rank is None and (type(other) is float or type(other) is int)
            if rank is not None and (not fits or left.ndim != rank or right.ndim != rank):
                return otherwise(input, other)
            if kind is F32 and fits:
                value = kernel32(left, right)
            elif kind is F64 and fits:
                value = kernel64(left, right)
            else:
                return otherwise(input, other)
        except (ValueError, OverflowError, MemoryError, Elsewhere):
            return otherwise(input, other)
        if type(value) is not ndarray:
            value = np.asarray(value)
        if not next_call() % BETWEEN:
            notice(getframe())
        tensor = new(Tensor)
        tensor._data = tensor._form = value
        tensor._grad = tensor._ver = tensor._base = None
        if how and wants_grad:
            edge = input._edge if input._base is None else edge_of(input)
            if right is other:
                second = None
            else:
                second = other._edge if other._base is None else edge_of(other)
            if edge is None:
                if second is None:
                    tensor._edge = None
                    return tensor
                plan = plan_right
            else:
                plan = plan_left if second is None else plan_both
            tensor._edge = node = kind_of_node()
            node.edges = (edge, second)
            node.plan = plan
            node.shape = value.shape
            node.dtype = kind
            node.tick = tick()
            node.attrs = node.extra = None
            keeps, keeps_operands, keeps_output, _ = plan
            if keeps_operands or keeps_output:
                first = input if keeps[0] else None
                if keeps_output:
                    tensor._ver = cell = [0, 0, None, None]
                    node.saved = (first, other if keeps[1] else None, (value, cell, 0))
                else:
                    node.saved = (first, other if keeps[1] else None)
                frame = getframe(1)
                code = frame.f_code
                node.place = (code, frame.f_lasti) if code is Seen.code else place_of(frame)
            else:
                node.saved = ()
                node.place = None
            return tensor
        tensor._edge = None
        return tensor

    return label(door, op)


def call_two(op: Op, input: Any, other: Any) -> Tensor:
    return call(op, (input, other), {})


def many_door(op: Op, kernel: Callable) -> Callable:
    def door(*operands: Any) -> Tensor:
        return call(op, operands, {})

    return label(door, op)


def writing_door(op: Op, kernel: Callable) -> Callable:
    """The in-place form. Without gradients, as in an optimizer, a ufunc writes straight into the target."""
    if not isinstance(kernel, np.ufunc) or kernel.nin != 2:

        def write_any(*operands: Any) -> Tensor:
            if (waiter := mode.simply) is not None and waiter.change_again(op, operands):
                return operands[0]
            return call_inplace(op, operands, {})

        return write_any
    name = op.name + "_"

    def write(self: Tensor, other: Any) -> Tensor:
        how = gate.how or mode.how
        if how or not isinstance(self, Tensor):
            if (
                how == SPECIAL
                and (waiter := mode.simply) is not None
                and waiter.change_again(op, (self, other))
            ):
                return self
            return call_inplace(op, (self, other), {})
        try:
            data = self._data
            kind = data.dtype
            if isinstance(other, Tensor):
                right = other._data
                fits = right.dtype is kind
            else:
                right = other
                fits = type(other) is float or type(other) is int
        except Elsewhere:
            return call_inplace(op, (self, other), {})
        if not fits or not (kind is F32 or kind is F64):
            return call_inplace(op, (self, other), {})
        cell = self._ver
        if cell is None:
            cell = self._ver = [0, 0, None, None]
        if cell[0] == INFERENCE or not data.flags.carray:
            check_memory(self, name)
        try:
            kernel(data, right, out=data)
        except (ValueError, TypeError):  # nothing is written yet when shapes do not fit
            return call_inplace(op, (self, other), {})
        if cell[0] != INFERENCE:
            cell[0] = tick()
            cell[1] += 1
            cell[2] = place_of(getframe(1))
        return self

    return write
