"""Loop fusion: statements are joined into nests, loops that keep what they compute in registers.

A nest runs over `rows` (shared among threads) and, inside a row, over `cols`. Its members are stores and
reductions of whole rows; what one member makes another one takes without a way through memory, if both mean
the same place. A statement joins the nest of what it reads, or one that reads the same memory. Reductions
over leading dimensions form nests of their own kind (`columns`). Read next: schedule/lifetimes.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from cleargrad.core.pace import give_way
from cleargrad.schedule.formulas import Buffer, Formulas, Lazy, Load, Number, contiguous
from cleargrad.schedule.statements import Reduce, Statement, Store

MEMBERS = 24  # a nest takes no more statements than this
LARGE = 1 << 16  # from so many elements on, an array is not read and written beside others for nothing
WORK = 400  # and no more work per element


class Ref:
    """What another member of the nest has computed at this place."""

    __slots__ = ("dtype", "index", "loads", "member", "shape", "weight")

    def __init__(self, member: Member, shape: tuple) -> None:
        self.member, self.shape, self.dtype, self.weight = member, shape, member.place.dtype, 0
        self.loads: tuple[Load, ...] = ()

    def __repr__(self) -> str:
        return f"@{self.member.place.buffer}"


@dataclass(eq=False)
class Member:
    """A statement in the space of its nest: `place` and `formula` have a dimension for each of its loops."""

    place: Load
    formula: Lazy
    reduce: Reduce | None = None  # the rule, for reductions
    kept: bool = True  # whether the result must reach memory

    @property
    def rule(self) -> Reduce:
        assert self.reduce is not None
        return self.reduce


@dataclass(eq=False)
class Nest:
    """Loops over rows and cols, and what they compute, in order."""

    rows: tuple[int, ...]
    cols: tuple[int, ...]
    members: list[Member] = field(default_factory=list)
    columns: bool = False  # reductions over rows, for each of cols; `outer` leading rows are kept
    outer: int = 0

    @property
    def space(self) -> tuple[int, ...]:
        return self.rows + self.cols

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return tuple(member.place.buffer for member in self.members)

    @property
    def work(self) -> int:
        return sum([1 + member.formula.weight for member in self.members])

    @cached_property
    def reads(self) -> list[Load]:
        """What it reads from memory; to be asked for when it has all its members."""
        loads = [load for member in self.members for load in member.formula.loads]
        return loads + [x for m in self.members for place, *_ in m.place.index for x in place.loads]


class Fuser:
    """Puts statements, in order, into nests; what cannot be in one stays as it is."""

    def __init__(self, formulas: Formulas) -> None:
        self.formulas = formulas
        self.entries: list[Nest | Statement] = []
        self.writer: dict[Buffer, int] = {}  # the last entry that writes a buffer
        self.readers: dict[Buffer, list[int]] = {}
        self.refs: dict[int, Ref] = {}  # by the id of their member, so that equal formulas stay one object

    def fuse(self, statements: list[Statement]) -> list[Any]:
        for statement in statements:
            self.place(statement)
            give_way()
        return self.entries

    def place(self, statement: Statement) -> None:
        loads = [load for formula in statement.formulas for load in formula.loads]
        touched = [*(load.buffer for load in loads), *statement.writes]
        earliest = max((self.writer.get(buffer, -1) for buffer in touched), default=-1)
        position = self.join(statement, loads, earliest)
        if position is None:
            position = len(self.entries)
            self.entries.append(self.start(statement))
        for buffer in statement.writes:
            self.writer[buffer] = max(position, self.writer.get(buffer, -1))
        for load in loads:
            readers = self.readers.setdefault(load.buffer, [])
            if not readers or readers[-1] != position:
                readers.append(position)

    def join(self, statement: Statement, loads: list[Load], earliest: int) -> int | None:
        """The entry that takes a statement in: that of its latest operand, or one with an operand in common."""
        if not isinstance(statement, (Store, Reduce)):
            return None
        # Large arrays that have but a number in common stay apart: many streams at once are slower than a few.
        large = statement.place.buffer.size >= LARGE
        common = [load.buffer for load in loads if not large or load.buffer.size > 1]
        alike = {reader for buffer in common for reader in self.readers.get(buffer, [])[-2:]}
        for position in sorted({earliest, *alike} - {-1}, reverse=True):
            nest = self.entries[position]
            if position >= earliest and isinstance(nest, Nest) and self.joined(nest, statement):
                return position
        return None

    def start(self, statement: Statement) -> Nest | Statement:
        """A nest for a statement alone."""
        if not isinstance(statement, (Store, Reduce)):
            return statement
        if isinstance(statement, Reduce) and by_columns(statement):
            return self.columns(statement)
        nest = (
            Nest(*self.space_of(statement)) if isinstance(statement, Store) else self.reduce_space(statement)
        )
        assert self.joined(nest, statement), statement
        return nest

    # Spaces ------------------------------------------------------------------------------------------------

    def space_of(self, statement: Store) -> tuple[tuple, tuple]:
        """The loops for a store alone: as few as its strides allow, the last one inside."""
        loads = [statement.place, *statement.formula.loads]
        shape = merge(statement.place.shape, [load.strides for load in loads])
        return (shape[:-1], shape[-1:]) if shape else ((), ())

    def split(self, statement: Reduce) -> tuple[tuple, tuple]:
        kept = tuple(n for axis, n in enumerate(statement.shape) if axis not in statement.dims)
        return kept, tuple(statement.shape[axis] for axis in statement.dims)

    def turned(self, statement: Reduce) -> Lazy:
        """The formula of a reduction with the reduced dimensions last."""
        axes = [axis for axis in range(len(statement.shape)) if axis not in statement.dims]
        order = (*axes, *statement.dims)
        shape = tuple(statement.shape[axis] for axis in order)
        if isinstance(statement.formula, Number):
            return statement.formula
        turned = self.formulas.view(
            statement.formula, lambda array: array.transpose(order), shape, ("turn", order)
        )
        assert turned is not None
        return turned

    def columns(self, statement: Reduce) -> Nest:
        """A nest for a reduction whose last dimension is kept: rows are reduced, cols are kept side by side."""
        *outer, rows, cols = statement.shape
        strides = [load.strides[: len(outer)] for load in statement.formula.loads]
        merged = merge(tuple(outer), [*strides, contiguous(tuple(outer))])
        nest = Nest((*merged, rows), (cols,), columns=True, outer=len(merged))
        assert self.joined(nest, statement), statement
        return nest

    # Joining -----------------------------------------------------------------------------------------------

    def joined(self, nest: Nest, statement: Store | Reduce) -> bool:
        """Whether a nest took a statement in, perhaps by changing its loops."""
        if len(nest.members) >= MEMBERS or (nest.members and nest.work + statement.formula.weight > WORK):
            return False
        if nest.columns:
            return self.joined_columns(nest, statement)
        if isinstance(statement, Reduce) and by_columns(statement) and nest.members:
            return False
        alone = any(
            member.reduce for member in nest.members
        )  # one thread takes a row, also if it is the only one
        member = self.fitted(nest.rows, nest.cols, statement, alone)
        if member is not None and self.linked(nest, member):
            nest.members.append(member)
            return True
        return self.respaced(nest, statement)

    def joined_columns(self, nest: Nest, statement: Store | Reduce) -> bool:
        if not isinstance(statement, Reduce) or not by_columns(statement):
            return False
        *outer, rows, cols = statement.shape
        if (prod(outer), rows, (cols,)) != (prod(nest.rows[: nest.outer]), nest.rows[-1], nest.cols):
            return False
        formula = self.formulas.reshape(statement.formula, nest.space)
        place = self.formulas.reshape(statement.place, nest.rows[: nest.outer] + nest.cols)
        if formula is None or place is None:
            return False
        member = Member(place, formula, statement)
        if any(load.buffer in nest.writes for load in formula.loads):
            return False
        nest.members.append(member)
        return True

    def fitted(
        self, rows: tuple, cols: tuple, statement: Store | Reduce, alone: bool = False
    ) -> Member | None:
        """The statement in a space of rows and cols; None if it does not fit."""
        formulas, size = self.formulas, prod(rows) * prod(cols)
        if isinstance(statement, Reduce):
            kept, reduced = self.split(statement)
            if prod(kept) != prod(rows) or reduced != cols:  # other columns would be another order
                return None
            formula = formulas.reshape(self.turned(statement), rows + cols)
            place = formulas.reshape(statement.place, rows + (1,) * len(cols))
        else:
            shape = statement.place.shape
            if prod(shape) == size:
                formula = formulas.reshape(statement.formula, rows + cols)
                place = formulas.reshape(statement.place, rows + cols)
            elif prod(shape) == prod(rows) and (rows or alone):
                thin = rows + (1,) * len(cols)
                formula = formulas.reshape(statement.formula, thin)
                place = formulas.reshape(statement.place, thin)
            else:
                return None
        if formula is None or place is None:
            return None
        formula = formulas.expand(formula, rows + cols)
        return Member(
            formulas.expand(place, rows + cols), formula, statement if isinstance(statement, Reduce) else None
        )

    def linked(self, nest: Nest, member: Member) -> bool:
        """Whether everything the member reads of the nest is what the nest has at hand at that moment."""
        made: dict[Buffer, list[Member]] = {}
        for other in nest.members:
            made.setdefault(other.place.buffer, []).append(other)
        if any(overwrites(member.place, other.place) for other in made.get(member.place.buffer, ())):
            return False
        if made.keys().isdisjoint([load.buffer for load in member.formula.loads]):
            return True
        formula = self.formulas.each(Linking(self, made), member.formula, nest.space, {})
        if formula is None:
            return False
        member.formula = formula
        return True

    def ref(self, member: Member, shape: tuple) -> Ref:
        if id(member) not in self.refs:
            self.refs[id(member)] = Ref(member, shape)
        return self.refs[id(member)]

    def respaced(self, nest: Nest, statement: Store | Reduce) -> bool:
        """Tries the statement's own loops for the whole nest, when the nest has only stores so far."""
        if not nest.members or any(member.reduce for member in nest.members) or nest.columns:
            return False
        trial = (
            Nest(*self.space_of(statement)) if isinstance(statement, Store) else self.reduce_space(statement)
        )
        if prod(trial.space) != prod(nest.space):
            return False
        for member in nest.members:
            place = self.formulas.reshape(member.place, trial.space)
            formula = self.unlinked(member.formula)
            formula = self.formulas.reshape(formula, trial.space)
            if place is None or formula is None:
                return False
            moved = Member(place, formula, None)
            if not self.linked(trial, moved):
                return False
            trial.members.append(moved)
        last = self.fitted(trial.rows, trial.cols, statement)
        if last is None or not self.linked(trial, last):
            return False
        nest.rows, nest.cols, nest.members = trial.rows, trial.cols, [*trial.members, last]
        return True

    def reduce_space(self, statement: Reduce) -> Nest:
        kept, reduced = self.split(statement)
        strides = [load.strides for load in self.turned(statement).loads]
        rows = merge(kept, [steps[: len(kept)] for steps in strides] + [contiguous(kept)])
        return Nest(rows, reduced)

    def unlinked(self, formula: Lazy, done: dict | None = None) -> Lazy:
        """A formula with its references to other members as loads again."""
        done = {} if done is None else done
        if isinstance(formula, Number):
            return formula
        if id(formula) in done:
            return done[id(formula)]
        if isinstance(formula, Ref):
            new: Lazy = formula.member.place
        elif isinstance(formula, Load):
            index = tuple((self.unlinked(place, done), *rest) for place, *rest in formula.index)
            new = self.formulas.load(formula.buffer, formula.shape, formula.strides, formula.offset, index)
        else:
            operands = tuple(self.unlinked(x, done) for x in formula.operands)
            new = self.formulas.map(formula.tree, operands, formula.working, formula.dtype, formula.shape)
        done[id(formula)] = new
        return new


