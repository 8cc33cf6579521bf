"""Elementary functions, element by element: powers, exponentials, logarithms, trigonometry, rounding.

Read next: ops/views.py.
"""

from __future__ import annotations

from cleargrad.codegen import expr
from cleargrad.ops.declare import elementwise
from cleargrad.ops.samples import unary

exp = elementwise("exp", lambda x: expr.exp(x), vjp=lambda g, out: g * out, samples=unary(), result="float")
