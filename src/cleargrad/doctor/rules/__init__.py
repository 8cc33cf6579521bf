"""The rule book: one small function per rule, grouped in files by theme.

A rule hears the kinds of events that it names and hands back findings:

    @rule("gradient-reused", "error", on=Step)
    def gradient_reused(event: Step, case: Case) -> Iterator[Finding]:
        ...
        yield case.finding(event, "what happened", fix="what to change")

`load` imports the files. Adding a rule is one function in one of them; adding a file is one name in THEMES.
Read next: rules/book.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cleargrad.doctor.events import Event
from cleargrad.doctor.findings import Finding, at
from cleargrad.doctor.ledger import Ledger
from cleargrad.doctor.places import Place

THEMES = (
    "reuse",
    "drop",
    "windows",
    "clipping",
    "scaling",
    "membership",
    "replacement",
    "graphs",
    "sizes",
    "modes",
    "freezing",
    "scheduling",
    "networks",
    "averaging",
    "reading",
)


@dataclass(frozen=True)
class Rule:
    """`check(event, case)` is called for each event of the kinds in `on`, after the ledger has taken the event."""

    name: str
    severity: str
    on: tuple[type[Event], ...]
    check: Callable[[Any, Case], Iterable[Finding] | None]
    needs: type[Event] | None = None  # it sleeps until an event of this kind has been heard
    every_time: bool = False  # it hears also what has been heard often (see familiarity.py)


RULES: dict[str, Rule] = {}


def rule(
    name: str,
    severity: str,
    on: type[Event] | tuple[type[Event], ...],
    needs: type[Event] | None = None,
    every_time: bool = False,
) -> Callable:
    """Enters a function into the rule book.

    With `needs`, programs without such events do not pay for it. A rule that counts or pairs up events hears them
    `every_time`; others are spared those that are like many before them.
    """

    def enter(check: Callable) -> Callable:
        kinds = on if isinstance(on, tuple) else (on,)
        key = name if name not in RULES else f"{name}/{check.__name__}"  # a rule may have several functions
        RULES[key] = Rule(name, severity, kinds, check, needs, every_time)
        return check

    return enter


def load() -> dict[str, Rule]:
    """The whole rule book."""
    for theme in THEMES:
        importlib.import_module(f"cleargrad.doctor.rules.{theme}")
    return RULES


def descriptions() -> list[tuple[Rule, str]]:
    """Each rule with what it looks for. Several functions may stand under one rule; the first one speaks for it."""
    first: dict[str, Rule] = {}
    for rule in load().values():
        first.setdefault(rule.name, rule)
    return [(rule, " ".join((rule.check.__doc__ or "").split())) for rule in first.values()]


class Case:
    """What a rule works with in one run: the ledger, the numbers of things, and a memory of its own."""

    def __init__(self, rule: Rule, ledger: Ledger) -> None:
        self.rule = rule
        self.ledger = ledger
        self.registry = ledger.registry
        self.memory: dict[Any, Any] = {}

    def names(self, parameters: Iterable[int]) -> list[str]:
        """Names of parameters, for sentences; sorted as the model has them."""
        return self.registry.names(sorted(parameters))

    def finding(
        self,
        event: Event,
        message: str,
        *,
        fix: str,
        evidence: Iterable[str] = (),
        place: Place | None = None,
        parameters: Iterable[int] = (),
        cause: Any = None,
        severity: str | None = None,
        facts: dict[str, Any] | None = None,
    ) -> Finding:
        """A finding at an event; `place` is another line than the event's."""
        return Finding(
            rule=self.rule.name,
            severity=severity or self.rule.severity,
            message=message,
            evidence=list(evidence),
            fix=fix,
            step=event.step,
            parameters=self.names(parameters),
            cause=cause,
            facts=facts or {},
            **at(place or event.place),
        )
