"""A page of charts: one HTML file with everything in it, readable in light and dark, wide and narrow.

Read next: charts/as_svg.py.
"""

from __future__ import annotations

from html import escape

from cleargrad.charts import Bars, Curves
from cleargrad.charts.as_svg import draw_bars, draw_curves

LOOKS = """\
:root { --back: #ffffff; --front: #1c2128; --soft: #59636e; --line: #d1d9e0; --panel: #f6f8fa;
  --colour-0: #b42318; --colour-1: #1a5fd0; --colour-2: #0b7a75; --colour-3: #8a5300; --colour-4: #8250df; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --front: #e6edf3; --soft: #9aa7b4; --line: #343c46;
  --panel: #1b212a; --colour-0: #ff8f84; --colour-1: #6cb0ff; --colour-2: #4fd1c5; --colour-3: #f0b35a;
  --colour-4: #c4a5ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 56rem; padding: 1.5rem 1.25rem 3rem; background: var(--back); color: var(--front);
  font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; }
.soft, figcaption, caption { color: var(--soft); }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .875em; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .75rem 1rem; overflow-x: auto; }
figure { margin: 0; overflow-x: auto; }
svg { width: 100%; min-width: 30rem; height: auto; display: block; }
svg text { fill: var(--soft); font: 12px system-ui, "DejaVu Sans", sans-serif; }
svg .grid { stroke: var(--line); } svg .mark { stroke: var(--soft); stroke-dasharray: 4 3; }
svg .name { fill: var(--front); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { text-align: right; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
"""


def page(title: str, introduction: str, sections: list[tuple[str, str]]) -> str:
    """The whole file; sections are titles with their HTML."""
    body = "\n".join(f"<section>\n<h2>{escape(name)}</h2>\n{content}\n</section>" for name, content in sections)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<style>\n{LOOKS}</style>\n</head>\n'
        f"<body>\n<main>\n<h1>{escape(title)}</h1>\n<p>{escape(introduction)}</p>\n{body}\n</main>\n</body>\n</html>\n"
    )


def figure(chart: Curves | Bars, caption: str = "") -> str:
    drawn = draw_curves(chart) if isinstance(chart, Curves) else draw_bars(chart)
    return f"<figure>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"


def preformatted(text: str) -> str:
    return f'<pre tabindex="0">{escape(text)}</pre>'


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def table(heads: list[str], rows: list[list[str]], caption: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table>{named}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
