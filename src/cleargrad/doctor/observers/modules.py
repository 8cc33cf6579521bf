"""From what an engine does to events: the same for cleargrad and for PyTorch.

Here is what surrounds gradients: loss scaling, schedulers, epochs, modules and their forward calls. Read next:
hooks.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.doctor import events
from cleargrad.doctor.observers.passes import AFTER_A_CHANGE, guarded
from cleargrad.doctor.origins import leaves_behind
from cleargrad.doctor.places import Place, place_of_error, user_place
from cleargrad.doctor.repeats import Repeating


class Observer(Repeating):
    """Turns calls of an engine into events."""

    # Loss scaling ------------------------------------------------------------------------------------------

    @guarded
    def scaler_made(self, scaler: Any) -> None:
        self.hear(events.ScalerMade(*self.now(), user_place(), self.registry.scalers.of(scaler)))

    @guarded
    def scale_called(self, scaler: Any, outputs: Any) -> None:
        """After `scaler.scale(loss)`, with what it returned."""
        number = self.registry.scalers.of(scaler)
        for output in outputs if isinstance(outputs, (list, tuple)) else (outputs,):
            if output.grad_fn is not None:
                self.mark_scaled(output, number)
        self.hear(events.Scale(*self.now(), user_place(), number))

    @guarded
    def unscale_begin(self, scaler: Any, optimizer: Any) -> None:
        self.flush()
        self.samples.clear()
        self.notice(self.records_of(optimizer).parameters)

    @guarded
    def unscale_end(self, scaler: Any, optimizer: Any) -> None:
        """After `scaler.unscale_(optimizer)`, called by the program or by the scaler's step."""
        record = self.records_of(optimizer)
        self.remember(record.parameters)
        if not self.scaler_steps:
            number = self.registry.scalers.of(scaler)
            self.hear(events.Unscale(*self.now(), user_place(), number, record.number))

    @guarded
    def scaler_step_begin(self, scaler: Any, optimizer: Any) -> None:
        self.flush()
        record = self.records_of(optimizer)
        self.notice(record.parameters)
        number = self.registry.scalers.of(scaler)
        self.hear(events.ScalerStep(*self.now(), user_place(), number, record.number))
        self.scaler_steps.append(number)
        self.steps_before = record.steps

    @guarded
    def scaler_step_end(self, scaler: Any, optimizer: Any) -> None:
        if not self.scaler_steps:
            return
        number = self.scaler_steps.pop()
        record = self.records_of(optimizer)
        self.remember(record.parameters)
        if record.steps == self.steps_before:
            record.skips += 1
            found = self.split(record)[0]
            place = user_place()
            self.count += 1
            self.hear(events.Skip(self.count, self.step, place, record.number, number, found))

    @guarded
    def scaler_updated(self, scaler: Any) -> None:
        number = self.registry.scalers.of(scaler)
        self.hear(events.ScalerUpdate(*self.now(), user_place(), number))

    # Around the step ---------------------------------------------------------------------------------------

    @guarded
    def optimizer_made(self, optimizer: Any) -> None:
        self.lose_trust()
        place = user_place()
        known = id(optimizer) in self.registry.optimizer_numbers.by_id
        record = self.records_of(optimizer, place)
        kind = events.GroupAdded if known else events.OptimizerMade
        numbers = self.same([parameter.number for parameter in record.parameters])
        self.hear(kind(*self.now(), place, record.number, numbers))

    @guarded
    def scheduler_stepped(self, scheduler: Any) -> None:
        self.flush()
        optimizer = getattr(scheduler, "optimizer", None)
        number = None if optimizer is None else self.registry.optimizer(optimizer).number
        event = events.SchedulerStep(
            *self.now(),
            user_place(),
            self.registry.schedulers.of(scheduler),
            type(scheduler).__name__,
            number,
        )
        self.hear(event)

    @guarded
    def epoch_began(self, loader: Any, iterator: Any) -> None:
        number = self.registry.loaders.of(loader)
        self.passes[id(iterator)] = [number, 0]
        while len(self.passes) > 64:
            del self.passes[next(iter(self.passes))]
        self.hear(events.EpochBegin(*self.now(), user_place(), number))

    def batch_fetched(self, iterator: Any) -> None:
        """Called for each batch, so it is short."""
        running = self.passes.get(id(iterator))
        if running is not None:
            running[1] += 1

    @guarded
    def epoch_ended(self, iterator: Any) -> None:
        running = self.passes.pop(id(iterator), None)
        if running is None:
            return
        self.flush()
        self.notice(self.registry.parameters)
        self.hear(events.EpochEnd(*self.now(), user_place(), running[0], running[1]))

    # Modules -----------------------------------------------------------------------------------------------

    @guarded
    def parameter_registered(self, module: Any, name: str, tensor: Any) -> None:
        if tensor is None:
            return
        number = self.registry.module(module)
        old = module._parameters.get(name)
        replaced = None
        if old is not None and old is not tensor:
            replaced = self.registry.parameter_numbers.by_id.get(id(old))
        place = user_place()
        record = self.known(tensor, place)
        record.modules.add(number)
        if replaced is not None:
            self.registry.name_parameters()
            self.registry.parameters[replaced].modules.discard(number)
            record.replaces = (replaced,)
        self.hear(events.Registered(*self.now(), place, number, name, record.number, replaced))

    @guarded
    def module_seen(self, module: Any) -> None:
        """A module and all below it, with their parameters."""
        for each in module.modules():
            number = self.registry.module(each)
            for tensor in each._parameters.values():
                if tensor is not None:
                    self.known(tensor).modules.add(number)

    @guarded
    def submodule_seen(self, module: Any, name: str, submodule: Any) -> None:
        """A module is about to get a submodule, perhaps in place of another."""
        number, old = self.registry.module(module), module._modules.get(name)
        if old is None or submodule is None or old is submodule:
            return
        self.registry.name_parameters()
        gone = self.same([self.known(tensor).number for tensor in old.parameters()])
        new = self.same([self.known(tensor).number for tensor in submodule.parameters()])
        for number in new:
            if number not in gone:
                self.registry.parameters[number].replaces = gone
        self.hear(events.ModuleReplaced(*self.now(), user_place(), number, name, gone, new))

    @guarded
    def mode_changed(self, module: Any, training: bool) -> None:
        number = self.registry.module(module)
        self.hear(events.ModeChange(*self.now(), user_place(), number, bool(training)))
        self.expect_forward(AFTER_A_CHANGE)

    @guarded
    def parameter_copied(self, original: Any, copy: Any) -> None:
        place = user_place()
        if self.registry.parameter(original).name is None:
            self.registry.name_parameters()
        one, other = self.known(original), self.known(copy, place)
        other.replaces = (one.number,)
        self.hear(events.Copied(*self.now(), place, one.number, other.number))

    @guarded
    def frozen(self, tensors: list[Any], flag: bool, effective: bool) -> None:
        numbers = self.same([self.known(tensor).number for tensor in tensors])
        self.hear(events.Freeze(*self.now(), user_place(), numbers, flag, effective))

    @guarded
    def forward_ran(self, module: Any) -> None:
        """A module runs with gradients on; told to the rules before the next backward pass."""
        self.last_ran = self.registry.module(module)
        self.ran[self.last_ran] = module.training or self.ran.get(self.last_ran, False)

    @guarded
    def ran_unrecorded(self, module: Any) -> None:
        """A module runs with gradients off."""
        self.unrecorded[self.registry.module(module)] = None

    @guarded
    def cut(self, how: str, place: Place | None, tensor: Any = None) -> None:
        """A tensor with a history is taken out of its graph by a line of the user's, or a parameter is."""
        if place is not None and self.depth == 0 and not self.steps and len(self.cuts) < 64:
            numbers = self.registry.parameter_numbers.by_id
            leaves = leaves_behind(tensor) if how in ("detach", "data", "tensor") else ()
            behind = self.same(numbers[id(leaf)] for leaf in leaves if id(leaf) in numbers)
            self.cuts.append((how, place, self.last_ran if self.ran else None, behind))

    def flush_forward(self) -> None:
        """Tells what ran and what was cut since the last backward pass."""
        for how, place, after, behind in self.cuts:
            self.hear(events.Cut(*self.now(), place, how, after, behind))
        self.cuts.clear()
        if self.ran or self.unrecorded:
            evaluating = self.same(number for number, training in self.ran.items() if not training)
            modules, unrecorded = self.same(self.ran), self.same(self.unrecorded)
            self.ran.clear()
            self.unrecorded.clear()
            self.hear(events.Forward(*self.now(), None, modules, evaluating, unrecorded))
        self.forwards_left -= 1
        if self.forwards_left == 0:
            self.watch_forward(False)

    def expect_forward(self, passes: int) -> None:
        """Notes forward calls before the next few backward passes."""
        if self.forwards_left == 0:
            self.watch_forward(True)
        self.forwards_left = max(self.forwards_left, passes)

    @guarded
    def end(self, failed: bool, error: BaseException | None = None) -> None:
        """The run is over, perhaps by an exception of the program's."""
        self.flush()
        self.notice(self.registry.parameters)
        self.notice_writes()
        place = None if error is None else place_of_error(error)
        message = None if error is None else str(error)
        self.hear(events.End(*self.now(), place, failed, message))
