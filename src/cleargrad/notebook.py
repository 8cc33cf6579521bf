"""How things look in a notebook: small pieces of HTML without a script or a style sheet, legible on light and dark.

In: plain values (arrays, names, rows of dictionaries). Out: HTML for `_repr_html_` methods, which live with the
things that they show. Read next: tensor.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

LINE = "border-bottom: 1px solid rgba(128, 128, 128, .35); padding: .2em .8em .2em 0; vertical-align: top"
COLOURS = {"error": "#d1242f", "warning": "#b58105", "info": "#2f7fd1"}
MOST_ROWS = 200
MOST_LISTED = 3
MOST_MEASURED = 10_000_000  # elements; beyond, looking at all of them would be felt


class Rows(list):
    """A list of dictionaries that shows itself as a table."""

    def __str__(self) -> str:
        if not self:
            return "(no rows)"
        cells = [list(self[0]), *([in_words(value) for value in row.values()] for row in self)]
        widths = [max(map(len, column)) for column in zip(*cells)]
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in cells
        )

    def _repr_html_(self) -> str:
        return table(list(self[0]), [list(row.values()) for row in self]) if self else "<i>no rows</i>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def in_words(value: Any) -> str:
    """A cell: shapes and lists without brackets, nothing where there is nothing."""
    if value is None or value is False:
        return ""
    if isinstance(value, tuple):
        return " × ".join(map(str, value))
    if isinstance(value, list):
        more = [f"and {len(value) - MOST_LISTED:,} more"] if len(value) > MOST_LISTED else []
        return ", ".join([*map(str, value[:MOST_LISTED]), *more])
    return "yes" if value is True else f"{value:,}" if isinstance(value, int) else str(value)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Numbers stand on the right; what is too long ends with a count."""

    def cell(value: Any, tag: str = "td") -> str:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        side = "right" if is_number else "left"
        text = escape(in_words(value)).replace(" ", "&nbsp;" if tag == "th" else " ")
        return f'<{tag} style="{LINE}; text-align: {side}; white-space: pre-wrap">{text}</{tag}>'

    lines = ["".join(cell(head.replace("_", " "), "th") for head in heads)]
    lines += ["".join(map(cell, row)) for row in rows[:MOST_ROWS]]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    rest = f"<p>and {len(rows) - MOST_ROWS:,} more</p>" if len(rows) > MOST_ROWS else ""
    return f'<table style="border-collapse: collapse; font-size: .92em">{body}</table>{rest}'


def bytes_in_words(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.3g} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1000
    raise AssertionError


# Tensors and modules -----------------------------------------------------------------------------------------


def tensor(data: np.ndarray, text: str, dtype: str, gradient: str) -> str:
    """The facts above the numbers, which are printed as ever."""
    facts = [dtype, " × ".join(map(str, data.shape)), bytes_in_words(data.nbytes), *range_of(data), gradient]
    line = " · ".join(escape(fact) for fact in facts if fact)
    numbers = f'<pre style="margin: .2em 0; font-family: monospace">{escape(text)}</pre>'
    return f'<div style="opacity: .75; font-size: .9em">{line}</div>{numbers}'


def range_of(data: np.ndarray) -> list[str]:
    """From the least to the largest number, and how many are none."""
    if data.dtype.kind not in "fiu" or not 0 < data.size <= MOST_MEASURED:
        return []
    finite = data if data.dtype.kind != "f" else data[np.isfinite(data)]
    spread = [f"from {finite.min():.4g} to {finite.max():.4g}"] if finite.size else []
    if data.dtype.kind == "f" and finite.size:
        spread.append(f"mean {finite.mean(dtype=np.float64):.4g}")
    lost = data.size - finite.size
    return [*spread, f"{lost:,} not finite"] if lost else spread


def module(rows: Sequence[tuple[int, str, str, int, int]], size: int) -> str:
    """A row per module: how deep it stands, its name and text, its parameters and how many of them are trained."""
    total, trained = (sum(row[place] for row in rows) for place in (3, 4))
    lines = [
        ["\u2003" * depth + (name or "(all)"), text, count or "", "frozen" if count and not own else ""]
        for depth, name, text, count, own in rows
    ]
    words = f"{total:,} parameters, {bytes_in_words(size)}" + (
        f"; {trained:,} of them are trained" if trained != total else ""
    )
    return f"{table(['module', 'what it is', 'parameters', ''], lines)}<p>{words}</p>"


# Findings ----------------------------------------------------------------------------------------------------


def finding(
    severity: str,
    rule: str,
    message: str,
    where: str,
    lines: Sequence[tuple[int, str, bool]],
    evidence: Sequence[str],
    fix: str,
) -> str:
    """A finding as a note: what, where, the lines around, the facts behind it, and what to change."""
    colour = COLOURS[severity]
    source = "\n".join(
        f"<b>{escape(f'> {number} | {text}')}</b>" if is_marked else escape(f"  {number} | {text}")
        for number, text, is_marked in lines
    )
    excerpt = f'<pre style="margin: .4em 0; font-family: monospace">{source}</pre>' if lines else ""
    facts = "".join(f"<li>{escape(sentence)}</li>" for sentence in evidence)
    return (
        f'<div style="border-left: .3em solid {colour}; padding: .1em 0 .1em .9em; margin: .5em 0">'
        f'<div><b style="color: {colour}">{severity}</b> <b>{escape(rule)}</b> <code>{escape(where)}</code></div>'
        f"<div>{escape(message)}</div>{excerpt}"
        f'<ul style="margin: .3em 0; opacity: .85">{facts}</ul>'
        f"<div><b>fix</b> {escape(fix)}</div></div>"
    )
