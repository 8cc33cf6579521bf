"""One rule for many parameters: the update of an optimizer is recorded for one parameter and copied for the others.

What comes in are the parameters of a group with their gradients and state, what goes out are calls in the tracer's
graph. The step itself is made eagerly afterwards, by the optimizer's own machine code where there is some. A rule
that does more than to compute elements from elements is recorded for every parameter. Read next:
compile/facts.py.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from cleargrad.codegen.expr import Expr
from cleargrad.compile.facts import is_library
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.ops.record import Call, Value
from cleargrad.optim.rule import readable

if TYPE_CHECKING:
    from cleargrad.compile.tracer import Tracer

Item = tuple[Tensor, Tensor, dict[str, Any]]  # a parameter, its gradient, its state
PLAIN = ("to_copy", "clone")  # what else treats every element by itself


def repeats(optimizer: Any) -> bool:
    """Whether a rule treats elements by themselves and is none of the user's, who may do anything in it."""
    rules = (type(optimizer)._update, type(optimizer)._apply, type(optimizer)._count)
    return optimizer._by_element and all(
        isinstance(rule, FunctionType) and is_library(rule.__code__.co_filename) for rule in rules
    )


class Unfinished(Exception):
    """A rule that makes state, as first steps do: the next step is another one."""


def record_updates(tracer: Tracer, optimizer: Any, options: dict[str, Any], items: list[Item]) -> None:
    """Records the updates of all parameters without running them."""
    patterns: dict[tuple, Pattern] = {}
    with tracer.symbolic():
        for item in items:
            key = kind_of(item)
            pattern = patterns.get(key)
            if pattern is None:
                patterns[key] = Pattern(tracer, optimizer, options, item)
            elif not pattern.repeat(tracer, item):
                apply(optimizer, options, item)


def apply(optimizer: Any, options: dict[str, Any], item: Item) -> None:
    """The rule for one parameter, of whose state nothing is replaced: what is recorded only is no state."""
    p, g, state = item
    kept = dict(state)
    optimizer._apply(p, g, kept, options)
    if kept.keys() != state.keys() or any(kept[name] is not state[name] for name in state):
        raise Unfinished


def make_updates(optimizer: Any, group: dict[str, Any], items: list[Item]) -> None:
    """The step itself, of which nothing is recorded."""
    before = mode.set(recorder=None)
    try:
        optimizer._make_step(group, readable(group), items)
    finally:
        mode.set(**before)


def kind_of(item: Item) -> tuple:
    """What a rule can see of a parameter and its state, but for the shape."""
    p, g, state = item
    shape = p._data.shape

    def seen(kept: Any) -> Any:
        if not isinstance(kept, Tensor):
            return type(kept), kept
        return kept._data.dtype, None if kept._data.shape == shape else kept._data.shape

    return seen(p), seen(g), shape == (), tuple((name, seen(kept)) for name, kept in state.items())


def tensors_of(item: Item) -> list[Tensor]:
    p, g, state = item
    return [p, g, *(kept for kept in state.values() if isinstance(kept, Tensor))]


class Pattern:
    """The calls that a rule made for one parameter."""

    def __init__(self, tracer: Tracer, optimizer: Any, options: dict[str, Any], item: Item) -> None:
        tensors, graph = tensors_of(item), tracer.graph
        before = [tracer.value(tensor) for tensor in tensors]
        sizes = len(graph.outside), len(graph.constants), len(graph.inputs)
        first = len(graph.calls)
        apply(optimizer, options, item)
        after = [tracer.value(tensor) for tensor in tensors]
        self.shape = item[0]._data.shape
        self.calls = graph.calls[first:]
        self.sources = [value.index for value in before]
        self.written = [(k, new.index) for k, (old, new) in enumerate(zip(before, after)) if old is not new]
        self.repeats = (
            sizes == (len(graph.outside), len(graph.constants), len(graph.inputs))
            and len(set(self.sources)) == len(tensors)
            and all(isinstance(call.op.lower, Expr) or call.op.name in PLAIN for call in self.calls)
            and all(result.spec.shape in (self.shape, ()) for call in self.calls for result in call.results)
        )

    def repeat(self, tracer: Tracer, item: Item) -> bool:
        """Appends the same calls for another parameter; False, and nothing is done, if that cannot be."""
        tensors = tensors_of(item)
        if not self.repeats or not all(whole(tracer, tensor) for k, tensor in enumerate(tensors) if k != 1):
            return False
        shape, calls = item[0]._data.shape, tracer.graph.calls
        now = {index: tracer.value(tensor) for index, tensor in zip(self.sources, tensors, strict=True)}
        for call in self.calls:
            operands = tuple([now.get(x.index, x) if isinstance(x, Value) else x for x in call.operands])
            if all(new is old for new, old in zip(operands, call.operands)):
                continue  # what all parameters have in common is computed once
            (result,) = call.results
            extents = shape if result.spec.shape == self.shape else ()
            now[result.index] = tracer.slot(Spec(extents, result.spec.dtype))
            calls.append(Call(call.op, operands, call.attrs, (now[result.index],)))
        for position, index in self.written:
            tracer.become(tensors[position], now[index])
        return True


def whole(tracer: Tracer, tensor: Tensor) -> bool:
    """Whether a tensor is all of its memory, and no other tensor is known to have that too."""
    return tensor._base is None and tracer.owner(tensor) is tensor
