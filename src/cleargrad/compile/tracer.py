"""Tracer: a recorder that runs what it records.

A call of a compiled function that is to be recorded is an ordinary eager call: every value exists, every effect
happens, and when something cannot be recorded the tracer steps aside and the call simply goes on. What comes out
is the graph, and what the program must do besides: gradients to set, options of optimizers to read, facts that
must still hold.

Of a function that was recorded before, for arguments of another layout, the values can wait: the program will
compute them. Should they be needed sooner, `run_now` computes what was recorded until then, and the call goes on as
if it had run from the beginning. Read next: compile/facts.py.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from sys import setprofile
from typing import Any

import numpy as np

from cleargrad.autograd.node import Node, geometry, split_edge
from cleargrad.autograd.walk import fitted_parts, form_of
from cleargrad.codegen.expr import Expr
from cleargrad.compile.before import Before
from cleargrad.compile.facts import OptionCheck, is_plain, optimizer_facts, scaler_facts
from cleargrad.compile.pending import Pending
from cleargrad.compile.repeat import Template, Unfinished, make_updates, record_updates, repeats, tensors_of
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor, cell_of, tick, wrap
from cleargrad.errors import line_of, user_frame
from cleargrad.interop import number_of
from cleargrad.nn.parameter import is_lazy
from cleargrad.ops import apply
from cleargrad.ops.apply import check_operands, link
from cleargrad.ops.comparison import where
from cleargrad.ops.op import OPS, PARTS, Op
from cleargrad.ops.record import Call, CaptureError, Recorder, Value, blank_results, seen_anew, values_of


@dataclass
class Look:
    """What became of a leaf's gradient: what it was, and whether the program looked before it was replaced."""

    leaf: Tensor
    entry: Tensor | None
    looked: bool


@dataclass
class Option:
    """An option of an optimizer's group, or a part of one: a number that is read again at every call."""

    optimizer: Any
    group: int
    name: str
    part: int | None
    tensor: Tensor

    def read(self) -> float:
        value = self.optimizer.param_groups[self.group][self.name]
        return value if self.part is None else value[self.part]


