"""Reports: what a session found, as text for people and for machines.

Each form is a file with one function, `write(session) -> str`. Read next: reports/as_text.py.
"""

from __future__ import annotations

import importlib
from typing import Any

FORMS = ("text", "json", "sarif", "html")


def write(session: Any, form: str) -> str:
    """The report of a session in one of the forms."""
    return importlib.import_module(f"cleargrad.doctor.reports.as_{form}").write(session)
