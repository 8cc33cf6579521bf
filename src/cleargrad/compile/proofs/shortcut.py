"""Shortcuts: a call of a compiled function without Python, where a proof says that Python would decide the same.

A shortcut is made of one call that a witness has seen (compile/proofs/witness.py). It compares what that call
has read, runs the program that the call ended in, and does what else the call did: gradients are set, versions
go on, results are given back. If anything is not as it was, nothing has happened yet, and Python runs. Read
next: compile/capture.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from cleargrad.autograd.node import FREED, AccumulateGrad, Node, make_node, split_edge
from cleargrad.compile import waiting
from cleargrad.compile.known_pass import is_hooked
from cleargrad.compile.proofs.optimizer_facts import is_followed
from cleargrad.compile.proofs.rewriting import Unproven
from cleargrad.compile.proofs.witness import Witness
from cleargrad.core import dtype as dtypes
from cleargrad.core.generator import default_generator
from cleargrad.core.mode import structure
from cleargrad.core.tensor import Tensor, cell_of, is_lent, lent, tick, wrap, wrap_view
from cleargrad.core.watch import watch
from cleargrad.devices.cpu.programs.program import OutOfRange

MISSED: Any = object()  # what an attempt gives that was none
MANY = 512  # tensors that a call gives back, or nodes behind them


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
        texts = [self.array(x, slot) if x is not None else "None" for slot, x in enumerate(sources)]
        if set(self.made_here).intersection(self.ending.written):
            raise Unproven("it writes to what it has made itself")
        self.lines: list[str] = []  # of what is done behind the program
        self.kept_here: dict[str, Any] = dict(NAMES)
        self.places: dict[int, str] = {}  # tensors that the call makes, by the ids of those of this call
        self.containers: list[Any] = []
        self.found: list[str] = []  # how things are found that change, or that a result is made of
        self.effects(witness)
        self.finish = self.written(self.part(result))
        written = [self.source(sources[slot]) for slot in self.ending.written]
        parts = f"[{', '.join(texts)}]", *map(tuple_of, (written, self.found))
        self.holds = guards.function("args, kwargs", ", ".join(parts))
        self.alive = [True]
        self.kept = [weakref.ref(each, self.ender(self.alive)) for each in guards.same]
        self.leaves = [weakref.ref(each) for each in guards.lasting if type(each._edge) is AccumulateGrad]
        self.optimizers = [weakref.ref(each) for each in witness.optimizers]
        self.default = dtypes.get_default_dtype()
        self.version = structure.version
        self.runs = 0
        del self.witness, self.guards, self.given, self.made, self.made_here, self.places
        del self.containers, self.found, self.lines, self.kept_here

    @staticmethod
    def ender(alive: list[bool]) -> Callable[[Any], None]:
        return lambda _: alive.__setitem__(0, False)

    # Making ------------------------------------------------------------------------------------------------

    def array(self, tensor: Tensor, slot: int) -> str:
        """How the memory is found that the program reads or writes, as an expression among the guards."""
        found = self.source(tensor, slot)
        return found if found == "None" else self.guards.variables.get(f"{found}._form", f"{found}._form")

    def source(self, tensor: Tensor, slot: int = -1) -> str:
        """How a tensor is found, as an expression among the guards."""
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
        for tensor in (*witness.guards.lasting, *self.given):
            version, place, *_ = witness.before[id(tensor)]
            cell = tensor._ver
            if cell is not None and cell[1] != version:
                self.lines += [
                    f"cell = cell_of({self.find(self.source(tensor))})",
                    f"cell[0], cell[1] = tick(), cell[1] + {cell[1] - version}",
                ]
                if cell[2] is not place:
                    self.lines.append(f"cell[2] = {self.hold(cell[2])}")
        for leaf in witness.settled.values():
            grad = leaf._grad
            if grad is not None and (
                self.slot_of(grad) is None or grad._edge is not None or grad._base is not None
            ):
                raise Unproven("a gradient is set to a tensor that the call has not made")
            value = "None" if grad is None else self.output(grad)
            self.lines.append(f"{self.hold(weakref.ref(leaf))}()._grad = {value}")
        if witness.cleared:
            self.lines.append(f"watch.cleared = {self.hold(watch.cleared)}")

    def hold(self, thing: Any) -> str:
        """A name for something that the lines behind the program keep."""
        name = f"k{len(self.kept_here)}"
        self.kept_here[name] = thing
        return name

    def find(self, text: str) -> str:
        """A name, in the lines behind the program, for what an expression among the guards gives."""
        self.found.append(text)
        return f"found[{len(self.found) - 1}]"

    def output(self, tensor: Tensor) -> str:
        """The name of a tensor that the call makes."""
        name = self.places.get(id(tensor))
        if name is None:
            how = self.how_made(tensor)
            name = self.places[id(tensor)] = f"x{len(self.places)}"
            self.lines.append(f"{name} = {how}")
            if tensor._base is None and tensor._ver is not None and tensor._ver[1]:
                _, count, place, *_ = tensor._ver
                self.lines.append(f"{name}._ver = [tick(), {count}, {self.hold(place)}, None]")
            if len(self.places) > MANY:
                raise Unproven("it gives back too many tensors")
        return name

    def how_made(self, tensor: Tensor) -> str:
        for alias, origin in self.witness.aliases:
            if alias is tensor:
                return f"{self.output(origin)}.detach()"
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
        if tensor._base is None:
            if owner != slot:
                raise Unproven("it gives back another tensor on the same memory")
            array = f"outputs[{self.ending.given.index(slot)}]"
            if not form.flags.c_contiguous:
                array = f"value(arrays, {slot}, {self.hold(form)})"
            return f"wrap({array})" if edge is None else f"wrap({array}, renewed({self.hold(edge)}))"
        if edge is not None or self.slot_of(tensor._base) != owner:
            raise Unproven("it gives back a view with a history")
        return f"wrap_view(value(arrays, {slot}, {self.hold(form)}), {self.output(tensor._base)})"

    def part(self, value: Any) -> str:
        """How a part of the result is made."""
        kind = type(value)
        if not isinstance(value, Tensor) and self.guards.is_known(value):
            return self.find(self.guards.name_of(value))
        if isinstance(value, Tensor):
            if self.slot_of(value) is not None or any(alias is value for alias, _ in self.witness.aliases):
                return self.output(value)
            if not any(each is value for each in (*self.guards.lasting, *self.given)):
                raise Unproven("it gives back what no program makes")
            return self.find(self.source(value))
        if value is None or kind in (bool, int, float, complex, str, bytes):
            return self.hold(value)
        if kind in (list, dict):
            if any(each is value for each in self.containers):
                raise Unproven(f"it gives back the same {kind.__name__} twice")
            self.containers.append(value)
        if kind is list:
            return f"[{', '.join([self.part(each) for each in value])}]"
        if kind is tuple:
            return tuple_of([self.part(each) for each in value])
        if kind is dict and all(type(key) in (str, int) for key in value):
            return "{" + ", ".join([f"{key!r}: {self.part(each)}" for key, each in value.items()]) + "}"
        raise Unproven(f"it gives back a {kind.__name__}")

    def written(self, result: str) -> Callable[[list, tuple], Any]:
        """The function that does all that comes behind the program, and gives the result."""
        lines = self.lines
        if any("(arrays, " in line for line in lines):
            lines = ["arrays = dict(zip(given, outputs))", *lines]
        text = "\n    ".join(["def finish(outputs, found):", *lines, f"return {result}"])
        scope = dict(self.kept_here, given=self.ending.given, value=self.ending.value)
        exec(compile(text, "<what a compiled function gives>", "exec"), scope)
        return scope["finish"]

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

    def run(self, arrays: list, written: tuple, found: tuple) -> Any:
        for tensor in written:
            if (lent or tensor._form.base is not None) and is_lent(tensor):
                return MISSED
        if self.draws:
            state = default_generator.get_state()
            drawn = [run(*operands, **attrs) for run, operands, attrs in self.draws]
            for slot, number in self.drawn:
                arrays[slot] = drawn[number]
        try:
            outputs = self.ending.outputs(arrays, self.numbers)
        except OutOfRange:
            outputs = None  # Python says which call it is
        if outputs is None:
            if self.draws:
                default_generator.set_state(state)
            return MISSED
        self.runs += 1
        if self.tree.ends is not None:
            self.tree.note(self.why, self.ending.calls, self.ending, self.place)
        return self.finish(outputs, found)

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


def renewed(node: Node) -> Node:
    """A node like another: hooks that one result is given are not on those of other calls."""
    found = make_node(type(node), node.edges, node.saved, node.plan, node.shape, node.dtype)  # type: ignore[arg-type]
    found.attrs, found.place = node.attrs, node.place
    return found


# What the lines behind a program call by name.
NAMES = {
    "cell_of": cell_of, "renewed": renewed, "tick": tick, "watch": watch, "wrap": wrap, "wrap_view": wrap_view,
}  # fmt: skip


def tuple_of(texts: list[str]) -> str:
    return f"({', '.join(texts)}{',' if texts else ''})"


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
