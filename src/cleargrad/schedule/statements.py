"""Lowering: from a recorded graph to statements, which say what is stored where, computed by which formula.

Elementwise calls become formulas, views change formulas, and only what somebody must find in memory becomes a
statement: a `Store`, a `Reduce`, a `Product` of matrices, or a `Host` call of an op's own kernel where the
compiler has none. Read next: schedule/fuse.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from cleargrad.core.dtype import NARROW, OF_NUMPY
from cleargrad.core.pace import give_way
from cleargrad.expr.expr import Expr, identity, trace
from cleargrad.expr.order_of_sums import in_order
from cleargrad.ops.conversion import contiguous_format
from cleargrad.ops.declare import Reduction, View
from cleargrad.ops.op import OPS
from cleargrad.ops.record import Call, Graph, Value
from cleargrad.schedule.concatenation import described, homes
from cleargrad.schedule.formulas import CHEAP, Buffer, Formulas, Lazy, Load, Number, contiguous, kind_of
from cleargrad.schedule.slopes import TIMES, is_passing, slopes_ahead

IDENTITY = trace(lambda x: identity(x))[0]
LARGE = 120  # a formula of more work than this is stored, so that kernels stay small

F32 = np.dtype(np.float32)
KINDS = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"}
KNOWN = {kind for numpy, kind in OF_NUMPY.items() if kind_of(numpy) in KINDS}


@dataclass(eq=False)
class Store:
    """Elements of a buffer, at `place`, become what a formula says."""

    place: Load
    formula: Lazy

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.place.buffer,)

    @property
    def formulas(self) -> tuple[Lazy, ...]:
        return (self.formula, *(place for place, *_ in self.place.index))


@dataclass(eq=False)
class Reduce:
    """Elements of a buffer become joins of a formula over the dimensions `dims` of `shape`, in their order."""

    place: Load  # of the kept dimensions
    formula: Lazy
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    combine: Expr
    start: float | None
    working: np.dtype

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.place.buffer,)

    @property
    def formulas(self) -> tuple[Lazy, ...]:
        return (self.formula,)


@dataclass(eq=False)
class Product:
    """A stack of matrix products: (..., M, K) times (..., K, N), stored or added to what is there."""

    place: Load
    left: Load
    right: Load
    adds: bool = False

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.place.buffer,)

    @property
    def formulas(self) -> tuple[Lazy, ...]:
        return (self.left, self.right, self.place) if self.adds else (self.left, self.right)


@dataclass(eq=False)
class AddRows:
    """Rows are added into a table, each at its place: table[places[i]] += rows[i]."""

    place: Load  # of the table
    rows: Load
    places: Load

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.place.buffer,)

    @property
    def formulas(self) -> tuple[Lazy, ...]:
        return (self.place, self.rows, self.places)


@dataclass(eq=False)
class Host:
    """A call of an op's own kernel, on arrays that lie where these loads say."""

    call: Call
    operands: tuple  # Load, Number or a Python value
    results: tuple[Buffer, ...]

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return self.results

    @property
    def formulas(self) -> tuple[Lazy, ...]:
        return tuple(x for x in self.operands if isinstance(x, Load))


@dataclass(eq=False)
class Native:
    """Calls for which a device has kernels of its own; what `choose` gives is the device's affair."""

    choose: Callable[..., Any]
    operands: dict[str, Load]
    results: dict[str, Load]
    work: int  # about how many multiply-adds there are
    calls: tuple[Call, ...]  # what is computed
    values: dict[str, Value]  # which values of those calls the operands and results are
    can_fail: bool = False  # by an index that is out of range
    zeros: tuple[
        Value, ...
    ] = ()  # operands of those calls that are nothing but zeros, which kernels need not read

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return tuple(load.buffer for load in self.results.values())

    @property
    def formulas(self) -> tuple[Lazy, ...]:
        return tuple(self.operands.values())


Statement = Store | Reduce | Product | AddRows | Native | Host


