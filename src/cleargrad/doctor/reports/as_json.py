"""The report as JSON: `Session.report()`, written out.

Read next: session.py.
"""

from __future__ import annotations

import json
from typing import Any


def write(session: Any) -> str:
    return json.dumps(session.report(), indent=1)
