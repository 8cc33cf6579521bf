"""A watch over a run: an engine's adapter, the ledger, the rules and what they find.

    with doctor.watch(model, optimizer):      # or session = doctor.attach() ... doctor.report()
        ...

Events come from the adapter, go to the ledger and then to the rules that asked for their kind.
Read next: rules/__init__.py.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterable
from html import escape
from typing import Any, Self

from cleargrad.doctor.events import End, Event, HandStep, Statistics, Step
from cleargrad.doctor.familiarity import Familiarity
from cleargrad.doctor.findings import Finding, Findings, GradientError
from cleargrad.doctor.ledger import Ledger
from cleargrad.doctor.registry import Registry
from cleargrad.doctor.reports import FORMS, write
from cleargrad.doctor.rules.book import RuleBook
from cleargrad.doctor.story import Story


class MaxSteps(SystemExit):
    """Ends the program after as many steps as were asked for."""


class Session:
    """One watch over one engine, "torch" or "cleargrad"; by default the one that the program uses."""

    def __init__(
        self,
        *,
        engine: str | None = None,
        strict: bool = False,
        ignore: Iterable[str] = (),
        max_steps: int | None = None,
        warn: bool = False,
        statistics: bool = True,
        search: bool = False,
    ) -> None:
        self.registry = Registry()
        self.ledger = Ledger(self.registry)
        self.findings = Findings()
        self.story = Story(self.ledger)
        self.familiarity = Familiarity(self.ledger)
        self.rules = RuleBook()
        self.strict = strict
        self.warn = warn  # says each problem as a Python warning at once
        self.ignore = frozenset(ignore)
        self.max_steps = max_steps
        self.statistics = statistics  # norms of gradients and weights, now and then
        self.engine = engine
        self.failure: Exception | None = None  # of the doctor's own
        self.search = search  # looks for models and optimizers that exist already, if none is given
        self.observer: Any = None  # the engine's adapter
        self.is_attached = False

    # Beginning and end -------------------------------------------------------------------------------------

    def attach(self, *objects: Any) -> Self:
        """Begins to watch. Models and optimizers that exist already can be given, or else are looked for."""
        self.rules.open(self.ledger, self.ignore)
        self.rules.listen((Step, HandStep), self.story.step_taken)
        self.rules.listen((Statistics,), self.story.statistics_taken)
        if self.engine is None:
            self.engine = engine_of(objects)
        self.observer = open_adapter(self.engine, self)
        self.observer.kinds = self.rules.by_kind
        self.observer.may_be_silent = self.max_steps is None
        self.is_attached = True
        self.observer.attach(objects or (self.observer.existing() if self.search else ()))
        return self

    def switch(self, engine: str) -> None:
        """Watches another engine from here on."""
        if self.is_attached:
            self.is_attached = False
            self.restore()
        self.rules = RuleBook()
        self.engine = engine
        self.attach()

    def detach(self, failed: bool = False, error: BaseException | None = None) -> None:
        """Ends the watch; rules that need the whole story have their say. `error` is how the program ended."""
        if not self.is_attached:
            return
        self.is_attached = False
        try:
            self.observer.end(failed, error)
        finally:
            self.restore()

    def restore(self) -> None:
        self.observer.closed = True
        self.observer.detach()

    def __enter__(self) -> Self:
        return self if self.is_attached else self.attach()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self.detach(failed=kind is not None, error=error)

    # Events ------------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Takes one event."""
        self.ledger.take(event)
        for finding in self.rules.hear(event, self.familiarity.knows(event)):
            self.found(finding, isinstance(event, End))
        if self.max_steps is not None and type(event) is Step and event.count >= self.max_steps:
            raise MaxSteps(0)

    def found(self, finding: Finding, at_end: bool) -> None:
        if not self.findings.add(finding):
            return
        self.story.finding_made(finding)
        if not finding.is_problem:
            return
        if self.strict and not at_end:
            raise GradientError(finding)
        if self.warn:
            warnings.warn(str(finding), stacklevel=2)

    def failed(self, failure: Exception) -> None:
        """The doctor made a mistake: it says so once and goes, and the training goes on."""
        if self.failure is not None:
            return
        self.failure = failure
        print("cleargrad doctor: an error of its own, the watch ends here:", file=sys.stderr)
        traceback.print_exception(failure, file=sys.stderr)
        self.is_attached = False
        self.restore()

    # Answers -----------------------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        """Writes the report to a file, in the form that its ending says: .html, .json, .sarif, or else text."""
        ending = os.path.splitext(path)[1].lower().removeprefix(".")
        with open(path, "w", encoding="utf-8") as file:
            file.write(write(self, ending if ending in FORMS else "text"))

    def __str__(self) -> str:
        return write(self, "text")

    def _repr_html_(self) -> str:
        """The page in a notebook, in a frame of its own so that neither changes the other's looks."""
        page = escape(write(self, "html"))
        looks = "width: 100%; height: 40rem; border: 0"
        return f'<iframe srcdoc="{page}" title="Gradient report" style="{looks}"></iframe>'

    def report(self) -> dict[str, Any]:
        """Everything that was found, as plain data: the contents of the JSON report."""
        if self.is_attached:
            self.observer.catch_up()
        return {
            "version": 1,
            "engine": self.engine,
            "steps": self.ledger.steps,
            "parameters": [self.parameter_row(record.number) for record in self.registry.parameters],
            "optimizers": [
                {"kind": optimizer.kind, "steps": optimizer.steps, "skipped": optimizer.skips}
                for optimizer in self.registry.optimizers
            ],
            "findings": [finding.as_dict() for finding in self.findings],
            "failure": None if self.failure is None else repr(self.failure),
        }

    def parameter_row(self, number: int) -> dict[str, Any]:
        record = self.registry.parameters[number]
        return {
            "name": self.registry.name(number),
            "shape": list(record.shape),
            "received": record.received,
            "steps": record.steps,
        }


def engine_of(objects: Iterable[Any]) -> str:
    """PyTorch where the program has imported the real one, unless it hands over objects of cleargrad's."""
    from cleargrad.doctor.torch_adapter import real_torch

    ours = any(kind.__module__.startswith("cleargrad.") for each in objects for kind in type(each).__mro__)
    return "cleargrad" if ours or real_torch() is None else "torch"


def open_adapter(engine: str, session: Session) -> Any:
    if engine == "torch":
        from cleargrad.doctor.torch_adapter import TorchObserver

        return TorchObserver(session.ledger, session.hear, session.failed, statistics=session.statistics)
    from cleargrad.doctor.cleargrad_adapter import CleargradObserver

    return CleargradObserver(session.ledger, session.hear, session.failed, statistics=session.statistics)
