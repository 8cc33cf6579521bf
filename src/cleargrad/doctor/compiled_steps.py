"""Compiled steps under a watch: what a recorded call was heard to do happens again whenever its program runs.

A call that is recorded is an ordinary call, and everything in it is heard. Its program runs in silence: the events
of the recording are told once more, with the numbers of the step that it is now. A program that runs again and
again, with nothing in between, is only counted; what was left out is made up for before anything else is heard.
Read next: cleargrad_adapter.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cleargrad.core.mode import mode
from cleargrad.doctor import events
from cleargrad.doctor.gradient_observer import guarded
from cleargrad.doctor.library_observer import LibraryObserver
from cleargrad.doctor.measuring import Measurement, is_due
from cleargrad.doctor.registry import Parameter
from cleargrad.doctor.repeating import REPEATED, SHOWN, Line


class Script:
    """The events of one recorded call, to be told again."""

    def __init__(self, heard: Iterable[events.Event]) -> None:
        self.lines = [Line(event) for event in heard if type(event) in REPEATED]
        told: list[Any] = [line.event for line in self.lines]
        self.parameters: set[int] = set()  # whose gradients it touches
        self.adds_to: set[int] = set()  # whose gradients it fills without having cleared them
        self.first_backward = next((each for each in told if type(each) is events.Backward), None)
        self.steps = [each for each in told if type(each) is events.Step]
        cleared: set[int] = set()
        for event in told:
            self.parameters.update(getattr(event, "parameters", ()))
            if type(event) is events.Zero:
                cleared.update(event.parameters)
            elif type(event) is events.Accumulate:
                self.adds_to.update(set(event.parameters) - cleared)
        last = next((each for each in reversed(told) if type(each) in (events.Step, events.Zero)), None)
        # Whether the gradients that its only step has used are still there when it is over.
        self.keeps_gradients = len(self.steps) == 1 and last is self.steps[0]


class CompiledSteps(LibraryObserver):
    """Hears what compiled functions do."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.recording = False
        self.measurement: Measurement | None = None
        self.last: Any = object()  # the script that was told last, and when
        self.told_at = 0
        self.silent = 0  # runs of it that were only counted since then

    def attend(self, method: Callable, args: tuple) -> None:
        """Before anything else is heard, programs that were only counted are made up for."""
        if self.silent:
            self.make_up_programs()
        if self.recording:
            self.perform(method, args)
        else:
            super().attend(method, args)

    def perform(self, method: Callable, args: tuple) -> None:
        """What is done here is no part of a recording."""
        recorder: Any = mode.recorder
        if recorder is None:
            method(self, *args)
            return
        mode.set(recorder=None)
        try:
            recorder.unwatched(method, self, *args)
        finally:
            mode.set(recorder=recorder)

    def catch_up(self) -> None:
        if self.silent:
            self.make_up_programs()
        super().catch_up()

    # Recording ---------------------------------------------------------------------------------------------

    @guarded
    def recording_begins(self) -> None:
        self.flush()
        self.stop_learning()
        self.lose_trust()
        self.notice(self.registry.parameters)
        self.recording = self.attentive = True
        self.keep([])

    @guarded
    def recording_ends(self, entry: Any) -> None:
        self.flush()
        self.notice(self.registry.parameters)
        entry.script = Script(self.kept or ())
        self.recording = self.attentive = False
        self.keep(None)

    @guarded
    def program_stands_in(self, entry: Any) -> None:
        """The recorded call was taken back, and its program has made it: what it did has been heard."""
        self.remember(self.touched(entry.script))

    # Running -----------------------------------------------------------------------------------------------

    def program_begins(self, entry: Any) -> None:
        script = entry.script
        if script is self.last and self.told_at == self.count and self.trusting:
            return
        if script is not None and script.lines:
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
            if is_due(record):
                self.measurement = Measurement(record, self.norms, later=True)

    def program_ends(self, entry: Any) -> None:
        script = entry.script
        same = script is self.last and self.told_at == self.count
        if same and self.trusting and self.may_be_silent and not self.is_time_to_look(self.silent):
            self.silent += 1
            self.attentive = True
        elif script is not None and script.lines:
            self.ended(script)

    @guarded
    def ended(self, script: Script) -> None:
        self.repeat(script.lines, {})
        if self.forwards_left:
            self.flush_forward()
        if not self.trusting:
            self.remember(self.touched(script))
        self.samples.clear()
        self.last, self.told_at = script, self.count

    def touched(self, script: Script) -> list[Parameter]:
        return [self.registry.parameters[number] for number in script.parameters]

    def make_up_programs(self) -> None:
        """Tells the last few of the runs that were only counted; those before them are counted."""
        silent, self.silent, script = self.silent, 0, self.last
        told = min(SHOWN, silent)
        self.attentive = self.recording or self.learning
        self.count_only(script.lines, silent - told)
        trusting = self.trusting
        for _ in range(told):
            self.repeat(script.lines, {})
        self.trusting = trusting  # what is told late is no occasion to look
        self.told_at = self.count

    def repeat_step(self, old: events.Step) -> events.Step:
        if not self.trusting:
            record = self.registry.optimizers[old.optimizer]
            record.found = old.with_gradient, old.without_gradient, old.frozen
        step = super().repeat_step(old)
        if self.measurement is not None:
            measurement, self.measurement = self.measurement, None
            self.hear(measurement.finish(self.now()[0], step))
        return step
