"""Curves as text: Braille dots where the terminal has them, letters where it has not.

Every curve is named at its end, so that the picture reads without colour. Read next: charts/as_page.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from cleargrad.charts import Curve, Curves, last_value, nice_ticks, readable

# The bit of each of a cell's dots, by column and row (from the top).
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
LETTERS = "ox+*"

# Paints the text of a curve's colour; colour 0 is what went wrong.
Paint = Callable[[str, int], str]


def draw(
    chart: Curves, width: int = 78, height: int = 10, paint: Paint | None = None, braille: bool = True
) -> str:
    """The chart, at most `width` columns wide."""
    paint = paint or (lambda text, colour: text)
    names = [f"{curve.name} {last_value(curve.ys[-1], chart.unit)}" for curve in chart.curves]
    axis = max(len(readable(tick) + chart.unit) for tick in nice_ticks(*span(chart), chart.is_logarithmic))
    columns = width - axis - 3 - max(map(len, names))
    canvas = Canvas(columns, height, braille)
    place = scale(chart, height * 4)
    for curve in chart.curves:
        canvas.line(dots_of(curve, columns * 2, place), curve.colour)
    lines = []
    ends = end_rows(chart, place, height)
    ticks = {
        min(place(tick) // 4, height - 1): readable(tick) + chart.unit
        for tick in nice_ticks(*span(chart), chart.is_logarithmic)
    }
    for row in range(height):
        end = ends.get(row)
        label = "" if end is None else " " + paint(names[end], chart.curves[end].colour)
        lines.append(
            f"{ticks.get(row, ''):>{axis}} {'┤' if row in ticks else '│'}{canvas.row(row, paint)}{label}".rstrip()
        )
    last = readable(chart.curves[0].xs[-1])
    foot = f"{chart.x_name} {readable(chart.curves[0].xs[0])}"
    lines.append(f"{'':{axis}} └{'─' * columns}")
    lines.append(f"{'':{axis}}  {foot}{last:>{max(1, columns - len(foot))}}")
    if not braille:
        lines = [line.translate(str.maketrans("┤│└─", "+|+-")) for line in lines]
    return "\n".join([f"{'':{axis}}  {chart.title}", *lines])


def span(chart: Curves) -> tuple[float, float]:
    """The least and the largest value that is drawn; a logarithmic axis cannot show less than a millionth."""
    if chart.limits is not None:
        return chart.limits
    values = [y for curve in chart.curves for y in curve.ys if math.isfinite(y)] or [0.0, 1.0]
    low, high = min(values), max(values)
    if chart.is_logarithmic:
        low = max(low, high * 1e-6, 1e-12)
    return (low, high) if high > low else (low, low + 1)


def scale(chart: Curves, dots: int) -> Callable[[float], int]:
    """From a value to a row of dots, counted from the top; what is not finite is at the top."""
    low, high = span(chart)
    change = math.log if chart.is_logarithmic else float

    def place(value: float) -> int:
        if not math.isfinite(value):
            return 0
        share = (change(max(value, low)) - change(low)) / (change(high) - change(low))
        return round((1 - share) * (dots - 1))

    return place


def dots_of(curve: Curve, columns: int, place: Callable[[float], int]) -> list[tuple[int, int]]:
    """One dot for each column: where several values fall into it, their mean."""
    values: dict[int, list[float]] = {}
    width = (curve.xs[-1] - curve.xs[0]) or 1
    for x, y in zip(curve.xs, curve.ys):
        values.setdefault(round((x - curve.xs[0]) / width * (columns - 1)), []).append(y)
    return [(column, place(sum(ys) / len(ys))) for column, ys in sorted(values.items())]


def end_rows(chart: Curves, place: Callable[[float], int], height: int) -> dict[int, int]:
    """The row beside which each curve is named, by row; names make room for one another."""
    rows: dict[int, int] = {}
    for number, curve in enumerate(chart.curves):
        wanted = place(curve.ys[-1]) // 4
        free = (row for row in sorted(range(height), key=lambda row: abs(row - wanted)) if row not in rows)
        rows[next(free)] = number
    return rows


class Canvas:
    """Cells of two by four dots, each in the colour of the curve that touched it last."""

    def __init__(self, columns: int, rows: int, braille: bool) -> None:
        self.columns = columns
        self.braille = braille
        self.bits = [[0] * columns for _ in range(rows)]
        self.colours = [[0] * columns for _ in range(rows)]

    def dot(self, x: int, y: int, colour: int) -> None:
        self.bits[y // 4][x // 2] |= DOTS[x % 2][y % 4]
        self.colours[y // 4][x // 2] = colour

    def line(self, dots: list[tuple[int, int]], colour: int) -> None:
        """Joins dots that are neighbours by straight lines."""
        for (x, y), (next_x, next_y) in zip(dots, dots[1:] or dots):
            steps = max(abs(next_x - x), abs(next_y - y), 1)
            for step in range(steps + 1):
                self.dot(
                    round(x + (next_x - x) * step / steps), round(y + (next_y - y) * step / steps), colour
                )

    def row(self, number: int, paint: Paint) -> str:
        cells = zip(self.bits[number], self.colours[number])
        runs = itertools.groupby(cells, key=lambda cell: cell[1] if cell[0] else None)
        parts = []
        for colour, run in runs:
            text = "".join(self.character(*cell) for cell in run)
            parts.append(text if colour is None else paint(text, colour))
        return "".join(parts)

    def character(self, bits: int, colour: int) -> str:
        if not bits:
            return " "
        return chr(0x2800 + bits) if self.braille else LETTERS[colour % len(LETTERS)]
