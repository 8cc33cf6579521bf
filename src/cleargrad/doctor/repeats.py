"""Training loops that do the same thing in every round: after many, a round that is like the last is only counted.

Once the program is trusted (observers/gradients.py), the calls of a round, from one step of an optimizer to the
next, are learned together with the events that they make. While calls come as they were learned, a cursor moves on
and nothing else happens. As soon as one differs, what was left out is made up for: the last whole round and what
has begun of the present one are told, so that everybody knows what they would have known. Read next:
observers/modules.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields
from time import process_time
from typing import Any

from cleargrad.doctor import events
from cleargrad.doctor.observers.gradients import CALM_STEPS
from cleargrad.doctor.observers.passes import GradientObserver, StepUnderWay, value_of

REPEATED = frozenset((
    events.Backward, events.Accumulate, events.BackwardEnd, events.Grad, events.Zero, events.GradWrite, events.Clip,
    events.StepBegin, events.Step, events.Skip, events.Scale, events.Unscale, events.ScalerStep,
    events.ScalerUpdate, events.SchedulerStep,
))  # fmt: skip
LEAST_COUNTED, MOST_COUNTED = 63, 511  # rounds that are only counted before one is looked at in full:
SECONDS = 0.2  # the former where they take at least this long of the processor, else more of them
SHOWN = 4  # rounds that are told when something differs, or at the end: reports show as many
MOST_CALLS = 256  # in a round
DISAPPOINTMENTS = 8  # rounds that were not repeated even once, before learning is given up

# What must be the same in a call for it to be the one that was learned: by method, from its arguments.
KEYS: dict[str, Callable[[tuple], tuple]] = {
    "backward_begin": lambda args: (type(args[0]), args[1], args[2]),
    "backward_end": lambda args: args,
    "zeroed_by_optimizer": lambda args: (id(args[0]), args[1]),
    "zeroed_by_module": lambda args: (id(args[0]), args[1]),
    "clip_begin": lambda args: (len(args[0]), id(args[0][0]), id(args[0][-1])) if args[0] else (),
    "clip_end": lambda args: (args[1],),
    "step_begin": lambda args: (id(args[0]), args[1]),
    "step_end": lambda args: (id(args[0]),),
    "scheduler_stepped": lambda args: (id(args[0]),),
}


class Move:
    """A call of a round: which, and what it told."""

    __slots__ = (
        "begins", "clears", "ends", "filled", "fills", "following", "has_loss", "key", "key_of", "lines", "name",
        "position", "root", "to_none",
    )  # fmt: skip

    def __init__(self, name: str, key: tuple, filled: list[int], heard: list[events.Event]) -> None:
        self.name = name
        self.key = key
        self.key_of = KEYS[name]
        self.position = 0  # in its round
        self.following: Move | None = None  # the next of its round
        self.filled = filled  # ids of the parameters that a backward pass had added to when it ended
        self.lines = [Line(event) for event in heard if type(event) in REPEATED]
        self.has_loss = any(type(event) is events.Backward and event.loss is not None for event in heard)
        self.prepare()

    def prepare(self) -> None:
        """What quick_calls.py compares: an id for one kind of call, 0 or None for all the others."""
        name, key, calm = self.name, self.key, not self.filled
        zeroes = name in ("zeroed_by_optimizer", "zeroed_by_module") and calm
        self.clears, self.to_none = key if zeroes else (0, None)
        self.begins = key[0] if name == "step_begin" and key[1] is False and calm else 0
        self.ends = key[0] if name == "step_end" and calm else 0
        self.root = key[0] if name == "backward_begin" and key[1:] == (False, False) and calm else None
        self.fills = self.filled if name == "backward_end" and key == (False,) else None


class Line:
    """An event, to be told again."""

    __slots__ = ("event", "kind", "rest")

    def __init__(self, event: events.Event) -> None:
        self.event = event
        self.kind = type(event)
        self.rest = tuple(getattr(event, field.name) for field in fields(event)[3:])


class Repeating(GradientObserver):
    """Learns rounds, counts those that are repeated, and makes up for what was left out."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tell = self.hear
        self.kept: list[events.Event] | None = None  # events that are being kept
        self.learning = False
        self.round: list[Move] | None = None  # the one that is being learned; None when it cannot be
        self.moves: list[Move] = []  # of the round that was learned last
        self.first: Move | None = None  # of the moves that are expected
        self.lead = 0  # the optimizer whose step ends a round
        self.counted = 0  # rounds that were only counted
        self.looked_at = 0.0  # when a round was last looked at in full after many that were counted
        self.disappointments = 0

    def perform(self, method: Callable, args: tuple) -> None:
        method(self, *args)

    def keep(self, kept: list[events.Event] | None) -> None:
        """From here on, events are kept in a list as well."""
        self.kept = kept
        self.hear = self.tell if kept is None else self.hear_and_keep

    def hear_and_keep(self, event: events.Event) -> None:
        if self.kept is not None:
            self.kept.append(event)
        self.tell(event)

    # Counting ----------------------------------------------------------------------------------------------

    def attend(self, method: Callable, args: tuple) -> None:
        if self.expected is not None:
            self.make_up(SHOWN)
        if self.learning:
            self.learn(method, method.__name__, args)
        else:
            self.perform(method, args)

    def is_repeated(self, expected: Move, args: tuple) -> bool:
        if expected.key_of(args) != expected.key:
            return False
        filled = self.filled
        if filled:  # the end of a pass: it has to have added to the same parameters
            ids = list(map(id, filled))
            if ids != expected.filled and set(ids) != set(expected.filled):
                return False
            filled.clear()
        elif expected.filled:
            return False
        elif expected.has_loss:
            roots = args[0]
            loss = value_of(roots[0] if type(roots) is tuple else roots)
            if loss is None or not math.isfinite(loss):
                return False
        following = self.expected = expected.following
        if following is None:
            self.round_repeated()
        return True

    def round_repeated(self) -> None:
        self.expected = self.first
        self.counted += 1
        if self.counted & LEAST_COUNTED == LEAST_COUNTED and self.is_time_to_look(self.counted):
            self.make_up()
            self.trusting = False  # the next round is looked at
            self.remember(self.registry.parameters)

    def is_time_to_look(self, counted: int) -> bool:
        """After so many rounds that were only counted: quick loops are looked at less often."""
        if counted & LEAST_COUNTED != LEAST_COUNTED:
            return False
        now = process_time()
        due = counted >= MOST_COUNTED or now - self.looked_at > SECONDS
        if due:
            self.looked_at = now
        return due

    def expect_round(self) -> None:
        """The round that was learned is expected from its first call on."""
        for position, move in enumerate(self.moves):
            move.position = position
            move.following = self.moves[position + 1] if position + 1 < len(self.moves) else None
        self.expected = self.first = self.moves[0]

    def catch_up(self) -> None:
        """Tells what was left out, for somebody who asks."""
        if self.expected is not None:
            self.make_up(SHOWN)

    def make_up(self, told: int = 2) -> None:
        """Tells the last of the rounds that were only counted, and what has begun of the next."""
        counted, cursor = self.counted, 0 if self.expected is None else self.expected.position
        self.counted, self.expected = 0, None
        if counted:
            self.disappointments = 0
            told = min(told, counted)
            lines = [line for move in self.moves for line in move.lines]
            self.count_only(lines, counted - told)
            trusting = self.trusting
            for _ in range(told):
                self.repeat(lines, {})
            self.trusting = trusting  # what is told late is no occasion to look
        elif cursor > 0:
            self.disappointments += 1
        self.repeat_beginning(self.moves[:cursor])
        if self.disappointments > DISAPPOINTMENTS:
            self.stop_learning()

    def repeat_beginning(self, moves: list[Move]) -> None:
        passes: dict[int, events.Backward] = {}
        for move in moves:
            self.repeat(move.lines, passes)
            if move.name == "backward_begin":
                self.depth += 1
                self.backward = next(reversed(passes.values()), None)
            elif move.name == "backward_end":
                self.depth -= 1
                self.backward = None if self.depth == 0 else self.backward
            elif move.name == "step_begin":
                self.steps.append(self.step_under_way(move))
            elif move.name == "step_end":
                self.steps.pop()

    def step_under_way(self, move: Move) -> StepUnderWay:
        record = next(each for each in self.registry.optimizers if id(each.ref()) == move.key[0])
        begun = StepUnderWay(record.ref(), None, bool(move.key[1]))
        step = next(line.event for each in self.moves for line in each.lines if line.kind is events.Step)
        begun.place, begun.found = step.place, record.found
        return begun

    def count_only(self, lines: Iterable[Line], rounds: int) -> None:
        """Moves all counters on by some rounds of which nothing is told."""
        records = self.registry.parameters
        for line in lines:
            event: Any = line.event
            if line.kind is events.Step:
                optimizer = self.registry.optimizers[event.optimizer]
                optimizer.steps += rounds
                self.step = max(self.step, optimizer.steps + 1)
                for number in event.with_gradient:
                    records[number].steps += rounds
            elif line.kind is events.Accumulate:
                for number in event.parameters:
                    records[number].received += rounds

    def repeat(self, lines: Iterable[Line], passes: dict[int, events.Backward]) -> None:
        """Tells events again, as those of calls made now; `passes` has the new passes by the old numbers."""
        for line in lines:
            old: Any = line.event
            if line.kind is events.Step:
                self.repeat_step(old)
                continue
            if line.kind is events.Backward:
                made: Any = line.kind(*self.now(), old.place, *line.rest[:4], 0)  # type: ignore[call-arg]
                passes[old.number] = made
            elif line.kind is events.Accumulate or line.kind is events.BackwardEnd:
                made = line.kind(*self.now(), old.place, passes[old.backward.number], *line.rest[1:])
            else:
                made = line.kind(*self.now(), old.place, *line.rest)
            self.hear(made)

    def repeat_step(self, old: events.Step) -> events.Step:
        record = self.registry.optimizers[old.optimizer]
        found = old.with_gradient, old.without_gradient, old.frozen
        step = self.tell_step(record, old.place, found, old.closure, old.scaler)
        self.count_calm_step()
        return step

    # Learning ----------------------------------------------------------------------------------------------

    def count_calm_step(self) -> None:
        super().count_calm_step()
        ready = self.calm > CALM_STEPS and self.may_be_silent and self.disappointments <= DISAPPOINTMENTS
        if ready and not self.learning:
            self.learning = self.attentive = True
            self.round = None
        elif not ready and self.learning:
            self.stop_learning()

    def stop_learning(self) -> None:
        self.learning, self.round, self.moves = False, None, []
        self.keep(None)
        self.attentive = False

    def learn(self, method: Callable, name: str, args: tuple) -> None:
        """Does what a call does, and notes it as part of the round."""
        if self.round is None or name not in KEYS or len(self.round) > MOST_CALLS:
            self.round = None
            self.perform(method, args)
        else:
            filled = list(map(id, self.filled))
            heard: list[events.Event] = []
            key = KEYS[name](args)
            self.keep(heard)
            try:
                self.perform(method, args)
            finally:
                self.keep(None)
            if self.round is not None:
                self.round.append(Move(name, key, filled, heard))
        if name == "step_end" and self.learning:
            self.end_round(id(args[0]))

    def end_round(self, optimizer: int) -> None:
        """At the end of a step: a round like the one before it, with nothing odd in it, is expected again."""
        if self.steps:
            return
        if self.round is not None and self.lead != optimizer and len(self.round) <= MOST_CALLS:
            return  # another optimizer's step within the round
        done, self.round, self.lead = self.round, [], optimizer
        if done is None:
            return
        before, self.moves = self.moves, done
        use = self.ledger.use
        calm = self.trusting and use is not None and not use.is_odd and not self.ledger.dropping
        same = [(move.name, move.key) for move in before] == [(move.name, move.key) for move in done]
        if calm and same and not self.filled:
            self.expect_round()
