"""Waiting: calls are noted instead of made, until somebody looks at a value.

A `Waiter` stands behind the doors. It hands back tensors that have a layout and no value yet, and follows the tree
of known traces while calls come as they came before. Whoever looks at a value (`Tensor.__getattr__`) has everything
that waits computed first: by the program of the trace, if there is one for it and for what is still alive, else
call by call, in order, as an eager program would have. A trace that ends in the same way twice becomes a program.
Read next: compile/known_pass.py.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import is_
from typing import Any

import numpy as np

from cleargrad.autograd.api import start_gradient
from cleargrad.autograd.node import FREED, AccumulateGrad, Node, edge_of, split_edge
from cleargrad.autograd.walk import walk
from cleargrad.compile.acts import (
    Act,
    Aliased,
    Called,
    Changed,
    Given,
    Pulled,
    Scaled,
    Updated,
    Written,
    chosen,
    ends_of,
)
from cleargrad.compile.again import way_of
from cleargrad.compile.computing import LENGTH, SHORT, compute, is_short
from cleargrad.compile.known_pass import pass_of
from cleargrad.compile.pass_behind import Before, go_behind
from cleargrad.compile.sides import HERE, Here, side_of
from cleargrad.compile.traces import FREE, Fixed, Made, Source, Step, Tree, is_made, trees
from cleargrad.compile.trial import Trial
from cleargrad.core.device import Held, device
from cleargrad.core.dtype import dtype, when_default_changes
from cleargrad.core.layout import ghost, ghost_of
from cleargrad.core.mode import SEEN, at_once, mode
from cleargrad.core.shape import Spec
from cleargrad.core.shortage import shortage
from cleargrad.core.tensor import (
    INFERENCE,
    Room,
    Tensor,
    cell_of,
    is_lent,
    lent,
    lookers,
    new,
    tick,
    value_in,
    value_of,
    waits_for,
    wrap,
)
from cleargrad.errors import error, user_frame, user_place
from cleargrad.graph.passes import DRAWS
from cleargrad.ops.apply import call, check_operands, link
from cleargrad.ops.inplace import write
from cleargrad.ops.op import Op
from cleargrad.ops.record import CaptureError, Recorder, blank_results

LONGEST = 8192  # calls that may wait
HELD = 1 << 28  # bytes of sources that may be held meanwhile, but for parameters
CROWD = 8  # operands that are there, from which on a call is made at once
# Why traces end.
LOOK, END, ROUND = "somebody looks at a value", "the function returns", "changed weights are used again"
WRITE = "memory is written that others than tensors can see"
DEVICE = "calls go on on another device"
MANY = 40_000  # steps of all traces together, from which on they are forgotten

# One thread's calls wait at a time: whoever goes on first computes what waits in another thread. So no tensor waits
# for two of them, and nothing of what a thread does is seen before it is done.
lock = threading.RLock()
active: list[Run] = []  # the run that has calls, if any


class Run:
    """Calls that wait, and the tensors they are about."""

    probe = False  # as against what a proof puts in the place of values (compile/proofs/witness.py)
    __slots__ = (
        "__weakref__", "at", "copies", "covered", "failure", "held", "known", "made", "nodes", "numbers", "open",
        "outside", "plain", "plans", "pulled", "steps", "tensors", "waiter", "written",
    )  # fmt: skip

    def __init__(self, waiter: Waiter) -> None:
        self.waiter, self.at = waiter, waiter.tree.first
        self.steps: list[Step] = []
        self.tensors: list[Tensor | None] = []  # by slot: the sources; None for what is made
        self.copies: dict[int, np.ndarray] = {}  # of sources whose memory others than tensors can change
        self.known: dict[int, int] = {}  # slots of sources, by their ids
        self.made: list[tuple[int, weakref.ref]] = []  # slots that were made, and tensors that stand for them
        self.written: list[Tensor] = []  # sources, and views of them, whose memory is to be written
        self.covered: dict[int, Room] = {}  # memory into which nobody looks who does not wait
        self.numbers: list[float] = []
        # How the graph grew: for every source whether it is a leaf, for every call the plan of its node.
        self.plans: list[Any] = []
        self.nodes: list[weakref.ref[Node]] = []
        # While a pass is walked that may be known later: steps, their nodes, and where those saved what they read.
        self.pulled: list[tuple[Step, Node, list[int]]] | None = None
        self.plain = True  # whether nothing but calls made the graph what it is
        self.outside: set[int] = set()  # slots that were made, but lie in the memory of sources
        self.held = 0  # bytes of sources
        self.open = True
        self.failure: BaseException | None = None

    @property
    def side(self) -> Here:
        """Where all lies that waits."""
        return self.at.side

    @property
    def place(self) -> device:
        return self.at.side.place

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        try:
            if kind is not None and self.open:
                self.mend()
        finally:
            lock.release()

    def mend(self) -> None:
        """Takes back a step that was interrupted before its results were there."""
        steps = self.steps
        if (steps[-1].end if steps else 0) == len(self.tensors):
            return
        if steps and steps[-1].end > len(self.tensors):
            steps.pop()
        self.at = steps[-1] if steps else self.waiter.tree.first
        end = steps[-1].end if steps else 0
        self.drop(end)
        del self.numbers[sum([len(step.free) for step in steps]) :]
        self.made = [(slot, reference) for slot, reference in self.made if slot < end]
        self.plain = False

    def drop(self, first: int) -> None:
        """Takes back slots from a number on."""
        for tensor in self.tensors[first:]:
            self.known.pop(id(tensor), None)
        del self.tensors[first:]

    def look(self, tensor: Tensor) -> None:
        """Somebody wants the value of a tensor that waits."""
        self.waiter.end(self, LOOK)

    def array(self, slot: int) -> np.ndarray:
        """The memory of a source."""
        copy = self.copies.get(slot)
        return self.tensors[slot]._form if copy is None else copy  # type: ignore[union-attr]

    def arrays(self, slots: list[int]) -> dict[int, np.ndarray]:
        """The memory of some sources."""
        if self.copies:
            return {slot: self.array(slot) for slot in slots}
        tensors: list[Any] = self.tensors
        return {slot: tensors[slot]._form for slot in slots}

    def slot_of(self, tensor: Tensor) -> int | None:
        slot = self.known.get(id(tensor))
        return Made(tensor._slot) if slot is None and is_made(tensor, self) else slot

    def is_waiting(self, tensor: Tensor) -> bool:
        """Whether the value of a tensor is not there yet."""
        try:
            value_of(tensor)
        except AttributeError:
            return getattr(tensor, "_wait", None) is self
        return False

    def has_made(self, tensors: Sequence[Tensor]) -> bool:
        """Whether this run has made tensors, in memory that is nobody else's."""
        try:
            if not all(map(is_, map(waits_for, tensors), repeat(self))):
                return False
        except AttributeError:
            return False
        slots = [x._slot for x in tensors]
        return min(slots) >= 0 and self.outside.isdisjoint(slots)

    def has_part(self, tensor: Tensor, grad: bool) -> bool:
        """Whether views of a tensor are steps: its value waits, or a backward pass will lead through the view."""
        return self.is_waiting(tensor) or (grad and type(tensor._edge) is AccumulateGrad)

    def is_changed_leaf(self, tensor: Any) -> bool:
        """Whether a tensor is a leaf of the graph whose memory is to be written."""
        return isinstance(tensor, Tensor) and type(tensor._edge) is AccumulateGrad and self.is_waiting(tensor)

    def reads_copies(self, tensors: list[Tensor]) -> bool:
        """Whether one of some tensors is read from a copy, which must not be written in its place."""
        return bool(self.copies) and any(self.known.get(id(tensor)) in self.copies for tensor in tensors)

    def stands_for(self, tensor: Tensor, slot: int) -> None:
        """A tensor has the value of a slot that waits."""
        tensor._wait = self
        tensor._slot = slot
        del tensor._data
        self.made.append((slot, weakref.ref(tensor)))

    def will_change(self, tensor: Tensor) -> None:
        """The memory of a tensor is to be written: whoever looks into it waits."""
        if not self.is_waiting(tensor):
            tensor._data = None  # there may be a probe in its place
            tensor._wait, tensor._slot = self, -1
            del tensor._data
            self.written.append(tensor)

    def cover(self, lookers: list[Tensor]) -> None:
        """Memory is to be written: all that look into it wait, and so will whoever comes to look, being a view of
        what waits. So the next write to it need not ask again: there may be thousands of views.
        """
        for tensor in lookers:
            self.will_change(tensor)
        if lookers and (cell := lookers[0]._ver) is not None and cell[3] is not None:
            self.covered[id(cell[3])] = cell[3]

    def add_made(self, tensor: Tensor) -> None:
        tensors = self.tensors
        self.stands_for(tensor, len(tensors))
        tensors.append(None)

    def tensor_for(self, slot: int, form: np.ndarray) -> Tensor:
        """A new tensor for the value of a slot, outside of the graph."""
        tensor = new(Tensor)
        tensor._form = form
        tensor._edge = tensor._grad = tensor._ver = tensor._base = None
        tensor._wait, tensor._slot = self, slot
        self.made.append((slot, weakref.ref(tensor)))
        return tensor

    def twin(self, tensor: Tensor) -> Tensor:
        """Another tensor for the same value, outside of the graph."""
        other = self.tensor_for(tensor._slot, tensor._form)
        other._ver = cell_of(tensor)
        return other