@dataclass
class Plan:
    """All statements in order, and where inputs come from and outputs go to."""

    statements: list[Any] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    inputs: list[Buffer] = field(default_factory=list)
    outside: list[tuple[Buffer, Any]] = field(default_factory=list)  # with their tensors
    constants: list[tuple[Buffer, np.ndarray]] = field(default_factory=list)
    outputs: list[Buffer] = field(default_factory=list)
    writes: list[tuple[Any, Buffer]] = field(default_factory=list)  # outside tensors and what they become
    notes: dict[str, int] = field(
        default_factory=dict
    )  # what was done beside naming statements, and how often

    def sharing(self, tensor: Any) -> list[Buffer]:
        """The outside buffers that lie in a tensor's memory."""
        low, high = np.lib.array_utils.byte_bounds(tensor._data)
        if len(self._bounds) != len(self.outside):
            bounds = [np.lib.array_utils.byte_bounds(t._data) for _, t in self.outside]
            self._bounds = np.array(bounds, np.uint64).reshape(-1, 2)
        found = np.flatnonzero((self._bounds[:, 0] < high) & (self._bounds[:, 1] > low))
        return [self.outside[number][0] for number in found.tolist()]

    _bounds: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.uint64))


@dataclass(frozen=True)
class Target:
    """What must be known of the device that statements are for."""

    computes: Callable[[Expr, str], bool]  # whether its kernels can compute a formula in a dtype
    kernels: Mapping[str, Callable[[Builder, Call], None]]  # by op: what appends the statement of a call
    written_at: Callable[[Builder, Value, Load], bool]  # whether a value now is computed at a place at once
    multiplies: frozenset[str] = frozenset(("float32", "float64"))  # the dtypes whose matrices it multiplies
    repeats: int = (
        CHEAP  # up to how much work is done again by everybody who wants its result, rather than stored
    )


