"""The second reading of a call: a recorder appends it to a graph instead of running it.

While a Recorder is active the door hands every call here. Tensors then hold memory that nobody fills; the
recorder knows which graph value stands for which array. Views and writes are made functional: a write gives
the base a new value, and views of it are taken again. `replay` is the NumPy reading of a graph, the oracle
for every compiled one. Read next: ops/pointwise.py.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cleargrad.autograd.node import geometry
from cleargrad.core.mode import mode, settle
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor, as_array, cell_of, wrap
from cleargrad.errors import error
from cleargrad.ops.apply import check_operands, layouts_of, link
from cleargrad.ops.op import OPS, PARTS, Op

OWN_PAGES = 1 << 16  # bytes


class CaptureError(RuntimeError):
    """A recorded program asked for a value that does not exist yet."""


def data_dependent(name: str) -> Callable:
    """The spec of an op whose result's shape depends on values: it cannot be recorded."""

    def spec(*operands: Any, **attrs: Any) -> None:
        if mode.recorder is not None:
            mode.recorder.refuse(name)

    return spec


def no_value_error(name: str) -> Exception:
    rule = "a recorded program has no values yet, and this call needs one"
    fix = "move the call out of the recorded function, or choose with torch.where instead of by value"
    return error(CaptureError, name, rule, fix=fix)


@dataclass(slots=True, eq=False)
class Value:
    """A result of a graph node, or an input; `index` is its slot when the graph is read."""

    index: int
    spec: Spec


@dataclass(slots=True, eq=False)
class Call:
    """One recorded op: operands are Values or Python numbers, results are Values."""

    op: Op
    operands: tuple
    attrs: dict[str, Any]
    results: tuple[Value, ...]


