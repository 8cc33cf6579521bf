"""Backward passes that are known: a graph that grew in the same way has the same steps behind it.

The nodes behind a loss follow from the calls that made them, and those are the trace. So a pass through a graph of
which every node was made since the trace began, without hooks or writes, takes the steps that it took the last
time: nothing is walked. Leaves get their gradients, which wait, or have more added to those that wait already, and
nodes let go what they saved. Read next: compile/pass_behind.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cleargrad.autograd.node import AccumulateGrad, Node, note_pass, split_edge
from cleargrad.autograd.walk import count_consumers, in_order, is_own
from cleargrad.compile.traces import Fixed, Source, Step, is_made
from cleargrad.core.mode import structure
from cleargrad.core.tensor import Tensor, cell_of, tick
from cleargrad.core.watch import watch
from cleargrad.errors import user_place

if TYPE_CHECKING:
    from cleargrad.compile.waiting import Run


class KnownPass:
    """What a backward pass did, to be done again."""

    def __init__(
        self, run: Run, root: Tensor, retain_graph: bool, nodes: dict[int, int], leaves: dict[int, int | None]
    ) -> None:
        self.root, self.retain_graph = root._slot, retain_graph
        self.inputs = bool(
            run.numbers
        )  # whether nodes may have saved numbers that are other ones in every run
        self.plans = list(run.plans)
        self.places = nodes  # of nodes in run.nodes, by their ids, as long as the pass is walked
        self.nodes = list(nodes.values())
        self.leaves = leaves  # by their slots: the slots of the gradients that they have
        self.begin, self.steps_before, self.first = run.at, len(run.steps), len(run.tensors)
        self.version = structure.version

    def finish(self, run: Run) -> bool:
        """Notes what the pass has done, if it is no more than can be done again."""
        self.steps: list[Step] = run.steps[self.steps_before :]
        self.last = run.at
        self.count = len(run.tensors) - self.first
        numbers = [
            (self.places.get(id(node), -1), places[k - len(step.wants) + len(places)])
            for step, node, places in run.pulled or ()
            for k in step.free
        ]
        self.numbers, self.places = numbers, {}
        for want in [want for step in self.steps for want in step.wants]:
            if type(want) is Source or (type(want) is Fixed and want.kind is float and self.inputs):
                return False
        if len(numbers) != sum([len(step.free) for step in self.steps]) or any(k < 0 for k, _ in numbers):
            return False
        self.gradients: list[tuple[int, int, Any]] = []
        for slot, before in self.leaves.items():
            leaf: Any = run.tensors[slot]
            grad = leaf._grad
            if before is not None:
                if grad is None or not run.is_waiting(grad) or grad._slot != before:
                    return False
                continue
            if grad is None or not run.is_waiting(grad) or grad._slot < self.first or grad._base is not None:
                return False
            self.gradients.append((slot, grad._slot, grad._form))
        if not run.plain:
            return False
        self.begin.passes.append(self)
        run.plans = [*self.plans, self]
        return True

    def fits(self, run: Run, root: Tensor, retain_graph: bool) -> bool:
        """Whether a pass would be this one."""
        if root._slot != self.root or retain_graph is not self.retain_graph or run.plans != self.plans:
            return False
        tensors = run.tensors
        for slot, before in self.leaves.items():
            grad = tensors[slot]._grad  # type: ignore[union-attr]
            if grad is not None if before is None else slot_of_gradient(grad, run) != before:
                return False
        if self.version != structure.version:
            for slot in self.leaves:
                edge = tensors[slot]._edge  # type: ignore[union-attr]
                if type(edge) is not AccumulateGrad or is_hooked(edge):
                    return False
            if any(node is not None and is_hooked(node) for node in [each() for each in run.nodes]):
                return False
            self.version = structure.version
        return True

    def make(self, run: Run, root: Tensor) -> None:
        """Makes the pass."""
        nodes: Any = run.nodes
        for k, position in self.numbers:
            run.numbers.append(nodes[k]().saved[position])
        run.tensors += [None] * self.count
        run.steps += self.steps
        run.at = self.last
        run.plans.append(self)
        for slot, number, form in self.gradients:
            run.tensors[slot]._grad = run.tensor_for(number, form)  # type: ignore[union-attr]
        if len(self.gradients) < len(self.leaves):
            place = user_place()
            for slot, before in self.leaves.items():
                if before is not None:
                    cell = cell_of(run.tensors[slot]._grad)  # type: ignore[union-attr]
                    cell[0], cell[2] = tick(), place
                    cell[1] += 1
        if not self.retain_graph:
            for k in self.nodes:
                node = nodes[k]()
                if node is not None:
                    node.free()
            note_pass(root)
        tell([run.tensors[slot] for slot in self.leaves])


def tell(leaves: list[Any]) -> None:
    """Whoever listens hears which leaves got gradients."""
    if watch.observer is not None:
        for leaf in leaves:
            watch.observer.leaf_filled(leaf)


def pass_of(run: Run, root: Tensor, retain_graph: bool) -> KnownPass | None:
    """A pass that is about to be walked, if it can be known: what lies behind the root was all made by this run."""
    numbers = {id(node): k for k, each in enumerate(run.nodes) if (node := each()) is not None}
    nodes: dict[int, int] = {}
    leaves: dict[int, int | None] = {}  # in the order in which they get their gradients
    for node in in_order((root,), count_consumers((root,))):
        if is_hooked(node):
            return None
        if type(node) is AccumulateGrad:
            leaf = node.leaf()
            slot = None if leaf is None else run.known.get(id(leaf))
            if slot is None or leaf._edge is not node:  # type: ignore[union-attr]
                return None
            grad = leaf._grad  # type: ignore[union-attr]
            leaves[slot] = None if grad is None else slot_of_gradient(grad, run)
            if grad is not None and leaves[slot] is None:
                return None
        elif id(node) not in numbers or not is_own(node):
            return None
        else:
            nodes[id(node)] = numbers[id(node)]
    if type(root._edge) is AccumulateGrad or split_edge(root._edge)[0] is None:
        return None
    return KnownPass(run, root, retain_graph, nodes, leaves)


def slot_of_gradient(grad: Tensor | None, run: Run) -> int | None:
    """The slot of a gradient that a pass may add to by a step alone: the run has made it, and it has no history."""
    if grad is None or grad._edge is not None or grad._base is not None or not is_made(grad, run):
        return None
    return grad._slot


def is_hooked(node: Node) -> bool:
    extra = node.extra
    return extra is not None and bool(extra.prehooks or extra.keepers or extra.posthooks or extra.accumulated)
