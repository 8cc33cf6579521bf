"""Known findings: a file of fingerprints that a project has decided to live with for now.

Findings come in; those that the file does not know go out. Read next: reports/as_text.py.
"""

from __future__ import annotations

import json
import linecache
import os
from collections.abc import Iterable

from cleargrad.doctor.findings import Finding


def fingerprint(finding: Finding) -> list[str]:
    """What stays the same while lines move: the rule, the file and the text of the line."""
    if finding.file is None:
        return [finding.rule, "", finding.message]
    text = linecache.getline(finding.file, finding.line or 0).strip()
    return [finding.rule, os.path.relpath(finding.file).replace(os.sep, "/"), text]


def known_in(path: str, findings: Iterable[Finding]) -> list[Finding]:
    """The findings that a baseline lists."""
    with open(path, encoding="utf-8") as file:
        known = json.load(file)["known"]
    return [finding for finding in findings if fingerprint(finding) in known]


def write(path: str, findings: Iterable[Finding]) -> int:
    """Makes the problems among the findings known; the answer is how many there are."""
    known = sorted({tuple(fingerprint(finding)) for finding in findings if finding.is_problem})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"version": 1, "known": known}, file, indent=1)
        file.write("\n")
    return len(known)
