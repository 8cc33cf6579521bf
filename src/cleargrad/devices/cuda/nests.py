"""Kernels for nests: a nest of a schedule becomes one CUDA kernel, or two where a reduction is cut into pieces.

  elements   no reductions: a thread computes a place of the loops
  rows       a block of threads walks along a row, once per level of its reductions; long rows of which there are
             few are first reduced piece by piece
  columns    reductions over rows: threads stand side by side, several of them share a column

In which order elements are joined follows from the extents alone, so that a reduction gives the same bits by itself
and among others. A kernel is written in phases that end with all threads of a block having met; between phases
values stand in shared memory. Tests compile the same text for the CPU, where a phase is a loop over threads.
Read next: devices/cuda/program.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from cleargrad.devices.cuda.text import (
    HELD,
    STORED,
    Lines,
    conditions,
    converted,
    literal,
    loaded,
    read,
    stored,
)
from cleargrad.schedule.formulas import Lazy, Load, Map, Number, kind_of
from cleargrad.schedule.fuse import Member, Nest, Ref

THREADS = 256  # of a block that computes elements
WIDE = 32  # threads side by side in a block that reduces columns
PROCESSORS = 264  # blocks that keep a large GPU busy
LONG = 1 << 15  # a row from which on few of them are cut into pieces
SHORT = 16  # elements of a row that one thread walks by itself
PIECE = 8192  # elements of such a piece
SEVERAL, LARGE, SIMPLE = 4, 1 << 17, 80  # places of a thread, from which size on, and up to which work
REACH = 1 << 31  # elements that 32 bits can count

STARTS = {"add": 0, "mul": 1, "logical_and": True, "logical_or": False}


@dataclass
class Launch:
    """A kernel with its arguments, and how many threads run it."""

    body: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    words: list[Any]  # ("address", load), ("error",), ("work", bytes from the entry's work on)
    functions: str = ""  # that the body calls, with @ for the kernel's name
    shared: int = 0  # bytes of shared memory
    parted: bool = True  # whether it can be a part of another kernel

    @cached_property
    def name(self) -> str:
        return "k" + hashlib.sha256(f"{self.head}{self.functions}{self.body}".encode()).hexdigest()[:20]

    @property
    def head(self) -> str:
        return f"{max(len(self.words), 1)}, {prod(self.block)}"

    @property
    def source(self) -> str:
        text = f"{self.functions}KERNEL({self.name}, {self.head}) {{\n{self.body}\n}}\n"
        return text.replace("@", self.name)


@dataclass
class Kernels:
    """What a nest becomes."""

    launches: list[Launch] = field(default_factory=list)
    work: int = 0  # bytes of memory that lie between its kernels


def kernels_of(nest: Nest) -> Kernels:
    if nest.columns:
        return Columns(nest).kernels()
    if any(member.reduce or is_thin(nest, member) for member in nest.members):
        return Rows(nest).kernels()
    return Elements(nest).kernels()


def is_thin(nest: Nest, member: Member) -> bool:
    """Whether a member has one place for a whole row."""
    return prod(nest.cols) > 1 and not any(member.place.strides[len(nest.rows) :])


def start_of(member: Member) -> str:
    """The value with which a reduction begins, in C++."""
    rule = member.rule
    kind = kind_of(rule.working)
    start = rule.start
    if start is None:
        name = rule.combine.primitive
        if name in STARTS:
            start = STARTS[name]
        else:
            least = name == "maximum"
            if rule.working.kind == "f":
                start = -np.inf if least else np.inf
            elif rule.working.kind == "b":
                start = not least
            else:
                bounds = np.iinfo(rule.working)
                start = int(bounds.min if least else bounds.max)
    return literal(start, kind)


class Emitter:
    """Writes the kernels of one nest."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.rank = len(nest.space)
        self.names = iter(range(1 << 30))
        self.lines = Lines(self.names)
        self.words: list[Any] = []
        self.slots: dict[Any, int] = {}
        self.made: dict[int, tuple[str, str]] = {}  # values by formulas, at the present place
        self.suffix = ""  # of the names of indices, where there are several places

    # Text --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Another kernel."""
        self.lines = Lines(self.names)
        self.words, self.slots = [], {}
        self.made, self.shared = {}, 0

    def say(self, line: str) -> None:
        self.lines.lines.append(line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines in braces; what is computed inside is known inside alone."""
        before = self.made
        self.made = dict(before)
        self.say(head + " {")
        yield
        self.say("}")
        self.made = before

    @contextmanager
    def phase(self) -> Iterator[None]:
        before, self.made = self.made, {}
        self.say("PHASE")
        yield
        self.say("END")
        self.made = before

    def launch(self, grid: tuple, block: tuple) -> Launch:
        body = "\n".join(self.lines.lines)
        grid = (*grid, *(1,) * (3 - len(grid)))
        block = (*block, *(1,) * (3 - len(block)))
        return Launch(body, grid, block, self.words, shared=self.shared)

    def room(self, kind: str, name: str, size: int) -> None:
        """Shared memory for so many values."""
        self.say(f"SHARED({HELD[kind]}, {name}, {size})")
        self.shared += size * max(4, np.dtype(kind).itemsize)

    def word(self, key: Any, word: Any) -> str:
        if key not in self.slots:
            self.slots[key] = len(self.words)
            self.words.append(word)
        return f"words.w[{self.slots[key]}]"

    # Places ------------------------------------------------------------------------------------------------

    def index_type(self) -> str:
        loads = [load for member in self.nest.members for load in (member.place, *member.formula.loads)]
        reach = max((sum(n * abs(s) for n, s in zip(x.shape, x.strides)) for x in loads), default=0)
        return "int" if max(reach, prod(self.nest.space) + THREADS) < REACH else "i64"

    def unravel(self, text: str, axes: range) -> None:
        """Names the index along each of some loops."""
        rest = text
        for axis in reversed(axes):
            extent = self.nest.space[axis]
            if axis == axes[0]:
                self.say(f"const {self.index} i{axis}{self.suffix} = {rest};")
            else:
                self.say(f"const {self.index} i{axis}{self.suffix} = {rest} % {extent};")
                name = f"r{next(self.names)}"
                self.say(f"const {self.index} {name} = {rest} / {extent};")
                rest = name

    @property
    def index(self) -> str:
        if not hasattr(self, "_index"):
            self._index = self.index_type()
        return self._index

    def element(self, load: Load) -> str:
        """The element of memory that a load means here."""
        kind = kind_of(load.dtype)
        pointer = f"(({STORED[kind]}*){self.word(id(load), ('address', load))})"
        names = [f"i{axis}{self.suffix}" for axis in range(len(load.strides))]
        parts = [f"{name} * {step}" if step != 1 else name for name, step in zip(names, load.strides) if step]
        for place, stride, extent in load.index:
            text = converted(*self.value(place), "int64")
            error = self.word("error", ("error",))
            parts.append(f"place_in({text}, {extent}, (i64*){error}) * {stride}")
        return f"{pointer}[{' + '.join(parts) or '0'}]"

    # Values ------------------------------------------------------------------------------------------------

    def value(self, lazy: Lazy) -> tuple[str, str]:
        """A formula here: its name, and its dtype."""
        kind = kind_of(lazy.dtype)
        if isinstance(lazy, Number):
            return literal(as_number(lazy, lazy.dtype), kind), kind
        if isinstance(lazy, Ref):
            return self.of_member(lazy.member)
        if id(lazy) not in self.made:
            if isinstance(lazy, Load):
                found = self.lines.value(kind, loaded(self.element(lazy), kind)), kind
            else:
                found = self.mapped(lazy)
            self.made[id(lazy)] = found
        return self.made[id(lazy)]

    def of_member(self, member: Member) -> tuple[str, str]:
        if id(member) not in self.made:
            if member.kept:
                kind = kind_of(member.place.dtype)
                self.made[id(member)] = self.lines.value(kind, loaded(self.element(member.place), kind)), kind
            else:
                self.made[id(member)] = self.value(member.formula)
        return self.made[id(member)]

    def mapped(self, lazy: Map) -> tuple[str, str]:
        kind, final = kind_of(lazy.working), kind_of(lazy.dtype)
        operands = []
        for position, operand in enumerate(lazy.operands):
            wanted = "bool" if position in conditions(lazy.tree) else kind
            if isinstance(operand, Number):
                operands.append((literal(as_number(operand, np.dtype(wanted)), wanted), wanted))
            else:
                text, found = self.value(operand)
                operands.append((self.held(text, found, wanted), wanted))
        text, produced = read(self.lines, lazy.tree, operands, kind)
        return self.held(text, produced, final), final

    def held(self, text: str, source: str, target: str) -> str:
        """A value as another dtype, under a name of its own where that takes words."""
        changed = converted(text, source, target)
        return text if changed == text else self.lines.value(target, changed)

    def computed(self, member: Member) -> str:
        """What a member stores, as it lies in memory."""
        text, found = self.value(member.formula)
        kind = kind_of(member.place.dtype)
        text = self.held(text, found, kind)
        self.made[id(member)] = text, kind
        return stored(text, kind)

    def store(self, member: Member) -> None:
        text = self.computed(member)
        if member.kept:
            self.say(f"{self.element(member.place)} = {text};")

    def join(self, member: Member, name: str) -> None:
        """One more element of a reduction."""
        kind = kind_of(member.rule.working)
        text, found = self.value(member.formula)
        text = self.held(text, found, kind)
        self.say(f"{name} = {self.combined(member, name, text)};")

    def combined(self, member: Member, one: str, other: str) -> str:
        kind = kind_of(member.rule.working)
        return read(self.lines, member.rule.combine, [(one, kind), (other, kind)], kind)[0]

    def tree(
        self, members: list[Member], rooms: dict[int, str], width: int, at: str, lane: str, step: int = 1
    ) -> None:
        """Joins what `width` threads hold in shared memory, pair by pair, in the first of them."""
        half = width // 2
        while half:
            with self.phase():
                self.say(f"if ({lane} < {half}) {{")
                for member in members:
                    room = rooms[id(member)]
                    joined = self.combined(member, f"{room}[{at}]", f"{room}[{at} + {half * step}]")
                    self.say(f"{room}[{at}] = {joined};")
                self.say("}")
            half //= 2


class Elements(Emitter):
    """A thread computes a place of the loops, or several of them, of which it reads all before it writes any."""

    def kernels(self) -> Kernels:
        self.begin()
        size = prod(self.nest.space)
        if not size:
            return Kernels()
        self.several = SEVERAL if size >= LARGE and self.nest.work <= SIMPLE else 1
        piece = self.several * THREADS
        with self.phase():
            self.say(f"const {self.index} first = ({self.index})blockIdx.x * {piece} + threadIdx.x;")
            if self.several == 1:
                with self.block(f"if (first < {size})"):
                    self.place("first")
            else:
                self.say(f"if (first + {piece - THREADS} < {size}) {{")
                self.places(range(self.several))
                self.say("} else")  # in the last block
                with self.block(f"for ({self.index} i = first; i < {size}; i += {THREADS})"):
                    self.place("i")
        return Kernels([self.launch((-(-size // piece),), (THREADS,))])

    def places(self, numbers: range) -> None:
        """Several places: the GPU has all that is read under way before it waits for any of it."""
        writes = []
        for number in numbers:
            before, self.made = self.made, {}
            self.suffix = f"_{number}"
            self.say(f"const {self.index} i{self.suffix} = first + {number * THREADS};")
            self.unravel(f"i{self.suffix}", range(self.rank))
            for member in self.nest.members:
                text = self.computed(member)
                if member.kept:
                    writes.append(f"{self.element(member.place)} = {text};")
            self.made = before
        self.suffix = ""
        for line in writes:
            self.say(line)

    def place(self, name: str) -> None:
        self.unravel(name, range(self.rank))
        for member in self.nest.members:
            self.store(member)


class Rows(Emitter):
    """Threads walk along a row, once per level of its reductions."""

    def __init__(self, nest: Nest) -> None:
        super().__init__(nest)
        self.row_count = len(nest.rows)
        self.row_extent, self.extent = prod(nest.rows), prod(nest.cols)
        wanted = max(1, -(-self.extent // 4))
        self.threads = 1 if self.extent <= SHORT else min(512, max(32, 1 << (wanted - 1).bit_length()))
        self.rows_abreast = max(1, 128 // self.threads)
        self.levels: dict[int, int] = {}
        self.depths: dict[int, int] = {}
        self.joins = [member for member in nest.members if member.reduce is not None]
        # Scalars of a row that members are, and results of reductions, stand in shared memory between phases.
        self.rooms: dict[int, str] = {}
        few = self.row_extent < PROCESSORS
        self.pieces = min(1024, -(-self.extent // PIECE)) if few and self.extent >= LONG and self.joins else 1

    def kernels(self) -> Kernels:
        if not self.row_extent:
            return Kernels()
        if self.pieces == 1:
            return Kernels([self.whole(range(self.deepest + 1), None)])
        work = {
            id(member): 8 * self.row_extent * self.pieces * k for k, member in enumerate(self.first_joins)
        }
        first = self.partial(work)
        return Kernels(
            [first, self.whole(range(self.deepest + 1), work)], 8 * self.row_extent * self.pieces * len(work)
        )

    @property
    def deepest(self) -> int:
        return max(self.depth(member.formula) for member in self.nest.members)

    @property
    def first_joins(self) -> list[Member]:
        return [member for member in self.joins if self.depth(member.formula) == 0]

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

    def is_scalar(self, member: Member) -> bool:
        """Whether a member is one number for a row."""
        thin = not any(member.place.strides[self.row_count :])
        return member.reduce is None and self.level(member.formula) == 0 and (thin or not self.nest.cols)

    # Kernels -----------------------------------------------------------------------------------------------

    def whole(self, depths: range, work: dict[int, int] | None) -> Launch:
        """All walks; with `work`, the first one has been made, and its pieces lie there."""
        self.begin()
        self.rooms = {}
        members = self.nest.members
        scalars = [member for member in members if self.is_scalar(member)]
        for number, member in enumerate([*self.joins, *scalars]):
            joins = member.reduce is not None
            kind = kind_of(member.rule.working if joins else member.place.dtype)
            size = self.rows_abreast * (self.threads if joins else 1)
            self.rooms[id(member)] = f"room{number}"
            self.room(kind, f"room{number}", size)
        for depth in depths:
            now = [member for member in members if self.depth(member.formula) == depth]
            row = [member for member in now if self.is_scalar(member)]
            walking = [member for member in now if not self.is_scalar(member)]
            joining = [member for member in walking if member.reduce is not None]
            if depth == 0 and work is not None:
                walking = joining
            with self.phase():
                self.begin_row()
                for member in row:
                    text, found = self.value(member.formula)
                    kind = kind_of(member.place.dtype)
                    text = self.held(text, found, kind)
                    self.made[id(member)] = text, kind
                    self.say(f"if (threadIdx.x == 0) {self.rooms[id(member)]}[threadIdx.y] = {text};")
                if depth == 0 and work is not None:
                    self.gather(joining, work)
                elif walking:
                    self.walk(walking, "threadIdx.x", self.extent, self.threads)
                self.end_row()
            if joining:
                at = f"threadIdx.y * {self.threads} + threadIdx.x"
                self.tree(joining, self.rooms, self.threads, at, "threadIdx.x")
            finals = [member for member in (*row, *joining) if member.kept]
            if finals:
                with self.phase():
                    self.begin_row()
                    self.say("if (threadIdx.x == 0) {")
                    for axis in range(self.row_count, self.rank):
                        self.say(f"const {self.index} i{axis} = 0;")
                    for member in finals:
                        text, kind = self.of_member(member)
                        self.say(f"{self.element(member.place)} = {stored(text, kind)};")
                    self.say("}")
                    self.end_row()
        blocks = -(-self.row_extent // self.rows_abreast)
        return self.launch((blocks,), (self.threads, self.rows_abreast))

    def partial(self, work: dict[int, int]) -> Launch:
        """The first walk, piece by piece: what it stores is stored, what it joins lies in work memory."""
        self.begin()
        self.rooms = {}
        members = [m for m in self.nest.members if self.depth(m.formula) == 0 and not self.is_scalar(m)]
        joining = [member for member in members if member.reduce is not None]
        for number, member in enumerate(joining):
            self.rooms[id(member)] = f"room{number}"
            self.room(kind_of(member.rule.working), f"room{number}", self.threads)
        length = -(-self.extent // self.pieces)
        with self.phase():
            self.unravel_row("blockIdx.y")
            self.say(f"const {self.index} begin = (({self.index})blockIdx.x) * {length};")
            self.say(
                f"const {self.index} end = begin + {length} < {self.extent} ? begin + {length} : {self.extent};"
            )
            self.walk(members, "begin + threadIdx.x", "end", self.threads)
        self.tree(joining, self.rooms, self.threads, "threadIdx.x", "threadIdx.x")
        with self.phase():
            self.say("if (threadIdx.x == 0) {")
            for member in joining:
                target = self.work_of(member, work)
                self.say(
                    f"{target}[(i64)blockIdx.y * {self.pieces} + blockIdx.x] = {self.rooms[id(member)]}[0];"
                )
            self.say("}")
        return self.launch((self.pieces, self.row_extent), (self.threads,))

    def work_of(self, member: Member, work: dict[int, int]) -> str:
        place = self.word(("work", id(member)), ("work", work[id(member)]))
        return f"(({HELD[kind_of(member.rule.working)]}*){place})"

    def gather(self, joining: list[Member], work: dict[int, int]) -> None:
        """Joins the pieces."""
        for member in joining:
            kind = kind_of(member.rule.working)
            name = f"s{next(self.names)}"
            self.say(f"{HELD[kind]} {name} = {start_of(member)};")
            with self.block(f"for (int piece = threadIdx.x; piece < {self.pieces}; piece += {self.threads})"):
                piece = self.lines.value(
                    kind, f"{self.work_of(member, work)}[(i64)row * {self.pieces} + piece]"
                )
                self.say(f"{name} = {self.combined(member, name, piece)};")
            self.say(f"{self.rooms[id(member)]}[threadIdx.y * {self.threads} + threadIdx.x] = {name};")

    # Pieces of kernels -------------------------------------------------------------------------------------

    def begin_row(self) -> None:
        self.say(f"const {self.index} row = ({self.index})blockIdx.x * {self.rows_abreast} + threadIdx.y;")
        self.say(f"if (row < {self.row_extent}) {{")
        self.unravel("row", range(self.row_count))

    def end_row(self) -> None:
        self.say("}")

    def unravel_row(self, text: str) -> None:
        self.say(f"const {self.index} row = {text};")
        self.unravel("row", range(self.row_count))

    def walk(self, members: list[Member], first: str, beyond: Any, step: int) -> None:
        """One walk along the row: stores what is to be stored, joins what is to be joined."""
        names = {}
        for member in members:
            if member.reduce is not None:
                names[id(member)] = name = f"s{next(self.names)}"
                self.say(f"{HELD[kind_of(member.rule.working)]} {name} = {start_of(member)};")
        for member in members:
            self.prepare(member.formula)
        with self.block(f"for ({self.index} c = {first}; c < {beyond}; c += {step})"):
            self.unravel("c", range(self.row_count, self.rank))
            for member in members:
                if member.reduce is None:
                    self.store(member)
                else:
                    self.join(member, names[id(member)])
        for member in members:
            if member.reduce is not None:
                room = self.rooms[id(member)]
                row = f"threadIdx.y * {self.threads} + " if self.rows_abreast > 1 else ""
                self.say(f"{room}[{row}threadIdx.x] = {names[id(member)]};")

    def prepare(self, lazy: Lazy) -> None:
        """Computes, outside the loop that is about to begin, all parts of a formula that hold for the row."""
        if isinstance(lazy, Number):
            return
        if isinstance(lazy, Ref):
            if lazy.member.reduce is None and not self.is_scalar(lazy.member) and not lazy.member.kept:
                self.prepare(lazy.member.formula)
            elif lazy.member.reduce is not None or self.is_scalar(lazy.member):
                self.value(lazy)
            return
        if self.level(lazy) == 0:
            self.value(lazy)
            return
        for part in lazy.operands if isinstance(lazy, Map) else [place for place, *_ in lazy.index]:
            self.prepare(part)

    def of_member(self, member: Member) -> tuple[str, str]:
        room = self.rooms.get(id(member))
        if id(member) in self.made or room is None:
            return super().of_member(member)
        final = kind_of(member.place.dtype)
        if member.reduce is None:
            found = self.lines.value(final, f"{room}[threadIdx.y]")
        else:
            kind = kind_of(member.rule.working)
            found = self.held(self.lines.value(kind, f"{room}[threadIdx.y * {self.threads}]"), kind, final)
        self.made[id(member)] = found, final
        return found, final


class Columns(Emitter):
    """Reductions over rows, for each of the columns."""

    def __init__(self, nest: Nest) -> None:
        super().__init__(nest)
        self.outer = prod(nest.rows[: nest.outer])
        self.length, self.width = nest.rows[-1], nest.cols[0]
        self.deep = 8 if self.length > 8 else 1
        self.across = -(-self.width // WIDE)  # blocks for all columns
        blocks = self.outer * self.across
        self.pieces = max(1, min(-(-PROCESSORS // max(blocks, 1)), self.length // 64))

    def kernels(self) -> Kernels:
        if not self.outer * self.width:
            return Kernels()
        members = self.nest.members
        size = 8 * self.outer * self.width * self.pieces
        work = {id(member): size * k for k, member in enumerate(members)}
        if self.pieces == 1:
            return Kernels([self.sums(None)])
        return Kernels([self.sums(work), self.totals(work)], size * len(members))

    def sums(self, work: dict[int, int] | None) -> Launch:
        self.begin()
        members = self.nest.members
        rooms = {}
        for number, member in enumerate(members):
            rooms[id(member)] = f"room{number}"
            self.room(kind_of(member.rule.working), f"room{number}", WIDE * self.deep)
        piece = -(-self.length // self.pieces)
        row_axis, col_axis = len(self.nest.rows) - 1, self.rank - 1
        at = f"threadIdx.y * {WIDE} + threadIdx.x"
        with self.phase():
            self.name_column()
            names = {}
            for member in members:
                names[id(member)] = name = f"s{next(self.names)}"
                self.say(f"{HELD[kind_of(member.rule.working)]} {name} = {start_of(member)};")
            self.say(f"const {self.index} begin = ({self.index})blockIdx.y * {piece};")
            self.say(
                f"const {self.index} end = begin + {piece} < {self.length} ? begin + {piece} : {self.length};"
            )
            self.say(f"if (i{col_axis} < {self.width})")
            row = f"i{row_axis}"
            head = f"for ({self.index} {row} = begin + threadIdx.y; {row} < end; {row} += {self.deep})"
            with self.block(head):
                for member in members:
                    self.join(member, names[id(member)])
            for member in members:
                self.say(f"{rooms[id(member)]}[{at}] = {names[id(member)]};")
        self.tree(members, rooms, self.deep, at, "threadIdx.y", WIDE)
        with self.phase():
            self.name_column()
            with self.block(f"if (threadIdx.y == 0 && i{col_axis} < {self.width})"):
                for member in members:
                    value = f"{rooms[id(member)]}[threadIdx.x]"
                    if work is None:
                        self.put(member, value)
                    else:
                        place = f"((i64)blockIdx.y * {self.outer} + outer) * {self.width} + i{col_axis}"
                        self.say(f"{self.work_of(member, work)}[{place}] = {value};")
        return self.launch((self.across * self.outer, self.pieces), (WIDE, self.deep))

    def totals(self, work: dict[int, int]) -> Launch:
        """Joins the pieces, one after the other."""
        self.begin()
        col_axis = self.rank - 1
        with self.phase():
            self.name_column(THREADS)
            with self.block(f"if (i{col_axis} < {self.width})"):
                for member in self.nest.members:
                    kind = kind_of(member.rule.working)
                    name = f"s{next(self.names)}"
                    self.say(f"{HELD[kind]} {name} = {start_of(member)};")
                    with self.block(f"for (int piece = 0; piece < {self.pieces}; piece++)"):
                        place = f"((i64)piece * {self.outer} + outer) * {self.width} + i{col_axis}"
                        part = self.lines.value(kind, f"{self.work_of(member, work)}[{place}]")
                        self.say(f"{name} = {self.combined(member, name, part)};")
                    self.put(member, name)
        return self.launch((-(-self.width // THREADS) * self.outer,), (THREADS,))

    def work_of(self, member: Member, work: dict[int, int]) -> str:
        place = self.word(("work", id(member)), ("work", work[id(member)]))
        return f"(({HELD[kind_of(member.rule.working)]}*){place})"

    def name_column(self, threads: int = WIDE) -> None:
        """The column of a thread, and the outer row of its block."""
        across, index = -(-self.width // threads), self.index
        column = f"({index})(blockIdx.x % {across}) * {threads} + threadIdx.x"
        self.say(f"const {index} i{self.rank - 1} = {column};")
        self.say(f"const {self.index} outer = blockIdx.x / {across};")
        self.unravel("outer", range(self.nest.outer))

    def put(self, member: Member, value: str) -> None:
        """The result of a column; its place has a stride for each of the outer rows and one for columns."""
        kind, working = kind_of(member.place.dtype), kind_of(member.rule.working)
        text = converted(value, working, kind)
        place = member.place
        axes = [*range(self.nest.outer), self.rank - 1]
        parts = [f"i{axis} * {step}" for axis, step in zip(axes, place.strides, strict=True) if step]
        pointer = f"(({STORED[kind]}*){self.word(id(place), ('address', place))})"
        self.say(f"{pointer}[{' + '.join(parts) or '0'}] = {stored(text, kind)};")


def as_number(number: Number, working: np.dtype) -> Any:
    """A constant as the working dtype holds it."""
    if working.kind in "iu" and isinstance(number.value, int):
        return int(np.array(number.value & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(working))
    if working.kind == "V":
        return number.value
    return np.asarray(number.value).astype(working).item()
