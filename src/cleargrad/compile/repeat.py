"""Templates: calls that repeat themselves (layers, gradients, optimizer rules) are recorded once and copied.

What comes in are values of a graph that is being built, what goes out are further calls there. A `Template` has the
calls of a fused op, a gradient or a step, for which other operands can stand. A `Pattern` has those of an
optimizer's rule for one parameter, which can have any shape. A rule that does more than to compute elements from
elements is recorded for every parameter. Read next: graph/passes.py.
"""

from __future__ import annotations

from collections import Counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from cleargrad.core.pace import give_way
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.programs.target import TARGET
from cleargrad.errors import PACKAGE
from cleargrad.expr.expr import Expr, Var, substitute, text_of
from cleargrad.graph.passes import DRAWS
from cleargrad.ops.apply import COPIES
from cleargrad.ops.declare import unnamed
from cleargrad.ops.op import Op
from cleargrad.ops.record import Call, CaptureError, Graph, Value
from cleargrad.schedule.formulas import work_of
from cleargrad.schedule.statements import way_of

if TYPE_CHECKING:
    from cleargrad.compile.building import Building

Item = tuple[Tensor, Tensor, dict[str, Any]]  # a parameter, its gradient, its state
LONGEST = 40  # work per element of a formula that is written into another one


class Template:
    """The calls that a function made for some operands, to be copied for others of the same layouts."""

    def __init__(self, building: Building, sources: list[Value]) -> None:
        graph = building.graph
        self.sources = [value.index for value in sources]
        self.first, self.before = len(graph.calls), sizes_of(graph)

    def is_complete(self, building: Building, results: list[Value | None]) -> bool:
        """Takes the calls that were recorded since, and says whether they depend on the operands alone."""
        self.calls, self.results = building.graph.calls[self.first :], results
        known = set(self.sources)
        for call in self.calls:
            operands = [x.index for x in call.operands if isinstance(x, Value)]
            if not operands or call.op.name in DRAWS or not known.issuperset(operands):
                return False
            known.update([result.index for result in call.results])
        made = [value.index for value in results if value is not None]
        return known.issuperset(made) and sizes_of(building.graph) == self.before

    def copied(self, building: Building, sources: list[Value]) -> list[Value | None]:
        """Appends the same calls for other operands; what depends on none that differs is there already."""
        now = dict(zip(self.sources, sources, strict=True))
        calls = building.graph.calls
        for call in self.calls:
            operands = tuple([now.get(x.index, x) if type(x) is Value else x for x in call.operands])
            if operands == call.operands:
                continue
            results = tuple([building.slot(result.spec) for result in call.results])
            for old, new in zip(call.results, results):
                now[old.index] = new
            calls.append(Call(call.op, operands, call.attrs, results))
        return [None if value is None else now.get(value.index, value) for value in self.results]


def sizes_of(graph: Graph) -> tuple[int, int, int]:
    """How much there is that was not computed."""
    return len(graph.outside), len(graph.constants), len(graph.inputs)


def repeats(optimizer: Any) -> bool:
    """Whether a rule treats elements by themselves and is none of the user's, who may do anything in it."""
    return optimizer._by_element and is_own(optimizer)


def is_own(optimizer: Any) -> bool:
    """Whether a rule is the library's."""
    rules = (type(optimizer)._update, type(optimizer)._apply, type(optimizer)._count)
    return all(
        isinstance(rule, FunctionType) and rule.__code__.co_filename.startswith(PACKAGE) for rule in rules
    )


class Unfinished(Exception):
    """A rule that makes state, as first steps do: the next step is another one."""


def record_updates(building: Building, optimizer: Any, options: dict[str, Any], items: list[Item]) -> None:
    """Records the updates of all parameters without running them."""
    patterns: dict[tuple, Pattern] = {}
    for item in items:
        key = kind_of(item)
        pattern = patterns.get(key)
        if item[0]._form.shape == ():
            apply(optimizer, options, item)
        elif pattern is None:
            patterns[key] = Pattern(building, optimizer, options, item)
        elif not pattern.repeat(building, item):
            apply(optimizer, options, item)
        give_way()


def apply(optimizer: Any, options: dict[str, Any], item: Item) -> None:
    """The rule for one parameter, of whose state nothing is replaced: what is recorded only is no state."""
    p, g, state = item if item[0]._form.shape else as_rows(optimizer, item)
    kept = dict(state)
    optimizer._apply(p, g, kept, options)
    if kept.keys() != state.keys() or any(kept[name] is not state[name] for name in state):
        raise Unfinished


def as_rows(optimizer: Any, item: Item) -> Item:
    """A parameter without dimensions, seen as a row of one element.

    Options are recorded as float64 without dimensions. A row is stronger than those, as a tensor is than a number.
    """
    if not is_own(optimizer):
        raise CaptureError("a rule of one's own for a parameter without dimensions")
    p, g, state = item
    numbers = optimizer._NUMBERS
    rows = {name: kept if name in numbers else as_row(kept) for name, kept in state.items()}
    return as_row(p), as_row(g), rows


def as_row(kept: Any) -> Any:
    return kept.view(1) if isinstance(kept, Tensor) and kept._form.shape == () else kept


