"""The op record: everything cleargrad knows of an op, all of it required.

A constructor in ops/declare.py fills most rules from one fact; this file holds the record itself, the reading
of a vjp's signature (its parameter names are what is saved), and the registry. Read next: ops/apply.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cleargrad.autograd.node import Node
from cleargrad.autograd.plan import UNTRACED, BackwardPlan, VjpCall
from cleargrad.expr.expr import Expr, parameters

NO_GRAD = "NO_GRAD"  # written as a vjp: the op has no gradient
OPAQUE = "OPAQUE"  # written as a lowering: the compiler calls `run`, it cannot look inside
PARTS = "PARTS"  # the lowering of composites and fused ops: the compiler sees the ops they are made of


@dataclass(frozen=True, eq=False)
class Op:
    """An op: its rules, and what follows from their signatures."""

    name: str
    spec: Callable  # operands, attributes -> Spec (a list of them for several outputs), or the error
    run: Callable  # arrays, attributes -> arrays
    vjp: Any  # one function, a tuple of one per operand, or NO_GRAD
    lower: Any  # Expr, Reduction, View, PARTS or OPAQUE
    samples: Callable  # () -> Sample and Fails objects
    tensors: tuple[str, ...]  # operand names, from run's positional parameters
    attrs: tuple[str, ...]  # attribute names, from run's keyword-only parameters
    variadic: bool = False
    outputs: int = 1
    view: bool = False
    node: type[Node] = Node
    parts: Callable | None = None  # for lower = PARTS: the same result, computed by other ops
    without_grad: tuple[int, ...] = ()  # the numbers of outputs PyTorch does not differentiate
    layout: Callable | None = (
        None  # layouts of operands, attributes -> that of the result, if spec cannot say
    )
    plans: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def plan(self, needs: tuple[bool, ...]) -> BackwardPlan:
        """The plan for these inputs, made once."""
        plan = self.plans.get(needs)
        if plan is None:
            plan = self.plans[needs] = make_plan(self, needs)
        return plan


def make_plan(op: Op, needs: tuple[bool, ...]) -> BackwardPlan:
    count = len(needs)
    steps = []
    vjps = [(None, op.vjp)] if callable(op.vjp) else [(k, f) for k, f in enumerate(op.vjp) if needs[k] and f]
    if callable(op.vjp) and len(op.tensors) == 1 and not op.variadic:
        vjps = [(0, op.vjp)]
    for index, vjp in vjps:
        names, attrs, shapes = vjp_signature(op, vjp)
        positions = tuple(place for name in names for place in position_of(op, name, count))
        traceable = isinstance(op.lower, Expr) and index is not None and not attrs and not shapes
        steps.append(VjpCall(index, vjp, positions, attrs, shapes, UNTRACED if traceable else None))
    used = {position for step in steps for position in step.positions}
    keeps = tuple(position in used for position in range(count + op.outputs))
    return BackwardPlan(keeps, any(keeps[:count]), any(keeps[count:]), tuple(steps))


def position_of(op: Op, name: str, operands: int) -> Iterable[int]:
    """Where a vjp's parameter stands in (*operands, *outputs)."""
    if name == "*":
        return range(len(op.tensors), operands)
    if name.startswith("out") and name not in op.tensors:
        return (operands + int(name[3:] or 0),)
    return (op.tensors.index(name),)


@cache
def vjp_signature(op: Op, vjp: Callable) -> tuple[tuple[str, ...], tuple[str, ...], tuple]:
    """The values, attributes and operand shapes a vjp asks for by the names of its parameters.

    Positional: operands, `out`, or `*rest` for the operands behind run's own star. Keyword-only: attributes,
    or `x_shape` for the shape of operand x, which the graph knows without saving x.
    """
    positional, keywords, star = parameters(vjp)
    names = (*positional[1:], "*") if star else positional[1:]
    operands = {name: name.removesuffix("_shape") for name in keywords if name.endswith("_shape")}
    shapes = tuple((name, op.tensors.index(x)) for name, x in operands.items() if x in op.tensors)
    known = {name for name, _ in shapes}
    return names, tuple(name for name in keywords if name not in known), shapes


def check_vjp(op: Op) -> None:
    """Refuses, when the module is imported, a vjp that asks for something the op does not have."""
    if op.vjp is NO_GRAD:
        return
    vjps = [op.vjp] if callable(op.vjp) else [vjp for vjp in op.vjp if vjp is not None]
    if not callable(op.vjp) and len(op.vjp) != len(op.tensors):
        raise TypeError(f"{op.name}: {len(op.vjp)} vjps for the operands {op.tensors}")
    for vjp in vjps:
        names, attrs, _ = vjp_signature(op, vjp)
        for name in names:
            known = name in op.tensors or re.fullmatch(r"out\d?", name) or name == "*"
            if not known:
                raise TypeError(
                    f"{op.name}: the vjp asks for {name!r}, which is neither {op.tensors} nor out"
                )
        unknown = set(attrs) - set(op.attrs)
        if unknown:
            raise TypeError(f"{op.name}: the vjp asks for the attributes {unknown}, the op has {op.attrs}")


def node_class(name: str) -> type[Node]:
    """The class of an op's nodes, named as PyTorch names them: mul -> MulBackward0."""
    if not name.endswith(("0", "1", "2", "3", "CopySlices", "Backwards")):
        name = "".join(word[:1].upper() + word[1:] for word in name.split("_")) + "Backward0"
    return type(name, (Node,), {"__module__": "cleargrad.autograd", "__slots__": ()})


# The registry ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Face:
    """A public function: where PyTorch has it, and which op or composite stands behind it."""

    name: str
    function: Callable
    spaces: tuple[str, ...]  # "" is the top level; others such as "nn.functional", "linalg"
    method: bool
    inplace: Callable | None  # the function behind `name_`, when there is one
    op: Op | None  # None for a composite
    samples: Callable
    vjp: Any
    out: bool = False
    reference: Callable | None = None  # how torch computes the same, when the public path is not the same


OPS: dict[str, Op] = {}
FACES: list[Face] = []


def register(op: Op) -> Op:
    if op.name in OPS:
        raise TypeError(f"two ops are called {op.name!r}")
    check_vjp(op)
    if op.without_grad and len(op.without_grad) == op.outputs - 1:
        op.node.fills_zeros = False  # the one output with a gradient is why the vjp runs
    OPS[op.name] = op
    return op
