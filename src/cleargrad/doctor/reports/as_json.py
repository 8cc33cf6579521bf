"""The report as JSON: everything that was found, and what the page draws. docs/doctor-json.md explains the fields.

Read next: reports/timeline.py.
"""

from __future__ import annotations

import json
import math
from typing import Any

from cleargrad.doctor.reports.sizes import sizes
from cleargrad.doctor.reports.timeline import as_data, make_timeline


def write(session: Any) -> str:
    return json.dumps(contents(session), indent=1, allow_nan=False)


def contents(session: Any) -> dict[str, Any]:
    """All of the report as plain data that every JSON reader takes."""
    first = [name for finding in session.findings for name in finding.parameters]
    timeline = make_timeline(session, first)
    return plain(
        {
            **session.report(),
            "sizes": sizes(session),
            "timeline": as_data(timeline, session.registry.name),
        }
    )


def plain(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become the words "inf", "-inf" and "nan"."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (str, int)):
        return value
    return str(value)
