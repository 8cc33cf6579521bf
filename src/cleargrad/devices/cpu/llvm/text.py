"""Writes LLVM's assembly language: the body of one function, line by line.

`Code` hands out values (`Val`: a name and its type), remembers what was computed so that the same instruction is
never written twice, and writes loops. Nothing here knows of tensors. Read next: devices/cpu/llvm/vector_math.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

SIZES = {
    "i1": 1,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "half": 2,
    "bfloat": 2,
    "float": 4,
    "double": 8,
    "ptr": 8,
}


@dataclass(frozen=True)
class Val:
    """An operand: an SSA name or a literal, with its type as LLVM writes it ("float", "<8 x float>", "ptr")."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def vector(element: str, width: int) -> str:
    """The type of `width` elements side by side; one element is no vector."""
    return element if width == 1 else f"<{width} x {element}>"


def element_of(type: str) -> str:
    return type[:-1].split(" x ")[1] if type.startswith("<") else type


def width_of(type: str) -> int:
    return int(type[1:].split(" x ")[0]) if type.startswith("<") else 1


def like(type: str, element: str) -> str:
    """The same number of elements of another type."""
    return vector(element, width_of(type))


def literal(value: float | int | bool, element: str) -> str:
    """A number as LLVM writes it; floating point by its bits, so that nothing is lost."""
    if element == "i1":
        return "true" if value else "false"
    if element.startswith("i"):
        return str(int(value))
    if element == "float":  # LLVM writes a float as the double of the same value
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


