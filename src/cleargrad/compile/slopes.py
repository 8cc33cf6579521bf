"""Slopes that are computed together with their functions, and kept for the backward pass.

gelu and its like have slopes that are dear, and made of the same parts as the function itself. Computed backward,
they need all of it again, and x. Computed forward, they cost a little more than the function, and x can go: the
slope takes its memory. `slopes_ahead` finds the calls for which that is so. For float32, gelu and its slope have
formulas of their own, in which the density is the only exponential. Read next: compile/statements.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from cleargrad.codegen import expr
from cleargrad.codegen.expr import Expr, trace
from cleargrad.compile.lazy import Lazy, Number
from cleargrad.ops.record import Call, Value

SLOPES = {"gelu": "gelu_backward", "gelu_tanh": "gelu_tanh_backward", "silu": "silu_backward"}
TIMES = trace(lambda x, y: x * y)[0]
KINDS = (np.float32, np.float64)  # a slope that is rounded to fewer digits would be another number

DENSITY = 1 / math.sqrt(2 * math.pi)
FAR, END = 3.0, 14.0  # behind the end, the density has become zero
# (x + FAR) e^(x^2 / 2) (1 - normal distribution of x) over x / (x + FAR), 0 <= x <= END: off by 5e-8 of itself
TAIL = (
    -0.06876952, 0.15933459, -0.00728791, -0.11166874, -0.25741145, 0.20596708, 1.069186, -2.0904863, 1.5,
)  # fmt: skip


def distribution(x: Expr) -> tuple[Expr, Expr]:
    """The normal distribution, to 1.2e-7, and e^(-x^2 / 2), of which it is made."""
    size, density = expr.minimum(expr.abs(x), END), expr.exp(-0.5 * x * x)
    near = expr.div(1.0, size + FAR)
    place, total = size * near, TAIL[0]
    for coefficient in TAIL[1:]:
        total = total * place + coefficient
    tail = density * near * total
    return expr.where(expr.lt(x, 0.0), tail, 1.0 - tail), density


def gelu_slope(gradient: Expr, x: Expr) -> Expr:
    below, density = distribution(x)
    return gradient * (below + DENSITY * x * density)


# By the name of the function: its formula, and that of its slope.
QUICK = {"gelu": (trace(lambda x: x * distribution(x)[0])[0], trace(gelu_slope)[0])}


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


def trees(call: Call, later: Call) -> tuple[Expr, Expr]:
    """The formulas of a function, and of its slope times a gradient."""
    usual = (call.op.lower, later.op.lower)
    return QUICK.get(call.op.name, usual) if call.operands[0].spec.dtype.numpy == np.float32 else usual
