"""What is kept of a run for its report: the first steps, those around findings, the last ones, and sizes.

The ledger remembers the most recent events only; here those of the moments that a reader wants to see are put aside
before they are forgotten. Bounded, however long the run. Read next: reports/timeline.py.
"""

from __future__ import annotations

from cleargrad.doctor.events import Backward, Event, HandStep, Statistics, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.ledger import Ledger

FIRST_STEPS = 8
LAST_STEPS = 4
BEFORE, AFTER = 2, 1  # steps around a finding
WINDOWS = 12  # findings whose surroundings are kept
LONGEST = 1024  # events of one window
SIZES = 60_000  # numbers that statistics may hold, over all parameters


class Window:
    """Events in order, and what was in the buckets before the first of them."""

    def __init__(self, events: list[Event], earlier: dict[int, list[Backward]]) -> None:
        self.events = events
        self.earlier = earlier


class Thinned:
    """A long series of statistics, of which every second is dropped whenever there are too many."""

    def __init__(self) -> None:
        self.kept: list[Statistics] = []
        self.every = 1
        self.seen = 0

    def add(self, event: Statistics) -> None:
        if self.seen % self.every == 0:
            self.kept.append(event)
            limit = max(24, min(240, SIZES // max(1, len(event.parameters))))
            if len(self.kept) > limit:
                del self.kept[1::2]
                self.every *= 2
        self.seen += 1


class Story:
    """Listens to steps, statistics and findings."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.first: Window | None = None
        self.first_is_whole = False
        self.around: list[Window] = []
        self.waiting: list[int] = []  # steps of findings whose following step has not come yet
        self.statistics: dict[int, Thinned] = {}  # by optimizer

    def step_taken(self, event: Step | HandStep) -> None:
        if not self.first_is_whole:
            self.first = Window(list(self.ledger.events), {})
            self.first_is_whole = event.step >= FIRST_STEPS or len(self.first.events) >= LONGEST
        if self.waiting and event.step >= self.waiting[0] + AFTER:
            self.put_aside(self.waiting.pop(0))

    def statistics_taken(self, event: Statistics) -> None:
        series = self.statistics.get(event.optimizer)
        if series is None:
            series = self.statistics[event.optimizer] = Thinned()
        series.add(event)

    def finding_made(self, finding: Finding) -> None:
        if len(self.around) + len(self.waiting) < WINDOWS:
            self.waiting.append(finding.step)

    def put_aside(self, step: int) -> None:
        self.around.append(self.recent(step - BEFORE))

    def recent(self, first_step: int) -> Window:
        """The remembered events from a step on."""
        events: list[Event] = []
        for event in reversed(self.ledger.events):
            if (type(event) is Backward and event.step < first_step) or len(events) == LONGEST:
                break
            events.append(event)
        events.reverse()
        del events[: rest_of_a_step(events)]
        return Window(events, self.held_since_before(events[0].number if events else 0))

    def held_since_before(self, number: int) -> dict[int, list[Backward]]:
        """Contributions of passes before an event that are in buckets now; so they were then."""
        earlier = {}
        for parameter, bucket in enumerate(self.ledger.buckets):
            if bucket.live and bucket.live[0].number < number:
                earlier[parameter] = [backward for backward in bucket.live if backward.number < number]
        return earlier

    def windows(self) -> list[Window]:
        """All that was put aside, with the last steps."""
        for step in self.waiting:
            self.put_aside(step)
        self.waiting.clear()
        last = self.recent(self.ledger.steps - LAST_STEPS + 1)
        return [*([] if self.first is None else [self.first]), *self.around, last]


def rest_of_a_step(events: list[Event]) -> int:
    """How many events at the beginning belong to a step whose backward passes are not among them."""
    for position, event in enumerate(events):
        if type(event) is Backward:
            return 0
        if type(event) in (Step, HandStep):
            return position + 1
    return 0
