"""An entry: one program of a compiled function, when it fits, and what running it does besides computing.

`begin` and `finish` stand around the recorded call. `run` binds arguments, options and gradients, runs the program,
sets gradients and gives back a result of the recorded form. Read next: compile/results.py.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections.abc import Callable, Iterator
from operator import itemgetter
from sys import getrefcount
from types import CellType
from typing import Any

import numpy as np

from cleargrad.autograd.function import FunctionCtx
from cleargrad.autograd.node import AccumulateGrad
from cleargrad.compile.differentiable import Backward, graph_behind, through_boundary
from cleargrad.compile.facts import Names, everywhere, tensor_facts
from cleargrad.compile.pending import Pending
from cleargrad.compile.results import Results, saved_by
from cleargrad.compile.runner import Find, Runner
from cleargrad.compile.structures import Unsupported, taken_apart
from cleargrad.compile.tracer import Option, Tracer
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode, structure
from cleargrad.core.tensor import Tensor, cell_of, wrap
from cleargrad.core.watch import is_told, watch
from cleargrad.ops.record import Call, Graph, Value

LEAVES = "it leaves tensors or numbers it has computed in objects of its own"


class Entry(Runner):
    """A program and all that belongs to it, from the recorded call on."""

    def __init__(self, key: Any, make: Callable[[Graph], Any]) -> None:
        self.key = key
        self.make = make
        self.lock = threading.Lock()
        self.doubles: list[int] | None = None
        self.backward: Backward | None = None

    # Recording ---------------------------------------------------------------------------------------------

    def begin(self, tracer: Tracer, tensors: list[Tensor], args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Names the arguments; those that come out of a graph go through a node that marks where they enter."""
        self.version = structure.version
        self.flat = not kwargs and all(type(arg) is Tensor for arg in args)
        self.layouts = [(t._data.shape, t._data.dtype, t._data.strides) for t in tensors]
        usual = (True, False, None) if mode.grad else (False, False, None)
        self.plain = self.flat and all(t._edge is None for t in tensors) and self.key[3] is None
        self.plain = self.plain and self.key[0][:3] == usual
        self.grad, self.default = mode.grad, dtypes.get_default_dtype()
        args, kwargs, self.given = through_boundary(args, kwargs, tensors)
        self.unique: list[int] = []
        seen = set()
        for position, tensor in enumerate(self.given):
            if id(tensor._data) not in seen:
                seen.add(id(tensor._data))
                self.unique.append(position)
                tracer.argument(tensor)
        return args, kwargs

    def finish(self, tracer: Tracer, names: Names, result: Any) -> Any:
        """Makes the program. The result of the recorded call is real; pending numbers in it become numbers."""
        parts: list[Any] = []
        try:
            self.build = taken_apart(result, parts, lambda part: isinstance(part, (Tensor, Pending)))
        except Unsupported as reason:
            tracer.refuse(str(reason))
            return result
        own = {id(parts), *map(id, containers(result))}
        del result
        if tracer.reason is None:
            self.check_side_effects(tracer, names, parts, own)
        if tracer.reason is None:
            self.settle(tracer, parts)
        if tracer.reason is None:
            self.guard(tracer, names)
            self.compile(tracer)
        self.given = []
        for reference in tracer.numbers:
            left_behind(reference())
        return self.build([part.value if isinstance(part, Pending) else part for part in parts])

    def compile(self, tracer: Tracer) -> None:
        """Makes the programs. The call has been made by now: if this fails, its result must not be lost."""
        try:
            self.program = self.make(self.graph)
            self.program.fix(len(self.unique), self.option_arrays)
            self.program.forget_making(self.graph)
            if self.backward is not None:
                self.backward.prepare(self.make)
        except Exception as failure:
            tracer.refuse(f"compiling it failed with {type(failure).__name__}: {failure}")

    def check_side_effects(self, tracer: Tracer, names: Names, parts: list, own: set[int]) -> None:
        """A program would not repeat what a call does to Python's own objects."""
        changed = names.changed()
        if changed is not None:
            tracer.refuse(f"it changes {changed}, which it also reads")
        for thing, facts, before in tracer.watched.values():
            if facts(thing) != before:
                tracer.refuse(f"it changes its {type(thing).__name__}", permanent=False)
        for tensor, edge in tracer.histories.values():
            both_leaves = type(edge) is type(tensor._edge) is AccumulateGrad  # frozen, and used again
            if tensor._edge is not edge and not both_leaves:
                tracer.refuse("it gives a tensor from outside another history")
        for option in tracer.options.values():
            if option.read() != option.tensor._data:
                tracer.refuse("it changes an optimizer's options, as a scheduler's step() does")
        if tracer.reason is None and self.leaks(tracer, parts):
            gc.collect()
            if self.leaks(tracer, parts):
                tracer.refuse(LEAVES, permanent=False)
        made = [part for part in parts if id(part) not in tracer.tensors]
        if tracer.reason is None and kept_elsewhere(made, {*own, id(tracer.kept)}):
            tracer.refuse(LEAVES, permanent=False)

    def leaks(self, tracer: Tracer, parts: list) -> bool:
        """Whether something computed is still there, though it is neither result nor gradient."""
        allowed = {id(part) for part in parts}
        allowed |= {id(look.leaf._grad) for look in tracer.grads.values()}
        allowed |= {id(tensor) for _, tensor in tracer.effects}
        allowed |= {id(tensor) for tensor in tracer.kept}
        for part in list(parts):
            if isinstance(part, Tensor):
                allowed.add(id(part._base))
                allowed |= {id(tensor) for node in graph_behind([part]) for tensor in saved_by(node)}
        left = [reference() for reference in (*tracer.made, *tracer.numbers)]
        return any(thing is not None and id(thing) not in allowed for thing in left)

    # What the program gives --------------------------------------------------------------------------------

    def settle(self, tracer: Tracer, parts: list) -> None:
        """Decides for every result, gradient and write where it comes from."""
        self.graph = graph = tracer.graph
        self.outputs: list[Value] = []
        self.puts: list[tuple[Callable, int]] = []
        if overlapping([tensor._data for _, tensor in graph.outside], tracer.written):
            tracer.refuse("it writes memory that several of its tensors share")
            return
        self.settle_grads(tracer)
        results = Results(tracer, self.given, parts)
        for tensor in (*results.own.values(), *self.given, *(tensor for _, tensor in tracer.effects)):
            if isinstance(tensor, Tensor):
                tracer.value(tensor)  # views that are taken again belong to the forward
        if tracer.reason is None and results.live:
            self.backward = Backward.record(tracer, results.live, self.given)
        if tracer.reason is not None:
            return
        self.finders = results.finders(self.output, self.place_of, self.live_result(tracer))
        for put, tensor in tracer.effects:
            self.puts.append((put, self.output(tracer.value(tensor))))
        self.settle_arguments(tracer)
        if self.meets_itself(tracer):
            tracer.refuse("it writes memory that several of its tensors share")
            return
        self.settle_own_gradients(tracer)
        graph.writes = [(owner, tracer.known[key][0]) for key, owner in tracer.written.items()]
        self.bind_gradients(tracer)
        whole = object()
        single = len(self.finders) == 1 and self.build([whole]) is whole
        self.single = self.finders[0][1] if single else None
        graph.outputs = self.outputs
        if self.backward is not None:
            written = {position for position, _ in self.written_arguments}
            inputs = [k for k, position in enumerate(self.unique) if position in written]
            self.graph = self.backward.split(graph, inputs)
        self.empty_places: list[np.ndarray | None] = [None] * len(self.graph.outputs)
        hoist_draws(self.graph)

    def live_result(self, tracer: Tracer) -> Callable[[Tensor], int]:
        """Makes a tensor with a history an output, and says which of the live results it is."""

        def number_of_result(tensor: Tensor) -> int:
            assert self.backward is not None
            return self.backward.take(tensor, self.output(tracer.value(tensor)))

        return number_of_result

    def output(self, value: Value) -> int:
        """The number of a program's output; one value may be several outputs, each with memory of its own."""
        self.outputs.append(value)
        return len(self.outputs) - 1

    def settle_grads(self, tracer: Tracer) -> None:
        """What becomes of `.grad`: set to a new tensor, set to None, or as it was (perhaps written in place)."""
        self.sets: list[tuple[Find, int]] = []
        self.clears: list[Find] = []
        self.looks: list[tuple[Find, bool]] = []  # whether it must be None before
        for look in tracer.grads.values():
            leaf, final = self.place_of(look.leaf), look.leaf._grad
            if look.looked or (final is look.entry and final is not None):
                self.looks.append((leaf, look.entry is None))
            if final is look.entry:
                continue
            if final is None:
                self.clears.append(leaf)
            elif id(final) in tracer.tensors or id(final._data) in tracer.existing:
                tracer.refuse("it assigns a tensor to .grad that was there before")
            else:
                self.sets.append((leaf, self.output(tracer.value(final))))

    def place_of(self, leaf: Tensor) -> Find:
        """How to find a leaf at a later call: among the arguments, or as it is."""
        for position, tensor in enumerate(self.given):
            if tensor is leaf:
                return lambda tensors: tensors[position]
        return lambda tensors: leaf

    def settle_own_gradients(self, tracer: Tracer) -> None:
        """Gradients that nothing reads before, of leaves that are the same at every call, can be set in place."""
        read = {id(tensor._data) for _, tensor in tracer.graph.outside}
        looks = {id(look.leaf): look for look in tracer.grads.values()}
        self.own_sets, self.sets, sets = [], [], self.sets
        for find, number in sets:
            leaf = find(self.given)
            entry = looks[id(leaf)].entry
            if any(leaf is tensor for tensor in self.given) or (
                entry is not None and id(entry._data) in read
            ):
                self.sets.append((find, number))
            else:
                self.own_sets.append([leaf, number, None])

    def settle_arguments(self, tracer: Tracer) -> None:
        """Arguments that were written in place."""
        self.written_arguments: list[tuple[int, int]] = []
        for position in self.unique:
            tensor = self.given[position]
            if tracer.writes.get(id(tracer.owner(tensor)._data)):
                self.written_arguments.append((position, self.output(tracer.value(tensor))))

    def meets_itself(self, tracer: Tracer) -> bool:
        """Whether memory that is written belongs to two arguments, or to an argument and a tensor from outside."""
        written = {position for position, _ in self.written_arguments}
        outside = [tensor._data for _, tensor in tracer.graph.outside]
        changed = [tensor._data for tensor in tracer.written.values()]
        for position in self.unique:
            own = self.given[position]._data
            others = [self.given[k]._data for k in self.unique if k != position and position in written]
            others += outside if position in written else changed
            if any(np.may_share_memory(own, other) for other in others):
                return True
        return False

    def bind_gradients(self, tracer: Tracer) -> None:
        """Gradients that are there before the call are other tensors at the next: stand-ins are bound instead."""
        graph = self.graph
        held: list[tuple[Tensor, Find]] = []
        stand_ins: dict[int, Tensor] = {}
        for look in tracer.grads.values():
            if look.entry is not None:
                stand_ins[id(look.entry._data)] = holder = wrap(look.entry._data)
                held.append((holder, self.place_of(look.leaf)))
        graph.outside = [(value, stand_ins.get(id(t._data), t)) for value, t in graph.outside]
        graph.writes = [(stand_ins.get(id(t._data), t), value) for t, value in graph.writes]
        bound = {id(tensor) for _, tensor in graph.outside}
        held = [(holder, leaf) for holder, leaf in held if id(holder) in bound]
        stand_in_ids = {id(holder) for holder, _ in held}
        written = {id(tensor) for tensor, _ in graph.writes}
        self.held = [(holder, leaf, id(holder) in written) for holder, leaf in held]
        self.written = [tensor for tensor, _ in graph.writes if id(tensor) not in stand_in_ids]
        for tensor in self.written:
            cell_of(tensor)

    def guard(self, tracer: Tracer, names: Names) -> None:
        """What must hold again: everything that was looked at."""
        self.watched = list(tracer.watched.values())
        self.names = [(t, k, v) for t, k, v in names.guards.values() if isinstance(t, dict)]
        self.items = [(t, k, v) for t, k, v in names.guards.values() if not isinstance(t, dict)]
        self.cells = list(names.cells.values())
        self.checks = tracer.checks
        self.read_options(list(tracer.options.values()))
        held = {id(holder) for holder, *_ in self.held}
        found = {id(tensor): tensor for _, tensor in self.graph.outside if id(tensor) not in held}
        found.update({id(tensor): tensor for tensor in self.written})
        self.bound = [[tensor, tensor._data] for tensor in found.values()]
        self.watched += [(tensor, tensor_facts, tensor_facts(tensor)) for tensor in found.values()]
        self.watched.append((None, everywhere, everywhere(None)))
        self.watched.append((None if watch.observer is None else id(watch.observer), is_told, True))

    def read_options(self, options: list[Option]) -> None:
        """Options of one group are read and compared together."""
        self.option_arrays = [option.tensor._data for option in options]
        groups: dict[tuple[int, int], list[Option]] = {}
        for option in options:
            groups.setdefault((id(option.optimizer), option.group), []).append(option)
        self.readings = []
        for (_, group), found in groups.items():
            optimizer, names = found[0].optimizer, list(dict.fromkeys(option.name for option in found))
            get = itemgetter(*names)
            self.readings.append([optimizer, group, get, get(optimizer.param_groups[group]), found])


