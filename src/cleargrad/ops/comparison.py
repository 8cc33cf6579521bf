"""Comparisons, logic on booleans and bits, and choosing by a condition.

Read next: ops/elementary.py.
"""

from __future__ import annotations

from cleargrad.ops.declare import elementwise
from cleargrad.ops.op import NO_GRAD
from cleargrad.codegen import expr
from cleargrad.ops.samples import binary

eq = elementwise("eq", lambda x, y: expr.eq(x, y), vjp=NO_GRAD, samples=binary(), result="bool")
ne = elementwise("ne", lambda x, y: expr.ne(x, y), vjp=NO_GRAD, samples=binary(), result="bool", aliases=("not_equal",))
lt = elementwise("lt", lambda x, y: x < y, vjp=NO_GRAD, samples=binary(), result="bool", aliases=("less",))
le = elementwise("le", lambda x, y: x <= y, vjp=NO_GRAD, samples=binary(), result="bool", aliases=("less_equal",))
gt = elementwise("gt", lambda x, y: x > y, vjp=NO_GRAD, samples=binary(), result="bool", aliases=("greater",))
ge = elementwise("ge", lambda x, y: x >= y, vjp=NO_GRAD, samples=binary(), result="bool", aliases=("greater_equal",))
