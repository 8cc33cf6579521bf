"""A page of charts: one HTML file with everything in it, readable in light and dark, wide and narrow.

Read next: charts/as_svg.py.
"""

from __future__ import annotations

from html import escape

from cleargrad.charts import Bars, Curves
from cleargrad.charts.as_svg import draw_bars, draw_curves

LOOKS = """\
:root { --back: #ffffff; --front: #1c2128; --soft: #59636e; --line: #d1d9e0; --panel: #f6f8fa;
  --colour-0: #b42318; --colour-1: #1a5fd0; --colour-2: #0b7a75; --colour-3: #8a5300; --colour-4: #59636e; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --front: #e6edf3; --soft: #9aa7b4; --line: #343c46;
  --panel: #1b212a; --colour-0: #ff8f84; --colour-1: #6cb0ff; --colour-2: #4fd1c5; --colour-3: #f0b35a;
  --colour-4: #9aa7b4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 56rem; padding: 1.5rem 1.25rem 3rem; background: var(--back); color: var(--front);
  font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; }
.soft { color: var(--soft); }
code, pre { font-size: .875em; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
  monospace; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .75rem 1rem;
  overflow-x: auto; }
figure { margin: 0; overflow-x: auto; }
svg { width: 100%; min-width: 30rem; height: auto; display: block; }
svg text { fill: var(--soft); font: 12px system-ui, "DejaVu Sans", sans-serif; }
svg .grid { stroke: var(--line); } svg .mark { stroke: var(--soft); stroke-dasharray: 4 3; }
svg .name { fill: var(--front); }
svg .over { paint-order: stroke; stroke: var(--back); stroke-width: 4px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { text-align: right; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums; }
th.words, td.words { text-align: left; white-space: normal; }
.key { font-weight: 600; margin-right: .75rem; }
"""


def page(title: str, introduction: str, sections: list[tuple[str, str]]) -> str:
    """The whole file; sections are titles with their HTML."""
    body = "\n".join(
        f"<section>\n<h2>{escape(name)}</h2>\n{content}\n</section>" for name, content in sections
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<style>\n{LOOKS}</style>\n</head>\n'
        f"<body>\n<main>\n<h1>{escape(title)}</h1>\n<p>{escape(introduction)}</p>\n{body}\n</main>\n</body>\n</html>\n"
    )


def figure(chart: Curves | Bars, caption: str = "") -> str:
    drawn = draw_curves(chart) if isinstance(chart, Curves) else draw_bars(chart)
    # On a narrow screen the names beside the curves are out of sight.
    curves = chart.curves if isinstance(chart, Curves) else []
    keys = "".join(
        f'<span class="key" style="color: var(--colour-{curve.colour})">{escape(curve.name)}</span>'
        for curve in curves
    )
    return f'<figure>{drawn}</figure><p class="soft">{keys}{escape(caption)}</p>'


def preformatted(text: str) -> str:
    return f'<pre tabindex="0">{escape(text)}</pre>'


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def table(heads: list[str], rows: list[list[str]], words: int = 1) -> str:
    """The first columns, as many as `words` says, are text; the others are numbers."""

    def line(cells: list[str], tag: str) -> str:
        kinds = [' class="words"' if place < words else "" for place in range(len(cells))]
        return (
            "<tr>"
            + "".join(f"<{tag}{kind}>{escape(text)}</{tag[:2]}>" for kind, text in zip(kinds, cells))
            + "</tr>"
        )

    body = "\n".join(line(row, "td") for row in rows)
    head = line(heads, 'th scope="col"')
    return f'<div class="scroll"><table><thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table></div>'