def kind_of(item: Item) -> tuple:
    """What a rule can see of a parameter and its state, but for the shape."""
    p, g, state = item
    shape = p._form.shape

    def seen(kept: Any) -> Any:
        if not isinstance(kept, Tensor):
            return type(kept), kept
        return kept._form.dtype, None if kept._form.shape == shape else kept._form.shape

    return seen(p), seen(g), tuple((name, seen(kept)) for name, kept in state.items())


def tensors_of(item: Item) -> list[Tensor]:
    p, g, state = item
    return [p, g, *(kept for kept in state.values() if isinstance(kept, Tensor))]


class Pattern:
    """The calls that a rule made for one parameter."""

    def __init__(self, building: Building, optimizer: Any, options: dict[str, Any], item: Item) -> None:
        tensors, graph = tensors_of(item), building.graph
        before = [building.value(tensor) for tensor in tensors]
        sizes = sizes_of(graph)
        first = len(graph.calls)
        apply(optimizer, options, item)
        after = [building.value(tensor) for tensor in tensors]
        self.shape = item[0]._form.shape
        self.calls = graph.calls[first:]
        self.sources = [value.index for value in before]
        self.written = [(k, new.index) for k, (old, new) in enumerate(zip(before, after)) if old is not new]
        self.repeats = (
            sizes == sizes_of(graph)
            and len(set(self.sources)) == len(tensors)
            and all(isinstance(call.op.lower, Expr) or call.op.name in COPIES for call in self.calls)
            and all(result.spec.shape in (self.shape, ()) for call in self.calls for result in call.results)
        )
        if self.repeats:
            self.calls = graph.calls[first:] = composed(self.calls, {index for _, index in self.written})

    def repeat(self, building: Building, item: Item) -> bool:
        """Appends the same calls for another parameter; False, and nothing is done, if that cannot be."""
        tensors = tensors_of(item)
        if not self.repeats or not all(whole(building, tensor) for k, tensor in enumerate(tensors) if k != 1):
            return False
        shape, calls = item[0]._form.shape, building.graph.calls
        now = {index: building.value(tensor) for index, tensor in zip(self.sources, tensors, strict=True)}
        for call in self.calls:
            operands = tuple([now.get(x.index, x) if isinstance(x, Value) else x for x in call.operands])
            if all(new is old for new, old in zip(operands, call.operands)):
                continue  # what all parameters have in common is computed once
            (result,) = call.results
            extents = shape if result.spec.shape == self.shape else ()
            now[result.index] = building.slot(Spec(extents, result.spec.dtype))
            calls.append(Call(call.op, operands, call.attrs, (now[result.index],)))
        for position, index in self.written:
            building.become(tensors[position], now[index])
        return True


def composed(calls: list[Call], asked: set[int]) -> list[Call]:
    """The calls, with those that only one other one needs written into its formula: there are many parameters."""
    uses = Counter(x.index for call in calls for x in call.operands if isinstance(x, Value))
    kinds = {id(call): kind_of_formula(call) for call in calls}
    inner: dict[int, Call] = {}  # by the value they make
    found: dict[int, Call] = {}  # by the value they make
    for call in calls:
        (result,) = call.results
        kind = kinds[id(call)]
        parts = [inner.get(x.index) if isinstance(x, Value) else None for x in call.operands]
        parts = [part if part and kind is not None and kinds[id(part)] == kind else None for part in parts]
        if any(parts):
            call = merged(call, parts)
            kinds[id(call)] = kind
            for part in filter(None, parts):
                found.pop(part.results[0].index, None)
        single = uses[result.index] == 1 and result.index not in asked
        if single and kind is not None and work_of(call.op.lower) <= LONGEST:
            inner[result.index] = call
        found[result.index] = call
    return list(found.values())


def kind_of_formula(call: Call) -> Any:
    """The shape and dtype in which a call computes floats from floats; None if it does anything else."""
    (result,) = call.results
    values = [x for x in call.operands if isinstance(x, Value)]
    if not isinstance(call.op.lower, Expr) or not all(x.spec.dtype.is_floating_point for x in values):
        return None
    return result.spec if way_of(call, TARGET) == (result.spec.dtype.numpy, result.spec.dtype.numpy) else None


_formulas: dict[str, Op] = {}  # ops that are known by their formulas alone


def merged(call: Call, parts: list[Call | None]) -> Call:
    """One call of a formula in which those of some operands stand in their places."""
    operands: list[Any] = []

    def variable(x: Any) -> Var:
        position = next((k for k, other in enumerate(operands) if other is x), len(operands))
        if position == len(operands):
            operands.append(x)
        return Var(f"x{position}", position)

    args = [
        variable(x) if part is None else substitute(part.op.lower, tuple(map(variable, part.operands)))
        for x, part in zip(call.operands, parts, strict=True)
    ]
    tree = substitute(call.op.lower, tuple(args))
    name = text_of(tree)
    if name not in _formulas:
        _formulas[name] = unnamed(name, tree, len(operands))
    return Call(_formulas[name], tuple(operands), {}, call.results)


def whole(building: Building, tensor: Tensor) -> bool:
    """Whether a tensor is all of its memory, and no other tensor is known to have that too."""
    return tensor._base is None and building.owner(tensor) is tensor