def overlapping(arrays: list[np.ndarray], written: dict[int, Tensor]) -> bool:
    """Whether two arrays that autograd takes for strangers share memory of which one is written."""
    if not written:
        return False
    spans = sorted((*np.lib.array_utils.byte_bounds(array), id(array)) for array in arrays if array.size)
    end, last = 0, 0
    for start, stop, key in spans:
        if start < end and (key in written or last in written) and key != last:
            return True
        if stop > end:
            end, last = stop, key
    return False


def containers(result: Any) -> Iterator[Any]:
    """A nested result, and all that it is made of."""
    yield result
    if isinstance(result, (list, tuple)):
        for part in result:
            yield from containers(part)
    elif isinstance(result, dict):
        for part in result.values():
            yield from containers(part)
    elif dataclasses.is_dataclass(result) and hasattr(result, "__dict__"):
        yield from containers(vars(result))


def kept_elsewhere(results: list[Any], own: set[int]) -> bool:
    """Whether something that is handed back was put somewhere else as well: a program would not put it there."""
    suspects = [result for result in results if getrefcount(result) > HOLDERS]
    if not suspects:
        return False
    own = {*own, id(results), id(suspects)}
    return any(id(holder) not in own and is_kept(holder) for holder in gc.get_referrers(*suspects))


