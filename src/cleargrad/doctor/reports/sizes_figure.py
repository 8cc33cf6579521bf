"""Draws sizes over time: a row per layer with small curves of gradient and update norms, on a logarithmic scale.

Read next: reports/as_html.py.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

WIDTH, HEIGHT = 200, 40


def section(rows: list[dict[str, Any]]) -> str:
    """The table of curves, from the data of reports/sizes.py."""
    if not rows:
        return "<p>No step was measured.</p>"
    body = "".join(row_of(position, row) for position, row in enumerate(rows))
    return (
        '<p class="readout" id="sizes-readout" aria-live="polite">Arrow keys in a row, or the pointer, '
        "read a step out here.</p>"
        '<table class="sizes stack"><thead><tr><th scope="col">layer</th><th scope="col">gradient norm</th>'
        '<th scope="col" class="number">last</th><th scope="col">update norm</th>'
        '<th scope="col" class="number">last</th>'
        '<th scope="col" class="number">update / weight</th></tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def row_of(position: int, row: dict[str, Any]) -> str:
    ratio = quotient(row["update"][-1], row["weight"][-1])
    return (
        f'<tr tabindex="0" data-row="{position}" '
        f'aria-label="{escape(row["layer"])}: arrow keys walk through the steps">'
        f'<th scope="row">{escape(row["layer"])}</th>'
        f'<td class="chart">{curve(row, "gradient")}</td>'
        f'<td class="number" data-label="gradient norm, last:">{figures(row["gradient"][-1])}</td>'
        f'<td class="chart update">{curve(row, "update")}</td>'
        f'<td class="number" data-label="update norm, last:">{figures(row["update"][-1])}</td>'
        f'<td class="number" data-label="update / weight:">{figures(ratio)}</td></tr>'
    )


def curve(row: dict[str, Any], name: str) -> str:
    """One small curve; what is not finite is a red line, and zero lies on the floor."""
    values = row[name]
    logs = [math.log10(value) if isinstance(value, float) and value > 0 else None for value in values]
    known = [value for value in logs if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    low, high = (low, high) if high - low > 0.2 else ((low + high) / 2 - 0.5, (low + high) / 2 + 0.5)
    points, bad = [], []
    for position, value in enumerate(values):
        x = WIDTH * position / (len(values) - 1) if len(values) > 1 else WIDTH / 2
        if isinstance(value, str):
            bad.append(f'<path class="bad" d="M{x:.1f} 2V{HEIGHT - 2}"/>')
        else:
            level = logs[position]
            y = HEIGHT - 2 if level is None else 4 + (HEIGHT - 8) * (high - level) / (high - low)
            points.append(f"{x:.1f},{y:.1f}")
    if len(points) == 1:
        points = [
            f"{WIDTH * 0.4:.1f},{points[0].partition(',')[2]}",
            f"{WIDTH * 0.6:.1f},{points[0].partition(',')[2]}",
        ]
    label = (
        f"{name} norm of {row['layer']}: {figures(values[0])} in step {row['steps'][0]}, "
        f"{figures(values[-1])} in step {row['steps'][-1]}"
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'{"".join(bad)}<polyline class="curve" points="{" ".join(points)}"/>'
        f'<line class="cursor" x1="0" x2="0" y1="0" y2="{HEIGHT}"/></svg>'
    )


def quotient(one: Any, other: Any) -> Any:
    return one / other if isinstance(one, float) and isinstance(other, float) and other else "nan"


def figures(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
