"""Traces: what was called, as a tree in which the calls of every known way through a program follow each other.

A `Step` is one call as it can come again: an act, and what it wants as operands. Tensors are named by slots,
numbered as they come: a slot is a tensor that comes from outside (a source, of which the layout counts) or one that
an earlier step has made. Two runs through the same steps have computed the same thing, whatever Python did to get
there: the trace is the guard. Read next: compile/acts.py.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from math import copysign
from typing import Any, NamedTuple

import numpy as np

from cleargrad.autograd.node import AccumulateGrad
from cleargrad.compile.acts import Act, Called, Changed
from cleargrad.compile.same import MANY, Same
from cleargrad.compile.sides import HERE, Here, form_there
from cleargrad.core.device import Held
from cleargrad.core.dtype import dtype, get_default_dtype
from cleargrad.core.precision import when_changed
from cleargrad.core.tensor import Tensor, is_lent, lent, value_of
from cleargrad.errors import Place, user_place
from cleargrad.threads import when_chosen

PROGRAMS = 256  # of a tree: a small network's take some hundred kilobytes each


class Source:
    """A tensor from outside, which no earlier step has seen: any of this layout."""

    __slots__ = ("dtype", "last", "nbytes", "shape", "side", "strides")

    def __init__(self, form: np.ndarray, side: Here) -> None:
        self.side = side
        self.shape, self.dtype, self.strides = form.shape, form.dtype, form.strides
        self.nbytes = form.nbytes
        self.last = weakref.ref(form)  # the memory that fitted last: parameters are the same in every run

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and self.layout == other.layout

    __hash__ = None  # type: ignore[assignment]

    @property
    def layout(self) -> tuple:
        return self.shape, self.dtype, self.strides, self.side

    def fits(self, form: np.ndarray) -> bool:
        if form.shape != self.shape or form.strides != self.strides or form.dtype != self.dtype:
            return False
        self.last = weakref.ref(form)
        return True


class Made(int):
    """A slot that an earlier step has made; plain integers are those of sources."""


def is_made(tensor: Any, run: Any) -> bool:
    """Whether a run has made a tensor, whose value waits."""
    try:
        value_of(tensor)
    except AttributeError:
        return getattr(tensor, "_wait", None) is run and tensor._slot >= 0
    return False


class Fixed:
    """A number, or something else that is no tensor: only the very same fits."""

    __slots__ = ("kind", "value")

    def __init__(self, value: Any) -> None:
        self.kind, self.value = type(value), value

    def fits(self, other: Any) -> bool:
        return type(other) is self.kind and equal(self.value, other)


class Free:
    """A float that may be another one every time: it is an input of programs."""


FREE = Free()


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same in every way: 1 is not 1.0, and 0.0 is not -0.0."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is float:
        return (one == other and copysign(1.0, one) == copysign(1.0, other)) or (
            one != one and other != other
        )
    if kind is complex:
        return equal((one.real, one.imag), (other.real, other.imag))
    if kind is tuple or kind is list:
        return len(one) == len(other) and all(map(equal, one, other))
    if kind is dict:
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    if isinstance(one, np.ndarray):
        return one is other
    return one is other or bool(one == other)


class Step:
    """A call, as it can come again."""

    __slots__ = (
        "act",
        "again",
        "behind",
        "changes",
        "end",
        "endings",
        "facts",
        "first",
        "forms",
        "free",
        "fresh",
        "given",
        "next",
        "op",
        "others",
        "outs",
        "passes",
        "place",
        "same",
        "side",
        "wants",
    )

    def __init__(
        self,
        facts: tuple,
        act: Act | None,
        wants: tuple,
        forms: list,
        place: Place | None,
        first: int = 0,
        side: Here = HERE,
    ) -> None:
        self.facts = facts  # what must be the same besides the operands
        self.act = act
        self.wants = wants
        self.forms = forms  # the layouts of what it makes
        self.fresh = [k for k, want in enumerate(wants) if type(want) is Source]  # seen here first
        # Slots are the same in every run: `first` is the first new one, and `end` the one behind the last.
        slots = itertools.count(first)
        shows = act is not None and act.shows is not None
        self.given = [
            next(slots) if type(want) is Source else want for want in wants
        ]  # sources by their slots
        self.outs = [next(slots) if form is not None or shows else None for form in forms]
        self.first, self.end = first, next(slots)
        self.free = [k for k, want in enumerate(wants) if want is FREE]
        # The op of a call that gives tensors of layouts that are known.
        known = bool(forms) and all(form is not None for form in forms)
        self.op = facts[0] if type(act) is Called and known else None
        # What makes such a call another time, without gradients and with them (compile/again.py).
        self.again: list[Callable | None] = [None, None]
        # The op of a call that takes no attributes, and whose result is written into its first operand.
        self.changes = facts[1] if type(act) is Changed and not facts[2] else None
        self.place = place  # where it was called first
        self.side = side  # where all lies that this trace is about
        self.same = self.many() if len(wants) >= MANY else None
        self.next: Step | None = None  # what came behind it the last time
        self.others: list[Step] = []  # all that ever came behind it
        self.passes: list[Any] = []  # backward passes that began here (compile/known_pass.py)
        self.behind: list[Any] = []  # and those that began behind a look here (compile/pass_behind.py)
        self.endings: dict[tuple, Any] = {}  # programs of the trace that ends here, by what is left alive

    def many(self) -> Same | None:
        """What compares many operands at once; None if there is a number that may be another one every time, or a
        tensor that comes twice."""
        made = {k: want for k, want in enumerate(self.wants) if type(want) is Made}
        known = {k: want for k, want in enumerate(self.wants) if type(want) is int}
        new = {k: self.given[k] for k in self.fresh}
        fixed = {k: want for k, want in enumerate(self.wants) if type(want) is Fixed}
        if self.free or any(slot >= self.first for slot in known.values()):
            return None
        return Same(self.side, made, known, new, fixed)

    def is_called(self, facts: tuple, operands: Sequence) -> bool:
        """Whether a call is this one, but for its operands."""
        act = self.act
        try:
            return (
                facts == self.facts
                and len(operands) == len(self.wants)
                and (act is None or act.allows(facts))
            )
        except ValueError:  # attributes that cannot be compared, such as arrays
            return False

    def takes_same(self, facts: tuple, operands: Sequence, run: Any) -> bool:
        """Whether a call is this one, on the very tensors that it was on the last time."""
        same = self.same
        if same is None or not same.alive or not self.is_called(facts, operands):
            return False
        if not same.takes(operands, run):
            return False
        run.at = self
        run.steps.append(self)
        return True

    def takes(self, facts: tuple, operands: Sequence, run: Any) -> bool:
        """Whether a call is this one. If so, it is the last step of the run now; if not, nothing has happened."""
        if not self.is_called(facts, operands):
            return False
        wants, same = self.wants, self.same
        if same is not None and same.takes(operands, run):
            run.at = self
            run.steps.append(self)
            return True
        known, tensors = run.known, run.tensors
        plans: list[bool] = []
        copied: list[int] = []
        held, plain, fits = 0, run.plain, False
        try:
            for x, want in zip(operands, wants):
                kind = type(want)
                if kind is Made:
                    try:
                        if x._wait is not run or x._slot != want:
                            return False
                    except AttributeError:
                        return False
                elif kind is int:
                    if known.get(id(x)) != want:
                        return False
                elif kind is Source:
                    if not isinstance(x, Tensor) or id(x) in known:
                        return False
                    try:
                        form = value_of(x)
                    except AttributeError:
                        if is_made(x, run):
                            return False
                        if want.side is not HERE:
                            form = form_there(x, want.side)
                            if form is None and x._wait is not run:
                                return False
                        elif type(x._wait) is Held:
                            return False
                        elif x._wait is not run and not x._wait.probe:
                            x._data  # noqa: B018  it waits elsewhere, in another thread
                        form = x._form
                    else:
                        if want.side is not HERE:
                            return False
                    if form is not want.last() and not want.fits(form):
                        return False
                    if want.side is HERE and (form.base is not None or id(form) in lent) and is_lent(x):
                        copied.append(len(tensors))
                    edge = x._edge
                    plans.append(edge is not None)
                    if type(edge) is not AccumulateGrad:
                        held += want.nbytes
                        plain = plain and edge is None
                    known[id(x)] = len(tensors)
                    tensors.append(x)
                elif want is FREE:
                    if type(x) is not float:
                        return False
                elif not want.fits(x):
                    return False
            fits = True
        finally:
            if not fits:
                run.drop(self.first)
        if plans:
            run.plans += plans
            run.held += held
            run.plain = plain
            for slot in copied:
                run.copies[slot] = tensors[slot]._form.copy()
        for k in self.free:
            run.numbers.append(operands[k])
        if same is not None:
            same.note(operands, copied)
        run.at = self
        run.steps.append(self)
        return True


class Ends(NamedTuple):
    """How a trace ended: why, where in the user's program, after how many calls, and what became of it."""

    why: str
    place: Place | None
    calls: int
    fate: Any  # the program that ran, the reason why there is none, or None while there is none yet


