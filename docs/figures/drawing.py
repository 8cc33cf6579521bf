"""SVG files for the documentation, from the drawings of charts/ and of the doctor's page.

A drawing comes in, a file that stands alone goes out: its looks are inside, and follow light and dark. Read next:
docs/figures/lifecycle.py.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

from cleargrad.charts import Bars, Curves
from cleargrad.charts.as_page import LOOKS
from cleargrad.charts.as_svg import draw_bars, draw_curves
from cleargrad.doctor.reports import buckets_figure, graph_figure
from cleargrad.doctor.reports.timeline import make_timeline

HERE = Path(__file__).parent


def save(name: str, drawing: str, looks: str) -> None:
    """Writes a drawing with its looks; the size in its tag is also its view, so that it can be scaled."""
    drawing = drawing.replace("; arrow keys walk through it", "").replace('role="group"', 'role="img"', 1)
    opening, rest = drawing.split(">", 1)
    if "viewBox" not in opening:
        width, height = (re.search(rf'{side}="([\d.]+)"', opening).group(1) for side in ("width", "height"))
        opening += f' viewBox="0 0 {width} {height}"'
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    text = f"{opening}>\n<style>\n{looks}</style>\n{rest}\n"
    (HERE / f"{name}.svg").write_text(text.replace("<title></title>", ""), encoding="utf-8")


def chart(name: str, drawn: Curves | Bars) -> None:
    colours = LOOKS[: LOOKS.index("* {")]
    looks = colours + "".join(re.findall(r"(?m)^svg [.\w][^\n]*\n", LOOKS))
    # On a page of its own a chart fills the page's width; in a text it needs a size to begin with.
    drawing = draw_curves(drawn) if isinstance(drawn, Curves) else draw_bars(drawn)
    height = re.search(r'viewBox="0 0 \d+ ([\d.]+)"', drawing).group(1)
    save(name, drawing.replace("<svg", f'<svg width="800" height="{height}"', 1), looks)


def page_looks() -> str:
    """What the doctor's page says about drawings."""
    text = (
        resources.files("cleargrad.doctor.reports").joinpath("page", "page.css").read_text(encoding="utf-8")
    )
    colours = text[: text.index("* {")]
    wanted = r"(?m)^(?:svg|\.moment|\.part|\.hatch|#used|\.pass|\.mark|\.older|\.graph)[^\n]*\n"
    return colours + "".join(re.findall(wanted, text)).replace(".graph ", "")


def buckets(name: str, session: Any) -> None:
    """The gradient bucket of a run's first parameters over its steps, as `cleargrad doctor --html` draws it."""
    timeline = make_timeline(session)
    drawing = buckets_figure.Drawing(
        timeline.lanes[0], timeline.columns, buckets_figure.pass_order(timeline)
    ).svg("the parameters")
    symbols = re.search(r"<defs>.*</defs>", buckets_figure.SYMBOLS, re.S).group()
    opening, rest = drawing.split(">", 1)
    key, end = legend(buckets_figure.Drawing(timeline.lanes[0], timeline.columns, {}).height, timeline)
    height = float(re.search(r'height="([\d.]+)"', opening).group(1)) + 24
    width = max(float(re.search(r'width="([\d.]+)"', opening).group(1)), end)
    opening = re.sub(r'width="[\d.]+" height="[\d.]+"', f'width="{width:g}" height="{height:g}"', opening)
    rest = re.sub(r' tabindex="-?\d"| data-\w+="[^"]*"', "", rest)
    save(name, f"{opening}>{symbols}{rest.replace('</svg>', key + '</svg>')}", page_looks())


def legend(top: float, timeline: Any) -> tuple[str, float]:
    """The marks of a drawing in words, on one line below it, and where that line ends."""
    parts, x = [], 16.0
    for kind in dict.fromkeys(column.kind for column in timeline.columns):
        text = buckets_figure.WORDS[kind]
        parts.append(
            buckets_figure.symbol(kind, x, top + 11) + f'<text x="{x + 14:g}" y="{top + 15:g}">{text}</text>'
        )
        x += 36 + 6.3 * len(text)
    parts.append(f'<rect class="part pass-0" x="{x}" y="{top + 4}" width="18" height="13"/>')
    parts.append(f'<rect class="hatch" x="{x}" y="{top + 4}" width="18" height="13"/>')
    parts.append(f'<text x="{x + 24:g}" y="{top + 15:g}">hatched: used by a step</text>')
    return "".join(parts), x + 180


def graph(name: str, found: Any) -> None:
    """The graph behind a loss, as `cleargrad explain` draws it."""
    drawing = re.search(r"<svg.*</svg>", graph_figure.figure(found), re.S).group()
    save(name, re.sub(r' tabindex="-?\d"| data-\w+="[^"]*"', "", drawing), page_looks())
