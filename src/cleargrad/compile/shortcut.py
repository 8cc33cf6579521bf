"""Shortcuts: a call of a compiled function without Python, where a proof says that Python would decide the same.

A shortcut is made of one call that a witness has seen (compile/proof.py). It compares what that call has read, runs
the program that the call ended in, and does what else the call did: gradients are set, versions go on, results are
given back. If anything is not as it was, nothing has happened yet, and Python runs. Read next: compile/capture.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cleargrad.autograd.node import FREED, AccumulateGrad, Node, make_node, split_edge
from cleargrad.compile import waiting
from cleargrad.compile.known_pass import is_hooked
from cleargrad.compile.optimizer_facts import is_followed
from cleargrad.compile.program import OutOfRange
from cleargrad.compile.proof import Witness
from cleargrad.compile.rewriting import Unproven
from cleargrad.core import dtype as dtypes
from cleargrad.core.generator import default_generator
from cleargrad.core.mode import structure
from cleargrad.core.tensor import Tensor, cell_of, is_lent, lent, tick, wrap, wrap_view
from cleargrad.core.watch import watch

MISSED: Any = object()  # what an attempt gives that was none
MANY = 512  # tensors that a call gives back, or nodes behind them


class Replay:
    """A run of a program for other tensors than those of the run that it was made of."""

    __slots__ = ("copies", "numbers", "tensors")

    def __init__(self, tensors: list[Tensor | None], numbers: list[float]) -> None:
        self.tensors, self.numbers = tensors, numbers
        self.copies: dict[int, np.ndarray] = {}

    def array(self, slot: int) -> np.ndarray:
        return self.tensors[slot]._form  # type: ignore[union-attr]


class Shortcut:
    """A call that needs no Python."""

    def __init__(self, witness: Witness, result: Any, how: int, tree: Any) -> None:
        if len(witness.runs) != 1:
            raise Unproven(
                "its values are computed in several steps" if witness.runs else "it computes nothing"
            )
        self.witness: Any = witness
        self.how, self.tree, self.age = how, tree, tree.age
        self.ending, sources, self.numbers, self.made, (self.why, self.place) = witness.runs[0]
        self.size = len(sources)
        if self.ending not in tree.endings:
            raise Unproven("its program is gone")
        guards = witness.guards
        self.given = guards.given
        self.guards = guards
        self.draws = [draw[:3] for draw in witness.draws]
        self.drawn: list[tuple[int, int]] = []  # slots of random numbers, and which they are
        self.made_here: list[int] = []  # slots of what the call has made itself
        texts = [self.source(x, slot) if x is not None else "None" for slot, x in enumerate(sources)]
        if set(self.made_here).intersection(self.ending.written):
            raise Unproven("it writes to what it has made itself")
        self.outputs: list[tuple[Callable, tuple]] = []  # how tensors are made that the call gives or sets
        self.places: dict[int, int] = {}  # in `outputs`, by the ids of the tensors of this call
        self.containers: list[Any] = []
        self.effects(witness)
        self.template = self.part(result)
        changed = ", ".join(self.changed)
        self.holds = guards.function(
            "args, kwargs", f"[{', '.join(texts)}], ({changed}{',' if changed else ''})"
        )
        self.alive = [True]
        self.kept = [weakref.ref(each, self.ender(self.alive)) for each in guards.same]
        self.leaves = [weakref.ref(each) for each in guards.lasting if type(each._edge) is AccumulateGrad]
        self.optimizers = [weakref.ref(each) for each in witness.optimizers]
        self.default = dtypes.get_default_dtype()
        self.version = structure.version
        self.runs = 0
        del self.witness, self.guards, self.given, self.made, self.made_here, self.places
        del self.containers, self.changed

    @staticmethod
    def ender(alive: list[bool]) -> Callable[[Any], None]:
        return lambda _: alive.__setitem__(0, False)

    # Making ------------------------------------------------------------------------------------------------

    def source(self, tensor: Tensor, slot: int = -1) -> str:
        """How a tensor is found that the program reads or writes, as an expression among the guards."""
        guards = self.guards
        if guards.is_known(tensor):
            return guards.name_of(tensor)
        if any(each is tensor for each in guards.lasting):
            return f"{guards.hold(weakref.ref(tensor))}()"
        self.made_here.append(slot)
        for k, draw in enumerate(self.witness.draws):
            if draw[3] is tensor:
                if slot < 0:
                    raise Unproven("a view of random numbers takes part")
                self.drawn.append((slot, k))
                return "None"
        if id(tensor) in self.witness.seen:
            op, origin, attrs, number = self.witness.seen[id(tensor)]
            return f"{guards.hold(partial(seen, op.run, attrs, number))}({self.source(origin)})"
        if tensor._edge is not None:
            raise Unproven("a tensor is made that needs a gradient")
        # An op has made it of nothing but what is proven: it has seen no value, and drawn no random number.
        return guards.hold(wrap(tensor._form.copy(order="K")))

    def slot_of(self, tensor: Any) -> int | None:
        """The slot of a tensor that was made."""
        return next((slot for slot, each in self.made if each is tensor), None)

    def effects(self, witness: Witness) -> None:
        """What the call did to tensors from outside."""
        for tensor in (*witness.guards.lasting, *self.given):
            version, place, edge, form = witness.before[id(tensor)]
            if tensor._edge is not edge or tensor._form is not form:
                raise Unproven("a tensor from outside gets another history or other memory")
        self.changes, self.changed = [], []  # of versions, and how the tensors are found
        for tensor in (*witness.guards.lasting, *self.given):
            version, place, *_ = witness.before[id(tensor)]
            cell = tensor._ver
            if cell is not None and cell[1] != version:
                moved = cell[2] if cell[2] is not place else None
                self.changes.append((cell[1] - version, moved))
                self.changed.append(self.source(tensor))
        self.gradients: list[tuple[Any, int | None]] = []
        for leaf in witness.settled.values():
            grad = leaf._grad
            if grad is None:
                self.gradients.append((weakref.ref(leaf), None))
                continue
            if self.slot_of(grad) is None or grad._edge is not None or grad._base is not None:
                raise Unproven("a gradient is set to a tensor that the call has not made")
            self.gradients.append((weakref.ref(leaf), self.output(grad)))
        self.cleared = watch.cleared if witness.cleared else None

    def output(self, tensor: Tensor) -> int:
        """The place in `outputs` of a tensor that the call has made."""
        place = self.places.get(id(tensor))
        if place is None:
            how = self.how_made(tensor)
            place = self.places[id(tensor)] = len(self.outputs)
            self.outputs.append(how)
            if place > MANY:
                raise Unproven("it gives back too many tensors")
        return place

    def how_made(self, tensor: Tensor) -> tuple[Callable, tuple]:
        for alias, origin in self.witness.aliases:
            if alias is tensor:
                return detached, (self.output(origin),)
        slot = self.slot_of(tensor)
        if slot is None or tensor._grad is not None or vars(tensor):
            raise Unproven("it gives back a tensor with a gradient or attributes of its own")
        check_freed(tensor._edge)
        edge = tensor._edge
        if edge is not None and (
            not isinstance(edge, Node) or edge.extra is not None or type(edge).__slots__
        ):
            raise Unproven("it gives back a tensor with a history of a rare kind")
        owner, form = self.ending.owners[slot], self.ending.forms[slot]
        if form is None:
            raise Unproven("it gives back a view of memory from outside")
        base, cell = tensor._base, tensor._ver
        if base is None:
            if owner != slot:
                raise Unproven("it gives back another tensor on the same memory")
            changed = None if cell is None or not cell[1] else (cell[1], cell[2])
            if form.flags.c_contiguous:
                return taken, (self.ending.given.index(slot), tensor._edge, changed)
            return made, (slot, form, tensor._edge, changed)
        if tensor._edge is not None or self.slot_of(base) != owner:
            raise Unproven("it gives back a view with a history")
        return viewed, (slot, form, self.output(base))

    def part(self, value: Any) -> tuple[Callable, Any]:
        """How a part of the result is made."""
        kind = type(value)
        if not isinstance(value, Tensor) and self.guards.is_known(value):
            self.changed.append(self.guards.name_of(value))
            return found, len(self.changed) - 1
        if isinstance(value, Tensor):
            if self.slot_of(value) is not None or any(alias is value for alias, _ in self.witness.aliases):
                return output, self.output(value)
            if not any(each is value for each in (*self.guards.lasting, *self.given)):
                raise Unproven("it gives back what no program makes")
            self.changed.append(self.source(value))
            return found, len(self.changed) - 1
        if value is None or kind in (bool, int, float, complex, str, bytes):
            return fixed, value
        if kind in (list, dict):
            if any(each is value for each in self.containers):
                raise Unproven(f"it gives back the same {kind.__name__} twice")
            self.containers.append(value)
        if kind in (tuple, list):
            return several, (kind, [self.part(each) for each in value])
        if kind is dict and all(type(key) in (str, int) for key in value):
            return named, {key: self.part(each) for key, each in value.items()}
        raise Unproven(f"it gives back a {kind.__name__}")

    # Running -----------------------------------------------------------------------------------------------

    def is_alive(self) -> bool:
        """Whether an attempt may succeed yet: what was read is there, and so is the program."""
        return self.alive[0] and not self.ending.gone and self.age == self.tree.age

    def attempt(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the function gives; MISSED, and nothing has happened, where the proof does not hold."""
        if not self.alive[0] or (self.version != structure.version and not self.settle()):
            return MISSED
        found = self.holds(args, kwargs)
        if found is None:
            return MISSED
        with waiting.lock:
            if (waiting.active and waiting.active[0].steps) or self.age != self.tree.age:
                return MISSED
            return self.run(*found)

    def run(self, sources: list, tensors: tuple) -> Any:
        ending = self.ending
        for slot, holder in ending.bound:
            form, known = sources[slot]._form, holder._data
            if form is not known and not same_layout(form, known):
                return MISSED
        for slot in ending.written:
            written = sources[slot]
            if (lent or written._form.base is not None) and is_lent(written):
                return MISSED
        if self.draws:
            state = default_generator.get_state()
            drawn = [run(*operands, **attrs) for run, operands, attrs in self.draws]
            for slot, number in self.drawn:
                sources[slot] = wrap(drawn[number])
        try:
            outputs = ending.outputs(Replay(sources, self.numbers))
        except OutOfRange:
            outputs = None  # Python says which call it is
        if outputs is None:
            if self.draws:
                default_generator.set_state(state)
            return MISSED
        self.runs += 1
        if self.tree.ends is not None:
            self.tree.note(self.why, ending.calls, ending, self.place)
        arrays = dict(zip(ending.given, outputs))
        values: list[Tensor] = []
        for make, how in self.outputs:
            values.append(make(self, outputs, arrays, values, *how))
        now = tick()
        for tensor, (count, place) in zip(tensors, self.changes):
            cell = cell_of(tensor)
            cell[0] = now
            cell[1] += count
            if place is not None:
                cell[2] = place
        for leaf, gradient in self.gradients:
            leaf()._grad = None if gradient is None else values[gradient]  # type: ignore[union-attr]
        if self.cleared is not None:
            watch.cleared = self.cleared
        build, what = self.template
        return build(what, tensors, values)

    def settle(self) -> bool:
        """Whether a change of modules, hooks, groups or settings is none that the proof has to do with."""
        if dtypes.get_default_dtype() is not self.default:
            return False
        for reference in self.optimizers:
            optimizer: Any = reference()
            if optimizer is None or is_followed(optimizer):
                return False
        for leaf in self.leaves:
            tensor = leaf()
            if tensor is None or tensor._edge is None or is_hooked(tensor._edge):
                return False
        self.version = structure.version
        return True


