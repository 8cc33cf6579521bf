"""What a node saves and which vjps it calls, worked out once per op and set of inputs that need a gradient.

ops/op.py makes plans from the signatures of vjps; nodes follow them. Read next: autograd/node.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cleargrad.devices.cpu.native import large_for, quickened
from cleargrad.expr import expr, numpy_reading
from cleargrad.expr.expr import Expr, Var

UNTRACED, PASS = "UNTRACED", "PASS"


class VjpCall:
    """One vjp call of a plan."""

    __slots__ = (
        "attrs", "input", "kernel", "kernel32", "kernel64", "large", "large32", "large64", "positions", "shapes",
        "single", "vjp",
    )  # fmt: skip

    def __init__(
        self, input: int | None, vjp: Callable, positions: tuple, attrs: tuple, shapes: tuple, kernel: Any
    ):
        self.input = input  # the operand it serves; None: it returns the gradients of all
        self.vjp = vjp
        self.positions = positions  # of its arguments in the saved values
        self.single = len(positions) == 1
        self.attrs = attrs
        self.shapes = shapes  # keyword `x_shape` and the operand whose shape it is
        # The vjp as one formula over arrays: UNTRACED until it is needed, PASS when the gradient passes as it
        # is, or None; then the same with its constants in float32 and float64, and for arrays of `large` and more.
        self.kernel = kernel
        self.large: int | None = None
        self.kernel32: Callable | None = None
        self.kernel64: Callable | None = None
        self.large32: Callable | None = None
        self.large64: Callable | None = None

    def traced(self) -> Any:
        """The vjp of an elementwise op as a formula of its own, when it is made of elementwise ops alone.

        The vjp is called with scalar expressions in place of tensors; all but elementwise ops refuse those.
        """
        try:
            tree, names = expr.trace(self.vjp)
        except (AttributeError, TypeError, RuntimeError, AssertionError):
            tree = None
        if isinstance(tree, Var):
            self.kernel = PASS if tree.position == 0 else None
        elif isinstance(tree, Expr):
            self.kernel = numpy_reading.read(tree, len(names))
            self.kernel32 = numpy_reading.specialise(self.kernel, np.dtype(np.float32))
            self.kernel64 = numpy_reading.specialise(self.kernel, np.dtype(np.float64))
            self.large32, self.large64 = quickened(self.kernel32, tree), quickened(self.kernel64, tree)
            self.large = large_for(tree)
        else:
            self.kernel = None
        return self.kernel


class BackwardPlan(NamedTuple):
    """What to save, and what to call later, for one combination of inputs that need a gradient.

    Saved values stand as (*operands, *outputs), with None for those that are not needed.
    """

    keeps: tuple[bool, ...]
    keeps_operands: bool
    keeps_output: bool
    steps: tuple[VjpCall, ...]
