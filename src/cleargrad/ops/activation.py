"""Activation functions.

Read next: ops/normalization.py.
"""

from __future__ import annotations

from cleargrad.codegen import expr
from cleargrad.ops.declare import REAL, elementwise
from cleargrad.ops.samples import unary

relu = elementwise(
    "relu",
    lambda x: expr.maximum(x, 0),
    vjp=lambda g, out: g * (out > 0),
    samples=unary(),
    accepts=REAL,
    spaces=("", "nn.functional"),
)
