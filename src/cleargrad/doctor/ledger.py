"""The ledger: for every parameter, which backward passes filled `.grad` and which steps used it.

Events come in, in order; rules ask what is live, what was used and what was dropped. Memory is bounded: of every
parameter only its present bucket is kept in full, and of the past the most recent events. Read next: findings.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cleargrad.doctor.events import (
    Accumulate,
    Backward,
    Event,
    GradWrite,
    HandStep,
    Skip,
    Step,
    Zero,
)
from cleargrad.doctor.places import Place
from cleargrad.doctor.registry import Registry
from cleargrad.notebook import Rows

REMEMBERED = 4096  # events
LONGEST_BUCKET = 64  # contributions of one bucket that are told apart; older ones are merged

AnyStep = Step | Skip | HandStep


class Bucket:
    """What is in `.grad` of one parameter now.

    `live` are the backward passes whose contributions are in it, oldest first, and the first `used` of them have
    been used by a step; `uses` says by which. `dropped` are contributions that were cleared, unused, since the last
    step, with the event that cleared them. `by_hand` is set while the program's own writes make the bucket unknown.
    """

    __slots__ = ("began", "by_hand", "cleared_by", "dropped", "live", "merged", "used", "uses")

    def __init__(self) -> None:
        self.live: list[Backward] = []
        self.used = 0
        self.uses: list[AnyStep] = []  # the steps that used what is live, at most the last few
        self.dropped: list[tuple[Backward, Zero]] = []
        self.cleared_by: Zero | None = None
        self.began: Place | None = (
            None  # where it had been cleared before the first of the dropped contributions
        )
        self.merged = 0  # contributions beyond the longest bucket
        self.by_hand = False

    @property
    def fresh(self) -> list[Backward]:
        """Contributions that no step has used."""
        return self.live[self.used :] if self.used else self.live

    @property
    def stale(self) -> list[Backward]:
        """Contributions that a step has used already."""
        return self.live[: self.used]

    def add(self, backward: Backward) -> None:
        if self.used == len(self.live):
            self.live = [
                *self.live,
                backward,
            ]  # a new list, since the step that used the old one remembers it
        else:
            self.live.append(backward)
        if len(self.live) > LONGEST_BUCKET:
            del self.live[1]
            self.merged += 1
            self.used = max(self.used - 1, 1) if self.used > 1 else self.used

    def clear(self, event: Zero) -> None:
        if self.used < len(self.live):
            if not self.dropped and self.cleared_by is not None:
                self.began = self.cleared_by.place
            self.dropped += [(backward, event) for backward in self.fresh]
            del self.dropped[:-LONGEST_BUCKET]
        self.live = []  # a new list, since the step that used the old one remembers it
        if self.uses:
            self.uses = []
        self.used = self.merged = 0
        self.cleared_by = event
        self.by_hand = False

    def use(self, event: AnyStep) -> None:
        self.used = len(self.live)
        self.uses.append(event)
        if len(self.uses) > 3:
            del self.uses[0]
        if self.dropped:
            self.dropped.clear()
            self.began = None


@dataclass(slots=True, eq=False)
class Use:
    """What one step found in the buckets of its parameters, as it was before the step used it."""

    step: AnyStep
    fresh: dict[int, list[Backward]] = field(
        default_factory=dict
    )  # parameter: contributions used the first time
    reused: dict[int, list[Backward]] = field(default_factory=dict)  # parameter: contributions used once more
    earlier: dict[int, list[AnyStep]] = field(default_factory=dict)  # parameter: the steps that had used them
    dropped: dict[int, list[tuple[Backward, Zero]]] = field(default_factory=dict)  # cleared, never used
    cleared: dict[int, Place | None] = field(default_factory=dict)  # where the first dropped window had begun
    by_hand: set[int] = field(default_factory=set)  # parameters whose gradient the program wrote itself
    passes: int = 0  # how many contributions the parameter with the most of them had

    @property
    def is_odd(self) -> bool:
        """Whether there is anything but contributions that were used for the first time."""
        return bool(self.reused or self.dropped or self.by_hand)


class Ledger:
    """Buckets by parameter, recent events, and what the last step used."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.buckets: list[Bucket] = []
        self.stale: set[int] = set()  # parameters with contributions that a step has used
        self.filled: set[int] = set()  # parameters with contributions that no step has used
        self.dropping: set[int] = set()  # parameters with dropped contributions
        self.events: deque[Event] = deque(maxlen=REMEMBERED)
        self.use: Use | None = None  # of the step that is being looked at, for the rules
        self.last_use: dict[int, Use] = {}  # by optimizer
        self.before: Use | None = None  # what the same optimizer's step before that one used
        self.compared: dict[int, tuple[list[float], list[float]]] = {}  # some values: expected, actual
        self.weights: object = None  # before a step that follows dropped contributions; see Zero.weights
        self.steps = 0  # of the optimizer that stepped most

    def bucket(self, parameter: int) -> Bucket:
        while len(self.buckets) <= parameter:
            self.buckets.append(Bucket())
        return self.buckets[parameter]

    # Taking events -----------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Notes an event. Rules run afterwards and see the ledger with the event in it."""
        self.events.append(event)
        kind = type(event)
        if kind is Accumulate:
            self.take_accumulate(event)  # type: ignore[arg-type]
        elif kind is Zero:
            self.take_zero(event)  # type: ignore[arg-type]
        elif kind is Step or kind is Skip or kind is HandStep:
            self.take_step(event)  # type: ignore[arg-type]
        elif kind is GradWrite:
            self.take_write(event)  # type: ignore[arg-type]

    def take_accumulate(self, event: Accumulate) -> None:
        backward, records = event.backward, self.registry.parameters
        backward.parameters += event.parameters
        buckets = self.buckets
        for parameter in event.parameters:
            buckets[parameter].add(backward)
            records[parameter].received += 1
        self.filled.update(event.parameters)

    def take_zero(self, event: Zero) -> None:
        buckets = self.buckets
        if not self.filled.isdisjoint(event.parameters):
            self.dropping.update(self.filled.intersection(event.parameters))
            self.filled.difference_update(event.parameters)
        for parameter in event.parameters:
            buckets[parameter].clear(event)
        if self.stale:
            self.stale.difference_update(event.parameters)

    def take_write(self, event: GradWrite) -> None:
        for parameter in event.parameters:
            bucket = self.bucket(parameter)
            if event.how == "assigned" or bucket.used == len(bucket.live):
                bucket.by_hand = True

    def take_step(self, event: AnyStep) -> None:
        use = Use(event)
        records, buckets, fresh = self.registry.parameters, self.buckets, use.fresh
        for parameter in event.with_gradient:
            bucket = buckets[parameter]
            if bucket.by_hand:
                use.by_hand.add(parameter)
            elif bucket.used and type(event) is not Skip:
                use.reused[parameter] = bucket.stale
                use.earlier[parameter] = list(bucket.uses)
            found = fresh[parameter] = bucket.fresh
            for backward in found:
                backward.used = True
            if len(found) > use.passes:
                use.passes = len(found)
            if bucket.dropped:
                use.dropped[parameter] = list(bucket.dropped)
                use.cleared[parameter] = bucket.began
            bucket.use(event)
            records[parameter].steps += 1
        for parameter in getattr(event, "without_gradient", ()):
            bucket = buckets[parameter]
            if bucket.dropped:
                use.dropped[parameter] = list(bucket.dropped)
                bucket.dropped.clear()
        if self.dropping:
            self.dropping.difference_update(use.dropped)
        self.stale.update(event.with_gradient)
        self.filled.difference_update(event.with_gradient)
        self.use = use
        if not isinstance(event, HandStep):
            self.before = self.last_use.get(event.optimizer)
            self.last_use[event.optimizer] = use
        self.steps = max(self.steps, event.step)

    # Questions ---------------------------------------------------------------------------------------------

    def history(self, parameter: int) -> list[Event]:
        """The remembered events that concern a parameter, oldest first."""
        return list(self.events_of(parameter))

    def events_of(self, parameter: int) -> Iterator[Event]:
        for event in self.events:
            if parameter in concerned(event):
                yield event

    def table(self) -> Rows:
        """One row per parameter: its name, what is in its bucket, and how often it was filled and used."""
        return Rows(self.row(record.number) for record in self.registry.parameters)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def row(self, number: int) -> dict[str, Any]:
        record, bucket = self.registry.parameters[number], self.bucket(number)
        return {
            "parameter": self.registry.name(number),
            "shape": record.shape,
            "received": record.received,
            "steps": record.steps,
            "live": [f"{backward.place} in step {backward.step}" for backward in bucket.live],
            "used": bucket.used,
            "by_hand": bucket.by_hand,
            "cleared_by": None if bucket.cleared_by is None else str(bucket.cleared_by.place),
        }


def concerned(event: Event) -> Iterable[int]:
    """The parameters that an event names."""
    if isinstance(event, Step):
        return event.with_gradient + event.without_gradient
    if isinstance(event, (Skip, HandStep)):
        return event.with_gradient
    return getattr(event, "parameters", ())