class Builder:
    """Reads a graph call by call."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.readers = {**READERS, **target.kernels}
        self.formulas = Formulas()
        self.plan = Plan()
        self.forms: dict[int, Lazy] = {}  # by the index of a value
        self.products: dict[Buffer, Product] = {}
        self.sums: set[Buffer] = set()  # buffers of more than one product
        self.users: dict[int, list[Call]] = defaultdict(list)
        for call in graph.calls:
            for x in call.operands:
                if type(x) is Value:
                    self.users[x.index].append(call)
        self.arrays = self.needed_as_arrays()
        self.asked = {value.index for value in graph.outputs} | {value.index for _, value in graph.writes}
        self.homes = homes(graph, self.asked)
        self.ahead = slopes_ahead(graph.calls, self.users, self.asked)
        self.slopes: dict[int, Value] = {}  # that are there, by the id of the call that multiplies by them
        self.ways: dict[Any, tuple[np.dtype, np.dtype] | None] = {}  # of elementwise ops, by op and dtypes
        self.rooms: dict[int, Load] = {}  # of what is joined from parts, by the index of a value

    @cached_property
    def makers(self) -> dict[int, Call]:
        """The calls by the values they make."""
        return {result.index: call for call in self.graph.calls for result in call.results}

    def needed_as_arrays(self) -> set[int]:
        """The values that kernels read by strides, themselves or through views: they are stored at once."""
        needed: set[int] = set()
        for call in reversed(self.graph.calls):
            seen = isinstance(call.op.lower, View)
            fused = isinstance(call.op.lower, (Expr, Reduction)) or call.op.name in FUSED
            if not fused and (not seen or any(result.index in needed for result in call.results)):
                needed.update(x.index for x in call.operands if isinstance(x, Value))
        return needed

    def build(self) -> Plan:
        self.read_sources()
        for call in self.graph.calls:
            self.read(call)
            give_way()
        taken: set[Buffer] = set()
        self.plan.outputs = [self.stored(value, taken) for value in self.graph.outputs]
        self.plan.writes = [(tensor, self.stored(value, taken)) for tensor, value in self.graph.writes]
        self.plan.notes = {
            "parts lie where they are concatenated": len(self.rooms.keys() & self.homes.keys()),
            "slopes are kept for the backward pass": len(self.slopes),
            "products are added to what is there": len(self.sums) // 2,
        }
        return self.plan

    def buffer(self, shape: tuple, dtype: np.dtype, role: str, strides: tuple | None = None) -> Buffer:
        made = Buffer(
            len(self.plan.buffers), shape, dtype, role, contiguous(shape) if strides is None else strides
        )
        self.plan.buffers.append(made)
        return made

    def source(self, array: np.ndarray, role: str) -> Buffer:
        strides = tuple(step // array.itemsize for step in array.strides)
        return self.buffer(array.shape, array.dtype, role, strides)

    def read_sources(self) -> None:
        for value, array in zip(self.graph.inputs, self.graph.input_arrays, strict=True):
            buffer = self.source(array, "input")
            self.plan.inputs.append(buffer)
            self.forms[value.index] = self.formulas.load(buffer)
        for value, tensor in self.graph.outside:
            buffer = self.source(tensor._data, "outside")
            self.plan.outside.append((buffer, tensor))
            self.forms[value.index] = self.formulas.load(buffer)
        for value, array in self.graph.constants:
            self.forms[value.index] = self.constant(array)

    def constant(self, array: np.ndarray) -> Lazy:
        """A number, where all elements are the same one; else memory."""
        first = array.reshape(-1)[:1]
        if array.size and kind_of(array.dtype) in KINDS and array.tobytes() == first.tobytes() * array.size:
            return Number(
                first.astype(F32)[0].item() if array.dtype in NARROW else first[0].item(), array.dtype
            )
        array = np.ascontiguousarray(array)
        buffer = self.source(array, "constant")
        self.plan.constants.append((buffer, array))
        return self.formulas.load(buffer)

    # Calls -------------------------------------------------------------------------------------------------

    def read(self, call: Call) -> None:
        lower = call.op.lower
        kinds = [x.spec.dtype for x in (*call.operands, *call.results) if type(x) is Value]
        if not KNOWN.issuperset(kinds):
            self.host(call)
        elif isinstance(lower, Expr):
            self.elementwise(call)
        elif isinstance(lower, Reduction):
            self.reduction(call)
        elif call.op.name in self.readers:
            self.readers[call.op.name](self, call)
        elif isinstance(lower, View):
            self.view(call)
        else:
            self.host(call)

    def elementwise(self, call: Call) -> None:
        if call.op.name == "add" and self.added_product(call):
            return
        kinds = [(x.spec.dtype, not x.spec.shape) if type(x) is Value else type(x) for x in call.operands]
        key = (call.op.name, call.op.lower, call.results[0].spec.dtype, *kinds)
        if key not in self.ways:
            self.ways[key] = way_of(call, self.target)
        way = self.ways[key]
        if way is None:
            self.host(call)
            return
        slope = self.slopes.get(id(call))
        if slope is not None:
            self.define(call.results[0], TIMES, (call.operands[0], slope), *way)
            return
        if call.results[0].index in self.ahead and is_passing(self.forms[call.operands[0].index]):
            later, slope = self.ahead[call.results[0].index]
            self.define(call.results[0], call.op.lower, call.operands, *way)
            self.define(slope, later.op.lower, (1.0, call.operands[0]), *way)
            self.store(slope)
            self.slopes[id(later)] = slope
            return
        self.define(call.results[0], call.op.lower, call.operands, *way)

    def define(
        self, result: Value, tree: Expr, operands: tuple, working: np.dtype, dtype: np.dtype, shape=None
    ) -> None:
        """A value is a scalar expression of others, perhaps computed in a shape with more or fewer ones."""
        index, shape = result.index, result.spec.shape if shape is None else shape
        number = self.formulas.number
        forms = [self.broadcast(x, shape) if type(x) is Value else number(x, working) for x in operands]
        formula = self.formulas.map(tree, tuple(forms), working, dtype, shape)
        shared = formula.weight > self.target.repeats and len(self.users[index]) > 1
        self.forms[index] = self.formulas.reshape(formula, result.spec.shape)
        if shared or formula.weight > LARGE or index in self.asked or index in self.arrays:
            self.store(result)

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Lazy:
        """An operand's formula in the shape of a result. What would be computed over and over is stored first."""
        form = self.forms[value.index]
        if type(form) is Number or form.shape == shape:
            return form
        if value.spec.shape != shape and form.weight > CHEAP:
            form = self.store(value)
        return self.formulas.expand(form, shape)

    def reduction(self, call: Call) -> None:
        ((value,), (result,)) = call.operands, call.results
        lower, shape, final = call.op.lower, value.spec.shape, result.spec.dtype.numpy
        working = F32 if final in NARROW else final
        if not self.target.computes(lower.combine, kind_of(working)) or (lower.start is None and 0 in shape):
            self.host(call)
            return
        dims = tuple(sorted(axis % max(len(shape), 1) for axis in call.attrs["dim"])) if shape else ()
        kept = tuple(extent for axis, extent in enumerate(shape) if axis not in dims)
        if prod(shape) == prod(kept):  # nothing to join, but for what a sum starts with: 0 + -0 is 0
            adds = lower.combine.primitive == "add" and working.kind == "f"
            tree, operands = (lower.combine, (0.0, value)) if adds else (IDENTITY, (value,))
            self.define(result, tree, operands, working, final, shape)
            return
        whole = self.formulas.load(self.buffer(kept, final, "inside"))
        extents, dims = in_order(shape, dims)
        formula = self.formulas.reshape(self.forms[value.index], extents)
        if formula is None:
            formula = self.formulas.reshape(self.store(value, fresh=True), extents)
        place = self.formulas.reshape(whole, tuple(n for axis, n in enumerate(extents) if axis not in dims))
        assert formula is not None and isinstance(place, Load)
        self.plan.statements.append(
            Reduce(place, formula, extents, dims, lower.combine, lower.start, working)
        )
        self.forms[result.index] = self.formulas.reshape(whole, result.spec.shape)

    def view(self, call: Call) -> None:
        value = call.operands[0]
        for number, result in enumerate(call.results):
            several = call.op.outputs != 1 or len(call.results) > 1

            def run(array: np.ndarray, number: int = number, several: bool = several) -> np.ndarray:
                seen = call.op.run(array, **call.attrs)
                return seen[number] if several or isinstance(seen, (list, tuple)) else seen

            self.see(result, value, run, view_key(call, number))

    def see(self, result: Value, value: Value, run: Callable, key: Any = None) -> None:
        """A value is another one, seen through a view."""
        form = self.forms[value.index]
        if isinstance(form, Number):
            self.forms[result.index] = form
            return
        seen = self.formulas.view(form, run, result.spec.shape, key)
        if seen is None:
            seen = self.formulas.view(self.store(value, fresh=True), run, result.spec.shape, key)
        assert seen is not None, (result, value)
        self.forms[result.index] = seen

    def host(self, call: Call) -> None:
        operands = tuple(self.arrayed(x) if isinstance(x, Value) else x for x in call.operands)
        results = tuple(self.buffer(x.spec.shape, x.spec.dtype.numpy, "inside") for x in call.results)
        self.plan.statements.append(Host(call, operands, results))
        for value, buffer in zip(call.results, results, strict=True):
            self.forms[value.index] = self.formulas.load(buffer)

    # Memory ------------------------------------------------------------------------------------------------

    def store(self, value: Value, fresh: bool = False) -> Load:
        """Puts a value into memory, unless it is there; with `fresh`, in rows one after the other."""
        form = self.forms[value.index]
        if isinstance(form, Load) and not form.index and not (fresh and not plain(form)):
            return form
        place = self.own_room(value) if fresh or isinstance(form, Load) else self.room(value)
        if isinstance(form, Number):
            form = self.formulas.map(IDENTITY, (form,), working_of(place.dtype), place.dtype, place.shape)
        self.plan.statements.append(Store(place, form))
        self.forms[value.index] = place
        return place

    def own_room(self, value: Value) -> Load:
        return self.formulas.load(self.buffer(value.spec.shape, value.spec.dtype.numpy, "inside"))

    def room(self, value: Value) -> Load:
        """Where a value is to lie: in what it will be joined into, or in a buffer of its own."""
        if value.index not in self.rooms:
            home = self.homes.get(value.index)
            if home is None:
                self.rooms[value.index] = self.own_room(value)
            else:
                whole, shape = self.room(home.whole), value.spec.shape
                place = self.formulas.load(whole.buffer, shape, contiguous(shape), whole.offset + home.offset)
                self.rooms[value.index] = place
        return self.rooms[value.index]

    def arrayed(self, value: Value) -> Lazy:
        """An operand of a kernel that reads arrays: memory by strides."""
        form = self.forms[value.index]
        return form if isinstance(form, Number) else self.store(value)

    def stored(self, value: Value, taken: set[Buffer]) -> Buffer:
        """A buffer for a value alone: an output of the program, or what an outside tensor becomes."""
        form = self.forms[value.index]
        if (
            not isinstance(form, Load)
            or form.buffer.role != "inside"
            or not plain(form)
            or form.buffer in taken
        ):
            buffer = self.own_copy(value)
        else:
            buffer = form.buffer
        taken.add(buffer)
        return buffer

    def own_copy(self, value: Value) -> Buffer:
        form = self.forms[value.index]
        if not isinstance(form, Number) and kind_of(form.dtype) not in KINDS:
            return self.copied(value)
        if not isinstance(form, Number):
            form = self.formulas.map(IDENTITY, (form,), working_of(form.dtype), form.dtype, value.spec.shape)
            self.forms[value.index] = form
        return self.store(value, fresh=True).buffer

    def copied(self, value: Value) -> Buffer:
        """A copy made by the host, of a dtype that kernels do not know."""
        clone = Call(OPS["clone"], (value,), {"layout": contiguous_format}, (value,))
        buffer = self.buffer(value.spec.shape, value.spec.dtype.numpy, "inside")
        self.plan.statements.append(Host(clone, (self.arrayed(value),), (buffer,)))
        return buffer

    def matrix(self, value: Value) -> Load:
        form = self.arrayed(value)
        return self.store(value) if isinstance(form, Number) else form

    def product(self, call: Call) -> None:
        (result,) = call.results
        if kind_of(result.spec.dtype.numpy) not in self.target.multiplies:
            self.host(call)
            return
        left, right = map(self.matrix, call.operands)
        shape = result.spec.shape
        turns = len(shape) == 2 and self.only_transposed(result)
        if turns:  # the transpose is what will be read, so it is what is stored
            left, right, shape = self.transposed(right), self.transposed(left), shape[::-1]
        place = self.formulas.load(self.buffer(shape, result.spec.dtype.numpy, "inside"))
        statement = Product(place, left, right)
        self.plan.statements.append(statement)
        self.products[place.buffer] = statement
        self.forms[result.index] = self.transposed(place) if turns else place

    def only_transposed(self, value: Value) -> bool:
        users = self.users[value.index]
        return (
            value.index not in self.asked
            and bool(users)
            and all(call.op.name == "transpose" for call in users)
        )

    def transposed(self, load: Load) -> Load:
        seen = self.formulas.view(load, lambda array: array.T, load.shape[::-1], ("turn",))
        assert isinstance(seen, Load)
        return seen

    def added_product(self, call: Call) -> bool:
        """x + a·b where nobody else needs either: the product is added to x where x lies."""
        forms = [self.forms[x.index] if type(x) is Value else x for x in call.operands]
        if not all(type(form) is Load and form.buffer in self.products for form in forms):
            return False
        if any(len(self.users[x.index]) > 1 or x.index in self.asked for x in call.operands):
            return False
        target, other = forms if forms[1].buffer not in self.sums else forms[::-1]
        alike = (target.shape, target.strides, target.offset) == (other.shape, other.strides, other.offset)
        product = self.products[other.buffer]
        if not alike or other.buffer in self.sums or target.buffer.shape != other.buffer.shape:
            return False
        whole = prod(target.shape) == target.buffer.size
        if not whole or call.results[0].spec.shape != target.shape or len(product.place.shape) != 2:
            return False
        self.sums.update((target.buffer, other.buffer))
        self.plan.statements.remove(product)
        place = self.formulas.load(
            target.buffer, product.place.shape, product.place.strides, product.place.offset
        )
        self.plan.statements.append(Product(place, product.left, product.right, adds=True))
        self.forms[call.results[0].index] = target
        return True

    def copy(self, call: Call) -> None:
        """clone and to_copy: the same elements, perhaps in another dtype."""
        (result,), value = call.results, call.operands[0]
        dtype = result.spec.dtype.numpy
        if value.spec.dtype.numpy == dtype and value.spec.shape == result.spec.shape:
            self.forms[result.index] = self.forms[value.index]  # values never change, so one serves for both
        else:
            self.define(result, IDENTITY, (value,), working_of(dtype), dtype)

    def gather(self, call: Call) -> None:
        (value, place), (result,) = call.operands, call.results
        source, shape = value.spec.shape, result.spec.shape
        dim = call.attrs["dim"] % max(len(shape), 1)
        if not shape or source[:dim] + source[dim + 1 :] != shape[:dim] + shape[dim + 1 :]:
            self.host(call)
        else:
            self.pick(result, value, place, dim, shape, 1)

    def index(self, call: Call) -> None:
        """x[i] for one index tensor: an embedding."""
        value, *places = call.operands
        (result,) = call.results
        if len(places) != 1:
            self.host(call)
            return
        (dim,), around = call.attrs["dims"], places[0].spec.shape
        after = len(value.spec.shape) - dim - 1
        self.pick(result, value, places[0], dim, around + (1,) * after, len(around))

    def pick(self, result: Value, value: Value, place: Value, dim: int, thin: tuple, count: int) -> None:
        """A value is another one, read along a dimension at places whose shape is `thin` but for ones."""
        form, shape = self.forms[value.index], result.spec.shape
        if isinstance(form, Number):
            self.forms[result.index] = form
            return
        where = self.forms[place.index]
        if isinstance(where, Number) or where.weight > CHEAP:
            where = self.store(place)
        where = self.formulas.reshape(where, thin)
        if where is None:
            where = self.formulas.reshape(self.store(place, fresh=True), thin)
        self.forms[result.index] = self.formulas.at(
            form, dim, self.formulas.expand(where, shape), shape, count
        )
        if len(self.users[result.index]) > 1 or result.index in self.asked:
            self.store(result)

    def add_at(self, call: Call) -> None:
        """index_put that adds whole rows into a table."""
        base, rows, *places = call.operands
        (result,) = call.results
        shape, dtype = result.spec.shape, result.spec.dtype.numpy
        around = places[0].spec.shape
        simple = len(places) == 1 and call.attrs["accumulate"] and call.attrs["dims"] == (0,)
        alike = rows.spec.shape == around + shape[1:] and rows.spec.dtype.numpy == dtype
        if not simple or not alike or kind_of(dtype) not in ("float32", "float64") or 0 in shape:
            self.host(call)
            return
        if places[0].spec.dtype.numpy != np.int64:
            self.host(call)
            return
        buffer = self.buffer(shape, dtype, "inside")
        place = self.formulas.load(buffer)
        self.plan.statements.append(Store(place, self.element(base, shape)))
        added, where = (self.store(x, fresh=True) for x in (rows, places[0]))
        self.plan.statements.append(AddRows(place, added, where))
        self.forms[result.index] = place

    def join(self, call: Call) -> None:
        """cat: every operand is stored at its place in one buffer."""
        (result,) = call.results
        shape, dtype = result.spec.shape, result.spec.dtype.numpy
        if any(x.spec.dtype.numpy != dtype or len(x.spec.shape) != len(shape) for x in call.operands):
            self.host(call)
            return
        dim = call.attrs["dim"] % len(shape)
        whole = self.room(result)
        offset = whole.offset
        for value in call.operands:
            part = value.spec.shape
            place = self.formulas.load(whole.buffer, part, whole.strides, offset)
            offset += part[dim] * whole.strides[dim]
            form = self.forms[value.index]
            there = isinstance(form, Load) and described(form) == described(place)
            if 0 not in part and not there and not self.target.written_at(self, value, place):
                self.plan.statements.append(Store(place, self.element(value, part)))
        self.forms[result.index] = whole

    def window(self, call: Call) -> None:
        """as_strided: a view by memory, which is the recorded layout's."""
        value, (result,) = call.operands[0], call.results
        if not regular(call.attrs["x_stride"], value.spec.shape):
            self.host(call)
            return
        size, stride, offset = (call.attrs[name] for name in ("size", "stride", "offset"))
        if covers(size, stride, offset, value.spec.shape):
            self.see(result, value, lambda array: array.reshape(size))
            return
        whole = self.store(value, fresh=True)
        self.forms[result.index] = self.formulas.load(
            whole.buffer, tuple(size), tuple(stride), whole.offset + offset
        )

    def write_window(self, call: Call) -> None:
        """as_strided_scatter: a copy of a value, of which a window is replaced."""
        (value, part), (result,) = call.operands, call.results
        shape, dtype = result.spec.shape, result.spec.dtype.numpy
        if not regular(call.attrs["x_stride"], shape) or part.spec.dtype.numpy != dtype:
            self.host(call)
            return
        size, stride, offset = (call.attrs[name] for name in ("size", "stride", "offset"))
        if covers(size, stride, offset, shape):
            self.see(result, part, lambda array: array.reshape(shape))
            return
        buffer = self.buffer(shape, dtype, "inside")
        places = (
            self.formulas.load(buffer),
            self.formulas.load(buffer, tuple(size), tuple(stride), offset),
        )
        for place, source in zip(places, (value, part), strict=True):
            self.plan.statements.append(Store(place, self.element(source, place.shape)))
        self.forms[result.index] = places[0]

    def element(self, value: Value, shape: tuple) -> Lazy:
        """A value's formula, also where it is a number."""
        form = self.forms[value.index]
        if isinstance(form, Number):
            return self.formulas.map(IDENTITY, (form,), working_of(form.dtype), form.dtype, shape)
        return form


