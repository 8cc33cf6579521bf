"""Derivatives kept from the forward pass: slopes that are computed together with their functions.

gelu and its like have slopes that are dear, and made of the same parts as the function itself. Computed backward,
they need all of it again, and x. Computed forward, they cost a little more than the function, and x can go: the
slope takes its memory. `slopes_ahead` finds the calls for which that is so. Read next: schedule/statements.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cleargrad.expr.expr import trace
from cleargrad.ops.record import Call, Value
from cleargrad.schedule.formulas import Lazy, Number

SLOPES = {"gelu": "gelu_backward", "gelu_tanh": "gelu_tanh_backward", "silu": "silu_backward"}
TIMES = trace(lambda x, y: x * y)[0]
KINDS = (np.float32, np.float64)  # a slope that is rounded to fewer digits would be another number


def slopes_ahead(
    calls: Sequence[Call], users: Mapping[int, list[Call]], asked: set[int]
) -> dict[int, tuple[Call, Value]]:
    """For the result of a function: the call that multiplies by its slope, the last to read x, and that slope."""
    found = {}
    for call in calls:
        name = SLOPES.get(call.op.name)
        if name is None:
            continue
        x = call.operands[0]
        last = users[x.index][-1]
        if last.op.name == name and x.index not in asked and fits(last, x):
            found[call.results[0].index] = (last, Value(-1 - last.results[0].index, x.spec))
    return found


def fits(call: Call, x: Value) -> bool:
    """Whether a call multiplies a gradient by the slope at x, element by element and without a loss."""
    gradient, place = call.operands
    if type(gradient) is not Value or type(place) is not Value:
        return False
    same = gradient.spec == x.spec and gradient.index != x.index == place.index
    return same and x.spec.dtype.numpy in KINDS


def is_passing(form: Lazy) -> bool:
    """Whether memory that a formula reads is free when nobody needs the formula any more."""
    if isinstance(form, Number):
        return False
    size = 1
    for extent in form.shape:
        size *= extent
    return any(load.buffer.role == "inside" and load.buffer.size >= size for load in form.loads)
