"""Backward passes after somebody has looked at the loss, whose graph was made by the trace before.

A look ends a trace, and `backward()` begins the next. What its nodes have saved are values then, which come from
outside. But the trace that has ended says how the graph grew, and so which steps the pass takes, and which saved
value each of them reads: nothing is walked. Read next: compile/computing.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from cleargrad.autograd.node import FREED, AccumulateGrad, Node, note_pass, split_edge
from cleargrad.autograd.walk import count_consumers, in_order, is_own
from cleargrad.compile.known_pass import is_hooked, tell
from cleargrad.compile.traces import Fixed, Source, Step
from cleargrad.core.mode import structure
from cleargrad.core.tensor import Tensor, is_lent, value_of

if TYPE_CHECKING:
    from cleargrad.compile.waiting import Run


class Before(NamedTuple):
    """The run that a look has ended."""

    at: Step
    plans: list[Any]  # how its graph grew
    nodes: list[weakref.ref[Node]]
    inputs: bool  # whether nodes may have saved numbers that are other ones in every run


class PassBehind:
    """What a backward pass did that began behind a look, to be done again."""

    def __init__(self, before: Before, root: int, retain_graph: bool, nodes: list[int], leaves: dict) -> None:
        self.before, self.root, self.retain_graph = before._replace(nodes=[]), root, retain_graph
        self.nodes = nodes  # those behind the root, as numbers in the run before
        self.leaves: dict[tuple[int, int], Any] = leaves  # by where they are: an edge of a node
        self.version = structure.version

    def finish(self, run: Run, pulled: list[tuple[Step, Node, list[int]]], numbers: dict[int, int]) -> bool:
        """Notes what the pass has done, if it is no more than can be done again."""
        self.steps, self.last, self.count = list(run.steps), run.at, len(run.tensors)
        reads = {id(step): (numbers.get(id(node), -1), places) for step, node, places in pulled}
        self.sources: list[tuple[int, int, int, Source]] = []  # node, what it has saved, slot, layout
        self.numbers: list[tuple[int, int]] = []
        for step in self.steps:
            node, places = reads.get(id(step), (-1, []))
            first = len(step.wants) - len(places)
            for k, want in enumerate(step.wants):
                saved = k in step.fresh or k in step.free
                if (saved and (node < 0 or k < first)) or (self.before.inputs and is_number(want)):
                    return False
                if k in step.fresh:
                    self.sources.append((node, places[k - first], step.given[k], step.wants[k]))
                elif k in step.free:
                    self.numbers.append((node, places[k - first]))
        self.gradients: list[tuple[tuple[int, int], int, Any]] = []
        for place, leaf in self.leaves.items():
            grad = leaf()._grad
            if grad is None or not run.is_waiting(grad) or grad._base is not None or grad._edge is not None:
                return False
            self.gradients.append((place, grad._slot, grad._form))
        del self.leaves
        self.before.at.behind.append(self)
        return True

    def make(self, run: Run, root: Tensor, retain_graph: bool, before: Before) -> bool:
        """Makes the pass; False, and nothing is done, if it is another one."""
        if retain_graph is not self.retain_graph or before.plans != self.before.plans:
            return False
        nodes: Any = [each() for each in before.nodes]
        if root._edge is not nodes[self.root] or any(nodes[k] is None for k in self.nodes):
            return False
        leaves = []
        for (k, position), slot, form in self.gradients:
            edge = nodes[k].edges[position]
            leaf = edge.leaf() if type(edge) is AccumulateGrad else None
            if leaf is None or leaf._edge is not edge or leaf._grad is not None:
                return False
            leaves.append((leaf, slot, form))
        if self.version != structure.version:
            if any(is_hooked(nodes[k]) for k in self.nodes) or any(is_hooked(x._edge) for x, *_ in leaves):
                return False
            self.version = structure.version
        found: list[Tensor | None] = [None] * self.count
        try:
            for k, position, slot, want in self.sources:
                found[slot] = x = nodes[k].unpack(nodes[k].saved[position])
                form = value_of(x)
                if not (form is want.last() or want.fits(form)) or is_lent(x):
                    return False
            values = [nodes[k].saved[position] for k, position in self.numbers]
        except (AttributeError, IndexError, RuntimeError):  # freed, changed since, or it waits elsewhere
            return False
        for slot, tensor in enumerate(found):
            if tensor is not None:
                run.known[id(tensor)] = slot
        run.tensors += found
        run.held += sum([want.nbytes for *_, want in self.sources])
        run.numbers += values
        run.steps += self.steps
        run.at = self.last
        for leaf, slot, form in leaves:
            leaf._grad = run.tensor_for(slot, form)
        if not retain_graph:
            for k in self.nodes:
                nodes[k].free()
            note_pass(root)
        tell([leaf for leaf, *_ in leaves])
        return True


def is_number(want: Any) -> bool:
    """Whether a step wants a certain float, which may be another one the next time."""
    return type(want) is Fixed and want.kind is float


def go_behind(run: Run, root: Tensor, retain_graph: bool, before: Before, walk: Callable[[], None]) -> None:
    """Walks a pass behind a look, and notes it if it can be known."""
    numbers = {id(node): k for k, each in enumerate(before.nodes) if (node := each()) is not None}
    known = pass_of(root, retain_graph, before, numbers)
    run.pulled = None if known is None else []
    try:
        walk()
        if known is not None and run.open and run.steps:
            known.finish(run, run.pulled or [], numbers)
    finally:
        run.pulled = None


def pass_of(root: Tensor, retain_graph: bool, before: Before, numbers: dict[int, int]) -> PassBehind | None:
    """A pass that is about to be walked, if it can be known: what lies behind the root was made by one trace."""
    start, number = split_edge(root._edge)
    if number or id(start) not in numbers:
        return None
    nodes: list[int] = []
    places: dict[int, tuple[int, int]] = {}  # of leaves, by the ids of their nodes
    leaves: dict[tuple[int, int], Any] = {}  # in the order in which they get their gradients
    for node in in_order((root,), count_consumers((root,))):
        if is_hooked(node):
            return None
        if type(node) is AccumulateGrad:
            leaf = node.leaf()
            if leaf is None or leaf._edge is not node or leaf._grad is not None:
                return None
            leaves[places[id(node)]] = node.leaf
        elif id(node) not in numbers or not is_own(node) or node.saved is FREED:
            return None
        else:
            nodes.append(numbers[id(node)])
            places.update(
                (id(edge), (nodes[-1], position))
                for position, edge in enumerate(node.edges)
                if type(edge) is AccumulateGrad
            )
    return PassBehind(before, numbers[id(start)], retain_graph, nodes, leaves)