def seen(run: Callable, attrs: dict[str, Any], number: int, origin: Tensor) -> Tensor:
    """A view of memory that is there."""
    views = run(origin._form, **attrs)
    return wrap(views[number] if isinstance(views, (list, tuple)) else views)


# What is made of outputs -----------------------------------------------------------------------------------


def taken(
    shortcut: Any, outputs: list, arrays: dict, values: list, number: int, edge: Any, changed: Any
) -> Tensor:
    """An output as it is."""
    tensor = wrap(outputs[number], None if edge is None else renewed(edge))
    if changed is not None:
        tensor._ver = [tick(), *changed, None]
    return tensor


def made(
    shortcut: Any, outputs: list, arrays: dict, values: list, slot: int, form: Any, edge: Any, changed: Any
) -> Tensor:
    """An output in another layout."""
    tensor = wrap(shortcut.ending.value(arrays, slot, form), None if edge is None else renewed(edge))
    if changed is not None:
        tensor._ver = [tick(), *changed, None]
    return tensor


def renewed(node: Node) -> Node:
    """A node like another: hooks that one result is given are not on those of other calls."""
    found = make_node(type(node), node.edges, node.saved, node.plan, node.shape, node.dtype)  # type: ignore[arg-type]
    found.attrs, found.place = node.attrs, node.place
    return found


