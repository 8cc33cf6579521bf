"""Machine code for a nest: loops over rows and columns with vectors inside.

A row is walked once per level of its reductions: first what the first reductions need, then what needs their
results, and so on. What does not change inside a loop is computed outside; what two walks need and is dear lies
in the thread's scratch memory meanwhile. Nests of the same signature (devices/cpu/programs/signature.py) share
their code. Read next: devices/cpu/llvm/text.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from cleargrad.devices.cpu.kernels.ufuncs import ABREAST, across, blocks
from cleargrad.devices.cpu.llvm.jit import Kernel, lanes
from cleargrad.devices.cpu.llvm.reading import convert, read
from cleargrad.devices.cpu.llvm.text import Code, Val, element_of, vector, width_of
from cleargrad.devices.cpu.programs.signature import (
    CHUNK,
    Arguments,
    abreast,
    breadth,
    flat,
    is_row,
    spills_fit,
)
from cleargrad.expr.expr import conditions
from cleargrad.schedule.formulas import Lazy, Load, Map, Number, kind_of
from cleargrad.schedule.fuse import Member, Nest, Ref

PARAMETERS = [Val("%args", "ptr"), Val("%lo", "i64"), Val("%hi", "i64"), Val("%scratch", "ptr")]
DEAR = 8  # work that is kept in scratch memory rather than done twice

MEMORY = {
    "bool": "i8", "uint8": "i8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double",
}  # fmt: skip

STARTS: dict[str, Callable[[np.dtype], Any]] = {
    "add": lambda kind: 0,
    "mul": lambda kind: 1,
    "maximum": lambda kind: (
        -np.inf if kind.kind == "f" else False if kind.kind == "b" else np.iinfo(kind).min
    ),
    "minimum": lambda kind: np.inf if kind.kind == "f" else True if kind.kind == "b" else np.iinfo(kind).max,
    "logical_and": lambda kind: True,
    "logical_or": lambda kind: False,
}


def kernel_of(nest: Nest, arguments: Arguments) -> Kernel:
    """The kernel of a nest, written when it is needed."""
    return Kernel.later(f"nest {arguments.key}", lambda: Emitter(nest, arguments).kernel())


class Emitter:
    """Writes the kernel of one nest."""

    def __init__(self, nest: Nest, arguments: Arguments) -> None:
        self.nest, self.arguments = nest, arguments
        self.code = Code()
        self.width = lanes() * breadth(nest)
        self.row_count = len(nest.rows)
        self.outside: dict[int, Val] = {}  # what holds for a whole row, or always
        self.inside: dict[Any, Val] = {}  # what holds at one point of the innermost loop
        self.levels: dict[int, int] = {}
        self.depths: dict[int, int] = {}
        self.kept_in_scratch: dict[int, int] = {}
        self.row_index: list[Val] = []
        self.col_index: list[Val] = []
        self.row_bases: dict[int, Val] = {}
        self.spilled: set[int] = set()  # what earlier walks left in scratch memory
        self.spilling: set[int] = set()  # what this walk leaves there

    def kernel(self) -> Kernel:
        code = self.code
        if self.nest.columns:
            self.emit_columns()
        elif not self.nest.space:
            self.row_index = self.col_index = []
            self.walk_row()
        elif flat(self.nest):
            self.emit_flat()
        else:
            self.find_spills()
            with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
                self.row_index = self.unravel(unit, range(self.row_count))
                self.outside, self.row_bases = {}, {}
                self.walk_row()
        code.do("ret void")
        return Kernel(
            code.function("kernel", PARAMETERS, notes="#0 "), (*code.declared, "attributes #0 = { nounwind }")
        )

    # Arguments ---------------------------------------------------------------------------------------------

    def word(self, number: int, type: str = "i64") -> Val:
        """An argument; read where it is first needed, once per block."""
        place = self.code.at(PARAMETERS[0], self.code.integer(number), "i64")
        return self.code.pure(type, f"load {type}, ptr {place.name}, align 8, !invariant.load !{{}}")

    def extent(self, axis: int) -> Val:
        return self.word(axis)

    def strides(self, load: Load) -> list[Val | None]:
        """For each loop a stride: None where it does not move the place."""
        slot = self.arguments.slots[id(load)] + 1
        found: list[Val | None] = []
        for axis, stride in enumerate(load.strides):
            if stride == 0:
                found.append(None)
            elif stride == 1 and axis == len(self.nest.space) - 1:
                found.append(self.code.integer(1))
            else:
                found.append(self.word(slot))
                slot += 1
        return found

    def index_words(self, load: Load, number: int) -> tuple[Val, Val]:
        slot = self.arguments.slots[id(load)] + 1
        last = len(self.nest.space) - 1
        slot += sum(1 for axis, s in enumerate(load.strides) if s != 0 and not (s == 1 and axis == last))
        return self.word(slot + 2 * number), self.word(slot + 2 * number + 1)

    def unravel(self, unit: Val, axes: range) -> list[Val]:
        """The index along each of these loops of one unit of work."""
        code, rest, found = self.code, unit, []
        for axis in reversed(axes):
            if axis == axes[0]:
                found.append(rest)
            else:
                found.append(code.binary("urem", rest, self.extent(axis)))
                rest = code.binary("udiv", rest, self.extent(axis))
        return found[::-1]

    # Levels ------------------------------------------------------------------------------------------------

    def level(self, lazy: Lazy) -> int:
        """1 if a formula changes along a row, 0 if it holds for the row."""
        if isinstance(lazy, Number):
            return 0
        if id(lazy) not in self.levels:
            if isinstance(lazy, Ref):
                row = lazy.member.reduce is not None or self.level(lazy.member.formula) == 0
                found = 0 if row else 1
            elif isinstance(lazy, Load):
                found = int(any(lazy.strides[self.row_count :]))
                found = max([found, *(self.level(place) for place, *_ in lazy.index)])
            else:
                found = max((self.level(x) for x in lazy.operands), default=0)
            self.levels[id(lazy)] = found
        return self.levels[id(lazy)]

    def depth(self, lazy: Lazy) -> int:
        """How many walks along the row must be over before a formula can be computed."""
        if isinstance(lazy, Number):
            return 0
        if id(lazy) not in self.depths:
            if isinstance(lazy, Ref):
                found = self.depth(lazy.member.formula) + (lazy.member.reduce is not None)
            elif isinstance(lazy, Load):
                found = max((self.depth(place) for place, *_ in lazy.index), default=0)
            else:
                found = max((self.depth(x) for x in lazy.operands), default=0)
            self.depths[id(lazy)] = found
        return self.depths[id(lazy)]

    def find_spills(self) -> None:
        """Which formulas are computed in one walk and needed again in a later one."""
        if not spills_fit(self.nest):
            return
        computed: dict[int, int] = {}

        def visit(lazy: Lazy, walk: int) -> None:
            if isinstance(lazy, Ref) and lazy.member.reduce is None and not lazy.member.kept:
                visit(lazy.member.formula, walk)
            if not isinstance(lazy, Map) or self.level(lazy) == 0 or id(lazy) in self.kept_in_scratch:
                return
            if computed.get(id(lazy), walk) < walk and lazy.weight >= DEAR and len(self.kept_in_scratch) < 4:
                self.kept_in_scratch[id(lazy)] = len(self.kept_in_scratch)
                return
            computed.setdefault(id(lazy), walk)
            for operand in lazy.operands:
                visit(operand, walk)

        members = [member for member in self.nest.members if self.level(member.formula) or member.reduce]
        for member in sorted(members, key=lambda member: self.depth(member.formula)):
            visit(member.formula, self.depth(member.formula))

    # A row -------------------------------------------------------------------------------------------------

    def walk_row(self) -> None:
        members = self.nest.members
        depths = [self.depth(member.formula) for member in members]
        for depth in range(max(depths) + 1):
            now = [member for member, d in zip(members, depths) if d == depth]
            for member in now:
                if (
                    member.reduce is None
                    and self.level(member.formula) == 0
                    and is_row(self.nest, member.place)
                ):
                    value = self.scalar(member.formula)
                    self.outside[id(member)] = value
                    if member.kept:
                        self.put(member.place, value, 1)
            walking = [m for m in now if m.reduce is not None or id(m) not in self.outside]
            if walking:
                self.walk(walking)

    def walk(self, members: list[Member], start: Val | None = None, stop: Val | None = None) -> None:
        """One walk along the row: stores what is to be stored, joins what is to be joined."""
        code = self.code
        for member in members:
            self.prepare(member.formula)
        reducing = [member for member in members if member.reduce is not None]
        evenly = not self.nest.cols or self.nest.cols[-1] % self.width == 0
        abreast = (
            ABREAST if reducing and self.nest.cols and self.nest.cols[-1] % (ABREAST * self.width) == 0 else 1
        )
        wide = {id(m): [self.accumulator(m, self.width) for _ in range(abreast)] for m in reducing}
        thin = {id(m): self.accumulator(m, 1) for m in reducing} if not evenly else {}
        with ExitStack() as loops:
            self.col_index = []
            for axis in range(self.row_count, len(self.nest.space) - 1):
                self.col_index.append(loops.enter_context(code.loop(code.integer(0), self.extent(axis))))
            outer = list(self.col_index)
            begin = code.integer(0) if start is None else start
            end = self.extent(len(self.nest.space) - 1) if stop is None else stop
            middle = end
            if not evenly:
                whole = code.binary("and", code.sub(end, begin), code.integer(-self.width))
                middle = code.add(begin, whole)
            with code.loop(begin, middle, self.width * abreast) as column:
                for bank in range(abreast):
                    self.col_index = [*outer, code.add(column, code.integer(bank * self.width))]
                    self.point(members, self.width, {key: slots[bank] for key, slots in wide.items()})
            if not evenly:
                with code.loop(middle, end) as column:
                    self.col_index = [*outer, column]
                    self.point(members, 1, thin)
        self.col_index = []
        self.spilled |= self.spilling
        for member in reducing:
            self.finish(member, wide[id(member)], thin.get(id(member)))

    def point(self, members: list[Member], width: int, slots: dict[int, Val]) -> None:
        """What happens at one place of a row, or at `width` neighbouring ones."""
        code = self.code
        self.inside = {}
        for member in members:
            value = self.value(member.formula, width)
            if member.reduce is None:
                value = self.spread(value, width)
                self.inside[id(member)] = value
                if member.kept:
                    self.put(member.place, value, width)
            else:
                kind = kind_of(member.reduce.working)
                value = self.spread(convert(code, value, dtype_of(member.formula), kind), width)
                slot = slots[id(member)]
                before = code.get(slot, value.type)
                code.set(slot, read(code, member.reduce.combine, [before, value], kind))
        self.inside = {}

    def accumulator(self, member: Member, width: int) -> Val:
        rule = member.rule
        type = vector(register(kind_of(rule.working)), width)
        start = rule.start
        if start is None:
            start = STARTS[rule.combine.primitive](rule.working)
        return self.code.slot(type, self.code.const(start, type))

    def finish(self, member: Member, wide: list[Val], thin: Val | None) -> None:
        """Joins the lanes of a reduction; the result holds for the row."""
        code, rule = self.code, member.rule
        kind, tree = kind_of(rule.working), rule.combine
        type = vector(register(kind), self.width)
        parts = [code.get(slot, type) for slot in wide]
        while len(parts) > 1:
            parts = [read(code, tree, [a, b], kind) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        total = across(code, parts[0], lambda a, b: read(code, tree, [a, b], kind))
        if thin is not None:
            total = read(code, tree, [total, code.get(thin, register(kind))], kind)
        total = convert(code, total, kind, kind_of(member.place.dtype))
        self.outside[id(member)] = total
        if member.kept:
            self.put(member.place, total, 1)

    # Values ------------------------------------------------------------------------------------------------

    def prepare(self, lazy: Lazy) -> None:
        """Computes, outside the loop that is about to begin, all parts of a formula that hold for the row."""
        if isinstance(lazy, Number):
            return
        if isinstance(lazy, Ref):
            if lazy.member.reduce is None and id(lazy.member) not in self.outside:
                self.prepare(lazy.member.formula)
            return
        if self.level(lazy) == 0:
            self.scalar(lazy)
            return
        if id(lazy) in self.spilled:
            return
        parts = lazy.operands if isinstance(lazy, Map) else [place for place, *_ in lazy.index]
        for position, part in enumerate(parts):
            self.prepare(part)
            self.number(lazy, position)

    def scalar(self, lazy: Lazy) -> Val:
        """A formula that holds for the row."""
        if isinstance(lazy, Number):
            return self.code.const(lazy.value, register(kind_of(lazy.dtype)))
        if isinstance(lazy, Ref):
            member = lazy.member  # one that fills rows with what is the same all along is not in `outside`
            return self.outside[id(member)] if id(member) in self.outside else self.scalar(member.formula)
        if id(lazy) not in self.outside:
            self.outside[id(lazy)] = self.load(lazy, 1) if isinstance(lazy, Load) else self.map(lazy, 1)
        return self.outside[id(lazy)]

    def value(self, lazy: Lazy, width: int) -> Val:
        """A formula at the current point: a vector, or a scalar where it is the same in every lane."""
        if isinstance(lazy, Number) or self.level(lazy) == 0:
            return self.scalar(lazy)
        if isinstance(lazy, Ref):
            return self.made(lazy, width)
        if id(lazy) not in self.inside:
            self.inside[id(lazy)] = self.computed(lazy, width)
        return self.inside[id(lazy)]

    def made(self, ref: Ref, width: int) -> Val:
        """What another member stored at this point, in this walk or an earlier one."""
        member = ref.member
        if id(member) in self.inside:
            return self.inside[id(member)]
        if member.kept:
            self.inside[id(member)] = self.load(member.place, width)
        else:
            self.inside[id(member)] = self.value(member.formula, width)
        return self.inside[id(member)]

    def computed(self, lazy: Lazy, width: int) -> Val:
        if isinstance(lazy, Load):
            return self.load(lazy, width)
        if id(lazy) not in self.kept_in_scratch:
            return self.map(lazy, width)
        code, kind = self.code, kind_of(lazy.dtype)
        slot = self.kept_in_scratch[id(lazy)]
        if id(lazy) in self.spilled:
            return from_memory(code, code.load(self.scratch(slot), vector(MEMORY[kind], width)), kind)
        value = self.spread(self.map(lazy, width), width)
        code.store(to_memory(code, value, kind), self.scratch(slot))
        self.spilling.add(id(lazy))
        return value

    def scratch(self, slot: int) -> Val:
        """This point's place in a row of scratch memory; each row has eight bytes an element."""
        code = self.code
        position = self.col_index[-1]
        for axis, index in enumerate(self.col_index[:-1]):
            step = code.integer(1)
            for inner in range(self.row_count + axis + 1, len(self.nest.space)):
                step = code.mul(step, self.extent(inner))
            position = code.add(position, code.mul(index, step))
        length = code.integer(8)
        for axis in range(self.row_count, len(self.nest.space)):
            length = code.mul(length, self.extent(axis))
        block = code.at(PARAMETERS[3], code.mul(code.integer(slot), length), "i8")
        return code.at(block, code.mul(position, code.integer(8)), "i8")

    def map(self, lazy: Map, width: int) -> Val:
        code, kind = self.code, kind_of(lazy.working)
        operands = []
        for position, operand in enumerate(lazy.operands):
            wanted = "bool" if position in conditions(lazy.tree) else kind
            given = self.number(lazy, position)
            if given is not None:
                operands.append(given)
            elif isinstance(operand, Number):
                operands.append(code.const(as_number(operand, np.dtype(wanted)), register(wanted)))
            else:
                operands.append(convert(code, self.value(operand, width), dtype_of(operand), wanted))
        widest = max((width_of(x.type) for x in operands), default=1)
        value = read(code, lazy.tree, [self.spread(x, widest) for x in operands], kind)
        produced = "bool" if element_of(value.type) == "i1" else kind
        return convert(code, value, produced, kind_of(lazy.dtype))

    def number(self, lazy: Lazy, position: int) -> Val | None:
        """An operand that is an argument of the code."""
        slot = self.arguments.numbers.get((id(lazy), position))
        return None if slot is None else self.word(slot, register(kind_of(lazy.working)))  # type: ignore[union-attr]

    def spread(self, value: Val, width: int) -> Val:
        return self.code.splat(value, width) if width_of(value.type) == 1 else value

    # Memory ------------------------------------------------------------------------------------------------

    def start_of(self, load: Load) -> tuple[Val, Val | None]:
        """Where a load's row begins, and its offset in the row; the last loop's own step is not in it."""
        code = self.code
        strides = self.strides(load)
        pointer = self.word(self.arguments.slots[id(load)], "ptr")
        offset: Val | None = None
        indices = [*self.row_index, *self.col_index[:-1]]
        for index, stride in zip(indices, strides):
            if stride is not None:
                step = code.mul(index, stride)
                offset = step if offset is None else code.add(offset, step)
        if offset is not None:
            pointer = code.at(pointer, offset, MEMORY[kind_of(load.dtype)])
        inner = strides[len(self.nest.space) - 1] if self.col_index and strides else None
        return pointer, inner

    def load(self, load: Load, width: int) -> Val:
        code, memory = self.code, MEMORY[kind_of(load.dtype)]
        pointer, inner = self.start_of(load)
        lanes_of_index: list[list[Val]] = []
        for number, (place, *_) in enumerate(load.index):
            value = convert(code, self.value(place, width), kind_of(place.dtype), "int64")
            checked = self.checked(value, *self.index_words(load, number))
            if width_of(checked.type) == 1:
                pointer = code.at(pointer, checked, memory)
            else:
                lanes_of_index.append([code.lane(checked, lane) for lane in range(width)])
        if inner is not None and self.level(load) == 1:
            column = self.col_index[-1]
            if inner.name == "1" and not lanes_of_index:
                pointer = code.at(pointer, column, memory)
                return from_memory(code, code.load(pointer, vector(memory, width)), kind_of(load.dtype))
            pointer = code.at(pointer, code.mul(column, inner), memory)
            if width > 1:
                steps = [code.mul(code.integer(lane), inner) for lane in range(width)]
                lanes_of_index.append(steps)
        if not lanes_of_index:
            return from_memory(code, code.load(pointer, memory), kind_of(load.dtype))
        type = vector(memory, width)
        gathered = Val("poison", type)
        for lane in range(width):
            where = pointer
            for offsets in lanes_of_index:
                where = code.at(where, offsets[lane], memory)
            element = code.load(where, memory)
            gathered = code.now(type, f"insertelement {gathered}, {element}, i32 {lane}")
        return from_memory(code, gathered, kind_of(load.dtype))

    def checked(self, index: Val, stride: Val, extent: Val) -> Val:
        """An index times its stride; one that is out of range sets the program's error word and reads place 0."""
        code, width = self.code, width_of(index.type)
        limit = self.spread(extent, width)
        zero = code.const(0, index.type)
        index = code.select(code.compare("slt", index, zero), code.add(index, limit), index)
        bad = code.compare("uge", index, limit)
        some = bad
        if width > 1:
            some = code.call(f"llvm.vector.reduce.or.v{width}i1", "i1", bad)
        with code.when(some):
            word = self.word(len(self.arguments.words) - 1, "ptr")
            code.do(f"store i64 1, ptr {word.name}")
        return code.mul(code.select(bad, zero, index), self.spread(stride, width))

    def put(self, place: Load, value: Val, width: int) -> None:
        code, kind = self.code, kind_of(place.dtype)
        value = to_memory(code, value, kind)
        pointer, inner = self.start_of(place)
        if inner is None or not self.col_index:
            code.store(value, pointer)
            return
        column = self.col_index[-1]
        if inner.name == "1":
            code.store(value, code.at(pointer, column, MEMORY[kind]))
            return
        pointer = code.at(pointer, code.mul(column, inner), MEMORY[kind])
        for lane in range(width):
            element = code.lane(value, lane) if width > 1 else value
            code.store(element, code.at(pointer, code.mul(code.integer(lane), inner), MEMORY[kind]))

    # Other kinds of nests ----------------------------------------------------------------------------------

    def emit_flat(self) -> None:
        code = self.code
        length = self.extent(0)
        start = code.mul(PARAMETERS[1], code.integer(CHUNK))
        stop = code.mul(PARAMETERS[2], code.integer(CHUNK))
        stop = code.select(code.compare("slt", stop, length), stop, length)
        self.row_index = []
        self.walk(self.nest.members, start, stop)

    def emit_columns(self) -> None:
        """Sums over rows: every unit is a block of columns, whose sums stay in registers."""
        code, nest = self.code, self.nest
        block = abreast(nest) * self.width
        last = len(nest.space) - 1
        with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
            columns = self.extent(last)
            blocks = code.binary("udiv", code.add(columns, code.integer(block - 1)), code.integer(block))
            outer = self.unravel(code.binary("udiv", unit, blocks), range(nest.outer))
            first = code.mul(code.binary("urem", unit, blocks), code.integer(block))
            beyond = code.add(first, code.integer(block))
            end = code.select(code.compare("slt", beyond, columns), beyond, columns)
            if nest.cols[-1] % block == 0:
                self.sum_block(outer, first, abreast(nest), self.width)
            else:
                self.sum_rest(outer, first, end)

    def sum_rest(self, outer: list[Val], first: Val, end: Val) -> None:
        """A block that may be the last one, of fewer columns."""
        code = self.code
        whole = code.add(first, code.binary("and", code.sub(end, first), code.integer(-self.width)))
        with code.loop(first, whole, self.width) as column:
            self.sum_block(outer, column, 1, self.width)
        with code.loop(whole, end) as column:
            self.sum_block(outer, column, 1, 1)

    def sum_block(self, outer: list[Val], first: Val, count: int, width: int) -> None:
        code, nest = self.code, self.nest
        slots = {id(m): [self.accumulator(m, width) for _ in range(count)] for m in nest.members}
        self.row_count = len(nest.rows)
        with blocks(code, self.extent(nest.outer)) as (first_row, beyond):
            parts = {id(m): [self.accumulator(m, width) for _ in range(count)] for m in nest.members}
            with code.loop(first_row, beyond) as row:
                self.row_index, self.outside = [*outer, row], {}
                for bank in range(count):
                    self.col_index = [code.add(first, code.integer(bank * width))]
                    self.point(nest.members, width, {key: found[bank] for key, found in parts.items()})
            for member in nest.members:
                kind = kind_of(member.rule.working)
                type = vector(register(kind), width)
                for total, part in zip(slots[id(member)], parts[id(member)], strict=True):
                    pair = [code.get(total, type), code.get(part, type)]
                    code.set(total, read(code, member.rule.combine, pair, kind))
        for member in nest.members:
            for bank in range(count):
                column = code.add(first, code.integer(bank * width))
                kind = kind_of(member.rule.working)
                value = code.get(slots[id(member)][bank], vector(register(kind), width))
                value = convert(code, value, kind, kind_of(member.place.dtype))
                self.put_column(member.place, outer, column, value)

    def put_column(self, place: Load, outer: list[Val], column: Val, value: Val) -> None:
        code, memory = self.code, MEMORY[kind_of(place.dtype)]
        pointer = self.word(self.arguments.slots[id(place)], "ptr")
        slot = self.arguments.slots[id(place)] + 1
        for axis, index in enumerate(outer):
            if place.strides[axis] != 0:
                pointer = code.at(pointer, code.mul(index, self.word(slot)), memory)
                slot += 1
        code.store(to_memory(code, value, kind_of(place.dtype)), code.at(pointer, column, memory))


def register(kind: str) -> str:
    """How a dtype is held in registers: booleans as one bit, everything else as in memory."""
    return "i1" if kind == "bool" else MEMORY[kind]


def from_memory(code: Code, value: Val, kind: str) -> Val:
    return code.compare("ne", value, code.const(0, value.type)) if kind == "bool" else value


def to_memory(code: Code, value: Val, kind: str) -> Val:
    return code.cast("zext", value, "i8") if kind == "bool" else value


def dtype_of(lazy: Lazy) -> str:
    return kind_of(lazy.dtype)


def as_number(number: Number, working: np.dtype) -> Any:
    """A constant as the working dtype holds it."""
    if working.kind in "iu" and isinstance(number.value, int):
        return int(np.array(number.value & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(working))
    return np.asarray(number.value).astype(working).item()
