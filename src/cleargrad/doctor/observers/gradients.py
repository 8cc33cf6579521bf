"""Noticing what the program does to gradients and parameters by its own hand, without patching a tensor.

Before every event that matters, each gradient's identity and version are compared with how they were left. Values
are looked at rarely: where a gradient would otherwise count as reused, and at a few steps for parameters that no
optimizer changes. Tensors are only ever looked at, never kept. Read next: observers/passes.py.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from cleargrad.doctor import events
from cleargrad.doctor.ledger import Ledger
from cleargrad.doctor.places import Place, belongs_to_library
from cleargrad.doctor.registry import Optimizer, Parameter, Registry

VALUE_CHECKS = 20  # looks at the values of gradients per line that calls backward; then identity has to do
SAMPLE = 8  # values of a gradient that reports may quote
CALM_STEPS, LOOK_EVERY = 64, 8  # steps before trust begins, and between looks in it
PROBE = 64  # values of a parameter that tell whether it was written


class Noticing:
    """The state of an observer, and what it finds changed. `hear` takes each event."""

    def __init__(
        self, ledger: Ledger, hear: Callable[[events.Event], None], failed: Callable[[Exception], None]
    ) -> None:
        self.ledger = ledger
        self.registry: Registry = ledger.registry
        self.hear = hear
        self.failed = failed  # takes an error of the doctor's own
        self.closed = False
        self.count = 0  # events so far
        self.step = 1  # the step that events lead to
        self.looks: dict[Place | None, int] = {}  # at values, by line
        # While trusting, gradients are not looked at: for many steps the program has done nothing to them by hand.
        self.trusting = False
        self.calm = 0  # steps since the program was last seen to do something by hand
        self.unhooked: list[Parameter] = []  # frozen when they were first seen
        self.samples: dict[
            int, list[float]
        ] = {}  # gradients as they were before a pass added to what was used
        self.probes: dict[int, list[float]] = {}  # parameters as they were when they were last probed
        self.tuples: dict[tuple, tuple] = {}  # each tuple of numbers once
        # Lines that set or zeroed a gradient, by the tensor's id, since gradients were last compared.
        self.hands: dict[int, Place] = {}
        self.last_hand: Place | None = None  # the last of them that zeroed one
        self.hands_watched = False

    def now(self) -> tuple[int, int]:
        """The number and the step of the next event."""
        self.count += 1
        return self.count, self.step

    def same(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """A tuple of numbers, the same object for the same numbers: steps repeat themselves."""
        found = tuple(numbers)
        if len(self.tuples) > 4096:
            self.tuples.clear()
        return self.tuples.setdefault(found, found)

    def hook(self, record: Parameter, tensor: Any) -> None:
        """Makes sure that `filled` gets the parameter when a pass has added to its gradient."""
        record.hooked = True

    # Who is who --------------------------------------------------------------------------------------------

    def known(self, tensor: Any, place: Place | None = None) -> Parameter:
        """The record of a tensor, which is hooked if it is new."""
        number = self.registry.parameter_numbers.by_id.get(id(tensor))
        if number is not None:
            return self.registry.parameters[number]
        record = self.registry.parameter(tensor, place)
        self.ledger.bucket(record.number)
        if not tensor.is_leaf:
            record.ref = nobody  # it has no gradient of its own
            return record
        if tensor.grad is not None:
            record.grad_id, record.grad_version = id(tensor.grad), tensor.grad._version
            self.ledger.bucket(record.number).by_hand = True  # who filled it is not known
        if tensor.requires_grad:
            self.hook(record, tensor)
        else:
            self.unhooked.append(record)
        return record

    def hook_thawed(self) -> None:
        """Hooks parameters that have come to require a gradient since they were first seen."""
        left = []
        for record in self.unhooked:
            tensor = record.ref()
            if tensor is None:
                continue
            if tensor.requires_grad and tensor.is_leaf:
                self.hook(record, tensor)
            else:
                left.append(record)
        self.unhooked = left

    def records_of(self, optimizer: Any, place: Place | None = None) -> Optimizer:
        """The record of an optimizer, with its parameters as they are now."""
        record = self.registry.optimizer(optimizer, place)
        if self.trusting:
            return record
        known = record.known
        groups = optimizer.param_groups
        changed = len(groups) != len(known)
        if not changed:
            for group, (length, last) in zip(groups, known):
                params = group["params"]
                if len(params) != length or (length and params[-1] is not last()):
                    changed = True
                    break
        if changed:
            record.known = [(len(group["params"]), last_of(group["params"])) for group in groups]
            tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
            record.parameters = [self.known(tensor, place) for tensor in tensors]
            for parameter in record.parameters:
                parameter.optimizers.add(record.number)
            self.name_parameters(optimizer, record)
        return record

    def name_parameters(self, optimizer: Any, record: Optimizer) -> None:
        """Tensors that no module holds are named by the optimizer, or by the user's variables."""
        names = [name for group in optimizer.param_groups for name in group.get("param_names", ())]
        if len(names) == len(record.parameters):
            for parameter, name in zip(record.parameters, names, strict=True):
                parameter.name = parameter.name or name
        alone = [parameter for parameter in record.parameters if not parameter.modules and not parameter.name]
        frame = user_frame() if alone else None
        for variables in () if frame is None else (frame.f_locals, frame.f_globals):
            for parameter in alone:
                if parameter.name is None:
                    self.registry.name_from_variables(parameter, variables)

    # Gradients ---------------------------------------------------------------------------------------------

    def notice(self, records: Iterable[Parameter]) -> None:
        """Compares gradients with how they were left, and tells of what has happened to them since."""
        if self.trusting:
            return
        cleared, assigned, edited = [], [], []
        lines: dict[int, Place] = {}  # of those that were cleared or assigned, where a line is known
        for record in records:
            tensor = record.ref()
            if tensor is None:
                continue
            grad = tensor.grad
            if grad is None:
                if record.grad_id:
                    record.grad_id = 0
                    cleared.append(record.number)
                    self.note_line(lines, record.number, id(tensor))
                continue
            version = grad._version
            if version == record.grad_version and id(grad) == record.grad_id:
                continue
            if id(grad) != record.grad_id:
                assigned.append(record.number)
                self.note_line(lines, record.number, id(tensor))
            elif is_zero(grad):
                cleared.append(record.number)
                self.note_line(lines, record.number, id(grad))
            else:
                edited.append(record.number)
            record.grad_id, record.grad_version = id(grad), version
        self.hands.clear()
        if cleared or assigned or edited:
            self.calm = 0
        for place, numbers in by_line(cleared, lines):
            self.cleared_by_hand(numbers, place, True)
        for place, numbers in by_line(assigned, lines):
            self.hear(events.GradWrite(*self.now(), place, self.same(numbers), "assigned"))
        if edited:
            self.hear(events.GradWrite(*self.now(), None, self.same(edited), "edited"))

    def note_line(self, lines: dict[int, Place], number: int, changed: int) -> None:
        place = self.hands.get(changed)
        if place is not None:
            lines[number] = place

    def cleared_by_hand(self, numbers: list[int], place: Place | None, to_none: bool) -> None:
        """Tells that the program has cleared gradients without a call of zero_grad."""
        weights = None
        if place is not None and not self.ledger.filled.isdisjoint(numbers):
            weights = self.weights_of(
                self.stepped_with([self.registry.parameters[number] for number in numbers])
            )
        self.hear(events.Zero(*self.now(), place, self.same(numbers), "hand", None, to_none, weights))

    def stepped_with(self, records: list[Parameter]) -> list[Parameter]:
        """All parameters of the optimizer that holds the first of some parameters."""
        for record in records:
            for number in record.optimizers:
                return self.registry.optimizers[number].parameters
        return records

    def watch_hands(self, on: bool) -> None:
        """Begins or ends to note the lines that set or zero gradients."""

    def remember(self, records: Iterable[Parameter]) -> None:
        """Notes gradients as they are now, after a change that is accounted for."""
        for record in records:
            tensor = record.ref()
            grad = None if tensor is None else tensor.grad
            if grad is None:
                record.grad_id = 0
            else:
                record.grad_id, record.grad_version = id(grad), grad._version

    def count_calm_step(self) -> None:
        """After each step: trust begins when all has been calm for long, with a look at every eighth step."""
        self.calm += 1
        trusting = self.calm > CALM_STEPS and self.calm % LOOK_EVERY != 0
        if self.trusting and not trusting:
            self.remember(self.registry.parameters)
        self.trusting = trusting
        if self.hands_watched != (self.calm <= CALM_STEPS):
            self.hands_watched = not self.hands_watched
            self.watch_hands(self.hands_watched)

    def lose_trust(self) -> None:
        """Something is not as it was: looks at all gradients again, from here on."""
        if not self.trusting:
            return
        self.trusting, self.calm = False, 0
        cleared = []
        for number in (*self.ledger.stale, *self.ledger.filled):
            tensor = self.registry.parameters[number].ref()
            if tensor is not None and tensor.grad is None:
                cleared.append(number)
        self.remember(self.registry.parameters)
        if cleared:
            self.hear(events.Zero(*self.now(), None, self.same(cleared), "hand", None, True))

    def notice_zeros(self, place: Place | None) -> None:
        """Gradients that a step has used and that are zero now were cleared in a way that leaves no trace
        (`p.grad.data.zero_()`)."""
        looks = self.looks.get(place, 0)
        stale = self.ledger.stale
        if not stale or looks > VALUE_CHECKS:
            return
        cleared = []
        for number in stale:
            tensor = self.registry.parameters[number].ref()
            grad = None if tensor is None else tensor.grad
            if grad is not None and is_zero(grad):
                cleared.append(number)
        if cleared:
            self.calm = 0
            self.cleared_by_hand(cleared, self.last_hand, False)
        else:
            self.looks[place] = looks + 1
        self.take_samples()

    # What was expected -------------------------------------------------------------------------------------

    def take_samples(self) -> None:
        """Some values of gradients before a pass adds to what was used: findings say what they expected."""
        records = self.registry.parameters
        for number in sorted(self.ledger.stale, key=lambda number: records[number].numel)[:4]:
            if number not in self.samples:
                tensor = records[number].ref()
                if tensor is not None and tensor.grad is not None:
                    self.samples[number] = sample_of(tensor.grad)

    def compare_samples(self) -> dict[int, tuple[list[float], list[float]]]:
        """Per parameter that would be stepped with used contributions: its gradient without and with them."""
        compared = {}
        for number, before in self.samples.items():
            tensor = self.registry.parameters[number].ref()
            if tensor is None or tensor.grad is None or not self.ledger.bucket(number).fresh:
                continue
            actual = sample_of(tensor.grad)
            compared[number] = ([now - then for now, then in zip(actual, before, strict=True)], actual)
        return compared

    # Parameters --------------------------------------------------------------------------------------------

    def notice_writes(self) -> None:
        """Tells of parameters without a step of their own that have changed since they were last probed:
        hand-written updates, averages of weights, copies from other networks."""
        written = []
        for record in self.registry.parameters:
            if record.steps:
                continue
            tensor = record.ref()
            if tensor is None or tensor.is_meta:
                continue
            values = probe_of(tensor)
            before = self.probes.get(record.number)
            self.probes[record.number] = values
            if before is not None and before != values:
                record.written += 1
                written.append(record.number)
        if written:
            self.hear(events.ParameterWrite(*self.now(), None, self.same(written)))

    def weights_of(self, records: list[Parameter]) -> object:
        """Something that differs when weights differ: versions of all, and a few values of some."""
        tensors = [tensor for record in records if (tensor := record.ref()) is not None]
        some = [probe_of(tensor) for tensor in (*tensors[:3], *tensors[-3:]) if not tensor.is_meta]
        return sum(tensor._version for tensor in tensors), some


def by_line(numbers: list[int], lines: dict[int, Place]) -> list[tuple[Place | None, list[int]]]:
    """Parameters grouped by the line that changed them; nearly always it is one line."""
    groups: dict[Place | None, list[int]] = {}
    for number in numbers:
        groups.setdefault(lines.get(number), []).append(number)
    return list(groups.items())


def nobody() -> None:
    return None


def last_of(params: list[Any]) -> Callable[[], Any]:
    return weakref.ref(params[-1]) if params else nobody


def is_zero(grad: Any) -> bool:
    if grad.is_meta:
        return False
    if grad.is_sparse:
        return grad._nnz() == 0
    return not bool((grad != 0).any())


def sample_of(grad: Any) -> list[float]:
    """The first few values of a gradient."""
    if grad.is_sparse:
        return []
    return [float(value) for value in grad.detach().reshape(-1)[:SAMPLE].tolist()]


def probe_of(tensor: Any) -> list[float]:
    """Values spread over a parameter."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // PROBE)].tolist()


def user_frame() -> Any:
    """The nearest frame of the user's program."""
    frame: Any = sys._getframe(1)
    while frame is not None and belongs_to_library(frame.f_code):
        frame = frame.f_back
    return frame
