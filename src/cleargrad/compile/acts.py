"""What a step of a trace does: how it runs by itself, and how it is recorded into the graph of a program.

An act knows nothing of tensors that wait: `run` gets arrays and gives arrays, as an eager call would, and `record`
gets and gives tensors under a recorder. Read next: compile/waiting.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cleargrad.autograd.node import Node, split_edge
from cleargrad.autograd.walk import fitted, form_of
from cleargrad.compile.sides import Here
from cleargrad.core.tensor import Tensor, as_array, wrap
from cleargrad.ops.op import Op
from cleargrad.optim.rule import readable

if TYPE_CHECKING:
    from cleargrad.compile.building import Building


class Act:
    """One call."""

    name = "a write"  # what errors call it
    writes: Sequence[int] = ()  # the operands whose memory it writes
    shows: int | None = None  # the operand whose memory its results lie in, if they do
    single = True

    def allows(self, facts: tuple) -> bool:
        """What equality of facts does not tell."""
        return True

    def run(self, operands: list, side: Here) -> Sequence:
        """Makes the call on arrays."""
        raise NotImplementedError

    def record(self, building: Building, operands: list) -> Sequence:
        """The same on tensors, under a recorder."""
        raise NotImplementedError


class Called(Act):
    """A call of an op."""

    def __init__(self, op: Op, attrs: dict[str, Any], single: bool) -> None:
        self.op, self.attrs = op, attrs
        self.name = op.name
        self.single = single  # whether it gives one result, and no list of them
        self.kinds = [*map(type, attrs.values())]
        self.text = None if not any(map(is_delicate, attrs.values())) else repr(attrs)
        if op.view:
            self.shows = 0

    def allows(self, facts: tuple) -> bool:
        attrs = facts[1]
        return not attrs or (
            [*map(type, attrs.values())] == self.kinds and (self.text is None or repr(attrs) == self.text)
        )

    def run(self, operands: list, side: Here) -> Sequence:
        return side.call(self.op, operands, self.attrs)

    def record(self, building: Building, operands: list) -> Sequence:
        outs = building.call(self.op, tuple(operands), self.attrs)
        return outs if type(outs) is tuple else (outs,)


def is_delicate(value: Any) -> bool:
    """Whether values that are equal may differ: zeros have signs, and tuples hold what they like."""
    if type(value) is float:
        return value == 0
    return isinstance(value, (tuple, list, dict)) and not all(type(part) is int for part in value)


class Changed(Called):
    """A call of an op whose result is written into its first operand."""

    writes = (0,)

    def allows(self, facts: tuple) -> bool:
        return not facts[2] or super().allows(facts[1:])

    def run(self, operands: list, side: Here) -> Sequence:
        side.write(operands[0], side.call(self.op, operands, self.attrs)[0])
        return ()

    def record(self, building: Building, operands: list) -> Sequence:
        building.write(operands[0], building.call(self.op, tuple(operands), self.attrs))
        return ()


class Aliased(Act):
    """Another tensor on the same memory, outside of the graph: detach() and .data."""

    shows = 0

    def run(self, operands: list, side: Here) -> Sequence:
        return (operands[0].view(),)

    def record(self, building: Building, operands: list) -> Sequence:
        alias = wrap(operands[0]._data.view())
        building.alias(operands[0], alias)
        building.set(alias, building.value(operands[0]))
        return (alias,)


class Written(Act):
    """A write in place: the first operand gets the elements of the second."""

    writes = (0,)

    def run(self, operands: list, side: Here) -> Sequence:
        side.write(*operands)
        return ()

    def record(self, building: Building, operands: list) -> Sequence:
        building.write(*operands)
        return ()


class Scaled(Act):
    """Writes in place, too: all operands but the first are multiplied by it."""

    def __init__(self, count: int) -> None:
        self.writes = range(1, count + 1)

    def run(self, operands: list, side: Here) -> Sequence:
        factor, *targets = operands
        for target in targets:
            side.scale(target, factor)
        return ()

    def record(self, building: Building, operands: list) -> Sequence:
        factor, *targets = operands
        for target in targets:
            building.write(target, target * factor)
        return ()


class Given(Act):
    """Known elements, such as the one from which a backward pass starts."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def run(self, operands: list, side: Here) -> Sequence:
        return (side.receive(self.data),)

    def record(self, building: Building, operands: list) -> Sequence:
        return (building.constant(self.data.copy()),)


