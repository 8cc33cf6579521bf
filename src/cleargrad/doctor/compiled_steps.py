"""Compiled steps under a watch: what a recorded call was heard to do happens again whenever its program runs.

A call that is recorded is an ordinary call, and everything in it is heard. Its program runs in silence: the events of
the recording are told once more, with the numbers of the step that it is now. A program that runs again and again,
with nothing in between, is only counted; what was left out is made up for before anything else is heard.
Read next: cleargrad_adapter.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from cleargrad.core.mode import mode
from cleargrad.doctor import events
from cleargrad.doctor.gradient_observer import guarded
from cleargrad.doctor.library_observer import LibraryObserver
from cleargrad.doctor.measuring import Measurement, is_due
from cleargrad.doctor.registry import Parameter

REPEATED = (
    events.Backward, events.Accumulate, events.BackwardEnd, events.Grad, events.Zero, events.GradWrite, events.Clip,
    events.StepBegin, events.Step, events.Skip, events.Scale, events.Unscale, events.ScalerStep, events.ScalerUpdate,
)  # fmt: skip
SILENT_RUNS = 7  # programs that are only counted before one is told in full again


class Script:
    """The events of one recorded call, to be told again."""

    def __init__(self, heard: Iterable[events.Event]) -> None:
        self.lines = [event for event in heard if type(event) in REPEATED]
        self.parameters: set[int] = set()  # whose gradients it touches
        self.adds_to: set[int] = set()  # whose gradients it fills without having cleared them
        self.first_backward = next((each for each in self.lines if type(each) is events.Backward), None)
        self.steps = [each for each in self.lines if type(each) is events.Step]
        cleared: set[int] = set()
        for event in self.lines:
            self.parameters.update(getattr(event, "parameters", ()))
            if type(event) is events.Zero:
                cleared.update(event.parameters)
            elif type(event) is events.Accumulate:
                self.adds_to.update(set(event.parameters) - cleared)
        self.arguments = [
            tuple(getattr(event, field.name) for field in fields(event)[3:]) for event in self.lines
        ]

    @property
    def keeps_gradients(self) -> bool:
        """Whether the gradients that its only step has used are still there when it is over."""
        last = next((each for each in reversed(self.lines) if type(each) in (events.Step, events.Zero)), None)
        return len(self.steps) == 1 and last is self.steps[0]


class CompiledSteps(LibraryObserver):
    """Hears what compiled functions do."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tell = self.hear
        self.recorded: list[events.Event] | None = None  # events of the call that is being recorded
        self.scripts: weakref.WeakKeyDictionary[Any, Script] = weakref.WeakKeyDictionary()
        self.measurement: Measurement | None = None
        self.last: Script | None = None  # what was told last, and when
        self.told_at = 0
        self.silent = 0  # runs of it that were only counted since then

    def attend(self, method: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        """What is done here is no part of a recording, and comes after what was left out."""
        if self.silent:
            self.make_up()
        recorder: Any = mode.recorder
        if recorder is None:
            method(self, *args, **kwargs)
            return
        mode.set(recorder=None)
        try:
            recorder.unwatched(method, self, *args, **kwargs)
        finally:
            mode.set(recorder=recorder)

    # Recording ---------------------------------------------------------------------------------------------

    @guarded
    def recording_begins(self) -> None:
        self.flush()
        self.lose_trust()
        self.notice(self.registry.parameters)
        self.recorded, self.attentive = [], True
        self.hear = self.hear_and_record

    def hear_and_record(self, event: events.Event) -> None:
        if self.recorded is not None:
            self.recorded.append(event)
        self.tell(event)

    @guarded
    def recording_ends(self, entry: Any) -> None:
        self.flush()
        self.notice(self.registry.parameters)
        if self.recorded is not None:
            self.scripts[entry] = Script(self.recorded)
        self.recorded, self.attentive = None, False
        self.hear = self.tell

    # Running -----------------------------------------------------------------------------------------------

    def program_begins(self, entry: Any) -> None:
        script = self.scripts.get(entry)
        if script is None or not script.lines or self.closed:
            return
        if script is self.last and self.told_at == self.count and self.trusting:
            return
        self.prepare(script)

    @guarded
    def prepare(self, script: Script) -> None:
        """Before a program runs: afterwards its own doing and the user's could not be told apart."""
        self.flush()
        if not self.ledger.stale.isdisjoint(script.adds_to):
            self.lose_trust()
        self.notice(self.registry.parameters)
        backward = script.first_backward
        if backward is not None and not self.ledger.stale.isdisjoint(script.adds_to):
            self.notice_zeros(backward.place)
        if self.statistics and script.keeps_gradients:
            record = self.registry.optimizers[script.steps[0].optimizer]
            if is_due(record.steps + 1):
                self.measurement = Measurement(record, self.norms, later=True)

    def program_ends(self, entry: Any) -> None:
        script = self.scripts.get(entry)
        if script is None or not script.lines or self.closed:
            return
        same = script is self.last and self.told_at == self.count
        if same and self.trusting and self.silent < SILENT_RUNS and self.may_be_silent:
            self.silent += 1
            self.attentive = True
            return
        self.ended(script)

    @guarded
    def ended(self, script: Script) -> None:
        self.repeat(script)
        if self.forwards_left:
            self.flush_forward()
        if not self.trusting:
            self.remember(self.touched(script))
        self.samples.clear()
        self.last, self.told_at = script, self.count

    def touched(self, script: Script) -> list[Parameter]:
        return [self.registry.parameters[number] for number in script.parameters]

    def make_up(self) -> None:
        """Tells the last of the runs that were only counted; those before it are counted."""
        silent, self.silent, script = self.silent, 0, self.last
        self.attentive = self.recorded is not None
        if script is None:
            return
        for step in script.steps:
            record = self.registry.optimizers[step.optimizer]
            record.steps += silent - 1
            self.step = max(self.step, record.steps + 1)
        self.repeat(script)
        self.told_at = self.count

    def repeat(self, script: Script) -> None:
        """Tells the events of a recording, as those of a call that was made now."""
        passes: dict[int, events.Backward] = {}
        for line, arguments in zip(script.lines, script.arguments, strict=True):
            kind = type(line)
            if kind is events.Step:
                self.repeat_step(line)  # type: ignore[arg-type]
                continue
            if kind is events.Backward:
                made: Any = events.Backward(*self.now(), line.place, *arguments[:4], 0)
                passes[line.number] = made
            elif kind is events.Accumulate or kind is events.BackwardEnd:
                backward = passes[arguments[0].number]
                made = kind(*self.now(), line.place, backward, *arguments[1:])
            else:
                made = kind(*self.now(), line.place, *arguments)
            self.hear(made)

    def repeat_step(self, line: events.Step) -> None:
        record = self.registry.optimizers[line.optimizer]
        found = line.with_gradient, line.without_gradient, line.frozen
        if not self.trusting:
            record.found = found
        step = self.tell_step(record, line.place, found, line.closure, line.scaler)
        if self.measurement is not None:
            measurement, self.measurement = self.measurement, None
            self.hear(measurement.finish(self.now()[0], step))
        self.count_calm_step()
