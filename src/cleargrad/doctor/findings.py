"""What the doctor says: one finding per cause, however often it happens.

Rules hand in findings; equal causes are counted, not repeated. Read next: rules/__init__.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cleargrad.doctor.places import Place
from cleargrad.errors import known_as

SEVERITIES = ("error", "warning", "info")


@dataclass(slots=True)
class Finding:
    """`evidence` are sentences; `cause` tells causes apart, beyond the rule and the line; `facts` are numbers for
    reports, plain enough for JSON."""

    rule: str
    severity: str
    message: str
    evidence: list[str]
    fix: str
    file: str | None
    line: int | None
    step: int
    parameters: list[str]
    function: str | None = None
    count: int = 1  # how often it was seen
    last_step: int = 0
    cause: Any = None
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The finding for JSON."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "evidence": list(self.evidence),
            "fix": self.fix,
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "step": self.step,
            "last_step": self.last_step,
            "count": self.count,
            "parameters": list(self.parameters),
            "facts": self.facts,
        }

    @property
    def is_problem(self) -> bool:
        return self.severity != "info"

    def __str__(self) -> str:
        where = "" if self.file is None else f"{known_as(self.file)}:{self.line}: "
        return f"{where}{self.severity}: {self.message} [{self.rule}]"

    def in_full(self) -> str:
        """As the report for a terminal has it, with the lines around and the fix."""
        from cleargrad.doctor.reports.as_text import Page

        return Page(80, False).finding(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows in a terminal."""
        printer.text(self.in_full())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from cleargrad import notebook
        from cleargrad.doctor.reports.as_text import where
        from cleargrad.doctor.reports.excerpts import excerpt

        lines = [(line.number, line.text, line.is_marked) for line in excerpt(self.file, self.line)]
        seen = [f"seen {self.count} times, last in step {self.last_step}"] if self.count > 1 else []
        return notebook.finding(
            self.severity, self.rule, self.message, where(self), lines, [*self.evidence, *seen], self.fix
        )


class GradientError(RuntimeError):
    """Raised at the step where a problem is found, when the doctor is strict."""

    def __init__(self, finding: Finding) -> None:
        lines = [str(finding), *(f"  {text}" for text in finding.evidence), f"  fix  {finding.fix}"]
        super().__init__("\n".join(lines))
        self.finding = finding


class Findings:
    """All findings of a run, one per cause, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.by_cause: dict[tuple, Finding] = {}

    def add(self, finding: Finding) -> bool:
        """Takes a finding; the answer says whether its cause is new."""
        key = (finding.rule, finding.file, finding.line, finding.cause)
        known = self.by_cause.get(key)
        finding.last_step = finding.step
        if known is None:
            self.by_cause[key] = finding
            return True
        known.count += 1
        known.last_step = finding.step
        return False

    def __iter__(self):
        return iter(list(self.by_cause.values()))

    def __len__(self) -> int:
        return len(self.by_cause)

    def __repr__(self) -> str:
        return "\n\n".join(finding.in_full() for finding in self) or "no findings"

    def _repr_html_(self) -> str:
        return "".join(finding._repr_html_() for finding in self) or "<i>no findings</i>"

    @property
    def problems(self) -> list[Finding]:
        """Errors and warnings."""
        return [finding for finding in self if finding.is_problem]


def at(place: Place | None) -> dict[str, Any]:
    """A place as the fields of a finding."""
    if place is None:
        return {"file": None, "line": None, "function": None}
    return {"file": place.file, "line": place.line, "function": place.function}