class Tree:
    """All known traces, and what became of them."""

    ends: Counter[Ends] | None = None  # how often traces ended in each way, where somebody wants to know
    age = 0  # how often everything was forgotten

    def __init__(self) -> None:
        self.first = Step((), None, (), [], None)
        self.default = get_default_dtype()
        self.forget()
        trees.add(self)

    def note(self, why: str, calls: int, ending: Any, place: Place | None = None) -> None:
        """A trace ends."""
        assert self.ends is not None
        fate = None if isinstance(ending, int) else ending
        self.ends[Ends(why, place or user_place(), calls, fate)] += 1

    def keep(self, ending: Any) -> None:
        """A program is there; of too many, the one that was needed longest ago goes."""
        self.endings.append(ending)
        if len(self.endings) > PROGRAMS:
            oldest = min(self.endings, key=lambda each: each.used)
            self.drop(oldest)
            with oldest.lock:
                oldest.let_go()

    def drop(self, ending: Any) -> None:
        if ending in self.endings:
            self.endings.remove(ending)

    def turn_to(self, default: dtype) -> None:
        """With another default dtype the same calls give other results: they are other traces, known or not."""
        first = self.first
        self.beginnings[self.default] = first.next, first.others, first.endings, first.passes
        first.next, first.others, first.endings, first.passes = self.beginnings.pop(
            default, (None, [], {}, [])
        )
        self.default = default

    def forget(self) -> None:
        """Nothing is known."""
        self.age += 1
        self.beginnings: dict[dtype, tuple] = {}  # what came first under other default dtypes
        self.first.next, self.first.others = None, []
        self.first.endings, self.first.passes = {}, []
        self.size = 0  # steps
        self.endings: list[Any] = []  # programs
        self.alone = 0  # runs through traces without a program, call by call


trees: weakref.WeakSet[Tree] = weakref.WeakSet()


def forget_all() -> None:
    """Nothing is known of any trace."""
    for tree in list(trees):
        tree.forget()


when_changed.append(forget_all)
when_chosen.append(forget_all)  # the work of programs is cut for some number of threads