def viewed(
    shortcut: Any, outputs: list, arrays: dict, values: list, slot: int, form: np.ndarray, base: int
) -> Tensor:
    return wrap_view(shortcut.ending.value(arrays, slot, form), values[base])


def detached(shortcut: Any, outputs: list, arrays: dict, values: list, origin: int) -> Tensor:
    return values[origin].detach()


# What a result is made of ----------------------------------------------------------------------------------


def output(place: int, tensors: tuple, values: list) -> Tensor:
    return values[place]


def found(place: int, tensors: tuple, values: list) -> Any:
    return tensors[place]


def fixed(value: Any, tensors: tuple, values: list) -> Any:
    return value


def several(what: tuple, tensors: tuple, values: list) -> Any:
    kind, parts = what
    return kind([build(each, tensors, values) for build, each in parts])


def named(parts: dict, tensors: tuple, values: list) -> dict:
    return {key: build(each, tensors, values) for key, (build, each) in parts.items()}


def same_layout(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.strides == other.strides and one.dtype == other.dtype


def check_freed(edge: Any) -> None:
    """A history may be shared by all calls when nothing can be had from it any more but its form."""
    nodes: list[Node] = [] if edge is None else [split_edge(edge)[0]]
    known = set(map(id, nodes))
    for node in nodes:
        if type(node) is AccumulateGrad:
            continue
        if (node.saved and node.saved is not FREED) or is_hooked(node) or len(nodes) > MANY:
            raise Unproven("it gives back a tensor whose gradient can still be asked for")
        for each in node.edges:
            if each is not None and id(split_edge(each)[0]) not in known:
                nodes.append(split_edge(each)[0])
                known.add(id(nodes[-1]))
