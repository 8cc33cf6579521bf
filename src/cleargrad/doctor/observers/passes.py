"""What fills, clears and uses gradients, as events: backward passes, zero_grad, clipping and steps.

An engine's adapter calls these methods at the moment something happens (hooks.py hooks and patches a
library so that it does). What the program does by hand is noticed in between. Read next: observers/modules.py.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable
from typing import Any

from cleargrad.doctor import events
from cleargrad.doctor.findings import GradientError
from cleargrad.doctor.hand_steps import HandSteps
from cleargrad.doctor.measuring import Measurement, is_due, plain_norms
from cleargrad.doctor.observers.gradients import Noticing, user_frame
from cleargrad.doctor.origins import first_not_finite, infinite_slope, leaves_behind
from cleargrad.doctor.places import Place, user_place
from cleargrad.doctor.registry import Optimizer, Parameter

FORWARD_PASSES = 8  # backward passes before which forward calls are noted, at first
AFTER_A_CHANGE = 2  # and after a change of mode
MARKED_PASSES = 32  # backward passes whose graphs are marked, to see whether they live on
MARKED_THEN_EVERY = 8
SLOPES_LOOKED_AT, SLOPES_THEN_EVERY = 32, 32  # backward passes before which slopes are looked at


def guarded(method: Callable) -> Callable:
    """A mistake of the doctor's ends its watch, never the training; only what `strict` raises goes through.

    A call that is as it was learned (repeats.py) goes no further than that.
    """
    name = method.__name__

    @functools.wraps(method)
    def careful(self: GradientObserver, *args: Any) -> None:
        try:
            expected = self.expected
            if expected is not None and expected.name is name and self.is_repeated(expected, args):
                return
            if self.closed:
                return
            if self.attentive:
                self.attend(method, args)
            else:
                method(self, *args)
        except GradientError:
            raise
        except Exception as failure:
            self.closed = True
            self.failed(failure)

    return careful


class GradientObserver(Noticing):
    """Turns what an engine does to gradients into events."""

    def __init__(self, *args: Any, statistics: bool = True) -> None:
        super().__init__(*args)
        self.statistics = statistics
        self.backward: events.Backward | None = None  # the pass that is under way
        self.depth = 0  # backward passes inside each other
        self.filled: list[Any] = []  # parameters that the pass has added to, until `flush`
        self.steps: list[Any] = []  # steps under way, outermost first
        self.scaler_steps: list[int] = []  # scalers whose step is under way
        self.begun = 0  # backward passes
        self.kinds: Any = None  # the kinds of events that anybody listens to; None for all
        self.show_graph: Callable[[Any], None] | None = None  # is shown the loss before each backward pass
        self.graphs: list[weakref.ref] = []  # marks in graphs that backward passes began from
        self.passes: dict[int, list[int]] = {}  # iterator of a loader: [loader, batches]
        self.last_ran: int | None = None
        self.unrecorded: dict[int, None] = {}  # modules that ran with gradients off since then
        self.ran: dict[
            int, bool
        ] = {}  # modules that ran forward since the last backward pass: in training mode?
        self.cuts: list[tuple[str, Place | None, int | None, tuple[int, ...]]] = []
        self.forwards_left = FORWARD_PASSES  # backward passes before which forward calls are still noted
        self.may_be_silent = True  # whether steps that are like many before them need not be told one by one
        self.expected: Any = None  # the call that comes next, as far as one can tell
        self.hand_steps: HandSteps | None = None  # while there is no optimizer
        self.reads_watched = False
        self.has_read = (
            False  # whether the program has read a gradient since the last pass that kept its graph
        )
        self.listens = False  # whether it has asked for gradients of tensors, by hooks or by retain_grad
        self.attentive = False  # whether `attend` stands between this and what happens

    # What engines differ in --------------------------------------------------------------------------------

    def mark_graph(self, root: Any) -> weakref.ref | None:
        """A weak reference that lives as long as the graph behind a tensor."""
        return None

    def mark_scaled(self, output: Any, scaler: int) -> None:
        """Remembers, in the graph, that a scaler has made a tensor."""

    def scaler_behind(self, root: Any) -> int | None:
        """The scaler that has scaled a loss, directly or a few operations before it."""
        return None

    def norms(self, tensors: list[Any]) -> list[float]:
        """Euclidean norms of tensors."""
        return plain_norms(tensors)

    def watch_forward(self, on: bool) -> None:
        """Begins or ends to call `forward_ran` and `cut`."""

    def watch_reads(self, on: bool) -> None:
        """Begins or ends to note who reads gradients, in `has_read` and with the line in `hand_steps`."""

    def flush_forward(self) -> None:
        """Tells what ran forward since the last backward pass."""

    def is_repeated(self, expected: Any, args: tuple) -> bool:
        """Whether a call is the one that was expected; if so, it has been counted."""
        return False

    def attend(self, method: Callable, args: tuple) -> None:
        """Calls a method of this observer, in a special way."""
        method(self, *args)

    def wants(self, kind: type[events.Event]) -> bool:
        return self.kinds is None or kind in self.kinds

    # Backward ----------------------------------------------------------------------------------------------

    @guarded
    def backward_begin(self, roots: Any, retain_graph: bool, create_graph: bool) -> None:
        """Before a pass from a tensor, or from a tuple of them."""
        self.depth += 1
        if self.depth > 1:  # checkpointing runs passes inside a pass; together they are one
            return
        place = user_place(3)
        if self.unhooked:
            self.hook_thawed()
        self.flush()
        if self.ledger.stale:
            self.lose_trust()
        if not self.registry.optimizers or self.hand_steps is not None:
            self.notice_hand_steps(roots)
        self.notice(self.registry.parameters)
        if self.ledger.stale:
            self.notice_zeros(place)
        if self.forwards_left:
            self.flush_forward()
        root = next(iter(roots), None) if isinstance(roots, tuple) else roots
        if self.show_graph is not None:
            self.show_graph(root)
        wasteful = (
            retain_graph and not create_graph and self.hands_watched and self.serves_parameters_only(roots)
        )
        node = None if root is None else root.grad_fn
        scaler, loss = self.scaler_behind(root), None if node is None else value_of(root)
        self.backward = events.Backward(
            *self.now(), place, bool(retain_graph), bool(create_graph), scaler,
            None if node is None else type(node).__name__, self.count_graphs(root),
            loss=loss, not_finite=None if loss is None or math.isfinite(loss) else first_not_finite(root),
            infinite_slope=None if loss is None or not self.looks_at_slopes() else infinite_slope(root),
            plain_mean=not self.trusting and is_plain_mean(node, scaler), for_parameters_only=wasteful,
        )  # fmt: skip
        self.hear(self.backward)

    @guarded
    def backward_end(self, failed: bool = False) -> None:
        self.depth -= 1
        if self.depth > 0:
            return
        self.depth = 0
        backward = self.backward
        self.flush()
        self.backward = None
        if backward is not None and self.wants(events.BackwardEnd):
            self.hear(events.BackwardEnd(*self.now(), backward.place, backward, failed))

    def serves_parameters_only(self, roots: Any) -> bool:
        """Whether all that comes of a pass are gradients of parameters; if so, it is noted who reads them."""
        if not self.reads_watched:
            self.watch_reads(True)
        self.has_read = False
        numbers = self.registry.parameter_numbers.by_id
        modules = (ref() for ref in self.registry.modules.refs)
        hooked = any(m is not None and (m._backward_hooks or m._backward_pre_hooks) for m in modules)
        return not self.listens and not hooked and all(id(leaf) in numbers for leaf in leaves_behind(roots))

    def looks_at_slopes(self) -> bool:
        """Before the first passes, and now and then: afterwards the graph is gone."""
        return self.statistics and (self.begun <= SLOPES_LOOKED_AT or self.begun % SLOPES_THEN_EVERY == 0)

    def begin_unseen(self) -> events.Backward:
        """A pass that a library began by other means than `backward`."""
        backward = events.Backward(*self.now(), user_place(3), False, False, None, None, 0)
        self.hear(backward)
        return backward

    def flush(self) -> None:
        """Tells what the pass has added so far; called before any other event, so that the order is true.

        `filled` is filled by hooks, which are called for each parameter and therefore do no more than that.
        """
        if not self.filled:
            return
        by_id = self.registry.parameter_numbers.by_id
        known = [by_id[id(tensor)] for tensor in self.filled if id(tensor) in by_id]
        self.filled.clear()
        if not known:
            return
        numbers = self.same(dict.fromkeys(known))
        backward = self.backward or self.begin_unseen()
        if not self.trusting:
            parameters = self.registry.parameters
            self.remember([parameters[number] for number in numbers])
        self.hear(events.Accumulate(*self.now(), backward.place, backward, numbers))
        if self.hand_steps is not None:
            self.hand_steps.remember(numbers)
        if self.depth == 0:
            self.backward = None  # it was not seen to begin, and nobody will say that it ends

    def notice_hand_steps(self, roots: Any) -> None:
        """While there is no optimizer: which weights the program has stepped itself, and which a pass will fill."""
        if self.registry.optimizers:
            self.hand_steps = None
            self.watch_reads(False)
            return
        if self.hand_steps is None:
            self.hand_steps = HandSteps(self.ledger)
            self.watch_reads(True)
        moved = self.hand_steps.moved()
        if moved:
            self.ledger.compared = self.compare_samples()
            self.samples.clear()
            place = self.hand_steps.place_of(moved)
            self.hear(events.HandStep(*self.now(), place, self.same(moved)))
            self.step += 1
        self.hand_steps.reads.clear()
        frame = user_frame()
        for leaf in leaves_behind(roots):
            record = self.known(leaf)
            if record.name is None and not record.modules and frame is not None:
                self.registry.name_from_variables(record, frame.f_locals)

    @guarded
    def grad_called(self, create_graph: bool) -> None:
        self.flush()
        self.hear(events.Grad(*self.now(), user_place(3), bool(create_graph)))

    def count_graphs(self, root: Any) -> int:
        """How many graphs of earlier passes are still held; the one that begins now is marked, now and then."""
        if self.graphs:
            self.graphs = [mark for mark in self.graphs if mark() is not None]
        alive = len(self.graphs)
        self.begun += 1
        due = root is not None and (self.begun <= MARKED_PASSES or self.begun % MARKED_THEN_EVERY == 0)
        mark = self.mark_graph(root) if due else None
        if mark is not None:
            self.graphs.append(mark)
            del self.graphs[:-256]
        return alive

    # Clearing and clipping ---------------------------------------------------------------------------------

    @guarded
    def zeroed_by_optimizer(self, optimizer: Any, to_none: bool) -> None:
        """After an optimizer's zero_grad."""
        self.flush()
        record = self.records_of(optimizer)
        self.zeroed(record.parameters, "optimizer", record.number, to_none)

    @guarded
    def zeroed_by_module(self, module: Any, to_none: bool) -> None:
        """After a module's zero_grad."""
        self.flush()
        records = [self.known(tensor) for tensor in module.parameters()]
        self.zeroed(records, "module", self.registry.module(module), to_none)

    def zeroed(self, records: list[Parameter], by: str, owner: int, to_none: bool) -> None:
        if self.trusting:
            pass
        elif to_none:
            for record in records:
                record.grad_id = 0
        else:
            self.remember(records)
        numbers = self.same([record.number for record in records])
        drops = not self.ledger.filled.isdisjoint(numbers)
        weights = self.weights_of(self.stepped_with(records)) if drops else None
        unread = self.reads_watched and not self.has_read
        self.hear(events.Zero(*self.now(), user_place(3), numbers, by, owner, to_none, weights, unread))

    @guarded
    def clip_begin(self, tensors: list[Any]) -> None:
        """Before gradients are clipped."""
        self.flush()
        self.has_read = True
        self.samples.clear()  # after clipping, the difference to them says nothing
        self.notice([self.known(tensor) for tensor in tensors])

    @guarded
    def clip_end(self, tensors: list[Any], how: str, limit: float) -> None:
        """After gradients were clipped."""
        records = [self.known(tensor) for tensor in tensors]
        self.remember(records)
        numbers = self.same([record.number for record in records])
        found = self.same([record.number for record in records if record.grad_id])
        self.hear(events.Clip(*self.now(), user_place(3), how, limit, numbers, found, len(tensors)))

    # Steps -------------------------------------------------------------------------------------------------

    @guarded
    def step_begin(self, optimizer: Any, closure: bool) -> None:
        self.flush()
        record = self.records_of(optimizer)
        for outer in self.steps:
            outer.has_inner = True  # a wrapper around other optimizers: theirs are the steps
        if self.trusting and (closure or not self.is_as_before(record)):
            self.lose_trust()
            self.records_of(optimizer)
        self.notice(record.parameters)
        begun = StepUnderWay(optimizer, user_place(3), closure)
        self.steps.append(begun)
        if not closure:
            if not self.trusting:
                record.found = self.split(record)
            begun.found = record.found
            self.ledger.compared = self.compare_samples() if self.samples else {}
            self.ledger.weights = self.weights_of(record.parameters) if self.ledger.dropping else None
            if self.statistics and is_due(record):
                begun.measurement = Measurement(record, self.norms)
        if self.wants(events.StepBegin):
            self.hear(events.StepBegin(*self.now(), begun.place, record.number, closure))

    def is_as_before(self, record: Optimizer) -> bool:
        """Whether the same parameters have been filled as before the step that was last looked at."""
        found, missing, frozen = record.found
        filled = self.ledger.filled
        same = filled.issuperset(found) and filled.isdisjoint(missing)
        return same and bool(found) and not frozen and not self.ledger.dropping

    def split(self, record: Optimizer) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The parameters with a gradient, the trainable ones without, and the frozen ones with one."""
        found, missing, frozen = [], [], []
        for parameter in record.parameters:
            tensor = parameter.ref()
            if tensor is None:
                continue
            if parameter.grad_id:
                found.append(parameter.number)
                if not tensor.requires_grad:
                    frozen.append(parameter.number)
            elif tensor.requires_grad:
                missing.append(parameter.number)
        return self.same(found), self.same(missing), self.same(frozen)

    @guarded
    def step_end(self, optimizer: Any) -> None:
        while self.steps and self.steps[-1].optimizer is not optimizer:
            self.steps.pop()  # a step that raised
        if not self.steps:
            return
        self.flush()
        begun = self.steps.pop()
        record = self.records_of(optimizer)
        if begun.has_inner:
            return
        if begun.closure:
            self.notice(record.parameters)
            begun.found = self.split(record)
        scaler = self.scaler_steps[-1] if self.scaler_steps else None
        step = self.tell_step(record, begun.place, begun.found, begun.closure, scaler)
        if self.samples:
            for number in step.with_gradient:
                self.samples.pop(number, None)
        if begun.measurement is not None:
            self.hear(begun.measurement.finish(self.now()[0], step))
        if not begun.closure and not self.trusting:
            self.after_step(record)
        self.count_calm_step()
        if record.steps & (record.steps - 1) == 0:  # at steps 1, 2, 4, 8 and so on
            self.notice_writes()
            self.registry.name_parameters()  # while the models are alive

    def tell_step(
        self,
        record: Optimizer,
        place: Place | None,
        found: tuple[Any, Any, Any],
        closure: bool,
        scaler: int | None,
    ) -> events.Step:
        record.steps += 1
        self.count += 1
        having, missing, frozen = found
        step = events.Step(
            self.count,
            record.steps,
            place,
            record.number,
            having,
            missing,
            frozen,
            closure,
            scaler,
            record.steps,
        )
        self.step = max(self.step, record.steps + 1)
        self.hear(step)
        return step

    def after_step(self, record: Optimizer) -> None:
        """A step may itself clear or change gradients; only the first is worth an event."""
        had = [parameter for parameter in record.parameters if parameter.grad_id]
        self.remember(had)
        cleared = [parameter.number for parameter in had if not parameter.grad_id]
        if cleared:
            self.calm = 0
            self.hear(events.Zero(*self.now(), None, self.same(cleared), "hand", None, True))


def value_of(loss: Any) -> float | None:
    """The value of a loss; other devices than the CPU would have to be waited for and are not asked."""
    plain = loss.numel() == 1 and loss.device.type == "cpu" and not loss.is_complex()
    return float(loss.item()) if plain else None


def is_plain_mean(node: Any, scaler: int | None) -> bool:
    """Whether a loss is an average, divided by nothing any further. Sums and mixtures of losses are left alone."""
    if node is not None and scaler is not None:
        node = node.next_functions[0][0]  # what the scaler multiplied
    if node is None:
        return False
    name = type(node).__name__
    return name.startswith("Mean") or getattr(node, "_saved_reduction", None) in (1, "mean")


class StepUnderWay:
    """A step between its beginning and its end."""

    __slots__ = ("closure", "found", "has_inner", "measurement", "optimizer", "place")

    def __init__(self, optimizer: Any, place: Place | None, closure: bool) -> None:
        self.optimizer = optimizer
        self.place = place
        self.closure = closure
        self.has_inner = False  # another optimizer has stepped inside
        self.found: tuple = ((), (), ())
        self.measurement: Measurement | None = None
