"""The user's source lines around a finding.

Read next: reports/as_text.py.
"""

from __future__ import annotations

import linecache
import os
from typing import Any, NamedTuple

from cleargrad.errors import known_as

AROUND = 2


class SourceLine(NamedTuple):
    number: int
    text: str
    is_marked: bool


def excerpt(file: str | None, line: int | None, around: int = AROUND) -> list[SourceLine]:
    """The lines around one, without the indentation that they share; nothing where the source is not to be had."""
    if file is None or not line:
        return []
    numbers = range(max(1, line - around), line + around + 1)
    texts = [(number, linecache.getline(file, number).rstrip().expandtabs(4)) for number in numbers]
    while texts and not texts[-1][1] and texts[-1][0] != line:
        texts.pop()
    if not any(number == line and text for number, text in texts):
        return []
    shared = min((len(text) - len(text.lstrip()) for _, text in texts if text), default=0)
    return [SourceLine(number, text[shared:], number == line) for number, text in texts]


def shown_path(file: str) -> str:
    """A path as a reader types it: relative to the working folder where that is shorter."""
    cell = known_as(file)
    if cell != file:
        return cell
    relative = os.path.relpath(file)
    return file if relative.startswith("..") or len(relative) >= len(file) else relative


def where(finding: Any) -> str:
    """`train.py:41 in main`, or nothing."""
    if finding.file is None:
        return ""
    function = finding.function
    inside = "" if function is None or function.startswith("<") else f" in {function}"
    return f"{shown_path(finding.file)}:{finding.line}{inside}"
