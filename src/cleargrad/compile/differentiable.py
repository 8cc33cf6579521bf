"""Results that gradients flow through: a compiled forward, tied to the graph by one node with a compiled backward.

The backward of a recorded call is recorded behind it, from a gradient for every result to one for every leaf and
argument. The graph is then cut in two; values of the first half that the second needs are saved between the runs.
Results whose graphs have nothing in common get a node and a second program each.
Read next: compile/program.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cleargrad.autograd.function import Function, FunctionNode
from cleargrad.autograd.node import AccumulateGrad, Node, edge_of, freed_error, split_edge
from cleargrad.autograd.walk import walk
from cleargrad.compile.structures import wants_gradient
from cleargrad.compile.tracer import Tracer
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor, cell_of, wrap
from cleargrad.errors import error
from cleargrad.ops.record import Call, Graph, Value


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
    """The second half of a differentiable call: a program for each group of results that share a graph."""

    def __init__(self, halves: list[Half]) -> None:
        self.halves = halves

    @classmethod
    def record(cls, tracer: Tracer, live: list[Tensor], given: list[Tensor]) -> Backward | None:
        """Records the gradients of all leaves and arguments behind the live results."""
        nodes = graph_behind(live)
        if any(has_hooks(node) for node in nodes):
            tracer.refuse("hooks see the gradients inside it; compile the whole step instead")
            return None
        entered = {id(edge_of(tensor)) for tensor in given if wants_gradient(tensor) == 2}
        boundaries = [node for node in nodes if id(node) in entered]
        kept = [(node, node.edges, node.extra) for node in (*boundaries, *nodes)]
        for node in boundaries:
            node.edges = (None,)
        nodes = graph_behind(live)
        if any(node.tick < tracer.began and node.saved for node in nodes):
            tracer.refuse("it uses a tensor with a history from outside; pass it as an argument")
        for node in nodes:
            if type(node) is AccumulateGrad:
                node.extra = None  # hooks of leaves see gradients that have left the program
                check_leaf(tracer, node.leaf(), given)
        first_call, first_input = len(tracer.graph.calls), len(tracer.graph.inputs)
        try:
            halves = [Half(group, given) for group in groups(live)]
            if tracer.reason is None:
                for half in halves:
                    half.record(tracer)
        except (
            Exception
        ) as failure:  # what a formula raises is what backward() would raise, if it were called
            tracer.refuse(f"the backward of a result fails ({str(failure).partition(chr(10))[0]})")
        finally:
            for node, edges, extra in kept:
                node.edges, node.extra = edges, extra
        if tracer.reason is not None:
            return None
        self = cls(halves)
        self.first_call, self.first_input = first_call, first_input
        return self

    def take(self, tensor: Tensor, output: int) -> int:
        """Notes which output a live result is; gives its place among all live results."""
        place = 0
        for half in self.halves:
            for number, other in enumerate(half.live):
                if other is tensor:
                    half.numbers[number] = output
                    return place
                place += 1
        raise ValueError("not a live result")

    def split(self, graph: Graph, written: list[int]) -> Graph:
        """Cuts the graph in two; the first half gets the values to save as outputs behind its own."""
        outputs = list(graph.outputs)
        later = graph.calls[self.first_call :]
        for half in self.halves:
            outputs += half.split(graph, later, self.first_input, written, len(outputs))
        return dataclasses.replace(
            graph,
            inputs=graph.inputs[: self.first_input],
            input_arrays=graph.input_arrays[: self.first_input],
            calls=graph.calls[: self.first_call],
            outputs=outputs,
        )

    def prepare(self, make: Callable[[Graph], Any]) -> None:
        for half in self.halves:
            half.prepare(make)

    def tie(
        self, tensors: Any, unique: list[int], inputs: list[np.ndarray], outputs: list[np.ndarray]
    ) -> list[Tensor]:
        """The live results, behind nodes whose backward runs the second programs."""
        return [result for half in self.halves for result in half.tie(tensors, unique, inputs, outputs)]


def used_up_by(tensor: Tensor) -> set[int]:
    """The nodes that backward() of a result frees; those that have saved nothing can be walked again."""
    return {id(node) for node in graph_behind([tensor]) if node.saved}


def groups(live: list[Tensor]) -> list[list[Tensor]]:
    """Results with graphs that have nodes in common belong together: backward() of one uses up the others'."""
    found: list[tuple[list[Tensor], set[int]]] = []
    for tensor in live:
        nodes = used_up_by(tensor)
        touched = [group for group in found if group[1] & nodes]
        found = [group for group in found if not group[1] & nodes]
        members = [member for group in touched for member in group[0]]
        found.append(([*members, tensor], nodes.union(*(group[1] for group in touched))))
    return [members for members, _ in found]


