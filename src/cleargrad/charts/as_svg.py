"""Charts as SVG that stands in a page; colours are the page's, so that they follow light and dark.

Read next: charts/as_png.py.
"""

from __future__ import annotations

import math
from html import escape

from cleargrad.charts import Bars, Curve, Curves, last_value, nice_ticks, readable
from cleargrad.charts.in_terminal import span

WIDTH, HEIGHT = 800, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 170, 14, 34  # margins; curves are named in the right one
POINTS = 400  # a curve is drawn with so many, however many values it has
ROW, GAP, NAMES = 20, 30, 190  # of a chart of bars


def draw_curves(chart: Curves) -> str:
    low, high = span(chart)
    change = math.log10 if chart.is_logarithmic else float
    first, last = chart.curves[0].xs[0], chart.curves[0].xs[-1]

    def x_of(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - first) / ((last - first) or 1)

    def y_of(y: float) -> float:
        y = min(max(y, low), high) if math.isfinite(y) else high
        share = (change(y) - change(low)) / (change(high) - change(low))
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = []
    for tick in nice_ticks(low, high, chart.is_logarithmic):
        y = y_of(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        text = f"{readable(tick)}{chart.unit}"
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for tick in nice_ticks(first, last, False):
        parts.append(
            f'<text x="{x_of(tick):.1f}" y="{HEIGHT - 14}" text-anchor="middle">{readable(tick)}</text>'
        )
    parts.append(f'<text x="{LEFT - 8}" y="{HEIGHT - 14}" text-anchor="end">{escape(chart.x_name)}</text>')
    taken: list[float] = []
    for curve in chart.curves:
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in thinned(curve))
        colour = f"var(--colour-{curve.colour})"
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = y_of(curve.ys[-1])
        while any(abs(y - other) < 16 for other in taken):
            y -= 16
        taken.append(y)
        text = f"{curve.name} {last_value(curve.ys[-1], chart.unit)}"
        place = f'x="{WIDTH - RIGHT + 10}" y="{y + 4:.1f}"'
        parts.append(f'<text class="name" {place} style="fill: {colour}">{escape(text)}</text>')
    return svg(HEIGHT, chart.title, parts)


def thinned(curve: Curve) -> list[tuple[float, float]]:
    """At most POINTS points; where several values become one, it is their mean."""
    size = math.ceil(len(curve.xs) / POINTS)
    groups = range(0, len(curve.xs), size)
    means = [sum(curve.ys[k : k + size]) / len(curve.ys[k : k + size]) for k in groups]
    # The last point is the last x, so that the curve ends where the axis does.
    xs = [curve.xs[min(k + size, len(curve.xs)) - 1] for k in groups]
    return [(curve.xs[0], means[0]), *zip(xs, means)] if size > 1 else list(zip(xs, means))


def draw_bars(chart: Bars) -> str:
    """Bars from the left, in groups; the thin line at an end is the spread."""
    bars = [bar for group in chart.groups.values() for bar in group]
    low = min([bar.low for bar in bars] + [chart.mark]) / 1.3
    high = max([bar.high for bar in bars] + [chart.mark]) * 1.3
    height = TOP + sum(GAP + ROW * len(group) for group in chart.groups.values()) + BOTTOM

    def x_of(value: float) -> float:
        share = math.log(value / low) / math.log(high / low)
        return NAMES + (WIDTH - NAMES - 70) * share

    parts = []
    for tick in nice_ticks(low, high, True):
        x = x_of(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 14}" text-anchor="middle">{readable(tick)}</text>')
    mark = x_of(chart.mark)
    parts.append(f'<line class="mark" x1="{mark:.1f}" x2="{mark:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
    y = TOP
    for title, group in chart.groups.items():
        parts.append(f'<text class="name" x="0" y="{y + 20}" font-weight="600">{escape(title)}</text>')
        y += GAP
        for bar in group:
            end, middle = x_of(bar.value), y + ROW / 2
            colour = f"var(--colour-{bar.colour})"
            parts.append(
                f'<text x="{NAMES - 8}" y="{middle + 4}" text-anchor="end">{escape(bar.name)}</text>'
            )
            parts.append(
                f'<rect x="{NAMES}" y="{y + 3}" width="{end - NAMES:.1f}" height="{ROW - 6}" fill="{colour}"/>'
                f'<line x1="{x_of(bar.low):.1f}" x2="{x_of(bar.high):.1f}" y1="{middle}" y2="{middle}" '
                'stroke="var(--front)"/>'
            )
            place = f'x="{x_of(max(bar.high, bar.value)) + 6:.1f}" y="{middle + 4}"'
            parts.append(f'<text class="over" {place}>{readable(bar.value)}</text>')
            y += ROW
    return svg(height, chart.title, parts)


def svg(height: float, title: str, parts: list[str]) -> str:
    opening = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    return "\n".join([opening, *parts, "</svg>"])
