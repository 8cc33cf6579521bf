"""The report for a terminal, readable without colour.

    error  gradient-reused  train.py:41 in main
      step 3 used gradients of 3 backward calls; 2 of them had been used before

        40 |     loss.backward()
      > 41 |     optimizer.step()

      - expected gradient of fc.weight 5.0, actual 8.0
      fix: optimizer.zero_grad() is missing before train.py:40

Read next: reports/excerpts.py.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from cleargrad.doctor.findings import SEVERITIES, Finding
from cleargrad.doctor.reports.excerpts import excerpt, where
from cleargrad.doctor.sentences import counted

NARROWEST, WIDEST = 40, 100
COLOURS = {"error": "1;31", "warning": "1;33", "info": "1;36", "fix": "32", "faint": "2", "bold": "1"}


def write(session: Any, known: Iterable[Finding] = ()) -> str:
    """All findings but those that a baseline knows, for a file or another program: 80 columns, no colour."""
    return Page(80, False).report(session, known)


def write_for(stream: Any, session: Any, known: Iterable[Finding] = ()) -> str:
    """The same for a stream: as wide as its terminal, and in colour if it is one."""
    columns = shutil.get_terminal_size((80, 24)).columns if is_terminal(stream) else 80
    return Page(max(NARROWEST, min(columns, WIDEST)), wants_colour(stream)).report(session, known)


def is_terminal(stream: Any) -> bool:
    return bool(getattr(stream, "isatty", lambda: False)())


def wants_colour(stream: Any) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Page:
    """Lays findings out for a width."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self.colour = colour

    def report(self, session: Any, known: Iterable[Finding] = ()) -> str:
        hidden = {id(finding) for finding in known}
        shown = [finding for finding in session.findings if id(finding) not in hidden]
        shown.sort(key=lambda finding: SEVERITIES.index(finding.severity))
        parts = [self.finding(finding) for finding in shown]
        return "\n\n".join([*parts, self.wrapped(summary(session, shown, len(hidden)), "")])

    def finding(self, finding: Finding) -> str:
        """One finding: what, where, the lines around, why, and what to do."""
        place = where(finding)
        head = f"{self.paint(finding.severity, finding.severity)}  {self.paint(finding.rule, 'bold')}"
        is_long = len(finding.severity) + len(finding.rule) + len(place) + 4 > self.width
        lines = [head + (("\n  " if is_long else "  ") + place if place else "")]
        lines += [self.wrapped(finding.message, "  "), ""]
        source = self.source(finding)
        lines += [*source, ""] if source else []
        lines += [self.wrapped(text, "  - ", "    ") for text in finding.evidence]
        if finding.count > 1:
            lines.append(f"  - seen {finding.count} times, last in step {finding.last_step}")
        lines.append(self.paint(self.wrapped(f"fix: {finding.fix}", "  ", "       "), "fix"))
        return "\n".join(lines)

    def source(self, finding: Finding) -> list[str]:
        found = excerpt(finding.file, finding.line)
        digits = max((len(str(line.number)) for line in found), default=0)
        lines = []
        for line in found:
            text = f"  {'>' if line.is_marked else ' '} {line.number:>{digits}} | {line.text}".rstrip()
            text = text if len(text) <= self.width else text[: self.width - 3] + "..."
            lines.append(text if line.is_marked else self.paint(text, "faint"))
        return lines

    def wrapped(self, text: str, first: str, other: str | None = None) -> str:
        """Wrapped to the width. Names and paths are not broken: they are there to be copied."""
        return textwrap.fill(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=first if other is None else other,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def paint(self, text: str, name: str) -> str:
        return f"\x1b[{COLOURS[name]}m{text}\x1b[0m" if self.colour else text


def summary(session: Any, shown: list[Finding], known: int = 0) -> str:
    """One line: `cleargrad doctor: 3 problems in 120 steps; 2 errors and 1 warning`."""
    steps = counted(session.ledger.steps, "step")
    counts = {name: sum(finding.severity == name for finding in shown) for name in SEVERITIES}
    problems = counts["error"] + counts["warning"]
    remarks = [counted(counts["info"], "remark")] if counts["info"] else []
    baseline = [f"{known} known and not counted"] if known else []
    if problems:
        parts = [counted(counts[name], name) for name in ("error", "warning") if counts[name]]
        return f"cleargrad doctor: {counted(problems, 'problem')} in {steps}; " + ", ".join(
            [*parts, *remarks, *baseline]
        )
    return "; ".join([f"cleargrad doctor: no problem found; watched {watched(session)}", *remarks, *baseline])


def watched(session: Any) -> str:
    """`120 steps of Adam over 14 parameters, on torch`."""
    kinds = [optimizer.kind for optimizer in session.registry.optimizers if optimizer.steps]
    by = f" of {' and '.join(dict.fromkeys(kinds))}" if kinds else ""
    parameters = counted(len(session.registry.parameters), "parameter")
    return f"{counted(session.ledger.steps, 'step')}{by} over {parameters}, on {session.engine}"


def show(session: Any, known: Iterable[Finding] = ()) -> None:
    """Prints the report to standard error."""
    print(write_for(sys.stderr, session, known), file=sys.stderr)
