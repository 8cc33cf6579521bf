"""Results that gradients flow through: a compiled forward, tied to the graph by one node with a compiled backward.

The backward of a recorded call is recorded behind it, from a gradient for every result to one for every leaf and
argument. The graph is then cut in two; values of the first half that the second needs are saved between the runs.
Read next: compile/program.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cleargrad.autograd.function import Function
from cleargrad.autograd.node import AccumulateGrad, Node, edge_of, split_edge
from cleargrad.autograd.walk import walk
from cleargrad.compile.structures import wants_gradient
from cleargrad.compile.tracer import Tracer
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor, cell_of, wrap
from cleargrad.errors import error
from cleargrad.ops.record import CaptureError, Graph, Value


def graph_behind(tensors: Iterable[Tensor]) -> list[Node]:
    """All nodes that tensors were computed by."""
    found: dict[Node, None] = {}
    stack = [split_edge(edge)[0] for edge in map(edge_of, tensors) if edge is not None]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += [split_edge(edge)[0] for edge in node.edges if edge is not None]
    return list(found)


class Boundary(Function):
    """The identity, where an argument enters a recorded call."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def through_boundary(args: tuple, kwargs: dict, tensors: list[Tensor]) -> tuple[tuple, dict, list[Tensor]]:
    """The arguments, with those that come out of a graph behind a boundary."""
    if not mode.grad or all(wants_gradient(tensor) != 2 for tensor in tensors):
        return args, kwargs, list(tensors)
    inside = {}
    for tensor in tensors:
        if wants_gradient(tensor) == 2 and id(tensor) not in inside:
            inside[id(tensor)] = Boundary.apply(tensor)
    given = [inside.get(id(tensor), tensor) for tensor in tensors]
    return replaced(args, inside), replaced(kwargs, inside), given