def check_leaf(tracer: Tracer, leaf: Tensor | None, given: list[Tensor]) -> None:
    """A leaf that nobody holds any more was made by the call, too."""
    known = leaf is not None and (id(leaf) in tracer.tensors or any(leaf is tensor for tensor in given))
    if not known:
        tracer.refuse("a result is computed from a leaf that the call itself has made")


class Half:
    """One program from gradients of results to gradients of leaves and arguments."""

    def __init__(self, live: list[Tensor], given: list[Tensor]) -> None:
        self.live = live
        self.numbers = [0] * len(live)  # which outputs of the first program they are
        self.shapes = [(tensor._data.shape, tensor._data.dtype) for tensor in live]
        self.strides = [own_strides(tensor._data) for tensor in live]
        nodes = graph_behind(live)
        own = {id(tensor) for tensor in given}
        leaves = [node.leaf() for node in nodes if type(node) is AccumulateGrad]
        self.leaves = [leaf for leaf in leaves if leaf is not None and id(leaf) not in own]
        among = {id(node) for node in nodes}
        self.arguments = [
            k for k, t in enumerate(given) if t._edge is not None and id(split_edge(edge_of(t))[0]) in among
        ]
        self.targets = [given[k] for k in self.arguments] + self.leaves
        self.used_up = [frozenset(used_up_by(tensor)) for tensor in live]

    def record(self, tracer: Tracer) -> None:
        """The gradients from all results together and, where there are several, from each alone.

        A result that backward() does not come from has no part in the gradients: a zero in its place would
        be a zero for every leaf behind it, or a NaN.
        """
        first = len(tracer.graph.inputs)
        with tracer, tracer.symbolic():
            tangents = [tracer.input(tensor) for tensor in self.live]
            self.ways = [self.walked(tracer, self.live, tangents)]
            if len(self.live) > 1:
                for tensor, tangent in zip(self.live, tangents, strict=True):
                    self.ways.append(self.walked(tracer, [tensor], [tangent]))
        self.tangents = tracer.graph.inputs[first : first + len(tangents)]
        self.targets = []

    def walked(self, tracer: Tracer, roots: list[Tensor], tangents: list[Tensor]) -> list[Value | None]:
        grads = walk(
            roots, tangents, retain_graph=True, create_graph=False, targets=self.targets, accumulate=False
        )
        return [None if grad is None else tracer.value(grad) for grad in grads]

    def split(
        self, graph: Graph, later: list[Call], first_input: int, written: list[int], count: int
    ) -> list[Value]:
        """Takes the calls that lead to the gradients; what they use of the first half comes back."""
        grads = [grad for way in self.ways for grad in way if grad is not None]
        calls = needed(later, grads)
        made = {result.index for call in calls for result in call.results}
        made |= {value.index for value in self.tangents}
        used: dict[int, Value] = {}
        for value in [*(x for call in calls for x in call.operands), *grads]:
            if isinstance(value, Value) and value.index not in made:
                used[value.index] = value
        changed = {id(tensor) for tensor, _ in graph.writes}
        self.outside = [
            (value, t) for value, t in graph.outside if value.index in used and id(t) not in changed
        ]
        constants = [(value, array) for value, array in graph.constants if value.index in used]
        direct = {value.index for value, _ in (*self.outside, *constants)}
        numbers = {v.index: k for k, v in enumerate(graph.inputs[:first_input]) if k not in written}
        self.saved_inputs = [numbers[index] for index in used if index in numbers]
        saved = [value for index, value in used.items() if index not in direct and index not in numbers]
        self.first_saved, self.count = count, len(saved)
        values = [*[graph.inputs[k] for k in self.saved_inputs], *saved]
        arrays = [graph.input_arrays[k] for k in self.saved_inputs]
        arrays += [np.empty(value.spec.shape, value.spec.dtype.numpy) for value in saved]
        self.graph = Graph(
            inputs=[*self.tangents, *values],
            input_arrays=[*[np.empty(shape, dtype) for shape, dtype in self.shapes], *arrays],
            outside=self.outside,
            constants=constants,
            calls=calls,
            size=graph.size,
        )
        self.live = []  # they belong to the recorded call
        return saved

    def prepare(self, make: Callable[[Graph], Any]) -> None:
        """Compiles the program from all results together; the others are compiled when they are asked for."""
        self.make = make
        self.programs: list[Any] = [None] * len(self.ways)
        self.program = self.program_of(0)

    def program_of(self, number: int) -> Any:
        if self.programs[number] is None:
            grads = [grad for grad in self.ways[number] if grad is not None]
            calls = needed(self.graph.calls, grads)
            self.programs[number] = self.make(dataclasses.replace(self.graph, calls=calls, outputs=grads))
        return self.programs[number]

    def pull(self, grads: tuple, saved: list[np.ndarray]) -> list[Tensor | None]:
        """The gradients of arguments and leaves, from those of the results that have one."""
        tangents = [
            np.zeros(*layout) if grad is None else np.asarray(grad._data, order="C")
            for grad, layout in zip(grads, self.shapes, strict=True)
        ]
        given = [number for number, grad in enumerate(grads) if grad is not None]
        ways = [0] if len(given) == len(grads) else [number + 1 for number in given]
        total: list[np.ndarray | None] = [None] * len(self.ways[0])
        for way in ways:
            found = iter(self.program_of(way).run([*tangents, *saved]))
            for place, grad in enumerate(self.ways[way]):
                if grad is not None:
                    before, part = total[place], next(found)
                    total[place] = part if before is None else before + part
        return [None if grad is None else wrap(grad) for grad in total]

    def tie(
        self, tensors: Any, unique: list[int], inputs: list[np.ndarray], outputs: list[np.ndarray]
    ) -> tuple:
        sources = [tensors[k] for k in self.arguments] + self.leaves
        saved = [tensors[unique[k]] if k < len(unique) else wrap(inputs[k]) for k in self.saved_inputs]
        saved += map(wrap, outputs[self.first_saved : self.first_saved + self.count])
        results = [
            wrap(laid_out(outputs[number], strides))
            for number, strides in zip(self.numbers, self.strides, strict=True)
        ]
        return CompiledFunction.apply(self, saved, results, *sources)


