"""The doors of what is called most, written flat from one template: they are what every small op costs.

A door stands in front of a function and takes the calls that are plain: tensors of float32 or float64, which are
there, and Python numbers beside them. It asks the thread's mode once; where calls wait it hands the call to the
waiter, else it runs a kernel, makes the tensor, and ties it to the graph. The form that writes in place writes
straight into its target. Everything else goes to the function in front of which it stands, and from there through
apply.call, which knows recorders, observers, casts and other devices.

The template's lines are joined for what a door is about (how many operands there are, which of them a node keeps),
so that no call asks what is known when the door is made. Doors with the same lines share their code; debuggers and
tracebacks show it. What the pieces cost is in docs/design/06-small-ops.md. Read next: ops/samples.py.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from types import CodeType, FrameType
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of
from cleargrad.autograd.plan import BackwardPlan
from cleargrad.core.device import Elsewhere
from cleargrad.core.mode import SPECIAL, gate, mode
from cleargrad.core.tensor import INFERENCE, Tensor, as_array, new, tick
from cleargrad.devices.cpu.native import BETWEEN, large_for, next_call, notice, quickened
from cleargrad.errors import PACKAGE, user_frame
from cleargrad.expr import numpy_reading
from cleargrad.expr.expr import parameters
from cleargrad.ops.apply import call, call_elsewhere, label
from cleargrad.ops.inplace import call_inplace, check_memory, write_out
from cleargrad.ops.op import NO_GRAD, Op

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
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


# Doors -----------------------------------------------------------------------------------------------------


def unary_door(op: Op, kernel: Callable) -> Callable:
    def otherwise(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        result = call(op, (input,), {})
        return result if out is None else write_out(out, result, op.name)

    return label(in_front(otherwise, op, kernel, ("input",), plain="out is None"), op)


def binary_door(op: Op, kernel: Callable, numbers: bool = True) -> Callable:
    def otherwise(input: Tensor, other: Any) -> Tensor:
        return call(op, (input, other), {})

    return label(in_front(otherwise, op, kernel, ("input", "other"), numbers=numbers), op)


def in_front(
    function: Callable,
    op: Op,
    kernel: Callable,
    operands: tuple[str, ...],
    *,
    plain: str = "True",
    numbers: bool = False,
    attrs: str = "NONE",
    **names: Any,
) -> Callable:
    """A door in front of a function, with its signature.

    Of the function's parameters the `operands` are tensors, as the op has them; behind the first one there may be
    `numbers`, too. Calls are `plain` where that expression of the parameters holds. The kernel is for arrays of one
    type, and raises ValueError where it cannot take them; `attrs` is an expression of the attributes. Both
    expressions may speak of the `names`.
    """
    positional, named, _ = parameters(function)
    plans = plans_of(op, range(len(operands)), len(operands))
    keeps = tuple([(needs, plan.keeps) for needs, plan in plans.items()])
    make = template(positional, named, operands, plain, numbers, attrs, keeps, tuple(names))
    known = {name_of_plan(needs): plan for needs, plan in plans.items()}
    door = make(op=op, otherwise=function, **kernels_of(op, kernel), **known, **names)
    door.__defaults__, door.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    door.__name__, door.__qualname__, door.__doc__ = (
        function.__name__,
        function.__qualname__,
        function.__doc__,
    )
    door.__module__ = function.__module__
    return door


def writing_door(op: Op, kernel: Callable) -> Callable:
    """The in-place form. Without gradients, as in an optimizer, a ufunc writes straight into the target."""
    kernels = kernels_of(op, kernel)
    straight = isinstance(getattr(kernels["kernel32"], "func", kernels["kernel32"]), np.ufunc)
    count = len(op.tensors)
    operands = ("self", "other")[:count] if count < 3 else ("self", *[f"x{k}" for k in range(1, count)])
    return label(writing_template(operands, straight)(op=op, name=op.name + "_", **kernels), op)


@cache
def kernels_of(op: Op, kernel: Callable) -> dict[str, Any]:
    """A kernel for both types of floats, and what is quicker for large arrays: machine code, or the same."""
    large = large_for(op.lower)  # known here, so that small arrays are spared one more call
    kernels: dict[str, Any] = {"large": large}
    for bits, kind in (("32", F32), ("64", F64)):
        kernels["kernel" + bits] = small = numpy_reading.specialise(kernel, kind)
        kernels["large" + bits] = small if large is None else quickened(small, op.lower)
    return kernels


def plans_of(op: Op, tensors: Sequence[int], count: int) -> dict[tuple[bool, ...], BackwardPlan]:
    """The plans for all ways in which those of so many operands that are tensors may need gradients."""
    if op.vjp is NO_GRAD:
        return {}
    ways = product(*[(True, False) if k in tensors else (False,) for k in range(count)])
    return {needs: op.plan(needs) for needs in ways if any(needs)}


def name_of_plan(needs: tuple[bool, ...]) -> str:
    return "plan" + "".join(["01"[need] for need in needs])


# The template ----------------------------------------------------------------------------------------------

KERNELS = ("kernel32", "kernel64", "large32", "large64", "large")


@cache
def template(
    positional: tuple[str, ...],
    named: tuple[str, ...],
    operands: tuple[str, ...],
    plain: str,
    numbers: bool,
    attrs: str,
    keeps: tuple,
    names: tuple[str, ...],
) -> Callable:
    """What makes doors of a pattern that give a new tensor."""
    tensors = operands[:1] if numbers else operands
    conditions = [f"isinstance({x}, Tensor)" for x in tensors] + [plain] * (plain != "True")
    again = ", ".join([*positional, *[f"{name}={name}" for name in named]])
    signature = ", ".join([*positional, *(["*", *named] if named else [])])
    of_op = f"(op, {tuple_of(operands)}, {attrs})"
    lines = [
        f"def door({signature}):",
        f"    if not ({' and '.join(conditions)}):",
        f"        return otherwise({again})",
        "    how = gate.how or mode.how",
        "    if how == SPECIAL:",
        "        if (waiter := mode.simply) is None:",
        f"            return otherwise({again})",
        "        if not waiter.spared:",
        f"            return waiter.call{of_op}",
        "        waiter.spared -= 1",
        "        how = waiter.grad",
        *computing(operands, numbers, f"call{of_op}", "value = "),
        "    if type(value) is not ndarray:",
        "        value = as_array(value)",
        "    if not next_call() % BETWEEN:",
        "        notice(getframe())",
        *indented(starting("value")),
    ]
    if keeps:
        lines += ["    if how:"]
        for k, x in enumerate(operands):
            edge = f"{x}._edge if {x}._base is None else edge_of({x})"
            lines += [f"        edge{k} = {edge if x in tensors else f'None if a{k} is {x} else {edge}'}"]
        lines += indented(linking(operands, dict(keeps), attrs=attrs), 2)
    lines += ["    tensor._edge = None", "    return tensor"]
    plans = [name_of_plan(needs) for needs, _ in keeps]
    return compiled(lines, ["op", "otherwise", *KERNELS, *plans, *names])


@cache
def writing_template(operands: tuple[str, ...], straight: bool) -> Callable:
    """What makes doors of a pattern that write into their first operand, `straight` where it is all of floats."""
    otherwise = f"call_inplace(op, {tuple_of(operands)}, NONE)"
    lines = [
        f"def door({', '.join(operands)}):",
        "    how = gate.how or mode.how",
        "    if how or not isinstance(self, Tensor):",
        "        if how == SPECIAL and (waiter := mode.simply) is not None:",
        f"            if waiter.change_again(op, {tuple_of(operands)}):",
        "                return self",
        f"        return {otherwise}",
    ]
    if straight:
        lines += [
            *computing(operands, True, otherwise, "", ", out=a0"),
            "    if cell[0] != INFERENCE:",
            "        cell[0] = tick()",
            "        cell[1] += 1",
            "        cell[2] = place_of(getframe(1))",
            "    return self",
        ]
    else:
        lines += [f"    return {otherwise}"]
    return compiled(lines, ["op", "name", *KERNELS])


def indented(lines: list[str], depth: int = 1) -> list[str]:
    return ["    " * depth + line for line in lines]


def tuple_of(values: Sequence[str]) -> str:
    return f"({values[0]},)" if len(values) == 1 else f"({', '.join(values)})"


def computing(
    operands: Sequence[str], numbers: bool, otherwise: str, result: str, into: str = ""
) -> list[str]:
    """Lines that find the arrays a0, a1, … of one `kind` of floats and run the kernel on them, if that is all."""
    first, *others = operands
    lines = [f"a0 = {first}._data", "kind = a0.dtype"]
    for k, x in enumerate(others, 1):
        if numbers:
            lines += [
                f"if isinstance({x}, Tensor):",
                f"    a{k} = {x}._data",
                f"    fits = a{k}.dtype is kind",
                "else:",
                f"    a{k} = {x}",
                f"    fits = type({x}) is float or type({x}) is int",
            ]
        else:
            lines += [f"a{k} = {x}._data"]
    alike = ["fits"] * bool(others) if numbers else [f"a{k}.dtype is kind" for k in range(1, len(operands))]
    small = "large is None or a0.size < large"
    if into:
        alike += [f"({small})"]
        lines += [
            f"cell = {first}._ver",
            "if cell is None:",
            f"    cell = {first}._ver = [0, 0, None, None]",
            "if cell[0] == INFERENCE or not a0.flags.carray:",
            f"    check_memory({first}, name)",
        ]
    arrays = ", ".join([f"a{k}" for k in range(len(operands))])
    for word, bits in (("if", 32), ("elif", 64)):
        machine = "" if into else f" if {small} else large{bits}({arrays})"
        lines += [f"{word} {' and '.join([f'kind is F{bits}', *alike])}:"]
        lines += [f"    {result}kernel{bits}({arrays}{into}){machine}"]
    return [
        "    try:",
        *indented([*lines, "else:", f"    return {otherwise}"], 2),
        "    except (ValueError, TypeError, OverflowError, MemoryError, Elsewhere):",
        f"        return {otherwise}",
    ]


def starting(array: str) -> list[str]:
    """Lines that make a tensor of an array."""
    return [
        "tensor = new(Tensor)",
        f"tensor._data = tensor._form = {array}",
        "tensor._grad = tensor._ver = tensor._base = None",
    ]


def linking(
    operands: Sequence[str],
    keeps: dict[tuple[bool, ...], tuple[bool, ...]],
    *,
    outs: Sequence[str] = ("value",),
    number: int = 0,
    shape: str = "value.shape",
    dtype: str = "kind",
    attrs: str = "NONE",
    depth: int = 1,
) -> list[str]:
    """Lines that tie a tensor to the graph, as apply.tie does, and return it, if edge0, edge1, … are not all None.

    What a node `keeps` is known for every way in which operands may need gradients. The tensor is one of what the
    op gives; the user's program is so many frames up.
    """
    tensors = [k for k in range(len(operands)) if any(needs[k] for needs in keeps)]
    saving = {needs: any(kept) for needs, kept in keeps.items()}
    placing = [
        f"frame = getframe({depth})",
        "code = frame.f_code",
        "node.place = (code, frame.f_lasti) if code is Seen.code else place_of(frame)",
    ]
    always, never = all(saving.values()), not any(saving.values())

    def branches(needs: tuple[bool, ...]) -> list[str]:
        """For each way in which operands may need gradients, what its node has of its own."""
        k = len(needs)
        if k == len(operands):
            return own(needs) if any(needs) else []
        without = branches((*needs, False))
        if k not in tensors:
            return without
        lines = branches((*needs, True))
        if without:
            return [f"if edge{k} is not None:", *indented(lines), "else:", *indented(without)]
        return lines  # without any edge nobody comes here

    def own(needs: tuple[bool, ...]) -> list[str]:
        edges = [f"edge{k}" if need else "None" for k, need in enumerate(needs)]
        lines = [f"node.edges = {tuple_of(edges)}", f"node.plan = {name_of_plan(needs)}"]
        if not saving[needs]:
            return [*lines, "node.saved = ()", *([] if never else ["node.place = None"])]
        kept = keeps[needs][len(operands) :]
        saved = [x if keep else "None" for x, keep in zip(operands, keeps[needs])]
        if any(kept):
            saved += [
                f"({out}, cell{k}, {k})" if keep else "None" for k, (out, keep) in enumerate(zip(outs, kept))
            ]
            lines += [f"cell{k} = [0, 0, None, None]" for k in range(len(outs))]
            lines += [f"tensor._ver = cell{number}"]
        return [*lines, f"node.saved = {tuple_of(saved)}", *([] if always else placing)]

    return [
        f"if {' or '.join([f'edge{k} is not None' for k in tensors])}:",
        "    node = op.node()",
        f"    node.shape = {shape}",
        f"    node.dtype = {dtype}",
        "    node.tick = tick()",
        f"    node.attrs = {'None' if attrs == 'NONE' else attrs}",
        "    node.extra = None",
        *indented(branches(())),
        *indented(placing if always else ["node.place = None"] if never else []),
        *([f"    extra_of(node).outputs = {len(outs)}"] if len(outs) > 1 else []),
        f"    tensor._edge = {f'Output(node, {number})' if number else 'node'}",
        "    return tensor",
    ]


# What the written lines call by name.
NAMES: dict[str, Any] = {
    "__name__": __name__,
    "BETWEEN": BETWEEN,
    "Elsewhere": Elsewhere,
    "F32": F32,
    "F64": F64,
    "INFERENCE": INFERENCE,
    "NONE": NONE,
    "SPECIAL": SPECIAL,
    "Seen": Seen,
    "Tensor": Tensor,
    "as_array": as_array,
    "call": call,
    "call_elsewhere": call_elsewhere,
    "call_inplace": call_inplace,
    "check_memory": check_memory,
    "edge_of": edge_of,
    "gate": gate,
    "getframe": sys._getframe,
    "mode": mode,
    "ndarray": np.ndarray,
    "new": new,
    "next_call": next_call,
    "notice": notice,
    "place_of": place_of,
    "tick": tick,
}


def compiled(lines: list[str], given: list[str]) -> Callable:
    """What makes functions `door` of these lines, given by name what they speak of."""
    text = "\n".join([f"def make({', '.join(given)}):", *indented([*lines, "return door"])])
    name = f"{__file__}, {len(linecache.cache)}"  # in this folder, it is no code of the user's
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = dict(NAMES)
    exec(compile(text, name, "exec"), scope)
    return scope["make"]
