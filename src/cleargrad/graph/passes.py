"""Graph passes: what is done to a recorded graph before it is compiled, as a list of named functions.

They know nothing of machines. `replay` gives the same numbers before and after each of them. Read next:
schedule/formulas.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cleargrad.core.pace import give_way
from cleargrad.core.shape import Spec
from cleargrad.graph.lookups import hoist_products_above_lookups
from cleargrad.graph.verify import is_on, verify
from cleargrad.ops.op import OPS
from cleargrad.ops.record import Call, Graph, Value

# Ops whose results differ from call to call, or that must happen as often as they are written.
DRAWS = frozenset(
    name
    for name in (
        "uniform", "normal", "log_normal", "exponential", "cauchy", "geometric", "randint", "random",
        "bernoulli_scalar", "bernoulli", "randperm", "multinomial", "poisson", "binomial", "rrelu_slopes",
        "standard_gamma", "dirichlet",
    )
    if name in OPS
)  # fmt: skip

SPLITS = ("split", "split_with_sizes")


def prepared(graph: Graph) -> Graph:
    """The graph after all passes."""
    checked = is_on()
    if checked:
        verify(graph, "recording")
    for change in PASSES:
        graph = change(graph)
        give_way()
        if checked:
            verify(graph, name_of(change))
    return graph


def name_of(change: Callable) -> str:
    """The name of a pass in words."""
    return change.__name__.replace("_", " ")


def renamed(call: Call, stands_for: dict[int, Value]) -> Call:
    """The call on the values that stand for its operands."""
    for x in call.operands:
        if type(x) is Value and x.index in stands_for:
            operands = [stands_for.get(x.index, x) if isinstance(x, Value) else x for x in call.operands]
            return Call(call.op, tuple(operands), call.attrs, call.results)
    return call


def eliminate_common_subexpressions(graph: Graph) -> Graph:
    """Calls of the same op on the same values are one call; equal constants are one constant."""
    first: dict[Any, tuple[Value, ...]] = {}
    stands_for: dict[int, Value] = {}
    constants = []
    for value, array in graph.constants:
        key: Any = (array.dtype, array.shape, array.tobytes())
        if array.size <= 4096 and key in first:
            stands_for[value.index] = first[key][0]
        else:
            first[key] = (value,)
            constants.append((value, array))

    def now(x: Value) -> Value:
        return stands_for.get(x.index, x)

    calls = []
    texts: dict[int, str] = {}  # copied calls have their attributes in common
    for call in graph.calls:
        call = renamed(call, stands_for)
        names = [x.index if type(x) is Value else ("number", type(x), repr(x)) for x in call.operands]
        attrs = call.attrs
        if attrs and id(attrs) not in texts:
            texts[id(attrs)] = repr(sorted(attrs.items()))
        key = (call.op.name, *names, texts[id(attrs)] if attrs else "", *specs(call.results))
        if key in first and call.op.name not in DRAWS:
            for result, known in zip(call.results, first[key], strict=True):
                stands_for[result.index] = known
            continue
        first[key] = call.results
        calls.append(call)
    outputs = [now(value) for value in graph.outputs]
    writes = [(tensor, now(value)) for tensor, value in graph.writes]
    return replace(graph, calls=calls, constants=constants, outputs=outputs, writes=writes)


def eliminate_copies(graph: Graph) -> Graph:
    """A copy is the value itself: nothing is written in a graph, and outputs get memory of their own anyway.

    So are the pieces of a joined value that is split where it was joined, as what a recurrent layer keeps is.
    """
    stands_for: dict[int, Value] = {}
    joins: dict[int, Call] = {}

    def now(x: Value) -> Value:
        return stands_for.get(x.index, x)

    calls = []
    for call in graph.calls:
        call = renamed(call, stands_for)
        if call.op.name == "clone":
            stands_for[call.results[0].index] = call.operands[0]
            continue
        calls.append(call)
        if call.op.name == "cat":
            joins[call.results[0].index] = call
        elif call.op.name in SPLITS and call.operands[0].index in joins:
            join = joins[call.operands[0].index]
            if join.attrs["dim"] == call.attrs["dim"] and specs(join.operands) == specs(call.results):
                stands_for.update((new.index, old) for new, old in zip(call.results, join.operands))
    outputs = [now(value) for value in graph.outputs]
    writes = [(tensor, now(value)) for tensor, value in graph.writes]
    return replace(graph, calls=calls, outputs=outputs, writes=writes)


def specs(values: tuple) -> list[Spec]:
    return [value.spec for value in values]


def eliminate_dead_code(graph: Graph) -> Graph:
    """Calls whose results nobody needs are gone; random draws stay, because the generator must move on."""
    needed = {value.index for value in graph.outputs} | {value.index for _, value in graph.writes}
    kept = []
    for call in reversed(graph.calls):
        wanted = not needed.isdisjoint([result.index for result in call.results])
        if wanted or call.op.name in DRAWS:
            kept.append(call)
            needed.update([x.index for x in call.operands if type(x) is Value])
    outside = [(value, tensor) for value, tensor in graph.outside if value.index in needed]
    constants = [(value, array) for value, array in graph.constants if value.index in needed]
    return replace(graph, calls=kept[::-1], outside=outside, constants=constants)


PASSES: list[Callable[[Graph], Graph]] = [
    eliminate_copies,
    hoist_products_above_lookups,
    eliminate_common_subexpressions,
    eliminate_dead_code,
]
