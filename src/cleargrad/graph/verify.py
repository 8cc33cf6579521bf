"""A verifier of graphs: what every graph must be, looked at after recording and after each pass.

It runs where the environment variable CLEARGRAD_VERIFY is set, as it is for all tests; for everybody else it costs
nothing. What it finds is a mistake of cleargrad's, and a good start for a report. Read next: schedule/formulas.py.
"""

from __future__ import annotations

import os

import numpy as np

from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error
from cleargrad.ops.record import Call, Graph, Value

VARIABLE = "CLEARGRAD_VERIFY"


class GraphError(AssertionError):
    """A graph that contradicts itself."""


def is_on() -> bool:
    return bool(os.environ.get(VARIABLE))


def verify(graph: Graph, stage: str) -> None:
    """Raises what is wrong with a graph: every value is made once, before it is used, and is what it says."""
    known = sources(graph, stage)
    for number, call in enumerate(graph.calls):
        where = f"call {number}, {call.op.name}, after {stage}"
        for operand in call.operands:
            if isinstance(operand, Value):
                check_known(known, operand, where)
        check_results(call, where)
        for result in call.results:
            define(graph, known, result, where)
    for number, value in enumerate(graph.outputs):
        check_known(known, value, f"output {number} after {stage}")
    for tensor, value in graph.writes:
        check_known(known, value, f"a write after {stage}")
        check_array(value, tensor._data, f"a write after {stage}")
    written = [id(tensor) for tensor, _ in graph.writes]
    if len(set(written)) != len(written):
        raise broken(f"a write after {stage}", "a tensor is written twice")


def sources(graph: Graph, stage: str) -> dict[int, Spec]:
    """The values that are there before the first call."""
    known: dict[int, Spec] = {}
    for number, (value, array) in enumerate(zip(graph.inputs, graph.input_arrays, strict=True)):
        define(graph, known, value, f"input {number} after {stage}")
        check_array(value, array, f"input {number} after {stage}")
    for value, tensor in graph.outside:
        define(graph, known, value, f"a tensor from outside, after {stage}")
        check_array(value, tensor._data, f"a tensor from outside, after {stage}")
    for value, array in graph.constants:
        define(graph, known, value, f"a constant after {stage}")
        check_array(value, array, f"a constant after {stage}")
    return known


def define(graph: Graph, known: dict[int, Spec], value: Value, where: str) -> None:
    if value.index in known:
        raise broken(where, f"%{value.index} is made twice")
    if not 0 <= value.index < graph.size:
        raise broken(where, f"%{value.index} is not one of {graph.size} values")
    known[value.index] = value.spec


def check_known(known: dict[int, Spec], value: Value, where: str) -> None:
    spec = known.get(value.index)
    if spec is None:
        raise broken(where, f"%{value.index} is used before it is made")
    if not same(spec, value.spec):
        raise broken(where, f"%{value.index} is used as {said(value.spec)}, but is {said(spec)}")


def check_array(value: Value, array: np.ndarray, where: str) -> None:
    if array.shape != value.spec.shape or array.dtype != value.spec.dtype.numpy:
        raise broken(where, f"%{value.index} is {said(value.spec)}, its memory {array.shape} {array.dtype}")


def check_results(call: Call, where: str) -> None:
    """The results of a call are what the op's own rule says of its operands."""
    if "stream" in call.attrs or any(operand is None for operand in call.operands):
        return  # draws have lost the operand that only said where the numbers go
    operands = [stand_in(x) if isinstance(x, Value) else x for x in call.operands]
    before = mode.set(recorder=None, grad=False, autocast=None)
    try:
        rule = call.op.spec(*operands, **call.attrs)
    finally:
        mode.set(**before)
    specs = [rule] if isinstance(rule, Spec) else rule
    if not isinstance(specs, (list, tuple)) or len(specs) != len(call.results):
        return  # a shape that depends on values
    for result, spec in zip(call.results, specs, strict=True):
        if not same(result.spec, spec):
            raise broken(where, f"%{result.index} is {said(result.spec)}, by the op's rule {said(spec)}")


def stand_in(value: Value) -> Tensor:
    """A tensor of a value's shape and dtype; zeros take no memory until somebody reads them."""
    return wrap(np.zeros(value.spec.shape, value.spec.dtype.numpy))


def same(one: Spec, other: Spec) -> bool:
    return one.shape == other.shape and one.dtype is other.dtype


def said(spec: Spec) -> str:
    return f"{spec.shape} {spec.dtype.name}"


def broken(where: str, what: str) -> Exception:
    fix = "this is a mistake in cleargrad: please report it with the function that was compiled"
    return error(GraphError, "compile", f"{what} ({where})", fix=fix)
