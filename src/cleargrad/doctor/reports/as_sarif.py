"""The report as SARIF 2.1.0, which code hosts show next to the lines it speaks of.

Files are named relative to the working folder, as a checkout has them. Read next: reports/as_html.py.
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import quote

from cleargrad.doctor.baseline import fingerprint
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.reports.as_json import plain
from cleargrad.doctor.rules import descriptions

LEVELS = {"error": "error", "warning": "warning", "info": "note"}
ROOT = "SRCROOT"


def write(session: Any) -> str:
    return json.dumps(contents(session), indent=1, allow_nan=False)


def contents(session: Any) -> dict[str, Any]:
    rules = rule_rows()
    positions = {row["id"]: position for position, row in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "cleargrad doctor", "version": own_version(), "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "the folder that the program was run from"}}},
        "results": [result(finding, positions) for finding in session.findings],
        "invocations": [{"executionSuccessful": session.failure is None}],
    }
    return {"version": "2.1.0", "runs": [run]}


def own_version() -> str:
    try:
        return version("cleargrad")
    except PackageNotFoundError:
        return "unknown"


def rule_rows() -> list[dict[str, Any]]:
    return [
        {
            "id": rule.name,
            "shortDescription": {"text": text},
            "help": {
                "text": f"{text} See docs/rules/{rule.name}.md.",
                "markdown": f"{text}\n\nSee [docs/rules/{rule.name}.md](docs/rules/{rule.name}.md).",
            },
            "defaultConfiguration": {"level": LEVELS[rule.severity]},
        }
        for rule, text in descriptions()
    ]


def result(finding: Finding, positions: dict[str, int]) -> dict[str, Any]:
    evidence = "".join(f"\n- {text}" for text in finding.evidence)
    row: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": LEVELS[finding.severity],
        "message": {"text": f"{finding.message}{evidence}\nfix: {finding.fix}"},
        "occurrenceCount": finding.count,
        "partialFingerprints": {"cleargrad/v1": digest(fingerprint(finding))},
        "properties": plain({"step": finding.step, "parameters": finding.parameters, "facts": finding.facts}),
    }
    if finding.rule in positions:
        row["ruleIndex"] = positions[finding.rule]
    if finding.file is not None:
        row["locations"] = [location(finding)]
    return row


def location(finding: Finding) -> dict[str, Any]:
    where: dict[str, Any] = {"artifactLocation": artifact(str(finding.file))}
    if finding.line:
        where["region"] = {"startLine": finding.line}
    found: dict[str, Any] = {"physicalLocation": where}
    if finding.function is not None:
        found["logicalLocations"] = [{"name": finding.function, "kind": "function"}]
    return found


def artifact(file: str) -> dict[str, str]:
    """Relative where the file lies under the working folder, else as it is."""
    relative = os.path.relpath(file).replace(os.sep, "/")
    if relative.startswith("../") or not os.path.exists(file):
        return {"uri": quote(file.replace(os.sep, "/"))}
    return {"uri": quote(relative), "uriBaseId": ROOT}


def digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
