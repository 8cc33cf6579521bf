"""From a trace to its program: an ending is the program for what is left alive when the trace ends.

`ending_of` has the graph built and compiled. `Ending.run` binds the memory of sources, runs the program, and gives
the tensors that still wait their values. Read next: graph/passes.py.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from cleargrad.autograd.node import AccumulateGrad
from cleargrad.compile.acts import Updated
from cleargrad.compile.beside import beside
from cleargrad.compile.building import Building
from cleargrad.compile.repeat import Unfinished, is_own
from cleargrad.compile.sides import memory_of, narrow
from cleargrad.compile.traces import FREE, Step
from cleargrad.core.address import address
from cleargrad.core.mode import mode, structure
from cleargrad.core.pace import give_way
from cleargrad.core.tensor import Tensor, cell_of, owner_of, tick, wrap, wrap_view
from cleargrad.graph.verify import is_on
from cleargrad.ops.record import CaptureError, Graph

if TYPE_CHECKING:
    from cleargrad.compile.waiting import Run


class Unfit(Exception):
    """A trace of which there is no program."""


def ending_of(run: Run, alive: tuple, make: Callable[[Graph], Any]) -> Ending | str:
    """The program of a trace that has just been run, or is being made; in words, why there is none."""
    try:
        ending = Ending(run, alive)
    except Exception as failure:  # the trace has been run: nothing may be lost because of a program
        return in_words(failure)
    if run.waiter.beside and not ending.users:
        beside(partial(ending.be_made, make), ending.let_go)
    else:
        ending.be_made(make)
    return ending if ending.failure is None else ending.failure


def in_words(failure: Exception) -> str:
    """Why there is no program; a mistake of cleargrad's is raised where such are looked for."""
    if isinstance(failure, (Unfit, Unfinished, CaptureError)):
        return str(failure) or type(failure).__name__
    if is_on():
        raise failure
    return f"compiling it failed with {type(failure).__name__}: {failure}"