def needed(calls: list[Call], results: list[Value]) -> list[Call]:
    """Those calls that results depend on."""
    wanted = {value.index for value in results}
    found = []
    for call in reversed(calls):
        if any(result.index in wanted for result in call.results):
            wanted |= {x.index for x in call.operands if isinstance(x, Value)}
            found.append(call)
    return found[::-1]


# Layouts ---------------------------------------------------------------------------------------------------


def own_strides(data: np.ndarray) -> tuple[int, ...] | None:
    """The strides of memory without gaps in another order than usual; None for all else."""
    if data.flags.c_contiguous or not data.size:
        return None
    order = sorted(range(data.ndim), key=lambda axis: -data.strides[axis])
    return data.strides if data.transpose(order).flags.c_contiguous else None


def laid_out(array: np.ndarray, strides: tuple[int, ...] | None) -> np.ndarray:
    """An array with the layout that a result has in eager runs."""
    if strides is None or array.strides == strides:
        return array
    order = sorted(range(array.ndim), key=lambda axis: -strides[axis])
    memory = np.empty([array.shape[axis] for axis in order], array.dtype)
    made = memory.transpose(np.argsort(order))
    np.copyto(made, array)
    return made


# The node --------------------------------------------------------------------------------------------------


def has_hooks(node: Node) -> bool:
    extra = node.extra
    if extra is None:
        return False
    if type(node) is AccumulateGrad:
        return False  # they run when the gradient has left the program
    return bool(extra.prehooks or extra.posthooks or extra.keepers)


class CompiledNode(FunctionNode):
    """One node for many: backward() of one result leaves the others as they would be in the graph it stands for."""

    def pull(self, grad: Any, wanted: tuple | None = None) -> list:
        grads = grad if self.outputs > 1 else [grad]
        used_up, freed = self.ctx.half.used_up, self.ctx.freed
        self.ctx.walked = nodes = frozenset().union(*(u for u, g in zip(used_up, grads) if g is not None))
        if nodes & freed:
            raise freed_error(self)
        return super().pull(grad, wanted)

    def free(self) -> None:
        freed = self.ctx.freed = self.ctx.freed | self.ctx.walked
        if all(nodes & freed for nodes in self.ctx.half.used_up):
            super().free()


class CompiledFunction(Function):
    """What runs a second program."""

    node_kind = CompiledNode

    @staticmethod
    def forward(ctx: Any, half: Half, saved: list[Tensor], results: list[Tensor], *sources: Tensor) -> tuple:
        ctx.half = half
        ctx.freed = ctx.walked = frozenset()
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        ctx.versions = [cell_of(tensor)[1] for _, tensor in half.outside]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple:
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
        pulled = half.pull(grads, saved)
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