class Waiter:
    """What stands behind the doors of a thread while calls wait."""

    names: dict[int, str] | None = None  # of arguments, by the ids of tensors, for reports
    compiled = False  # whether it is a compiled function whose calls wait
    beside = False  # whether programs are made by another thread, while calls go on
    aside = False  # whether somebody watches every call, so that none may wait
    alone = False  # whether calls were made one by one, since a compiled function was called
    ready = False  # whether programs did all that the last call of a compiled function asked for
    witness: Any = None  # who sees a call of a compiled function, to prove what it depends on
    grad: bool | None = None  # whether gradients are recorded; None in inference mode, too, and when aside
    spared = 0  # calls that doors make at once, before one waits again
    before: Before | None = None  # the run that a look has ended, and whose graph may be there yet
    short = 0  # traces in a row that were so short that waiting gained nothing

    def __init__(self, make: Callable, tree: Tree, whole: str | None = None) -> None:
        self.make = make  # a program of a graph
        self.tree = tree
        self.whole = whole  # the name of a function inside of which nobody may look
        self.run = Run(self)
        self.trial = Trial()
        self.away = False  # whether what waited last lies on another device

    def begun(self) -> Run:
        """The run to go on with, locked: other threads may look at what waits, too."""
        lock.acquire()
        self.spared = 0
        run = self.run
        if not active:
            active.append(run)
        elif active[0] is not run:
            other = active[0]
            other.waiter.finish(other, "another thread goes on")
            active[:] = [run]
        return run

    @staticmethod
    def together() -> Any:
        """What several calls are made under that no other thread may come between."""
        return lock

    # Following ---------------------------------------------------------------------------------------------

    def follow(self, run: Run, facts: tuple, operands: Sequence) -> Step | None:
        """The known step that a call is; None if it is new."""
        at = run.at
        step = at.next
        if step is None or not step.takes(facts, operands, run):
            step = next((each for each in at.others if each.takes(facts, operands, run)), None)
            if step is not None:
                at.next = step
        return step

    def learn(
        self,
        run: Run,
        facts: tuple,
        act: Act,
        operands: Sequence,
        forms: list,
        fixed: bool = False,
        side: Here | None = None,
    ) -> Step:
        """A new step behind the last."""
        side = run.side if run.steps else side or side_of_all(operands)
        wants: list[Any] = []
        seen: dict[int, int] = {}
        slot = len(run.tensors)
        for x in operands:
            if not isinstance(x, Tensor):
                wants.append(Fixed(x))
                continue
            found = run.slot_of(x)
            if found is None:
                found = seen.get(id(x))
            if found is None:
                seen[id(x)] = slot
                slot += 1
                wants.append(Source(x._form, side))
            else:
                wants.append(found)
        if not fixed:
            free_numbers(run, facts, wants, operands)
        step = Step(facts, act, tuple(wants), forms, user_place(), len(run.tensors), side)
        run.at.others.append(step)
        run.at.next = step
        self.tree.size += 1
        taken = self.follow(run, facts, operands)
        assert taken is step
        return step

    def takes(self, operands: Sequence) -> bool:
        """Whether a call may wait: what it is about lies on one side, and so does what waits already.

        A device has the right of way: what waits on the CPU then is computed.
        """
        found = None
        for x in operands:
            if isinstance(x, Tensor):
                side = side_of(x)
                if side is None or (found is not None and side is not found):
                    return False
                found = side
        run = self.run
        if found is None:
            return run.side is HERE
        if run.steps and run.side is not found:
            if run.side is not HERE:
                return False
            self.flush(DEVICE)
        return True

    # Calls -------------------------------------------------------------------------------------------------

    def call(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        """A call of an op waits. This is the short way of calls that come as they came the last time."""
        grad = self.grad
        if len(operands) > CROWD and not self.compiled and all(map(is_there, operands)):
            return call_at_once(op, operands, attrs)  # such as a batch of samples: to match it takes longer
        with lock:
            run = self.run
            if not active:
                active.append(run)
            step = run.at.next
            if step is not None and step.op is op and grad is not None and active[0] is run:
                again = step.again[grad]
                if again is None:
                    if len(operands) != len(step.wants):
                        return self.call_carefully(op, operands, attrs)
                    again = step.again[grad] = way_of(step, operands, grad)
                try:
                    out = again(run, operands, attrs)
                except BaseException:
                    if run.open:
                        run.mend()
                    raise
                if out is not None:
                    if len(run.steps) > LONGEST or run.held > HELD:
                        self.flush(LENGTH)
                    return out
        return self.call_carefully(op, operands, attrs)

    def sees(self, op: Op, tensor: Tensor) -> bool:
        """Whether a view of a tensor is no call: its value is there, and no pass will lead through it."""
        step = self.run.at.next
        if step is not None and step.op is op:  # it looks like one
            return False
        if self.grad is None or (self.grad and type(tensor._edge) is AccumulateGrad):
            return False
        try:
            value_of(tensor)
        except AttributeError:
            return False
        return True

    def call_carefully(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        """A call of an op waits."""
        if self.aside or op.name in DRAWS or "stream" in attrs or not self.takes(operands):
            outs = call_at_once(op, operands, attrs)
            if self.witness is not None:
                self.witness.drew(op, operands, attrs, outs)
            return outs
        grad = mode.grad
        if grad:
            if self.run.written and any(map(self.run.is_changed_leaf, operands)):
                self.flush(ROUND)  # so that steps made by hand begin and end alike
            for x in operands:
                if isinstance(x, Tensor) and x._base is not None:
                    edge_of(x)  # may take calls of its own, which come before this one
        with self.begun() as run:
            if op.view and not (isinstance(operands[0], Tensor) and run.has_part(operands[0], grad)):
                views = see(op, operands, attrs, grad)
                if self.witness is not None:
                    self.witness.saw(op, operands[0], attrs, views)
                return views
            step = self.follow(run, (op, attrs), operands)
            if step is None:
                step, forms = self.call_first(run, op, operands, attrs)
                if not run.open:  # somebody has looked at a value
                    return self.call(op, operands, attrs)
                if step is None:
                    return call_at_once(op, operands, attrs)
            else:
                forms = step.forms
                if op.view and forms and forms[0] is None:
                    forms = list_of(op.run(operands[0]._form, **attrs))
            outs = self.made(run, op, operands, attrs, forms, step, grad)
        if len(run.steps) > LONGEST or run.held > HELD:
            self.flush(LENGTH)
        return outs

    def made(
        self, run: Run, op: Op, operands: tuple, attrs: dict[str, Any], forms: list, step: Step, grad: bool
    ) -> Any:
        """The tensors that a call gives, which wait."""
        outs = link(op, operands, attrs, forms[0] if step.act.single else forms, grad)  # type: ignore[union-attr]
        if op.view and lies_outside(run, operands[0]):
            run.outside.update(range(len(run.tensors), len(run.tensors) + len(forms)))
        several = outs if type(outs) is tuple else (outs,)
        for out in several:
            run.add_made(out)
        edge = several[0]._edge if several else None
        if edge is None:
            run.plans.append(None)
        else:
            note_node(run, split_edge(edge)[0], several)
        return outs

    def call_first(self, run: Run, op: Op, operands: tuple, attrs: dict[str, Any]) -> tuple:
        """A call that has not come here before: its step and the layouts of its results; None if it cannot wait."""
        if any(isinstance(x, np.ndarray) for x in operands):
            return None, []
        check_operands(op, operands)
        spec = op.spec(*operands, **attrs)
        if spec is None or any(map(is_array, attrs.values())):
            return None, []
        try:
            forms = list_of(blank_results(op, operands, attrs, spec))
        except MemoryError as failure:
            raise shortage(op.name, failure, operands) from failure
        if not run.open:
            return None, []
        if not op.view:
            forms = list(map(ghost_of, forms))
        lasting = [None] * len(forms) if op.view and lies_outside(run, operands[0]) else forms
        act = Called(op, attrs, isinstance(spec, Spec))
        return self.learn(run, (op, attrs), act, operands, lasting), forms

    def alias(self, tensor: Tensor) -> Tensor | None:
        """Another tensor on memory whose elements wait; None if they are there."""
        with self.begun() as run:
            if not run.is_waiting(tensor):
                return None
            facts, operands = (Aliased,), (tensor,)
            step = self.follow(run, facts, operands)
            form = tensor._form.view()
            if step is None:
                self.learn(run, facts, Aliased(), operands, [None if lies_outside(run, tensor) else form])
            elif step.forms[0] is not None:
                form = step.forms[0]
            alias = wrap(form)
            if lies_outside(run, tensor):
                run.outside.add(len(run.tensors))
            run.add_made(alias)
        return alias

    def constant(self, data: np.ndarray, beside: Tensor) -> Tensor:
        """A tensor of known elements, where another tensor lies."""
        with self.begun() as run:
            side = side_of(beside)
            assert side is not None
            facts = (Given, data.shape, data.dtype, data.tobytes(), side.place)
            step = self.follow(run, facts, ())
            if step is None:
                form = ghost(data.shape, data.dtype)
                step = self.learn(run, facts, Given(data), (), [form], side=side)
            tensor = wrap(step.forms[0])
            run.add_made(tensor)
        return tensor

    def write(self, target: Tensor, value: Tensor) -> None:
        """A write in place: whoever looks into the memory waits from now on."""
        with self.begun() as run:
            seen = self.lookers(run, target)
            if seen is not None:
                if mode.grad and (has_history(target) or has_history(value)):
                    run.plain = False  # it changes the graph
                facts, operands = (Written,), (target, value)
                if self.follow(run, facts, operands) is None:
                    self.learn(run, facts, Written(), operands, [])
                run.cover(seen)
                return
        self.flush(WRITE)  # others than tensors may see the memory
        write(target, value_in(value))

    def change_again(self, op: Op, operands: tuple) -> bool:
        """The short way of writes in place that come as they came the last time; False, and nothing is done, for
        all others: `change` and what comes behind it then look at everything."""
        target: Any = operands[0]
        with lock:
            run = self.run
            step = run.at.next
            if step is None or step.changes is not op or self.grad is not False or lent:
                return False
            if not active:
                active.append(run)
            if active[0] is not run or not isinstance(target, Tensor):
                return False
            form, cell = target._form, target._ver
            if target._edge is not None or target._base is not None or not form.flags.carray:
                return False
            if cell is not None and (cell[3] is not None or cell[0] == INFERENCE):
                return False  # others look into the memory, or it may not be written
            try:
                waits = target._wait is run
            except AttributeError:
                waits = False
            if target._slot in run.outside if waits else not is_plain(target):
                return False
            if not step.takes(step.facts, operands, run):
                return False
            if not waits:
                run.will_change(target)
            if cell is None:
                cell = target._ver = [0, 0, None, None]
            frame = user_frame(sys._getframe(2))
            cell[0], cell[2] = tick(), None if frame is None else (frame.f_code, frame.f_lasti)
            cell[1] += 1
        return True

    def change(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> bool:
        """A call whose result is written into its first operand, in one step; False where it takes more."""
        target = operands[0]
        if self.grad is not False or op.name in DRAWS or "stream" in attrs:
            return False
        if target._edge is not None or target._base is not None:
            return False
        with self.begun() as run:
            cell = target._ver
            alone = target._form.base is None and not lent and (cell is None or cell[3] is None)
            if alone and not run.is_waiting(target):
                seen: list[Tensor] | None = [target]
            else:
                seen = self.lookers(run, target)
            if seen is None:
                return False
            facts = (Changed, op, attrs)
            if self.follow(run, facts, operands) is None:
                if not self.fits_into(target, op, operands, attrs) or not run.open:
                    return False
                self.learn(run, facts, Changed(op, attrs, True), operands, [])
            run.cover(seen)
        target.bump()
        return True

    @staticmethod
    def lookers(run: Run, target: Tensor) -> list[Tensor] | None:
        """Who must wait once the memory of a tensor is written; None if nobody can tell.

        Whoever looks into memory that waits, waits already; but a view may wait whose memory is there.
        """
        cell = target._ver
        if cell is not None and cell[3] is not None and id(cell[3]) in run.covered:
            return []
        seen_elsewhere = is_made(target, run) and target._slot in run.outside
        return [] if run.is_waiting(target) and not seen_elsewhere else lookers(target)

    @staticmethod
    def fits_into(target: Tensor, op: Op, operands: tuple, attrs: dict[str, Any]) -> bool:
        """Whether a call gives what a tensor can hold as it is."""
        check_operands(op, operands)
        spec = op.spec(*operands, **attrs)
        if not isinstance(spec, Spec) or op.view or any(map(is_array, attrs.values())):
            return False
        return spec.shape == target._form.shape and spec.dtype.numpy == target._form.dtype

    def scale(self, targets: list[Tensor], factor: Tensor) -> bool:
        """Multiplies tensors in place, in one step; False, and nothing is done, where that is not to be had."""
        kind = factor._form.dtype
        if self.aside or mode.grad or factor._form.ndim or kind.kind != "f" or kind.itemsize < 4:
            return False
        operands = (factor, *targets)
        with self.begun() as run:
            if self.scale_made(run, operands):
                return True
        if not self.takes(operands):
            return False
        with self.begun() as run:
            seen: list[list[Tensor]] = []
            for target in targets:
                plain = target._form.dtype is kind and target._edge is None and target._base is None
                found = self.lookers(run, target)
                if not plain or found is None or cell_of(target)[0] == INFERENCE:
                    return False
                seen.append(found)
            self.note_scaled(run, operands)
            for lookers_of_one in seen:
                run.cover(lookers_of_one)
        return True

    def scale_made(self, run: Run, operands: tuple) -> bool:
        """The same, where the run has made all of them, so that whoever looks into their memory waits already."""
        if not run.has_made(operands) or any(x._edge is not None or x._base is not None for x in operands):
            return False
        kind = operands[0]._form.dtype
        for x in operands:
            if x._form.dtype is not kind or (x._ver is not None and x._ver[0] == INFERENCE):
                return False
        self.note_scaled(run, operands)
        return True

    def note_scaled(self, run: Run, operands: tuple) -> None:
        if self.follow(run, (Scaled,), operands) is None:
            self.learn(run, (Scaled,), Scaled(len(operands) - 1), operands, [])
        place, now = user_place(), tick()
        for target in operands[1:]:
            cell = target._ver or cell_of(target)
            cell[0], cell[2] = now, place
            cell[1] += 1

    def update(self, optimizer: Any, group: dict[str, Any], options: dict[str, Any], items: list) -> None:
        """An optimizer's step for a group; the caller flushes when all groups are through."""
        operands = [x for p, g, state in items for x in (p, g, *state.values())]
        if not mode.grad:
            states = [tuple(state) for _, _, state in items]
            places = optimizer.param_groups
            place = 0 if places[0] is group else next(k for k, each in enumerate(places) if each is group)
            facts = (Updated, id(optimizer), place, optimizer._fixed(options), states)
            if not self.run.copies:
                with self.begun() as run:
                    step = run.at.next
                    if step is not None and step.takes_same(facts, operands, run):
                        return  # where these lie, and that nobody else sees them, was found out before
        written = [x for p, _, state in items for x in (p, *state.values()) if isinstance(x, Tensor)]
        if (
            mode.grad
            or not self.takes(operands)
            or self.run.reads_copies(written)
            or any((lent or x._form.base is not None) and is_lent(x) for x in written)
        ):
            self.flush()
            with at_once():
                optimizer._make_step(group, options, items)
            return
        with self.begun() as run:
            if self.follow(run, facts, operands) is None:
                self.learn(run, facts, Updated(optimizer, group, items), operands, [], fixed=True)

    def note_history(self) -> None:
        """A tensor gets another place in the graph, or leaves it, by other ways than a call."""
        if self.run.steps:
            self.run.plain = False

    # Backward passes ---------------------------------------------------------------------------------------

    def backward(self, root: Tensor, retain_graph: bool) -> None:
        """`root.backward()`. A pass through a graph that grew as it did before is not walked again."""
        with self.begun() as run:
            before = self.before
            usual = run.plain and not self.aside and not mode.anomaly
            if usual and root._edge is not None and root._base is None and root._form.size == 1:
                if run.is_waiting(root):
                    self.go_back(run, root, retain_graph)
                    return
                if before is not None and not run.steps:
                    if not any(each.make(run, root, retain_graph, before) for each in before.at.behind):
                        go_behind(run, root, retain_graph, before, lambda: self.walk(root, retain_graph))
                    run.plain = False
                    return
        self.walk(root, retain_graph)

    def go_back(self, run: Run, root: Tensor, retain_graph: bool) -> None:
        """The same, where all that it goes through waits."""
        for each in run.at.passes:
            if each.fits(run, root, retain_graph):
                each.make(run, root)
                return
        known = pass_of(run, root, retain_graph)
        run.pulled = None if known is None else []
        try:
            self.walk(root, retain_graph)
            if known is not None and run is self.run and known.finish(run):
                return
        finally:
            run.pulled = None
        run.plain = False

    def walk(self, root: Tensor, retain_graph: bool) -> None:
        walk((root,), (start_gradient(root, None),), retain_graph=retain_graph, create_graph=False)

    def pull(self, node: Node, grad: Any, wanted: tuple | None) -> Any:
        """What a node hands on in a backward pass."""
        if self.aside or mode.grad or node.saved is FREED or not self.takes(list_of(grad)):
            return node.pull(grad, wanted)
        with self.begun() as run:
            steps = chosen(node, wanted)
            saved, unpack = node.saved, node.unpack
            grads = grad if type(grad) is list else [grad]
            places = [position for step in steps for position in step.positions]
            operands = [*grads, *[unpack(saved[position]) for position in places]]
            if not self.takes(operands):
                return node.pull(grad, wanted)
            facts = (Pulled, node.plan.steps, wanted, ends_of(node), node.attrs)
            step = self.follow(run, facts, operands)
            if step is None:
                act = Pulled(node, wanted)
                forms = None if any(map(is_array, (node.attrs or {}).values())) else forms_of(act, operands)
                if forms is None:
                    return node.pull(grad, wanted)
                step = self.learn(run, facts, act, operands, forms)
            if run.pulled is not None:
                run.pulled.append((step, node, places))
            outs: list[Tensor | None] = []
            for form in step.forms:
                out = None
                if form is not None:
                    out = wrap(form)
                    run.add_made(out)
                outs.append(out)
        return outs

    # The end -----------------------------------------------------------------------------------------------

    def flush(self, why: str = END) -> None:
        """Computes all that waits."""
        run = self.run
        if run.steps:
            self.end(run, why)

    def close(self) -> None:
        """Computes all that waits, when an error is under way already."""
        if self.run.steps:
            self.finish(self.run)

    def end(self, run: Run, why: str) -> None:
        """Computes all that waits, and says what has failed."""
        if self.whole is not None and run.open and why in (LOOK, SEEN):
            rule = (
                f"{self.whole} asks for a value while it runs, and it is to be one program (fullgraph=True)"
            )
            fix = "move that out of the compiled function, or express it in tensor operations such as torch.where"
            raise error(CaptureError, "compile", rule, fix=fix)
        self.finish(run, why)
        if run.failure is not None:
            raise run.failure

    def finish(self, run: Run, why: str = END) -> None:
        with lock:
            if not run.open:
                return
            run.open = False
            active.clear()
            if self.run is run:
                if self.tree.size > MANY:
                    self.tree.forget()
                self.run = Run(self)
            for tensor in run.written:  # what is written now is where it was
                run.side.give(tensor, tensor._form)
            self.away = run.side is not HERE
            try:
                ending = compute(run, self.tree, self.make, why)
                self.alone = self.alone or ending is None
                if self.witness is not None:
                    self.witness.ran(run, ending, why)
            except BaseException as failure:
                run.failure = failure
            self.keep_graph(run, why)
            if self.beside:
                self.note_length(run, why)
            run.steps, run.known, run.copies, run.tensors, run.nodes = [], {}, {}, [], []
            run.made, run.written, run.covered = [], [], {}

    def keep_graph(self, run: Run, why: str) -> None:
        """Remembers how the graph grew that a look has ended, as long as nothing else comes to it."""
        if why not in (LOOK, SEEN) or not run.plain or run.failure is not None:
            self.before = None
        elif run.nodes:
            self.before = Before(run.at, run.plans, run.nodes, bool(run.numbers))

    def step_made(self) -> None:
        """An optimizer has made its step. On another device nobody here knows when it is done, and single calls
        cost more than waiting ever does."""
        if self.beside and not self.away:
            self.trial.step_made(self)

    def note_length(self, run: Run, why: str) -> None:
        """Where one short trace after the other is looked at, the next calls are made at once, in growing number.

        That can be done at any time; whether it still suits is seen by the next call that waits.
        """
        self.short = self.short + 1 if why in (LOOK, SEEN) and is_short(run.steps) else 0
        if self.short > SHORT and self.grad is not None:
            self.spared = 64 << min(self.short - SHORT, 6)


def has_history(tensor: Tensor) -> bool:
    base = tensor._base
    return tensor._edge is not None or (base is not None and base._edge is not None)


def is_there(tensor: Any) -> bool:
    """Whether an operand has its value, and no history."""
    if not isinstance(tensor, Tensor):
        return True
    try:
        return value_of(tensor) is not None and not has_history(tensor)
    except AttributeError:
        return False


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor has its value, and memory of its own."""
    try:
        return value_of(tensor).base is None
    except AttributeError:
        return False


def note_node(run: Run, node: Node, outs: tuple) -> None:
    """A node saves its own results as arrays, but these have no elements yet: twins stand for them."""
    run.plans.append(node.plan)
    run.nodes.append(weakref.ref(node))
    if node.plan.keeps_output:
        node.saved = tuple([(run.twin(outs[x[2]]), *x[1:]) if type(x) is tuple else x for x in node.saved])


def see(op: Op, operands: tuple, attrs: dict[str, Any], grad: bool) -> Any:
    """A view of memory that is there."""
    x = operands[0]
    if not isinstance(x, Tensor):
        return call_at_once(op, operands, attrs)
    try:
        value_of(x)
    except AttributeError:
        holder = getattr(x, "_wait", None)
        if type(holder) is Held:
            return see_there(op, operands, attrs, grad, holder)
        if not getattr(holder, "probe", False):
            x._data  # noqa: B018  it waits in another thread
    try:
        result = op.run(x._form, **attrs)
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError):
        return call_at_once(op, operands, attrs)
    return link(op, operands, attrs, result, grad)


def see_there(op: Op, operands: tuple, attrs: dict[str, Any], grad: bool, held: Held) -> Any:
    """A view of memory of another device: where that has addresses, a view of the layout is the view itself."""
    if not held.driver.addressed:
        return call_at_once(op, operands, attrs)
    try:
        result = op.run(held.memory, **attrs)
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError):
        return call_at_once(op, operands, attrs)
    arrays = result if isinstance(result, (list, tuple)) else [result]
    values = [Held(held.place, held.driver, array, array) for array in arrays]
    return link(op, operands, attrs, result, grad, values)


def call_at_once(op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
    with at_once():
        return call(op, operands, attrs)


def side_of_all(operands: Sequence) -> Here:
    """Where the operands of a call lie."""
    return next((side for x in operands if isinstance(x, Tensor) and (side := side_of(x))), HERE)


def list_of(forms: Any) -> list:
    return list(forms) if isinstance(forms, (list, tuple)) else [forms]


def is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, Tensor))


def lies_outside(run: Run, tensor: Tensor) -> bool:
    """Whether a tensor looks into the memory of a source, which is another one in every run."""
    return not is_made(tensor, run) or tensor._slot in run.outside


def free_numbers(run: Run, facts: tuple, wants: list, operands: Sequence) -> None:
    """A float that was another one the last time is an input from now on; so is what a node has saved of inputs."""
    if not all(x._form.dtype.kind in "fV" for x in operands if isinstance(x, Tensor)):
        return
    before = run.waiter.before
    if facts[0] is Pulled and (run.numbers or (before is not None and before.inputs)):
        wants[:] = [FREE if type(x) is float else want for x, want in zip(operands, wants)]
        return
    for other in run.at.others:
        if other.facts != facts or len(other.wants) != len(wants):
            continue
        changed = [k for k, (new, old) in enumerate(zip(wants, other.wants)) if not alike(new, old)]
        if changed and all(type(operands[k]) is float for k in changed):
            for k in changed:
                wants[k] = FREE
            return


def alike(new: Any, old: Any) -> bool:
    if isinstance(new, Fixed):
        return isinstance(old, Fixed) and old.fits(new.value)
    return type(new) is type(old) and new == old


def forms_of(act: Pulled, operands: Sequence) -> list | None:
    """The layouts of what a pull makes, as single calls give them, found by recording it for nobody; None if it
    needs values."""
    stand_ins = [wrap(x._form) if isinstance(x, Tensor) else x for x in operands]
    before = mode.set(waiter=None, recorder=Recorder(), autocast=None)
    try:
        outs = act.pulled(stand_ins)
    except CaptureError:
        return None
    finally:
        mode.set(**before)
    return [None if out is None else ghost_of(out._form) for out in outs]


def before_default(default: dtype) -> None:
    """What waits was called under the default dtype that there is now."""
    with lock:
        for run in list(active):
            run.waiter.finish(run)
        for tree in list(trees):
            tree.turn_to(default)


when_default_changes.append(before_default)


def before_fork() -> None:
    """Nothing waits in a forked child, and nobody computes there."""
    lock.acquire()
    for run in list(active):
        run.waiter.finish(run)


def in_child() -> None:
    global lock
    lock = threading.RLock()
    mode.wait(None)


os.register_at_fork(before=before_fork, after_in_parent=lambda: lock.release(), after_in_child=in_child)