class Pulled(Act):
    """What a node of the graph hands on in a backward pass: its vjps, in the forms of those that get it."""

    name = "backward"

    def __init__(self, node: Node, wanted: tuple | None) -> None:
        self.text = repr(node.attrs)
        self.ends = ends_of(node)
        self.several = node.outputs
        self.key = (node.plan.steps, wanted, self.ends, self.text)
        self.vjps = [
            (step.input, step.vjp, len(step.positions), node.named(step)) for step in chosen(node, wanted)
        ]

    def allows(self, facts: tuple) -> bool:
        return not facts[-1] or repr(facts[-1]) == self.text

    def run(self, operands: list, side: Here) -> Sequence:
        tensors = [side.wrap(x) if isinstance(x, np.ndarray) else x for x in operands]
        return [None if part is None else side.array(part) for part in self.pulled(tensors)]

    def record(self, building: Building, operands: list) -> Sequence:
        return building.repeated_record(lambda: self.pulled(operands), operands, (Pulled, self.key))

    def pulled(self, operands: Sequence) -> list[Tensor | None]:
        grad = list(operands[: self.several]) if self.several > 1 else operands[0]
        first = self.several
        grads: Any = [None] * len(self.ends)
        for index, vjp, count, named in self.vjps:
            result = vjp(grad, *operands[first : first + count], **named)
            first += count
            if index is None:
                grads = result
                break
            grads[index] = result
        return [
            None if end is None or part is None else fitted(part, *end)
            for end, part in zip(self.ends, grads, strict=False)
        ]


def chosen(node: Node, wanted: tuple | None) -> list:
    """The vjps of a node that are called."""
    return [step for step in node.plan.steps if wanted is None or step.input is None or wanted[step.input]]


def ends_of(node: Node) -> tuple:
    """The forms in which what a node hands on arrives."""
    return tuple([None if edge is None else form_of(*split_edge(edge)) for edge in node.edges])


class Updated(Act):
    """An optimizer's step for the parameters of one group."""

    def __init__(self, optimizer: Any, group: dict[str, Any], items: list) -> None:
        self.optimizer: Any = weakref.ref(optimizer)
        self.place = next(k for k, other in enumerate(optimizer.param_groups) if other is group)
        self.states = [
            tuple(state) for _, _, state in items
        ]  # the names of what each parameter's state holds
        self.writes = []
        start = 0
        for _, _, state in items:
            kept = [start + 2 + k for k, value in enumerate(state.values()) if isinstance(value, Tensor)]
            self.writes += [start, *kept]
            start += 2 + len(state)

    def allows(self, facts: tuple) -> bool:
        optimizer = self.optimizer()  # another one may have the id of one that is gone
        return optimizer is not None and id(optimizer) == facts[1]

    def items(self, operands: list) -> list:
        found, start = [], 0
        for names in self.states:
            p, g, *values = operands[start : start + 2 + len(names)]
            found.append((p, g, dict(zip(names, values, strict=True))))
            start += 2 + len(names)
        return found

    def step_on(self, operands: list) -> None:
        """Makes the step on tensors."""
        optimizer = self.optimizer()
        group = optimizer.param_groups[self.place]
        items = [(p, g, optimizer.state.get(p) or {}) for p, g, _ in self.items(operands)]
        optimizer._make_step(group, readable(group), items)

    def read(self, building: Building) -> None:
        """Notes what is recorded later: the optimizer, and the options that its group has now."""
        optimizer = self.optimizer()
        building.groups[self] = (optimizer, optimizer._recorded(optimizer.param_groups[self.place]))

    def record(self, building: Building, operands: list) -> Sequence:
        optimizer, options = building.groups[self]
        building.update(optimizer, options, self.items(operands))
        return ()


def arrays_of(results: Sequence) -> list:
    return [None if result is None else as_array(result) for result in results]
