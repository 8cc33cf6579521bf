"""Charts as PNG files, drawn by matplotlib; without it, nothing is written.

Read next: cli/demo.py.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from cleargrad.charts import Bars, Curves, readable

COLOURS = ("#b42318", "#1a5fd0", "#0b7a75", "#8a5300", "#59636e")


def is_possible() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def save(path: Path, charts: list[Curves | Bars]) -> bool:
    """Writes the charts below one another; False where matplotlib is missing."""
    if not is_possible():
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [3.0 if isinstance(chart, Curves) else 1 + 0.3 * count(chart) for chart in charts]
    figure = Figure(figsize=(9, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(charts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, chart in zip(panels, charts):
        draw_curves(panel, chart) if isinstance(chart, Curves) else draw_bars(panel, chart)
        panel.set_title(chart.title, loc="left", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    return True


def draw_curves(panel: Any, chart: Curves) -> None:
    for curve in chart.curves:
        panel.plot(curve.xs, curve.ys, color=COLOURS[curve.colour], label=curve.name, linewidth=1.5)
    panel.set_yscale("log" if chart.is_logarithmic else "linear")
    if chart.limits is not None:
        panel.set_ylim(*chart.limits)
    panel.yaxis.set_major_formatter(lambda value, place: f"{readable(value)}{chart.unit}")
    panel.set_xlabel(chart.x_name)
    panel.legend(frameon=False)


def draw_bars(panel: Any, chart: Bars) -> None:
    rows = [(title, bar) for title, group in chart.groups.items() for bar in group]
    for place, (_, bar) in enumerate(rows):
        spread = [[max(0.0, bar.value - bar.low)], [max(0.0, bar.high - bar.value)]]
        panel.barh(place, bar.value, xerr=spread, color=COLOURS[bar.colour], height=0.7)
    panel.set_yticks(
        range(len(rows)), [f"{title.partition(':')[0]}: {bar.name}" for title, bar in rows], fontsize=8
    )
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, place: readable(value))
    panel.axvline(chart.mark, color="#59636e", linestyle="--", linewidth=1)
    panel.invert_yaxis()


def count(chart: Bars) -> int:
    return sum(map(len, chart.groups.values()))