@dataclass
class Graph:
    """A straight line of calls. Outside tensors are inputs by reference; `writes` says what they become."""

    inputs: list[Value] = field(default_factory=list)
    input_arrays: list[np.ndarray] = field(default_factory=list)  # of the shape, dtype and strides of inputs
    outside: list[tuple[Value, Tensor]] = field(default_factory=list)
    constants: list[tuple[Value, np.ndarray]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    writes: list[tuple[Tensor, Value]] = field(default_factory=list)
    size: int = 0

    def __str__(self) -> str:
        lines = [f"inputs {', '.join(f'%{v.index} {list(v.spec.shape)}' for v in self.inputs)}"]
        for call in self.calls:
            operands = [f"%{x.index}" if isinstance(x, Value) else repr(x) for x in call.operands]
            operands += [f"{name}={value!r}" for name, value in call.attrs.items()]
            results = ", ".join(f"%{v.index} {list(v.spec.shape)} {v.spec.dtype.name}" for v in call.results)
            lines.append(f"  {results} = {call.op.name}({', '.join(operands)})")
        return "\n".join([*lines, f"outputs {', '.join(f'%{v.index}' for v in self.outputs)}"])


class Recorder:
    """Collects the calls of the current thread into a graph, as a context manager."""

    def __init__(self, whole: frozenset[str] = frozenset()) -> None:
        """`whole` are names of fused ops that stay one call: the device has kernels for them."""
        self.whole = whole
        self.graph = Graph()
        self.known: dict[int, tuple[Value, int]] = {}  # id of an array -> its value, and the writes it saw
        self.alive: list[Any] = []  # keeps those ids from being reused
        self.owners: dict[int, Tensor] = {}  # id of a version cell -> the tensor that is the whole memory
        self.writes: dict[int, int] = {}  # id of an owner's array -> how often the memory was written
        self.written: dict[int, Tensor] = {}
        self.referred: set[int] = set()  # ids of the arrays of outside tensors

    def __enter__(self) -> Recorder:
        settle()
        self.before = mode.set(recorder=self, waiter=None)
        return self

    def __exit__(self, *exception: object) -> None:
        mode.set(**self.before)

    def input(self, like: Tensor) -> Tensor:
        """A symbolic tensor of the same shape, dtype and strides."""
        tensor = wrap(np.empty_like(like._data))
        self.graph.inputs.append(self.name(tensor))
        self.graph.input_arrays.append(tensor._data)
        return tensor

    def refuse(self, name: str) -> None:
        """A call asked for a value."""
        raise no_value_error(name)

    def constant(self, data: np.ndarray) -> Tensor:
        """A tensor whose values are known now and the same in every run."""
        tensor = wrap(data)
        self.graph.constants.append((self.name(tensor), data.copy()))
        return tensor

    def call(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        check_operands(op, operands)
        if op.lower is PARTS and op.name not in self.whole:
            return self.call_parts(op, operands, attrs)
        spec = op.spec(*operands, **attrs)
        values = tuple([self.value(x) if isinstance(x, Tensor) else x for x in operands])
        arrays = blank_results(op, operands, attrs, spec)
        outs = link(op, operands, attrs, arrays, mode.grad)
        results = tuple(map(self.name, outs)) if type(outs) is tuple else (self.name(outs),)
        self.graph.calls.append(Call(op, values, attrs, results))
        return outs

    def call_parts(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        """A fused op: what is recorded are the ops it is made of; its own gradient is kept."""
        spec = op.spec(*operands, **attrs)
        arrays = [out._data for out in self.parts_of(op, operands, attrs, spec)]
        return link(op, operands, attrs, arrays[0] if isinstance(spec, Spec) else arrays, mode.grad)

    @staticmethod
    def parts_of(op: Op, operands: tuple, attrs: dict[str, Any], spec: Any) -> list[Tensor]:
        """What the parts of a fused op give."""
        before = mode.set(grad=False, autocast=None)
        try:
            outs = op.parts(*operands, **attrs)
            if isinstance(spec, Spec):
                return [fresh(outs, spec, operands)]
            return [fresh(out, part, operands) for out, part in zip(outs, spec, strict=True)]
        finally:
            mode.set(**before)

    def repeated(self, function: Callable, *operands: Any) -> tuple:
        """The tensors that a function gives which depends on nothing but its operands."""
        return function(*operands)

    def name(self, tensor: Tensor) -> Value:
        """A new graph value, for which this tensor stands."""
        value = self.slot(Spec(tensor._form.shape, tensor.dtype))
        self.set(tensor, value)
        return value

    def rename(self, tensor: Tensor, kept: Tensor) -> None:
        """Another tensor stands for the present value of one."""
        self.set(kept, self.value(tensor))

    def alias(self, tensor: Tensor, other: Tensor) -> None:
        """Another tensor, which autograd takes for a stranger, has the same memory."""
        self.value(tensor)
        self.owners[id(cell_of(other))] = self.owner(tensor)
        self.alive.append(other._ver)

    def slot(self, spec: Spec) -> Value:
        self.graph.size += 1
        return Value(self.graph.size - 1, spec)

    def set(self, tensor: Tensor, value: Value) -> None:
        owner = self.owner(tensor)
        self.known[id(tensor._data)] = (value, self.writes.get(id(owner._data), 0))
        self.alive.append(tensor._data)

    def owner(self, tensor: Tensor) -> Tensor:
        """The tensor that has the whole memory of a view or alias."""
        cell = cell_of(tensor)
        if id(cell) not in self.owners:
            self.owners[id(cell)] = tensor if tensor._base is None else tensor._base
            self.alive.append(cell)
        return self.owners[id(cell)]

    def value(self, tensor: Tensor) -> Value:
        """The graph value a tensor stands for now."""
        owner = self.owner(tensor)
        writes = self.writes.get(id(owner._data), 0)
        found, seen = self.known.get(id(tensor._data), (None, 0))
        if found is not None and (seen == writes or owner._data is tensor._data):
            return found
        if owner._data is tensor._data or not writes:
            return self.refer(tensor)
        source = self.value(owner)
        value = self.name(tensor)
        self.graph.calls.append(Call(OPS["as_strided"], (source,), window_of(tensor, owner), (value,)))
        return value

    def refer(self, tensor: Tensor) -> Value:
        """A tensor that the recorder has not seen made: an input by reference."""
        value = self.name(tensor)
        self.graph.outside.append((value, tensor))
        self.referred.add(id(tensor._data))
        return value

    def write(self, target: Tensor, value: Tensor) -> Tensor:
        """Makes a write functional: the memory's owner stands for a new value from here on.

        Returns what is written.
        """
        new = self.value(value)
        owner = self.owner(target)
        if id(owner._data) not in self.known:
            self.value(owner)  # notes where the memory is from
        outside = id(owner._data) in self.referred
        if owner._data is not target._data:
            old = self.value(owner)
            new, part = self.slot(old.spec), new
            attrs = window_of(target, owner)
            self.graph.calls.append(Call(OPS["as_strided_scatter"], (old, part), attrs, (new,)))
        self.writes[id(owner._data)] = self.writes.get(id(owner._data), 0) + 1
        self.set(owner, new)
        if outside:
            self.written[id(owner._data)] = owner
        return value

    def finish(self, outputs: Sequence[Tensor]) -> Graph:
        """The graph, with these tensors as its outputs and the outside tensors that were written."""
        self.graph.outputs = [self.value(out) for out in outputs]
        self.graph.writes = [(owner, self.known[key][0]) for key, owner in self.written.items()]
        return self.graph


def seen_anew(arrays: Any, source: np.ndarray) -> Any:
    """What a view gives, as arrays of its own: names belong to arrays, and a view of everything has another."""
    if isinstance(arrays, (list, tuple)):
        return [source.view() if array is source else array for array in arrays]
    return source.view() if arrays is source else arrays


def blank_results(op: Op, operands: tuple, attrs: dict[str, Any], spec: Any) -> Any:
    """Memory for what a call gives, which nobody fills; a view shows what it is a view of."""
    forms = layouts_of(op, operands, attrs, spec)
    if op.view:
        return seen_anew(forms, operands[0]._form)
    return list(map(untouched, forms)) if isinstance(forms, list) else untouched(forms)


def untouched(form: np.ndarray) -> np.ndarray:
    """Memory of a layout that nobody fills, in pages of its own, which take none as long as nobody touches them.

    From the heap, it would spread the arrays that come after it over twice the memory.
    """
    size = form.dtype.itemsize * form.size
    if size >= OWN_PAGES:
        with suppress(OSError, OverflowError):
            return np.ndarray(form.shape, form.dtype, mmap.mmap(-1, size), 0, form.strides)
    return np.empty_like(form)


def window_of(view: Tensor, owner: Tensor) -> dict[str, Any]:
    """Where a view lies within the memory of its owner, in elements, which must be the same for both."""
    if view._form.dtype != owner._form.dtype:
        raise CaptureError("memory is seen as elements of another dtype")
    return geometry(view, owner)


def fresh(out: Tensor, spec: Spec, operands: tuple) -> Tensor:
    """A result of parts as a kernel would have made it: in its final dtype, with memory of its own."""
    if out.dtype is not spec.dtype:
        return out.to(spec.dtype)
    shared = any(isinstance(x, Tensor) and np.may_share_memory(out._data, x._data) for x in operands)
    if not out._form.flags.c_contiguous:
        return out.contiguous()
    if shared or any(out is x for x in operands):
        return out.clone()
    return out


def values_of(graph: Graph, arrays: Sequence[np.ndarray]) -> list[Any]:
    """The values of a graph for some inputs, slot by slot, by each op's own `run`."""
    slots: list[Any] = [None] * graph.size
    for value, array in zip(graph.inputs, arrays, strict=True):
        slots[value.index] = array
    for value, tensor in graph.outside:
        slots[value.index] = tensor._data
    for value, array in graph.constants:
        slots[value.index] = array
    for call in graph.calls:
        operands = [slots[x.index] if isinstance(x, Value) else x for x in call.operands]
        result = call.op.run(*operands, **call.attrs)
        results = result if isinstance(result, (list, tuple)) else [result]
        for value, array in zip(call.results, results, strict=True):
            slots[value.index] = as_array(array)
    return slots


def replay(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs a recorded graph on arrays: its outputs, after tensors from outside were given their new values."""
    slots = values_of(graph, arrays)
    outputs = [slots[value.index] for value in graph.outputs]
    finals = [(owner, slots[value.index].copy()) for owner, value in graph.writes]
    if finals:  # what they overwrite may be among the outputs
        outputs = [array.copy() for array in outputs]
    for owner, array in finals:
        np.copyto(owner._data, array)
    return outputs