def usual_holders() -> int:
    """How many references `kept_elsewhere` sees to a result that only the call holds."""
    parts = [object()]
    _answer, results = tuple(parts), list(parts)
    return max([getrefcount(result) for result in results])


HOLDERS = usual_holders()


def is_kept(holder: Any) -> bool:
    """Whether an object that refers to a result is of the user's making, and lasts."""
    if isinstance(holder, dict):
        return not any(isinstance(owner, FunctionCtx) for owner in gc.get_referrers(holder))
    return isinstance(holder, (list, set, CellType))


def left_behind(pending: Pending | None) -> None:
    """A number that the call has put into a list or dictionary becomes an ordinary one."""
    if pending is None:
        return
    pending.tracer = None
    for holder in gc.get_referrers(pending):
        if isinstance(holder, list):
            holder[:] = [pending.value if part is pending else part for part in holder]
        elif isinstance(holder, dict):
            for name in [name for name, part in holder.items() if part is pending]:
                holder[name] = pending.value


def hoist_draws(graph: Graph) -> None:
    """Random numbers that depend on no value are drawn first, in the order in which they were."""
    draws: list[Call] = []
    others: list[Call] = []
    for call in graph.calls:
        free = "stream" in call.attrs and not any(
            isinstance(x, Value) for x in (call.operands[1:] if "shape" in call.attrs else call.operands)
        )
        if free and not any("stream" in other.attrs for other in others):
            draws.append(Call(call.op, (None, *call.operands[1:]), call.attrs, call.results))
        else:
            others.append(call)
    graph.calls[:] = draws + others
