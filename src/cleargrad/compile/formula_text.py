"""Formulas as people write them: what a kernel computes, with the names of values.

`Names` says what memory is called: parameters by their place in the model, gradients and optimizer state
after their parameter, arguments as in the function, everything in between `t` and a number. Read next:
compile/report.py.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.expr.expr import Expr, Var
from cleargrad.nn.module import Module
from cleargrad.optim import Optimizer
from cleargrad.schedule.formulas import Buffer, Lazy, Load, Map, Number
from cleargrad.schedule.fuse import Member, Nest, Ref

INFIX = {
    "add": (" + ", 4), "sub": (" - ", 4), "mul": ("*", 5), "div": ("/", 5), "lt": (" < ", 3), "le": (" <= ", 3),
    "gt": (" > ", 3), "ge": (" >= ", 3), "eq": (" == ", 3), "ne": (" != ", 3), "logical_and": (" and ", 2),
    "logical_or": (" or ", 1), "power": ("**", 7),
}  # fmt: skip
UNARY, WHOLE = 6, 9  # how tightly a sign binds, and what needs no brackets
LONG = 400  # characters of a formula, after which its parts get names of their own
JOINS = {"add": "sum", "mul": "product", "maximum": "maximum", "minimum": "minimum"}


# Names -----------------------------------------------------------------------------------------------------


class Names:
    """What the buffers of a program are called."""

    def __init__(
        self, program: Any, known: dict[int, str], inputs: list[str], outputs: dict[int, str]
    ) -> None:
        plan = program.plan
        self.of: dict[Buffer, str] = {}
        for number, (buffer, tensor) in enumerate(plan.outside):
            self.of[buffer] = known.get(id(tensor._data), f"outside{number}")
        self.of.update(zip(plan.inputs, inputs, strict=True))
        for number, (buffer, _) in enumerate(plan.constants):
            self.of[buffer] = f"constant{number}"
        for tensor, buffer in plan.writes:
            self.of.setdefault(buffer, f"new {known.get(id(tensor._data), 'outside')}")
        for number, buffer in enumerate(plan.outputs):
            self.of.setdefault(buffer, outputs.get(number, f"output{number}"))

    def __call__(self, buffer: Buffer) -> str:
        return self.of.get(buffer) or f"t{buffer.number}"


def names_of_tensors(things: dict[str, Any]) -> dict[int, str]:
    """Names of parameters, buffers, gradients and state in some objects, by the id of their arrays."""
    found: dict[int, str] = {}
    several = sum(isinstance(thing, Module) for thing in things.values()) > 1
    for name, thing in things.items():
        if isinstance(thing, Module):
            prefix = f"{name}." if several and name else ""
            for path, tensor in [*thing.named_parameters(), *thing.named_buffers()]:
                note(found, tensor, prefix + path)
        elif isinstance(thing, (list, tuple)):
            for number, tensor in enumerate(thing):
                note(found, tensor, f"{name}[{number}]")
        else:
            note(found, thing, name)
    for name, thing in things.items():
        if isinstance(thing, Optimizer):
            note_state(found, thing, name)
    return found


def note(found: dict[int, str], tensor: Any, name: str) -> None:
    array = getattr(tensor, "_data", None)
    if array is None:
        return
    found.setdefault(id(array), name)
    if tensor._grad is not None:
        found.setdefault(id(tensor._grad._data), f"{name}.grad")


def note_state(found: dict[int, str], optimizer: Any, name: str) -> None:
    number = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            own = found.get(id(parameter._data)) or f"{name}.parameter{number}"
            note(found, parameter, own)
            for field, value in optimizer.state.get(parameter, {}).items():
                note(found, value, f"{own}.{field}")
            number += 1


def things_of(function: Callable) -> Iterator[tuple[str, Any]]:
    """What a function finds by name: its own object, the variables around it, and globals it mentions."""
    owner = getattr(function, "__self__", None)
    if owner is not None:
        yield "", owner
    plain = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(plain, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=True):
        with suppress(ValueError):  # a variable that has no value yet
            yield name, cell.cell_contents
    for name in code.co_names:
        if name in plain.__globals__:
            yield name, plain.__globals__[name]


def names_of_arguments(function: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[int, str]:
    """What a function calls the tensors it is given, by their ids."""
    owner = getattr(function, "__self__", None)
    try:
        signature = inspect.signature(owner.forward if isinstance(owner, Module) else function)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {}
    found: dict[int, str] = {}
    for name, value in given.items():
        if isinstance(value, Tensor):
            found[id(value)] = name
        elif isinstance(value, (list, tuple)):
            found.update({id(part): f"{name}[{k}]" for k, part in enumerate(value)})
        elif isinstance(value, dict):
            found.update({id(part): f"{name}[{key!r}]" for key, part in value.items()})
    return found


# Formulas --------------------------------------------------------------------------------------------------


def lines_of(nest: Nest, names: Names) -> list[str]:
    """What a nest computes: a line for every member, and one for every formula that several of them share."""
    return Writer(nest, names).lines()


class Writer:
    """Writes the formulas of one nest."""

    def __init__(self, nest: Nest, names: Names) -> None:
        self.nest, self.names = nest, names
        seen: set[int] = set()
        uses = Counter(id(part) for member in nest.members for part in parts_of(member.formula, seen))
        self.shared = {key for key, count in uses.items() if count > 1}
        self.called: dict[int, str] = {}
        self.written: list[str] = []

    def lines(self) -> list[str]:
        for member in self.nest.members:
            text = self.text(member.formula)[0]
            self.written.append(f"{self.target(member)} = {self.joined(member, text)}")
        return self.written

    def target(self, member: Member) -> str:
        name = self.names(member.place.buffer) + self.place(member.place)
        return name if member.kept else f"({name})"

    def joined(self, member: Member, text: str) -> str:
        rule = member.reduce
        if rule is None:
            return text
        how = JOINS.get(rule.combine.primitive, rule.combine.primitive)
        return f"{how} over {'rows' if self.nest.columns else 'cols'} of {text}"

    def text(self, lazy: Lazy) -> tuple[str, int]:
        """A formula, and how tightly its outermost operator binds."""
        if isinstance(lazy, Number):
            return number_text(lazy.value), WHOLE
        if isinstance(lazy, Ref):
            return self.names(lazy.member.place.buffer), WHOLE
        if isinstance(lazy, Load):
            return self.names(lazy.buffer) + self.place(lazy), WHOLE
        if id(lazy) in self.called:
            return self.called[id(lazy)], WHOLE
        operands = [self.text(x) for x in lazy.operands]
        written = self.tree(lazy.tree, operands, lazy)
        if (id(lazy) in self.shared and written[1] < WHOLE) or len(written[0]) > LONG:
            name = self.called[id(lazy)] = f"u{len(self.called)}"
            self.written.append(f"({name}) = {written[0]}")
            return name, WHOLE
        return written

    def place(self, load: Load) -> str:
        """Where in its memory a load reads, if that is not the same place."""
        places = [self.text(place)[0] for place, *_ in load.index]
        if load.offset:
            places.append(f"+{load.offset}")
        return f"[{', '.join(places)}]" if places else ""

    def tree(self, tree: Any, operands: list[tuple[str, int]], lazy: Map) -> tuple[str, int]:
        if isinstance(tree, Var):
            return operands[tree.position]
        if not isinstance(tree, Expr):
            return number_text(tree), WHOLE
        parts = [self.tree(x, operands, lazy) for x in tree.args]
        if tree.primitive == "identity":
            same = lazy.working == lazy.dtype and not isinstance(lazy.operands[0], Number)
            known = same and lazy.operands[0].dtype == lazy.dtype
            return (
                parts[0]
                if known or isinstance(lazy.operands[0], Number)
                else (f"{lazy.dtype}({parts[0][0]})", WHOLE)
            )
        if tree.primitive in INFIX:
            sign, binds = INFIX[tree.primitive]
            left, right = bracketed(parts[0], binds), bracketed(parts[1], binds + 1)
            return f"{left}{sign}{right}", binds
        if tree.primitive == "neg":
            return f"-{bracketed(parts[0], UNARY)}", UNARY
        if tree.primitive == "square":
            return f"{bracketed(parts[0], WHOLE)}**2", 7
        return f"{tree.primitive}({', '.join(text for text, _ in parts)})", WHOLE


def bracketed(part: tuple[str, int], least: int) -> str:
    return part[0] if part[1] >= least else f"({part[0]})"


def number_text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def parts_of(lazy: Lazy, seen: set[int]) -> Iterator[Map]:
    """Every mention of a formula inside a formula; what is inside of one is walked once."""
    if not isinstance(lazy, Map):
        return
    yield lazy
    if id(lazy) in seen:
        return
    seen.add(id(lazy))
    for operand in lazy.operands:
        yield from parts_of(operand, seen)