class Tracer(Recorder):
    """Records the calls of the current thread while they run."""

    runs = True

    def __init__(self, fills: bool = True, before: Before | None = None) -> None:
        super().__init__()
        self.fills = fills
        self.before_call = before
        self.reason: str | None = None  # why nothing is recorded any more
        self.permanent = True  # whether the next call would fail as well
        self.place = ""
        self.tensors = {id(tensor): tensor for tensor in all_tensors()}  # those that were there before
        self.existing = {id(tensor._data): tensor._data for tensor in self.tensors.values()}
        self.references: dict[int, Reference] = {}
        self.forget = forgetting(weakref.ref(self))
        self.weak_owners: dict[int, weakref.ref] = {}
        self.grads: dict[int, Look] = {}
        self.began = tick()
        self.histories: dict[int, tuple[Tensor, Any]] = {}  # tensors from before, and the edges they had
        self.kept: list[Tensor] = []  # owners of memory of which only a detached part may be left
        self.options: dict[tuple, Option] = {}
        self.watched: dict[int, tuple[Any, Callable, Any]] = {}  # objects, what to ask of them, the answer
        self.checks: list[Callable[[], bool]] = []  # what is asked before every run
        self.effects: list[tuple[Callable[[Tensor], None], Tensor]] = []
        self.numbers: list[weakref.ref] = []
        self.made: list[weakref.ref] = []
        self.arguments: dict[int, set[int]] = {}  # ids of their arrays -> ids of the tensors
        self.looked_into: set[int] = set()  # ids of memory of which an argument is a view
        self.foreign: set[int] = set()  # ids of arrays that are the user's own memory
        self.predicate: Tensor | None = None
        self.running = True
        self.templates: dict[tuple, Template] = {}  # what was recorded, by function and layouts
        self.hook: Callable | None = None  # who is told of every Python call (compile/facts.py)

    # Stepping aside ----------------------------------------------------------------------------------------

    def refuse(self, name: str, permanent: bool = True) -> None:
        """What cannot be recorded runs eagerly, and so does all that follows."""
        if not self.running:
            super().refuse(name)
        self.run_now()
        if self.reason is None:
            frame = user_frame(sys._getframe(1))
            self.reason, self.permanent = name, permanent
            self.place = "" if frame is None else line_of((frame.f_code, frame.f_lasti))
        if mode.recorder is self:
            mode.set(recorder=None)

    def number(self, tensor: Tensor) -> Any:
        """`item()`: a number that may be handed back; to do anything else with it ends the recording."""
        if not self.running:
            return super().number(tensor)
        pending = Pending(self, tensor)
        self.numbers.append(weakref.ref(pending))
        return pending

    def run_now(self) -> None:
        """Gives values to what was only recorded; from here on calls are run."""
        if self.fills:
            return
        self.fills = True
        slots = values_of(self.graph, self.graph.input_arrays)
        # Memory that was written comes last: views of it may stand for what it held before.
        names = sorted(self.known.items(), key=lambda item: item[0] in self.writes)
        found = [(self.references[key](), slots[value.index]) for key, (value, _) in names]
        copies = [(data, value.copy()) for data, value in found if data is not None and value is not data]
        for data, value in copies:
            np.copyto(data, value)
        for reference in self.numbers:
            pending = reference()
            if pending is not None:
                pending.value = number_of(slots[pending.symbol.index])

    def take_back(self) -> None:
        """All is as before the call, but for what is no tensor: the program is what makes it."""
        if self.before_call is not None:
            self.before_call.put_back()
        for look in self.grads.values():
            look.leaf._grad = look.entry

    # Calls -------------------------------------------------------------------------------------------------

    def call(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        """Records and runs one op."""
        if self.hook is None:
            return self.record(op, operands, attrs)
        return self.unwatched(self.record, op, operands, attrs)

    def unwatched(self, action: Callable, *arguments: Any) -> Any:
        """Does something in which no function of the user's is called, so that nobody need look on."""
        hook, self.hook = self.hook, None
        if hook is None:
            return action(*arguments)
        setprofile(None)
        try:
            return action(*arguments)
        finally:
            self.hook = hook
            setprofile(hook)

    def record(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        if not self.running:
            return super().call(op, operands, attrs)
        check_operands(op, operands)
        if op.lower is PARTS:
            return self.call_parts(op, operands, attrs)
        spec = None
        if not (self.fills and isinstance(op.lower, Expr)):  # these find the same errors when they run
            spec = op.spec(*operands, **attrs)
        if self.reason is not None:
            return apply.call(op, operands, attrs)
        values = tuple([self.value(x) if isinstance(x, Tensor) else x for x in operands])
        if not self.fills:
            arrays = blank_results(op, operands, attrs, spec)
        else:
            arrays = self.run(op, operands, attrs)
            if op.view:
                arrays = seen_anew(arrays, operands[0]._data)
        outs = link(op, operands, attrs, arrays, mode.grad)
        if type(outs) is tuple:
            results = tuple(map(self.name, outs))
            self.made += map(weakref.ref, outs)
        else:
            results = (self.name(outs),)
            self.made.append(weakref.ref(outs))
        self.graph.calls.append(Call(op, values, attrs, results))
        return outs

    def call_parts(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        """A fused op: its kernel gives the values, what is recorded are its parts."""
        if not self.running or self.reason is not None:
            return super().call_parts(op, operands, attrs)
        arrays = self.run(op, operands, attrs) if self.fills else None
        spec = op.spec(*operands, **attrs)

        def record() -> list[Tensor]:
            return self.parts_of(op, operands, attrs, spec)

        values = self.recorded(record, operands, (op, described(attrs)))
        if arrays is None:
            waits = values is not None and not self.fills
            arrays = blank_results(op, operands, attrs, spec) if waits else self.run(op, operands, attrs)
        outs = link(op, operands, attrs, arrays, mode.grad)
        if values is not None:
            self.stand_for(outs if type(outs) is tuple else (outs,), values)
        return outs

    def pull(self, node: Node, grad: Any, wanted: tuple | None) -> Any:
        """The gradients that a node hands on: the quickest way gives the values, what is recorded are ops."""
        hooked = node.extra is not None and node.extra.posthooks
        if not self.running or self.reason is not None or mode.grad or hooked:
            return self.unwatched(node.pull, grad, wanted)

        def pull() -> list:
            return fitted_parts(node, node.pull(grad, wanted))

        return self.unwatched(self.computed, pull, pull, lambda: given_to(node, grad, wanted))

    def computed(self, run: Callable, record: Callable, given: Callable[[], tuple] | None = None) -> Any:
        """Runs one function unrecorded and records the other unrun: results of the first stand for the second's.

        `given` says what the second depends on: its operands, and a key.
        """
        if not self.running:
            return record()
        results = alone(run) if self.fills else None
        values = None
        if self.reason is None:
            values = self.recorded(record, *((), (None,)) if given is None else given())
        if results is None:
            results = alone(run) if values is None else [None if x is None else empty(x.spec) for x in values]
        if values is not None:
            results = [self.apart(result) for result in results]
            self.stand_for(results, values)
        return results

    def recorded(self, record: Callable, operands: Sequence, key: tuple) -> list[Value | None] | None:
        """The values of what a function gives that is recorded, but not run; None if that cannot be.

        For a key without None, and operands laid out as others before, it is not called: calls are copied.
        """
        sources = [self.value(x) for x in operands if isinstance(x, Tensor)]
        if self.reason is not None:
            return None
        whole = (key, *map(layout, operands), *map(sources.index, sources))
        template = None if None in key else self.templates.get(whole)
        if template is not None:
            return template.copied(self, sources)
        template = Template(self, sources)
        try:
            with self.symbolic():
                results = [None if x is None else self.value(x) for x in record()]
        except CaptureError:
            self.refuse("item")
        if self.reason is not None:
            return None
        if None not in key and template.is_complete(self, results):
            self.templates[whole] = template
        return results

    def repeated(self, function: Callable, *operands: Any) -> tuple:
        """What is only recorded is recorded once for operands of one layout; then calls are copied."""
        if self.running or mode.grad:
            return function(*operands)
        sources = [self.value(x) for x in operands if isinstance(x, Tensor)]
        key = (function, *map(layout, operands), *map(sources.index, sources))
        known = self.templates.get(key)
        if known is None:
            template = Template(self, sources)
            outs = function(*operands)
            whole = all(out._data.flags.c_contiguous for out in outs)
            if template.is_complete(self, [self.value(out) for out in outs]) and whole:
                self.templates[key] = template
            return outs
        values = [value for value in known.copied(self, sources) if value is not None]
        outs = tuple([empty(value.spec) for value in values])
        for out, value in zip(outs, values, strict=True):
            self.set(out, value)
        return outs

    def stand_for(self, tensors: Sequence[Tensor | None], values: list[Value | None]) -> None:
        """Tensors that were not computed by what is recorded get their names."""
        for tensor, value in zip(tensors, values, strict=True):
            if tensor is not None and value is not None:
                if spec_of(tensor) != value.spec:
                    self.refuse("a value is recorded in another form than it has")
                self.set(tensor, value)
                self.made.append(weakref.ref(tensor))

    def apart(self, result: Tensor | None) -> Tensor | None:
        """A result that is not a view of memory which is not known here, and which nobody else knows."""
        if result is None or result._base is None or id(result._base._data) in self.known:
            return result
        return wrap(result._data)

    def run(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        if self.before_call is not None and "stream" in attrs:
            self.before_call.keep_stream(attrs["stream"])
        try:
            return op.run(*[x._data if isinstance(x, Tensor) else x for x in operands], **attrs)
        except (ValueError, TypeError, AttributeError, IndexError, OverflowError):
            op.spec(*operands, **attrs)  # raises the error in our words, when it knows better than NumPy
            raise

    # Names -------------------------------------------------------------------------------------------------

    def argument(self, tensor: Tensor) -> None:
        """A tensor that is another one at every call."""
        self.graph.inputs.append(self.name(tensor))
        self.graph.input_arrays.append(tensor._data)
        self.arguments.setdefault(id(tensor._data), set()).add(id(tensor))
        if tensor._base is not None:
            self.looked_into.add(id(tensor._base._data))

    def value(self, tensor: Tensor) -> Value:
        found = self.arguments.get(id(tensor._data))
        if found is not None and id(tensor) not in found and id(tensor) in self.tensors:
            self.refuse("it uses a tensor that shares the memory of an argument")
        if tensor._ver is None:  # never written, never looked into: it is its own owner
            known = self.known.get(id(tensor._data))
            return self.refer(tensor) if known is None else known[0]
        return super().value(tensor)

    def set(self, tensor: Tensor, value: Value) -> None:
        """Arrays are named while they live: the tracer keeps none of them."""
        data = tensor._data
        key = id(data)
        whole = key if tensor._ver is None else id(self.owner(tensor)._data)
        self.known[key] = (value, self.writes.get(whole, 0))
        if key not in self.references:
            self.references[key] = reference = Reference(data, self.forget)
            reference.key = key

    def owner(self, tensor: Tensor) -> Tensor:
        cell = cell_of(tensor)
        found = self.weak_owners.get(id(cell))
        owner = None if found is None else found()
        if owner is None:
            owner = tensor if tensor._base is None else tensor._base
            self.keep_owner(cell, owner)
        return owner

    def keep_owner(self, cell: list, owner: Tensor) -> None:
        self.weak_owners[id(cell)] = weakref.ref(owner)
        self.alive.append(cell)

    def alias(self, tensor: Tensor, other: Tensor) -> None:
        self.value(tensor)
        owner = self.owner(tensor)
        self.keep_owner(cell_of(other), owner)
        if owner._data is not other._data:
            self.kept.append(owner)

    def refer(self, tensor: Tensor) -> Value:
        """A tensor that no recorded call made: one that was there before, or one with fixed values."""
        data = tensor._data
        if id(data) in self.looked_into:
            self.refuse("it uses the memory that an argument is a view of")
        base = tensor._base
        if base is not None and base._data is not data and base._data.dtype == data.dtype:
            return self.see(tensor, base)
        if id(data) in self.existing or id(data) in self.foreign:
            return super().refer(tensor)
        if data.base is not None and any(np.may_share_memory(data, other) for other in self.named_arrays()):
            self.refuse("memory shared outside of ops")
        value = self.name(tensor)
        self.graph.constants.append((value, data.copy()))
        return value

    def see(self, view: Tensor, base: Tensor) -> Value:
        """A view that was there before: programs know whole memory only."""
        source = self.value(base)
        value = self.name(view)
        self.graph.calls.append(Call(OPS["as_strided"], (source,), geometry(view, base), (value,)))
        return value

    def named_arrays(self) -> Iterator[np.ndarray]:
        for reference in list(self.references.values()):
            data = reference()
            if data is not None:
                yield data

    def adopt(self, array: np.ndarray) -> None:
        """An array of the user's own: it may hold something else at the next call."""
        self.foreign.add(id(array))
        self.alive.append(array)

    def note_history(self, tensor: Tensor) -> None:
        if id(tensor) in self.tensors or id(tensor._data) in self.arguments:
            self.histories.setdefault(id(tensor), (tensor, tensor._edge))

    def keep_grad(self, tensor: Tensor) -> None:
        if id(tensor) in self.tensors or id(tensor._data) in self.arguments:
            self.refuse("it calls retain_grad() of a tensor from outside")

    def write(self, target: Tensor, value: Tensor) -> Tensor:
        self.note_history(target if target._base is None else target._base)
        if self.before_call is not None:
            self.before_call.keep(self.owner(target)._data)
        if self.predicate is not None:
            condition, self.predicate = self.predicate, None
            before = mode.set(grad=False)
            try:
                value = where(condition, value, target)
            finally:
                mode.set(**before)
                self.predicate = condition
        return super().write(target, value)

    # Beyond tensors ----------------------------------------------------------------------------------------

    def become(self, owner: Tensor, value: Value) -> None:
        """Notes that a whole memory was given a new value."""
        key = id(owner._data)
        self.writes[key] = self.writes.get(key, 0) + 1
        self.set(owner, value)
        if key in self.referred:
            self.written[key] = owner

    def update(self, optimizer: Any, group: dict[str, Any], options: dict[str, Any], items: list) -> None:
        """A rule that treats elements by themselves is recorded once, and the step is made eagerly."""
        usual = self.running and self.reason is None and self.predicate is None and not mode.grad
        if not usual or not repeats(optimizer):
            super().update(optimizer, group, options, items)
            return
        before = self.known.copy(), self.writes.copy(), self.written.copy()
        try:
            self.unwatched(record_updates, self, optimizer, options, items)
        except (Unfinished, CaptureError) as failure:
            self.known, self.writes, self.written = before  # none of these steps is made yet
            if isinstance(failure, Unfinished):
                self.refuse(f"it changes its {type(optimizer).__name__}", permanent=False)
            else:
                self.refuse("item")
        if self.before_call is not None:
            for tensor in [tensor for item in items for tensor in tensors_of(item)]:
                self.before_call.keep(tensor._data)
        if self.fills:
            self.unwatched(make_updates, optimizer, group, items)

    def look_at_grad(self, leaf: Tensor, clears: bool = False) -> None:
        if id(leaf) in self.tensors and id(leaf) not in self.grads:  # others are the call's own
            self.grads[id(leaf)] = Look(leaf, leaf._grad, not clears)

    def option(self, optimizer: Any, group: int, name: str, part: int | None) -> Tensor:
        """A number that a program reads at every call, as a tensor."""
        key = (id(optimizer), group, name, part)
        found = self.options.get(key)
        if found is None:
            value = super().option(optimizer, group, name, part)
            tensor = wrap(np.array(value, np.float64))
            self.argument(tensor)
            found = self.options[key] = Option(optimizer, group, name, part, tensor)
        return found.tensor

    def watch(self, thing: Any, facts: Callable[[Any], Any]) -> None:
        """Something that decides what is recorded: its facts must be the same at every call."""
        if id(thing) not in self.watched:
            self.watched[id(thing)] = (thing, facts, facts(thing))

    def note_optimizer(self, optimizer: Any) -> None:
        if id(optimizer) not in self.watched:
            self.watch(optimizer, optimizer_facts)
            self.checks.append(OptionCheck(optimizer).holds)

    def note_scaler(self, scaler: Any) -> None:
        if id(scaler) not in self.watched:
            self.watch(scaler, scaler_facts)
            before = scaler_facts(scaler)
            self.checks.append(lambda: scaler_facts(scaler) == before)

    def effect(self, put: Callable[[Tensor], None], tensor: Tensor) -> None:
        """After every run, `put` gets a tensor with this value."""
        self.effects.append((put, tensor))

    @contextmanager
    def predicated(self, condition: Tensor) -> Iterator[None]:
        """Writes happen only where a recorded condition holds."""
        before, self.predicate = self.predicate, condition
        try:
            yield
        finally:
            self.predicate = before

    @contextmanager
    def symbolic(self) -> Iterator[None]:
        """Calls are recorded only, as by a plain recorder."""
        fills, self.fills = self.fills, False
        self.running = self.runs = False
        try:
            yield
        finally:
            self.running = self.runs = True
            self.fills = fills


class Reference(weakref.ref):
    """A reference to an array, which knows by what name the array went."""

    __slots__ = ("key",)
    key: int


def given_to(node: Node, grad: Any, wanted: tuple | None) -> tuple[tuple, tuple]:
    """What the vjps of a node compute from, and what else decides what they do."""
    steps = [step for step in node.plan.steps if wanted is None or step.input is None or wanted[step.input]]
    values = [node.unpack(node.saved[position]) for step in steps for position in step.positions]
    ends = tuple([None if edge is None else form_of(*split_edge(edge)) for edge in node.edges])
    grads = grad if type(grad) is list else [grad]
    return (*grads, *values), (node.plan.steps, (wanted, ends), described(node.attrs))


def alone(run: Callable) -> Any:
    """What a function gives that nobody records."""
    before = mode.set(recorder=None, autocast=None)
    try:
        return run()
    finally:
        mode.set(**before)


def empty(spec: Spec) -> Tensor:
    """A tensor that nobody has filled."""
    return wrap(np.empty(spec.shape, spec.dtype.numpy))


def described(attrs: dict[str, Any] | None) -> str | None:
    """Attributes as text; None for those that text may not tell apart."""
    if not attrs:
        return ""
    return repr(attrs) if all(map(is_plain, attrs.values())) else None


def layout(operand: Any) -> Any:
    """All that a recorded function may see of an operand."""
    if not isinstance(operand, Tensor):
        return repr(operand)
    data = operand._data
    return data.shape, data.dtype, data.strides


def forgetting(tracer: weakref.ref[Tracer]) -> Callable[[Reference], None]:
    """What is called when an array is gone: its name goes with it."""

    def forget(reference: Reference) -> None:
        found = tracer()
        if found is not None:
            key = reference.key
            found.known.pop(key, None)
            found.writes.pop(key, None)
            found.references.pop(key, None)

    return forget


def all_tensors() -> list[Tensor]:
    """All tensors there are, but for those that wait for their shape."""
    kinds = {Tensor}
    found = [Tensor]
    while found:
        found = [kind for parent in found for kind in parent.__subclasses__() if kind not in kinds]
        kinds.update(found)
    # Objects refer to their classes. A list of all objects takes longer, and holds on to tuples that other threads
    # are just making, which then cannot be finished.
    return [thing for thing in gc.get_referrers(*kinds) if type(thing) in kinds and not is_lazy(thing)]


def spec_of(tensor: Tensor) -> Spec:
    return Spec(tensor._data.shape, tensor.dtype)
