"""The report for a terminal, readable without colour.

Read next: reports/as_json.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.doctor.sentences import counted


def write(session: Any) -> str:
    """All findings, then one line that sums up."""
    lines: list[str] = []
    for finding in session.findings:
        lines += [str(finding), *(f"    {text}" for text in finding.evidence), f"    fix: {finding.fix}"]
        if finding.count > 1:
            lines.append(f"    seen {finding.count} times, last in step {finding.last_step}")
        lines.append("")
    steps = counted(session.ledger.steps, "step")
    found = counted(len(session.findings), "finding") if len(session.findings) else "nothing found"
    lines.append(f"cleargrad doctor: {found} in {steps}")
    return "\n".join(lines)