def replaced(value: Any, table: dict[int, Tensor]) -> Any:
    """A nested value with some tensors exchanged."""
    if id(value) in table:
        return table[id(value)]
    if isinstance(value, (tuple, list)):
        parts = [replaced(part, table) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if type(value) is dict:
        return {name: replaced(part, table) for name, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return type(value)(**{name: replaced(getattr(value, name), table) for name in names})
    return value


class Backward:
    """The second half of a differentiable call."""

    def __init__(self, live: list[Tensor]) -> None:
        self.live = [id(tensor) for tensor in live]
        self.numbers = [0] * len(live)  # which outputs of the first program they are
        self.shapes = [(tensor._data.shape, tensor._data.dtype) for tensor in live]

    def position(self, tensor: Tensor) -> int:
        return self.live.index(id(tensor))

    @classmethod
    def record(cls, tracer: Tracer, live: list[Tensor], given: list[Tensor]) -> Backward | None:
        """Records the gradients of all leaves and arguments behind the live results."""
        self = cls(live)
        nodes = graph_behind(live)
        if any(has_hooks(node) for node in nodes):
            tracer.refuse("hooks see the gradients inside it; compile the whole step instead")
            return None
        boundaries = [
            split_edge(edge_of(t))[0] for t in given if t._edge is not None and wants_gradient(t) == 2
        ]
        kept = [(node, node.edges, node.extra) for node in (*boundaries, *nodes)]
        for node in boundaries:
            node.edges = (None,)
        nodes = graph_behind(live)
        for node in nodes:
            if type(node) is AccumulateGrad:
                node.extra = None  # hooks of leaves see gradients that have left the program
        leaves = [node.leaf() for node in nodes if type(node) is AccumulateGrad]
        own = {id(tensor) for tensor in given}
        self.leaves = [leaf for leaf in leaves if leaf is not None and id(leaf) not in own]
        self.arguments = [
            k for k, t in enumerate(given) if t._edge is not None and split_edge(edge_of(t))[0] in nodes
        ]
        targets = [given[k] for k in self.arguments] + self.leaves
        self.first_call = len(tracer.graph.calls)
        self.first_input = len(tracer.graph.inputs)
        try:
            with tracer, tracer.symbolic():
                tangents = [tracer.input(tensor) for tensor in live]
                grads = walk(
                    live, tangents, retain_graph=True, create_graph=False, targets=targets, accumulate=False
                )
                self.grads = [None if grad is None else tracer.value(grad) for grad in grads]
        except CaptureError as failure:
            tracer.refuse(str(failure))
            return None
        finally:
            for node, edges, extra in kept:
                node.edges, node.extra = edges, extra
        return self

    def split(self, graph: Graph, count: int) -> Graph:
        """Cuts the graph in two; the first half gets the values to save as outputs behind its own."""
        calls = graph.calls[self.first_call :]
        made = {result.index for call in calls for result in call.results}
        tangents = graph.inputs[self.first_input :]
        second_inputs = {value.index for value in tangents}
        used: dict[int, Value] = {}
        for value in [*(x for call in calls for x in call.operands), *self.grads]:
            if isinstance(value, Value) and value.index not in made and value.index not in second_inputs:
                used[value.index] = value
        outside = [(value, tensor) for value, tensor in graph.outside if value.index in used]
        written = {id(tensor) for tensor, _ in graph.writes}
        self.outside = [(value, tensor) for value, tensor in outside if id(tensor) not in written]
        constants = [(value, array) for value, array in graph.constants if value.index in used]
        direct = {value.index for value, _ in self.outside} | {value.index for value, _ in constants}
        numbers = {value.index: k for k, value in enumerate(graph.inputs[: self.first_input])}
        self.saved_inputs = [numbers[index] for index in used if index in numbers]
        saved = [value for index, value in used.items() if index not in direct and index not in numbers]
        self.first_saved, self.count = count, len(saved)
        first = dataclasses.replace(
            graph,
            inputs=graph.inputs[: self.first_input],
            input_arrays=graph.input_arrays[: self.first_input],
            calls=graph.calls[: self.first_call],
            outputs=[*graph.outputs, *saved],
        )
        arrays = [np.empty(shape, dtype) for shape, dtype in self.shapes]
        self.second = Graph(
            inputs=[*tangents, *[graph.inputs[k] for k in self.saved_inputs], *saved],
            input_arrays=[
                *arrays,
                *[graph.input_arrays[k] for k in self.saved_inputs],
                *[np.empty(value.spec.shape, value.spec.dtype.numpy) for value in saved],
            ],
            outside=self.outside,
            constants=constants,
            calls=calls,
            outputs=[grad for grad in self.grads if grad is not None],
            size=graph.size,
        )
        self.empty = [grad is None for grad in self.grads]
        self.program: Any = None
        return first

    def prepare(self, make: Callable[[Graph], Any]) -> None:
        self.program = make(self.second)

    def tie(
        self, tensors: Any, unique: list[int], inputs: list[np.ndarray], outputs: list[np.ndarray]
    ) -> tuple:
        """The live results, behind a node whose backward runs the second program."""
        sources = [tensors[k] for k in self.arguments] + self.leaves
        saved = [tensors[unique[k]] if k < len(unique) else wrap(inputs[k]) for k in self.saved_inputs]
        saved += map(wrap, outputs[self.first_saved : self.first_saved + self.count])
        results = [wrap(outputs[number]) for number in self.numbers]
        return CompiledFunction.apply(self, saved, results, *sources)


def has_hooks(node: Node) -> bool:
    extra = node.extra
    if extra is None:
        return False
    if type(node) is AccumulateGrad:
        return False  # they run when the gradient has left the program
    return bool(extra.prehooks or extra.posthooks or extra.keepers)


class CompiledFunction(Function):
    """One node for a compiled call."""

    @staticmethod
    def forward(
        ctx: Any, half: Backward, saved: list[Tensor], results: list[Tensor], *sources: Tensor
    ) -> tuple:
        ctx.half = half
        ctx.save_for_backward(*saved)
        ctx.versions = [cell_of(tensor)[1] for _, tensor in half.outside]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        recording, half = mode.grad, ctx.half
        saved = [tensor._data for tensor in ctx.saved_tensors]
        if [cell_of(tensor)[1] for _, tensor in half.outside] != ctx.versions:
            rule = (
                "one of the variables needed for gradient computation has been modified by an inplace operation "
                "after the compiled call"
            )
            raise error(
                RuntimeError, "backward", rule, fix="call backward() before the parameters are changed"
            )
        tangents = [np.asarray(grad._data, order="C") for grad in grads]
        found = iter(half.program.run([*tangents, *saved]))
        pulled = [None if empty else wrap(next(found)) for empty in half.empty]
        if recording:
            pulled = [None if grad is None else OnceOnly.apply(grad) for grad in pulled]
        return (None, None, None, *pulled)


class OnceOnly(Function):
    """A gradient that a compiled backward has computed: it has no gradient itself."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Tensor:
        return tensors[-1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        rule = "a compiled function cannot be differentiated twice: its backward is a program without history"
        fix = "compile the whole step with both derivatives in it, or leave this function eager"
        raise error(RuntimeError, "backward", rule, fix=fix)

    @classmethod
    def apply(cls, *tensors: Tensor) -> Tensor:
        leaf = wrap(np.zeros_like(tensors[-1]._data)).requires_grad_()
        out = wrap(tensors[-1]._data)
        out._edge = super().apply(leaf)._edge
        return out
