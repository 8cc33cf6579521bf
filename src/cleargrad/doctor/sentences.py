"""Pieces of sentences that rules and reports share.

Read next: rules/__init__.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.doctor.events import Event


def counted(count: int, noun: str) -> str:
    """`1 backward call`, `3 backward calls`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(items: Iterable[Any], limit: int = 6) -> str:
    """`a`, `a and b`, `a, b and c`; a long list is cut."""
    texts = [str(item) for item in items]
    if len(texts) > limit:
        texts = [*texts[: limit - 1], f"{len(texts) - limit + 1} more"]
    return texts[0] if len(texts) == 1 else " and ".join((", ".join(texts[:-1]), texts[-1])) if texts else ""


def passes_by_line(events: Iterable[Event]) -> str:
    """`train.py:41 in steps 1 and 2`: events grouped by the line that they stand on."""
    steps: dict[str, dict[int, None]] = {}  # by line, the steps in order, each once
    for event in sorted(events, key=lambda event: event.number):
        line = "an unknown line" if event.place is None else str(event.place)
        steps.setdefault(line, {})[event.step] = None
    return "; ".join(
        f"{line} in step{'s' if len(found) > 1 else ''} {listed(found)}" for line, found in steps.items()
    )
