"""A schedule as text: its entries with their formulas, and where everything lies. `str(schedule)` is this.

`Names` says what memory is called: as `called` has it for tensors from outside, everything in between `t` and a
number. Read next: schedule/schedule.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.expr.expr import Expr, Var
from cleargrad.schedule.formulas import Buffer, Lazy, Load, Map, Number, contiguous
from cleargrad.schedule.fuse import Member, Nest, Ref
from cleargrad.schedule.statements import AddRows, Host, Native, Plan, Product, Reduce, Store

INFIX = {
    "add": (" + ", 4), "sub": (" - ", 4), "mul": ("*", 5), "div": ("/", 5), "lt": (" < ", 3), "le": (" <= ", 3),
    "gt": (" > ", 3), "ge": (" >= ", 3), "eq": (" == ", 3), "ne": (" != ", 3), "logical_and": (" and ", 2),
    "logical_or": (" or ", 1), "power": ("**", 7),
}  # fmt: skip
UNARY, WHOLE = 6, 9  # how tightly a sign binds, and what needs no brackets
LONG = 400  # characters of a formula, after which its parts get names of their own
JOINS = {"add": "sum", "mul": "product", "maximum": "maximum", "minimum": "minimum"}
SURE = "nothing can fail from here on, and tensors from outside may be written"
KINDS_OF_ENTRIES: list[tuple[type, str]] = [
    (Nest, "loop nests"),
    (Product, "matrix products"),
    (Native, "kernels of their own"),
    (AddRows, "scatters of rows"),
    (Host, "host calls"),
    (Store, "stores"),
    (Reduce, "reductions"),
]


def text_of(schedule: Any) -> str:
    """Everything that is planned, in order."""
    plan, names = schedule.plan, Names(schedule.plan)
    lines = [f"{names(buffer)} = input {layout(buffer)}" for buffer in plan.inputs]
    lines += [f"{names(buffer)} = from outside {layout(buffer)}" for buffer, _ in plan.outside]
    lines += [f"{names(buffer)} = constant {layout(buffer)}" for buffer, _ in plan.constants]
    for number, entry in enumerate(schedule.entries):
        if number == schedule.sure > 0:
            lines.append(SURE)
        title, formulas = described(entry, names)
        lines += [f"{number:4}  {title}", *(f"        {formula}" for formula in formulas)]
    lines += [f"output {names(buffer)} {layout(buffer)}" for buffer in plan.outputs]
    for tensor, buffer in plan.writes:
        where = (
            "where it lies" if schedule.in_place.get(buffer) is tensor else f"by a copy of {names(buffer)}"
        )
        lines.append(f"{names(buffer)} {layout(buffer)} is written {where}")
    offsets, size = schedule.arena
    lines.append(f"one block of {amount(size)} for {len(offsets)} buffers")
    lines += [f"  {line}" for line in place_lines(offsets, schedule.lifetimes, names)]
    return "\n".join(lines)


# Names -----------------------------------------------------------------------------------------------------


class Names:
    """What the buffers of a plan are called."""

    def __init__(
        self,
        plan: Plan,
        called: Callable[[Tensor], str | None] = lambda tensor: None,
        inputs: Sequence[str] = (),
        outputs: dict[int, str] | None = None,
    ) -> None:
        self.of: dict[Buffer, str] = {}
        tensors: dict[int, str] = {}
        for number, (buffer, tensor) in enumerate(plan.outside):
            self.of[buffer] = tensors[id(tensor)] = called(tensor) or f"outside{number}"
        for number, buffer in enumerate(plan.inputs):
            self.of[buffer] = inputs[number] if inputs else f"input{number}"
        for number, (buffer, _) in enumerate(plan.constants):
            self.of[buffer] = f"constant{number}"
        for tensor, buffer in plan.writes:
            name = tensors.get(id(tensor)) or called(tensor) or "outside"
            self.of.setdefault(buffer, f"new {name}")
        for number, buffer in enumerate(plan.outputs):
            self.of.setdefault(buffer, (outputs or {}).get(number, f"output{number}"))

    def __call__(self, buffer: Buffer) -> str:
        return self.of.get(buffer) or f"t{buffer.number}"


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


# Entries ---------------------------------------------------------------------------------------------------


def kind_of(entry: Any) -> str:
    return next((name for kind, name in KINDS_OF_ENTRIES if isinstance(entry, kind)), type(entry).__name__)


def described(entry: Any, names: Names) -> tuple[str, list[str]]:
    """An entry in a few words, and what it computes line by line."""
    if isinstance(entry, Nest):
        rows, cols = (" x ".join(map(str, extents)) for extents in (entry.rows, entry.cols))
        way = "by columns over" if entry.columns else "over"
        return f"nest {way} {f'{rows} rows of ' if rows else ''}{cols or 'one'}", lines_of(entry, names)
    if isinstance(entry, Store):
        nest = Nest(entry.place.shape, (), [Member(entry.place, entry.formula)])
        return f"store of {list(entry.place.shape)}", lines_of(nest, names)
    if isinstance(entry, Reduce):
        nest = Nest((), entry.shape, [Member(entry.place, entry.formula, entry)])
        return f"reduction of {list(entry.shape)} over {list(entry.dims)}", lines_of(nest, names)
    if isinstance(entry, Product):
        left, right, place = (load_text(load, names) for load in (entry.left, entry.right, entry.place))
        sign = "+=" if entry.adds else "="
        return f"product {sizes(entry)}", [f"{place} {sign} {left} @ {right}"]
    if isinstance(entry, AddRows):
        place, rows, places = (names(load.buffer) for load in (entry.place, entry.rows, entry.places))
        return f"scatter of {entry.rows.shape} rows", [f"{place}[{places}] += {rows}"]
    if isinstance(entry, Native):
        title = " + ".join(call.op.name for call in entry.calls)
        given = ", ".join(f"{name} {load_text(load, names)}" for name, load in entry.operands.items())
        return title, [f"{', '.join(load_text(x, names) for x in entry.results.values())} = {title}({given})"]
    if isinstance(entry, Host):
        given = ", ".join(load_text(x, names) if isinstance(x, Load) else str(x) for x in entry.operands)
        results = ", ".join(f"{names(buffer)} {list(buffer.shape)}" for buffer in entry.results)
        return f"host call of {entry.call.op.name}", [f"{results} = {entry.call.op.name}({given})"]
    return kind_of(entry), []


def sizes(entry: Product) -> str:
    *batch, m, n = entry.place.shape
    many = f"{' x '.join(map(str, batch))} times " if batch else ""
    return f"{many}{m} x {entry.left.shape[-1]} by {entry.left.shape[-1]} x {n}"


def load_text(load: Load, names: Names) -> str:
    turned = len(load.shape) > 1 and 0 < load.strides[-2] < load.strides[-1]
    return f"{names(load.buffer)}{'.T' if turned else ''} {list(load.shape)}"


# Memory ----------------------------------------------------------------------------------------------------


def layout(buffer: Buffer) -> str:
    """What a buffer holds, and how far apart its elements are where they do not lie in rows."""
    rows = contiguous(buffer.shape)
    steps = zip(buffer.shape, buffer.strides, rows, strict=True)
    strange = any(step != row for extent, step, row in steps if extent > 1)
    return f"{buffer.dtype}{list(buffer.shape)}{f' by {list(buffer.strides)}' if strange else ''}"


def place_lines(
    offsets: Mapping[Buffer, int],
    spans: Mapping[Buffer, tuple[int, int]],
    names: Names,
    most: int | None = None,
) -> list[str]:
    """Where buffers lie in one block, and for how long: the largest first."""
    lines = []
    for buffer in sorted(offsets, key=lambda buffer: -bytes_of(buffer))[:most]:
        if not buffer.size:
            continue
        # The work memory of an entry has a number below zero, and lives for that entry alone.
        first, last = spans.get(buffer, (-1 - buffer.number,) * 2)
        what = "work memory" if buffer.number < 0 else f"{names(buffer)} {layout(buffer)}"
        size, offset = amount(bytes_of(buffer)), offsets[buffer]
        lines.append(f"{size:>9} at {offset:>10}, entries {first} to {last}: {what}")
    return lines


def bytes_of(buffer: Buffer) -> int:
    return buffer.size * buffer.dtype.itemsize


def amount(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