class Ending:
    """A program, and how its memory is bound."""

    program: Any = None  # until it is made, and when its parameters are gone
    failure: str | None = None  # why there will be none
    gone = False
    moved = False  # whether holders have other memory than the program has been told

    def __init__(self, run: Run, alive: tuple) -> None:
        """Notes all that another run may change; the rest is recorded by `be_made`, whenever that is."""
        self.lock = threading.Lock()
        self.side = run.side
        self.used = tick()
        self.runs = 0
        self.calls = len(run.steps)
        self.defaults = structure.defaults
        self.read_steps(run)
        building = Building(self.side.whole)
        self.graph = building.graph
        before = mode.set(recorder=building)
        try:
            tensors = self.stand_ins(run, building)
            numbers = self.read_numbers(run, building)
            self.read_options(run, building)
        finally:
            mode.set(**before)
        self.read_results(run, alive)
        self.record: Callable[[], None] | None = partial(
            self.record_steps, run.steps, building, tensors, numbers
        )
        self.fixed = [*self.number_arrays, *[each.array for each in self.options]]
        self.doubles: list[int] | None = None
        self.parameters: list[weakref.ref[Tensor]] = []
        if run.waiter.tree.ends is None:
            # With its parameters goes the memory of a model: nothing here keeps it, but for a report.
            lasting = [tensor for slot, _ in self.bound if type(tensor := run.tensors[slot]) is not Tensor]
            forget = forgetting(weakref.ref(self))
            self.parameters = [weakref.ref(tensor, forget) for tensor in lasting if tensor is not None]

    def be_made(self, make: Callable[[Graph], Any]) -> None:
        """Has the graph recorded and compiled."""
        record, self.record = self.record, None
        if self.gone or record is None:
            return
        try:
            record()
            del record
            if self.is_outdated():
                return
            program = self.side.program(make, self.graph)
            program.fix(len(self.inputs), self.fixed)
            program.leave_to_owner([holder for _, holder in self.bound])
            program.forget_making(self.graph)
            self.check_memory()
            self.program = program
        except Exception as failure:
            if not self.gone and not self.is_outdated():  # with its parameters goes a part of the graph
                self.failure = in_words(failure)
        finally:
            if self.gone:
                self.let_go()  # of what was recorded since, too

    def is_outdated(self) -> bool:
        """Whether the default dtype has changed while calls were recorded, which may be of another one inside.

        If so, there is no program, and the next run begins anew.
        """
        self.gone = self.gone or self.defaults != structure.defaults
        return self.gone

    def read_steps(self, run: Run) -> None:
        """Which memory each slot lies in, and which is written."""
        self.owners: list[int] = []  # by slot
        self.forms: list[np.ndarray | None] = []
        self.written: list[int] = []  # sources
        self.updated: list[int] = []
        for step in run.steps:
            act: Any = step.act
            for k in step.fresh:
                self.owners.append(step.given[k])
                self.forms.append(None)
            for k in act.writes:
                owner = self.owners[step.given[k]]
                if run.tensors[owner] is not None and owner not in self.written:
                    self.written.append(owner)
                if isinstance(act, Updated) and owner not in self.updated:
                    self.updated.append(owner)
            for slot, form in zip(step.outs, step.forms):
                if slot is not None:
                    self.owners.append(slot if act.shows is None else self.owners[step.given[act.shows]])
                    self.forms.append(form)

    def stand_ins(self, run: Run, building: Building) -> list[Any]:
        """Tensors for the sources: inputs, or bound by reference."""
        self.inputs: list[int] = []
        self.bound: list[tuple[int, Tensor]] = []
        self.related = self.relations(run)
        inside = {slot: owner for slot, owner, _ in self.related}
        tensors: list[Any] = [None] * len(self.owners)
        order = [slot for slot, tensor in enumerate(run.tensors) if tensor is not None]
        for slot in sorted(order, key=lambda slot: slot in inside):
            tensor, array = run.tensors[slot], run.array(slot)
            if slot in inside:
                tensors[slot] = wrap_view(array.view(), tensors[inside[slot]])
            elif slot in self.written or slot in inside.values() or is_lasting(tensor):
                if slot in run.copies and slot in self.written:
                    raise Unfit("it writes memory that others than tensors can see")
                tensors[slot] = holder = wrap(array.view())
                self.bound.append((slot, holder))
                building.bound.add(id(holder._data))
            else:
                tensors[slot] = stand_in = wrap(array.view())
                self.inputs.append(slot)
                building.argument(stand_in)
        self.needed = [*self.inputs, *[slot for slot, _ in self.bound], *inside]
        return tensors

    def relations(self, run: Run) -> list[tuple[int, int, int]]:
        """Sources that lie in the memory of others, where some of it is written: which, in which, and where."""
        if not self.written:
            return []
        spans = []
        for slot, tensor in enumerate(run.tensors):
            if tensor is not None and tensor._form.size:
                low, high = np.lib.array_utils.byte_bounds(run.array(slot))
                spans.append((low, -high, slot))
        spans.sort()
        groups: list[list[tuple]] = []
        end = 0
        for low, high, slot in spans:
            if groups and low < end:
                groups[-1].append((low, -high, slot))
            else:
                groups.append([(low, -high, slot)])
            end = max(end, -high)
        found = []
        for group in groups:
            if len(group) == 1 or not any(slot in self.written for *_, slot in group):
                continue
            low, high, owner = group[0]  # begins first and, of those, ends last
            whole = run.array(owner)
            for _, last, slot in group[1:]:
                array = run.array(slot)
                if last > high or array.dtype != whole.dtype or not whole.flags.forc:
                    raise Unfit("it writes memory that several of its tensors share")
                found.append((slot, owner, address(array) - address(whole)))
        return found

    def read_numbers(self, run: Run, building: Building) -> list[Tensor]:
        """Tensors for numbers that may be others in every run."""
        numbers = [wrap(np.array(value, np.float64)) for value in run.numbers]
        self.number_arrays = [number._data for number in numbers]
        for number in numbers:
            building.argument(number)
        return numbers

    def read_options(self, run: Run, building: Building) -> None:
        """Options of optimizers, and whether a rule of the user's is among them, who may do anything in it."""
        self.users = False
        for step in run.steps:
            if isinstance(step.act, Updated):
                step.act.read(building)
                self.users = self.users or not is_own(step.act.optimizer())
        self.options = list(building.options.values())

    def read_results(self, run: Run, alive: tuple) -> None:
        """What the program gives, and to whom."""
        owners = dict.fromkeys(self.owners[slot] for slot in alive)
        self.given = [slot for slot in owners if run.tensors[slot] is None]  # by output
        self.strides = {slot: self.forms[slot].strides for slot in self.given}  # type: ignore[union-attr]
        self.name_tensors(run)

    def record_steps(
        self, steps: list[Step], building: Building, tensors: list[Any], numbers: list[Tensor]
    ) -> None:
        """Has every step recorded. It works on layouts alone, so that nobody cares what tensors hold meanwhile."""
        before = mode.set(
            waiter=None, recorder=building, observer=None, autocast=None, grad=False, inference=False
        )
        try:
            free = iter(numbers)

            def operand(x: Any) -> Any:
                return tensors[x] if isinstance(x, int) else next(free) if x is FREE else x.value

            for step in steps:
                act: Any = step.act
                outs = act.record(building, [operand(x) for x in step.given])
                for slot, out, form in zip(step.outs, outs, step.forms, strict=True):
                    if slot is None:
                        continue
                    if form is not None and (out._data.shape != form.shape or out._data.dtype != form.dtype):
                        raise Unfit("a value is recorded in another form than it has")
                    tensors[slot] = out
                give_way()
            graph = building.graph
            graph.outputs = [building.value(tensors[slot]) for slot in self.given]
            graph.writes = [(owner, building.known[key][0]) for key, owner in building.written.items()]
        finally:
            mode.set(**before)

    def name_tensors(self, run: Run) -> None:
        """What reports call inputs, bound tensors and gradients: names of arguments, and references to tensors."""
        known = run.waiter.names or {}
        self.input_names = [
            known.get(id(run.tensors[slot]), f"input{k}") for k, slot in enumerate(self.inputs)
        ]
        self.input_names += [f"number{k}" for k in range(len(self.number_arrays))]
        self.input_names += [option.title for option in self.options]
        self.leaves: dict[int, Any] = {}  # by the output that becomes their gradient
        for tensor in run.tensors:
            grad = None if tensor is None else tensor._grad
            if grad is not None and getattr(grad, "_slot", None) in self.given:
                self.leaves[self.given.index(grad._slot)] = weakref.ref(tensor)

    # Running -----------------------------------------------------------------------------------------------

    def run(self, run: Run, living: list[tuple[int, Tensor]]) -> bool:
        """Computes all that waits, for tensors by their slots; False, and nothing is done, if the program does not
        suit the memory."""
        outputs = self.outputs(run.arrays(self.needed), run.numbers)
        if outputs is None:
            return False
        self.deliver(run, living, outputs)
        return True

    def outputs(self, arrays: Any, numbers: list[float]) -> list[np.ndarray] | None:
        """Runs the program on the memory of sources, by their slots; None, and nothing is done, if it does not
        suit it."""
        with self.lock:
            if self.program is None:
                return None
            inputs = [arrays[slot] for slot in self.inputs]
            if not self.binds(arrays, inputs):
                return None
            for array, number in zip(self.number_arrays, numbers):
                array[...] = number
            for option in self.options:
                option.read()
            outputs = self.program.run([*inputs, *self.fixed])
            self.runs += 1
            self.used = tick()
            if self.doubles is None:
                ids = [id(array) for array in outputs]
                self.doubles = [k for k, each in enumerate(ids) if ids.index(each) != k]
            for k in self.doubles:
                outputs[k] = self.side.copy(outputs[k])
        return outputs

    def binds(self, arrays: Any, inputs: list[np.ndarray]) -> bool:
        """Gives the program the memory of this run's sources."""
        if not all(map(is_, map(arrays.__getitem__, self.bound_slots), self.bound_arrays)):
            for slot, holder in self.bound:
                array = arrays[slot]
                if holder._data is not array:
                    if not same_layout(array, holder._data):
                        return False
                    self.moved = True
                    holder._data = holder._form = array
        if self.moved:
            self.program.bind()
            self.check_memory()
            self.moved = False
        for slot, owner, offset in self.related:
            if address(arrays[slot]) - address(arrays[owner]) != offset:
                return False
        if self.overlaps:
            return False
        for array in inputs:
            found = self.roots.get(id(array if array.base is None else owner_of(array)))
            if found is not None and any(np.may_share_memory(array, other) for other in found):
                return False
        return True

    def check_memory(self) -> None:
        """Notes what memory is bound, which of it is written, and whether other bound memory lies in that."""
        self.bound_slots = [slot for slot, _ in self.bound]
        self.bound_arrays = [holder._data for _, holder in self.bound]
        written = set(self.written)
        self.roots: dict[int, list[np.ndarray]] = {}  # what is written, by what owns its memory
        others: dict[int, list[tuple[int, np.ndarray]]] = {}
        for slot, holder in self.bound:
            root = id(owner_of(holder._data))
            others.setdefault(root, []).append((slot, holder._data))
            if slot in written:
                self.roots.setdefault(root, []).append(holder._data)
        self.overlaps = any(
            other is not array and np.may_share_memory(array, other)
            for root, arrays in self.roots.items()
            if len(others[root]) > 1
            for array in arrays
            for _, other in others[root]
        )

    def deliver(self, run: Run, living: list[tuple[int, Tensor]], outputs: list[np.ndarray]) -> None:
        arrays, strides, give = dict(zip(self.given, outputs)), self.strides, self.side.give
        for slot, tensor in living:
            found = arrays.get(slot)
            if found is not None and found.strides == strides[slot]:  # as nearly always
                give(tensor, found)
            else:
                give(tensor, self.value(arrays, slot, tensor._form))
        self.note_updates(run)

    def value(self, arrays: dict[int, np.ndarray], slot: int, form: np.ndarray) -> np.ndarray:
        """What a slot is, by the outputs of a program."""
        owner = self.owners[slot]
        whole = arrays.get(owner)
        if whole is None:
            return form  # it looks into memory that is there
        arrays[owner] = whole = self.side.laid_out(whole, self.forms[owner])  # type: ignore[arg-type]
        return whole if slot == owner else window(whole, form, self.forms[owner])

    def note_updates(self, run: Any) -> None:
        """What optimizers have written has changed."""
        now, tensors = tick(), run.tensors
        for slot in self.updated:
            updated = tensors[slot]
            if updated is not None:
                cell = updated._ver or cell_of(updated)
                cell[0] = now
                cell[1] += 1

    def let_go(self) -> None:
        """Gives up the program, and the memory that it refers to."""
        self.gone = True
        self.program, self.bound, self.bound_arrays, self.roots = None, [], [], {}
        self.graph.outside, self.graph.writes = [], []


def window(whole: np.ndarray, form: np.ndarray, frame: Any) -> np.ndarray:
    """The part of an array that lies in it as a form lies in a frame."""
    if form.shape == frame.shape and form.strides == frame.strides and form.dtype == frame.dtype:
        return whole.view()
    if not form.size:
        return np.empty(form.shape, form.dtype)
    shift = address(form) - address(frame)
    return np.ndarray(form.shape, form.dtype, memory_of(narrow(whole)), shift, form.strides)


def same_layout(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.strides == other.strides and one.dtype == other.dtype


def forgetting(ending: weakref.ref[Ending]) -> Callable[[Any], None]:
    """What is called when a parameter is gone; with the last one, the program goes too."""

    def forget(_: Any) -> None:
        found = ending()
        if found is not None and all(parameter() is None for parameter in found.parameters):
            found.let_go()

    return forget


def is_lasting(tensor: Any) -> bool:
    """Whether a tensor is likely to be the same one in the next run."""
    return type(tensor._edge) is AccumulateGrad or type(tensor) is not Tensor