def overwrites(one: Load, other: Load) -> bool:
    """Whether a store may change what another has stored at a different point of the same loops."""
    same = (one.strides, one.offset, one.index) == (other.strides, other.offset, other.index)
    return not same and not apart(one, other)


def apart(one: Load, other: Load) -> bool:
    """Whether two loads of a buffer certainly have no element in common."""
    if one.index or other.index:
        return False
    if parted(span_of(one), span_of(other)):
        return True
    if one.strides != other.strides or not one.strides:
        return False
    # Columns of a matrix, each with rows of its own: these are all parted where those of one row are.
    outer = max(range(len(one.strides)), key=lambda axis: abs(one.strides[axis]))
    first, second = span_of(one, outer), span_of(other, outer)
    within = max(first[1], second[1]) - min(first[0], second[0]) < abs(one.strides[outer])
    return within and parted(first, second)


def span_of(load: Load, without: int | None = None) -> tuple[int, int]:
    """The first and the last element that a load touches, perhaps in the first of its rows alone."""
    axes = enumerate(zip(load.shape, load.strides, strict=True))
    ends = [(n - 1) * step for axis, (n, step) in axes if axis != without]
    return load.offset + sum(e for e in ends if e < 0), load.offset + sum(e for e in ends if e > 0)


def parted(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[1] < other[0] or other[1] < one[0]


class Linking:
    """Changes loads of what a nest makes into references to its members; None where that cannot be."""

    def __init__(self, fuser: Fuser, made: dict[Buffer, list[Member]]) -> None:
        self.fuser, self.formulas, self.made = fuser, fuser.formulas, made

    def __call__(self, load: Load) -> Any:
        if not load.index:
            return self.linked(load)
        places = [(self.formulas.each(self, place, place.shape, {}), *rest) for place, *rest in load.index]
        if any(place is None for place, *_ in places) or not isinstance(self.linked(load), Load):
            return None
        return self.formulas.load(load.buffer, load.shape, load.strides, load.offset, tuple(places))

    def linked(self, load: Load) -> Any:
        wanted = (load.strides, load.offset, load.index)
        maker: Member | None = None
        for other in self.made.get(load.buffer, ()):
            place = other.place
            if maker is None and wanted == (place.strides, place.offset, place.index):
                maker = other
            elif not apart(place, load):
                return None
        return load if maker is None else self.fuser.ref(maker, load.shape)


def by_columns(statement: Reduce) -> bool:
    """Whether rows are reduced, and the last dimension stays."""
    return statement.dims == (len(statement.shape) - 2,)


def merge(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape with neighbouring dimensions joined wherever every stride goes on evenly."""
    extents: list[int] = []
    lasts: list[int] = []  # the axis whose stride a joined dimension has
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        last = lasts[-1] if lasts else None
        if last is not None and all(step[last] == step[axis] * extent for step in strides):
            extents[-1] *= extent
            lasts[-1] = axis
        else:
            extents.append(extent)
            lasts.append(axis)
    return tuple(extents)