class Code:
    """The body of a function under construction."""

    def __init__(self) -> None:
        self.entry: list[str] = []  # allocas, which belong to the first block
        self.lines: list[str] = []
        self.count = 0
        self.declared: set[str] = set()
        self.known: list[dict[str, Val]] = [{}]  # what was computed, by block: inner blocks see outer ones
        self.block = "start"

    # Instructions ------------------------------------------------------------------------------------------

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pure(self, type: str, instruction: str) -> Val:
        """The result of an instruction without effects; if it was computed before, that result."""
        for block in reversed(self.known):
            if instruction in block:
                return block[instruction]
        result = self.now(type, instruction)
        self.known[-1][instruction] = result
        return result

    def now(self, type: str, instruction: str) -> Val:
        """The result of an instruction that must run here, such as a load from memory that changes."""
        result = Val(self.name(), type)
        self.lines.append(f"  {result.name} = {instruction}")
        return result

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def const(self, value: float | int | bool, type: str) -> Val:
        element, width = element_of(type), width_of(type)
        text = literal(value, element)
        return Val(text if width == 1 else f"<{', '.join([f'{element} {text}'] * width)}>", type)

    def splat(self, x: Val, width: int) -> Val:
        """A scalar in every lane of a vector."""
        if width == 1:
            return x
        type = vector(x.type, width)
        first = self.pure(type, f"insertelement {type} poison, {x}, i32 0")
        return self.pure(type, f"shufflevector {first}, {type} poison, <{width} x i32> zeroinitializer")

    def lane(self, x: Val, index: int) -> Val:
        return self.pure(element_of(x.type), f"extractelement {x}, i32 {index}")

    def binary(self, instruction: str, a: Val, b: Val) -> Val:
        """`instruction` is LLVM's name with flags, such as "fadd" or "mul nsw"."""
        return self.pure(a.type, f"{instruction} {a}, {b.name}")

    def add(self, a: Val, b: Val) -> Val:
        return self.binary("add" if element_of(a.type)[0] == "i" else "fadd", a, b)

    def sub(self, a: Val, b: Val) -> Val:
        return self.binary("sub" if element_of(a.type)[0] == "i" else "fsub", a, b)

    def mul(self, a: Val, b: Val) -> Val:
        return self.binary("mul" if element_of(a.type)[0] == "i" else "fmul", a, b)

    def div(self, a: Val, b: Val) -> Val:
        """Division of floats; integers round differently everywhere and are divided by name."""
        return self.binary("fdiv", a, b)

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        """a·b + c, rounded once."""
        return self.intrinsic("fma", a.type, a, b, c)

    def neg(self, a: Val) -> Val:
        if element_of(a.type)[0] == "i":
            return self.sub(self.const(0, a.type), a)
        return self.pure(a.type, f"fneg {a}")

    def compare(self, predicate: str, a: Val, b: Val) -> Val:
        """LLVM's predicates: "olt", "ogt", "une" ... for floats, "slt", "eq" ... for integers."""
        word = "icmp" if element_of(a.type)[0] in "ip" else "fcmp"
        return self.pure(like(a.type, "i1"), f"{word} {predicate} {a}, {b.name}")

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        return self.pure(a.type, f"select {condition}, {a}, {b}")

    def cast(self, instruction: str, a: Val, element: str) -> Val:
        """LLVM's conversions: "bitcast", "sitofp", "fptosi", "fpext", "fptrunc", "zext", "sext", "trunc"."""
        type = like(a.type, element)
        return a if type == a.type else self.pure(type, f"{instruction} {a} to {type}")

    def intrinsic(self, name: str, type: str, *operands: Val) -> Val:
        """llvm.NAME on operands that are all of the result's type, or of the types the intrinsic wants."""
        width, element = width_of(type), element_of(type)
        short = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}.get(element, element)
        suffix = short if width == 1 else f"v{width}{short}"
        return self.call(f"llvm.{name}.{suffix}", type, *operands)

    def call(self, function: str, type: str, *operands: Val) -> Val:
        """A call of a function without effects."""
        self.declared.add(f"declare {type} @{function}({', '.join(x.type for x in operands)})")
        return self.pure(type, f"call {type} @{function}({', '.join(map(str, operands))})")

    # Memory ------------------------------------------------------------------------------------------------

    def slot(self, type: str, start: Val | None = None) -> Val:
        """A variable: memory that LLVM turns into a register."""
        place = Val(self.name(), "ptr")
        self.entry.append(f"  {place.name} = alloca {type}, align 64")
        if start is not None:
            self.set(place, start)
        return place

    def set(self, place: Val, value: Val) -> None:
        self.do(f"store {value}, ptr {place.name}")

    def get(self, place: Val, type: str) -> Val:
        return self.now(type, f"load {type}, ptr {place.name}")

    def at(self, pointer: Val, offset: Val, element: str) -> Val:
        """The address of an element."""
        return self.pure("ptr", f"getelementptr {element}, ptr {pointer.name}, i64 {offset.name}")

    def load(self, pointer: Val, type: str, notes: str = "") -> Val:
        """What lies at an address now; memory need only be aligned as its elements are."""
        align = SIZES[element_of(type)]
        return self.now(type, f"load {type}, ptr {pointer.name}, align {align}{notes}")

    def store(self, value: Val, pointer: Val, notes: str = "") -> None:
        self.do(f"store {value}, ptr {pointer.name}, align {SIZES[element_of(value.type)]}{notes}")

    # Control -----------------------------------------------------------------------------------------------

    def integer(self, value: int) -> Val:
        return Val(str(value), "i64")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    @contextmanager
    def loop(self, start: Val, stop: Val, step: int = 1) -> Iterator[Val]:
        """Runs what is written inside for start, start + step, ... while less than stop."""
        self.count += 1
        head, body, done = (f"{word}{self.count}" for word in ("head", "body", "done"))
        counter = self.slot("i64", start)
        self.do(f"br label %{head}")
        self.label(head)
        index = self.get(counter, "i64")
        more = self.now("i1", f"icmp slt {index}, {stop.name}")
        self.do(f"br {more}, label %{body}, label %{done}")
        self.label(body)
        self.known.append({})
        yield index
        self.known.pop()
        self.set(counter, self.now("i64", f"add nsw {index}, {step}"))
        self.do(f"br label %{head}")
        self.label(done)

    @contextmanager
    def when(self, condition: Val) -> Iterator[None]:
        """Runs what is written inside if the condition, an i1, holds."""
        self.count += 1
        then, after = f"then{self.count}", f"after{self.count}"
        self.do(f"br {condition}, label %{then}, label %{after}")
        self.label(then)
        self.known.append({})
        yield
        self.known.pop()
        self.do(f"br label %{after}")
        self.label(after)

    @contextmanager
    def forever(self) -> Iterator[str]:
        """Repeats what is written inside; `leave`, given the label that this hands out, ends it."""
        self.count += 1
        head, done = f"head{self.count}", f"done{self.count}"
        self.do(f"br label %{head}")
        self.label(head)
        self.known.append({})
        yield done
        self.known.pop()
        self.do(f"br label %{head}")
        self.label(done)

    def leave(self, condition: Val, done: str) -> None:
        """Goes to a label if the condition, an i1, holds."""
        self.count += 1
        self.do(f"br {condition}, label %{done}, label %stay{self.count}")
        self.label(f"stay{self.count}")

    def function(self, name: str, parameters: Sequence[Val], result: str = "void", notes: str = "") -> str:
        """The finished function, which must have ended in a `ret`."""
        listed = ", ".join(f"{p.type} noundef {p.name}" for p in parameters)
        head = f"define {result} @{name}({listed}) {notes}{{"
        return "\n".join([head, "start:", *self.entry, *self.lines, "}"])