def way_of(call: Call, target: Target) -> tuple[np.dtype, np.dtype] | None:
    """The dtype in which an elementwise op is computed, and that of its result; None where the host has to."""
    compute = final = call.results[0].spec.dtype
    types = vars(call.op.spec).get("types")  # ops that choose by a mask have none: their result's dtype it is
    if types is not None:
        compute, final = types(tuple(dummy(x) if isinstance(x, Value) else x for x in call.operands))
    working = F32 if compute.numpy in NARROW else compute.numpy
    return (working, final.numpy) if target.computes(call.op.lower, kind_of(working)) else None


def regular(strides: tuple, shape: tuple) -> bool:
    """Whether strides are those of rows one after the other."""
    return all(own == step for own, step, n in zip(strides, contiguous(shape), shape) if n > 1)


def covers(size: tuple, stride: tuple, offset: int, shape: tuple) -> bool:
    """Whether a window is all of a regular array, in order."""
    return offset == 0 and prod(size) == prod(shape) and regular(stride, size)


def working_of(dtype: np.dtype) -> np.dtype:
    return F32 if dtype in NARROW else dtype


def plain(load: Load) -> bool:
    """Whether a load is all of its buffer, in the buffer's order."""
    buffer = load.buffer
    whole = load.offset == 0 and not load.index and load.shape == buffer.shape
    return whole and regular(load.strides, buffer.shape)


def view_key(call: Call, number: int) -> Any:
    """What a view does, as something that can be compared; None where it cannot."""
    key = (call.op.name, number, *call.attrs.items())
    try:
        hash(key)
    except TypeError:
        return None
    return key


def dummy(value: Value) -> np.ndarray:
    """An array of the value's shape and dtype without memory."""
    return blank(value.spec.shape, value.spec.dtype.numpy)


@lru_cache(maxsize=4096)
def blank(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.broadcast_to(np.zeros((), dtype), shape)


FUSED = {
    "clone",
    "to_copy",
    "gather",
    "index",
    "cat",
    "as_strided_scatter",
}  # what reads formulas beside the rest
READERS: dict[str, Callable[[Builder, Call], None]] = {
    "mm": Builder.product,
    "bmm": Builder.product,
    "clone": Builder.copy,
    "to_copy": Builder.copy,
    "gather": Builder.gather,
    "index": Builder.index,
    "index_put": Builder.add_at,
    "cat": Builder.join,
    "as_strided": Builder.window,
    "view_dtype": Builder.host,
    "as_strided_scatter": Builder.write_window,
}
