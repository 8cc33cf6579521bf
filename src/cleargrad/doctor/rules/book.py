"""The rules of one run: which of them hears an event.

Rules hear the kinds of events that they ask for, some of them only once an event of another kind has woken them.
Others than rules may listen too. Read next: rules/reuse.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cleargrad.doctor.events import Event
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.ledger import Ledger
from cleargrad.doctor.rules import Case, Rule, load

Check = Callable[[Any, Any], Iterable[Finding] | None]


class RuleBook:
    """Who hears an event of a kind: `by_kind` has all, `always` those that hear also what is familiar."""

    def __init__(self) -> None:
        self.by_kind: dict[type[Event], list[tuple[Check, Case | None]]] = {}
        self.always: dict[type[Event], list[tuple[Check, Case | None]]] = {}

    def open(self, ledger: Ledger, ignore: Iterable[str] = ()) -> None:
        """Enters all rules but those that are to be ignored."""
        for rule in load().values():
            if rule.name in ignore:
                continue
            case = Case(rule, ledger)
            if rule.needs is None:
                self.enter(rule.on, rule.check, case, rule.every_time)
            else:
                self.enter((rule.needs,), self.waking(rule), case)

    def listen(self, kinds: Iterable[type[Event]], hear: Callable[[Any], None]) -> None:
        """From now on, somebody who finds nothing hears each event of these kinds."""
        self.enter(kinds, lambda event, _: hear(event), None)

    def enter(
        self, kinds: Iterable[type[Event]], check: Check, case: Case | None, every_time: bool = True
    ) -> None:
        for kind in kinds:  # new lists, since the old ones may just be gone through
            self.by_kind[kind] = [*self.by_kind.get(kind, ()), (check, case)]
            if every_time:
                self.always[kind] = [*self.always.get(kind, ()), (check, case)]

    def waking(self, rule: Rule) -> Check:
        """A check that wakes a sleeping rule when it is called first."""

        def wake(event: Event, case: Case) -> Any:
            kind = type(event)
            for checks in (self.by_kind, self.always):
                checks[kind] = [entry for entry in checks[kind] if entry[0] is not wake]
            self.enter(rule.on, rule.check, case, rule.every_time)
            return rule.check(event, case) if kind in rule.on else None

        return wake

    def hear(self, event: Event, is_familiar: bool) -> Iterator[Finding]:
        """What the rules find in an event; most are spared one that is familiar."""
        for check, case in (self.always if is_familiar else self.by_kind).get(type(event), ()):
            yield from check(event, case) or ()
