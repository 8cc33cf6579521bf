"""What a node saves and which vjps it calls, worked out once per op and combination of inputs that need a gradient.

ops/op.py makes plans from the signatures of vjps; nodes follow them. Read next: autograd/node.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cleargrad.codegen import expr, numpy_reading
from cleargrad.codegen.expr import Expr

UNTRACED = "UNTRACED"


class Step:
    """One vjp call of a plan."""

    __slots__ = ("input", "vjp", "positions", "attrs", "shapes", "kernel")

    def __init__(
        self, input: int | None, vjp: Callable, positions: tuple, attrs: tuple, shapes: tuple, kernel: Any
    ):
        self.input = input  # the operand it serves; None: it returns the gradients of all
        self.vjp = vjp
        self.positions = positions  # of its arguments in the saved values
        self.attrs = attrs
        self.shapes = shapes  # keyword `x_shape` and the operand whose shape it is
        self.kernel = kernel  # the vjp as one formula over arrays, UNTRACED until it is needed, or None


def trace_vjp(step: Step) -> Callable | None:
    """The vjp of an elementwise op as a formula of its own, when it is made of elementwise ops alone.

    The vjp is called with scalar expressions in place of tensors; anything but elementwise ops refuses those.
    """
    try:
        tree, names = expr.trace(step.vjp)
    except (AttributeError, TypeError, RuntimeError, AssertionError):
        tree = None
    step.kernel = numpy_reading.read(tree, len(names)) if isinstance(tree, Expr) and tree.args else None
    return step.kernel


class Plan(NamedTuple):
    """What to save, and what to call later, for one combination of inputs that need a gradient.

    Saved values stand as (*operands, *outputs), with None for those that are not needed.
    """

    keeps: tuple[bool, ...]
    keeps_operands: bool
    keeps_output: bool
    steps: tuple[Step, ...]
