"""What was measured, as text for a terminal of 80 columns, and as a page with a chart.

Read next: cli/bench.py.
"""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from cleargrad.bench.architectures import EVERY
from cleargrad.bench.results import AGREE, OTHERS, reference
from cleargrad.bench.variants import VARIANTS
from cleargrad.charts import Bar, Bars

COLOURS = {"torch": 3, "jax": 2, "tinygrad": 2, "cleargrad": 1, "bytes": 4}
WIDTH = 79
SUMMARY = ("ready for another batch size, s", OTHERS, "peak / least of PyTorch's", "time / bandwidth floor")
METHOD = (
    "Every variant runs in a process of its own; the processes take turns, so that all see the same noise. A "
    "ratio is the median time of a step over that of the best variant of the library that is compared with; the "
    "spread is that of the ratio from round to round, from the first to the third quartile. All variants train "
    "the same model on the same numbers, and their losses are compared. First calls are the first three steps, "
    "compilation included."
)


def workload_text(workload: str, found: dict[str, Any]) -> str:
    """One line per variant."""
    heads = f"{'ms/step':>9}{'ratio':>8}{'spread':>15}{'first, s':>10}{'peak MB':>9}"
    lines = [f"{EVERY[workload].title}", f"  {'':22}{heads}"]
    for name, row in found["variants"].items():
        if "failure" in row:
            lines.append(f"  {name:22}  failed: {row['failure']}"[:WIDTH])
            continue
        spread = "{:.3f}..{:.3f}".format(*row["spread"]) if "spread" in row else ""
        lines.append(
            f"  {name:22}{row['ms']:9.4g}{number(row.get('ratio'), 8)}{spread:>15}"
            f"{row['first calls, s']:10.2f}{row['peak, MB']:9.0f}"
        )
        if row.get("loss differs by", 0) > AGREE:
            lines.append(f"  {'':22}  LOSSES DIFFER by {row['loss differs by']:.2g} of their size")
        lines += [f"  {'':22}  {text}" for text in row.get("warnings", ())]
    return "\n".join(lines)


def summary_text(rows: dict[str, Any], mean: float | None, with_bars: bool = False) -> str:
    """The table that counts: cleargrad's time over PyTorch's best, if asked with the goals set beforehand."""
    width = max(8, *(len(workload) + 2 for workload in rows))
    goals = f"{'bar':>7}{'goal':>7}{'':9}" if with_bars else ""
    heads = f"{'unchanged':>11}{'eager':>8}{'cold, s':>9}{'warm, s':>9}  over"
    lines = [f"{'':{width}}{'compiled':>9}{goals}{heads}"]
    for workload, row in rows.items():
        goals = f"{row['bar']:7.2f}{row['goal']:7.2f}  {verdict(row):7}" if with_bars else ""
        lines.append(
            f"{workload:{width}}{number(row['compiled'], 9)}{goals}{number(row['unchanged'], 11)}"
            f"{number(row['eager'], 8)}{number(row['first calls cold, s'], 9)}"
            f"{number(row['first calls warm, s'], 9)}  {row['best'] or '-'}"
        )
    lines.append(
        f"{'mean':{width}}{'':9}{' ' * 23 if with_bars else ''}{'':11}{number(mean, 8)}  (geometric)"
    )
    for label in SUMMARY:
        known = [
            f"{workload} {row[label]:.3f}" for workload, row in rows.items() if row.get(label) is not None
        ]
        if known:
            lines += wrap(f"{label}: {', '.join(known)}", WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def verdict(row: dict[str, Any]) -> str:
    ratio = row["compiled"]
    if ratio is None:
        return ""
    return "goal" if ratio <= row["goal"] else "reached" if ratio <= row["bar"] else "above"


def number(value: float | None, width: int = 0) -> str:
    return f"{'-' if value is None else format(value, '.3f'):>{width}}"


# The page --------------------------------------------------------------------------------------------------


def chart_of(found: dict[str, Any]) -> Bars:
    """Ratios with their spread, by workload."""
    groups = {}
    for workload, result in found.items():
        bars = [
            Bar(name, row["ratio"], row["spread"][0], row["spread"][1], COLOURS[VARIANTS[name].library])
            for name, row in result["variants"].items()
            if "ratio" in row
        ]
        if bars:
            groups[f"{workload}: {EVERY[workload].title}"] = bars
    return Bars(f"Time of a training step over {reference(found)} (less is better)", groups)


def page_of(facts: dict[str, Any], found: dict[str, Any], remarks: list[str]) -> str:
    """The chart, all figures, and how they came about."""
    from cleargrad.charts.as_page import figure, page, paragraph, table

    rows = [
        [
            workload,
            name,
            f"{row['ms']:.4g}",
            number(row.get("ratio")),
            "{:.3f} to {:.3f}".format(*row["spread"]) if "spread" in row else "-",
            f"{row['first calls, s']:.2f}",
            f"{row['peak, MB']:.0f}",
        ]
        for workload, result in found.items()
        for name, row in result["variants"].items()
        if "failure" not in row
    ]
    heads = ["workload", "variant", "ms/step", "ratio", "spread", "first calls, s", "peak, MB"]
    circumstances = [
        [name, "not installed" if value is None else str(value)] for name, value in facts.items()
    ]
    chart = chart_of(found)
    sections = [
        (chart.title, figure(chart, "The dashed line is what ratios are to; thin lines are the spread.")),
        ("Figures", table(heads, rows, words=2)),
        ("Method", paragraph(METHOD) + "".join(map(paragraph, remarks))),
        ("Circumstances", table(["fact", "value"], circumstances, words=2)),
    ]
    return page("What a training step costs", f"{facts['machine']}, {facts['threads']} threads.", sections)
