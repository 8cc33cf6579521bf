"""The report as one HTML page that needs nothing else: findings, buckets over the steps, sizes over time.

All figures on the page come from the data that as_json.py writes, which the page carries along. The files under
page/ are its frame, its looks and its keys. Read next: reports/buckets_figure.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from cleargrad.doctor.findings import SEVERITIES, Finding
from cleargrad.doctor.reports import buckets_figure, sizes_figure
from cleargrad.doctor.reports.as_json import contents
from cleargrad.doctor.reports.as_text import summary, watched
from cleargrad.doctor.reports.excerpts import SourceLine, excerpt, where
from cleargrad.doctor.reports.timeline import make_timeline
from cleargrad.doctor.sentences import counted


def write(session: Any) -> str:
    """The page of a watched run."""
    line = summary(session, list(session.findings)).partition(": ")[2].partition("; watched")[0]
    header = (
        f'<h1>Gradient report</h1>\n<p class="summary">{escape(line[:1].upper() + line[1:])}</p>\n'
        f'<p class="soft">Watched: {escape(watched(session))}</p>'
    )
    sections = [("findings", "Findings", findings(session)), *common_sections(session)]
    return page("Gradient report", header, sections, contents(session))


def common_sections(session: Any) -> list[tuple[str, str, str]]:
    """The sections that the report and the lesson share: id, title, HTML."""
    data = contents(session)
    named = [name for finding in session.findings for name in finding.parameters]
    timeline = make_timeline(session, named)
    return [
        (
            "buckets",
            "What was in the gradients",
            BUCKETS + buckets_figure.section(timeline, session.registry.name),
        ),
        ("sizes", "Sizes over time", SIZES + sizes_figure.section(data["sizes"])),
        ("parameters", "Parameters", parameters(data["parameters"])),
    ]


BUCKETS = (
    "<p>The gradient of a parameter is a bucket: <code>backward()</code> adds to it, <code>zero_grad()</code> "
    "empties it, <code>step()</code> uses what is in it. Each column is a moment; the blocks are what the bucket "
    "held after it, numbered by backward pass. Of a long run, the first steps, those around findings and the last "
    "ones are shown.</p>"
)
SIZES = (
    "<p>Norms by layer, on a logarithmic scale: of the gradient that a step used, and of what the step then "
    "changed in the weights. A red line is a value that is not finite.</p>"
)


def page(title: str, header: str, sections: list[tuple[str, str, str]], data: dict[str, Any]) -> str:
    links = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name, _ in sections)
    main = "\n".join(
        f'<section id="{key}" aria-labelledby="{key}-title">\n'
        f'<h2 id="{key}-title">{escape(name)}</h2>\n{html}\n</section>'
        for key, name, html in sections
    )
    folder = files("cleargrad.doctor.reports") / "page"
    return Template(folder.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        style=folder.joinpath("page.css").read_text(encoding="utf-8"),
        script=folder.joinpath("page.js").read_text(encoding="utf-8"),
        symbols=buckets_figure.SYMBOLS,
        header=f'{header}\n<nav aria-label="Sections"><ul>{links}</ul></nav>',
        main=main,
        footer="<p>Written by cleargrad doctor. This page is complete in itself and loads nothing.</p>",
        data=json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
    )


# Findings --------------------------------------------------------------------------------------------------


def findings(session: Any) -> str:
    found = sorted(session.findings, key=lambda finding: SEVERITIES.index(finding.severity))
    if not found:
        return "<p>No problem was found.</p>"
    return "\n".join(article(finding) for finding in found)


def article(finding: Finding) -> str:
    """One finding: what, where, the lines around, why, and what to do."""
    seen = (
        f"<li>seen {finding.count} times, last in step {finding.last_step}</li>" if finding.count > 1 else ""
    )
    evidence = "".join(f"<li>{escape(text)}</li>" for text in finding.evidence) + seen
    place = where(finding)
    return (
        f'<article class="finding {finding.severity}">'
        f'<h3><span class="level">{finding.severity}</span><span class="rule">{escape(finding.rule)}</span></h3>'
        f'<p class="message">{escape(finding.message)}</p>'
        + (f'<p class="path soft">{escape(place)}, step {finding.step}</p>' if place else "")
        + source(finding)
        + f'<p class="fix"><b>Fix</b> {escape(finding.fix)}</p>'
        + (f"<ul>{evidence}</ul>" if evidence else "")
        + comparisons(finding.facts.get("gradients", ()))
        + "</article>"
    )


def source(finding: Finding) -> str:
    lines = excerpt(finding.file, finding.line, 3)
    if not lines:
        return ""
    digits = len(str(lines[-1].number))
    rows = "".join(source_line(line, digits) for line in lines)
    return f'<pre class="source" tabindex="0" aria-label="Source around line {finding.line}">{rows}</pre>'


def source_line(line: SourceLine, digits: int) -> str:
    number = f"<i>{line.number:>{digits}} {'▶' if line.is_marked else ' '} </i>"
    kind = ' class="marked"' if line.is_marked else ""
    return f"<span{kind}>{number}{escape(line.text)}</span>"


def comparisons(gradients: Sequence[dict[str, Any]]) -> str:
    """The first in sight, the others on request."""
    if not gradients:
        return ""
    others = "".join(comparison(known) for known in gradients[1:])
    more = f"<details><summary>{counted(len(gradients) - 1, 'more gradient')}</summary>{others}</details>"
    return comparison(gradients[0], 4) + (more if others else "")


def comparison(known: dict[str, Any], limit: int = 8) -> str:
    """A gradient as it should have been and as it was, side by side."""
    pairs = list(zip(known["expected"], known["actual"], strict=True))[:limit]
    largest = (
        max((abs(value) for pair in pairs for value in pair if abs(value) < float("inf")), default=0.0) or 1.0
    )
    rows = "".join(
        f'<tr><th scope="row">[{position}]</th><td class="number" data-label="expected">{expected:.4g}</td>'
        f'<td class="number" data-label="actual">{actual:.4g}</td><td>{bars(expected, actual, largest)}</td></tr>'
        for position, (expected, actual) in enumerate(pairs)
    )
    name = escape(known["parameter"])
    return (
        f'<div class="scroll"><table class="compared"><caption>Gradient of <code>{name}</code>, first elements: '
        'correct against actual</caption><thead><tr><th scope="col">element</th>'
        '<th scope="col" class="number">expected</th>'
        '<th scope="col" class="number">actual</th><th scope="col"><span class="soft">green: expected, red: actual'
        f"</span></th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def bars(expected: float, actual: float, largest: float) -> str:
    def bar(value: float, y: int, kind: str) -> str:
        share = 98 * min(1.0, abs(value) / largest) if abs(value) < float("inf") else 98
        x = 100 - share if value < 0 else 100
        return f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{max(share, 0.5):.1f}" height="7"/>'

    return (
        '<svg viewBox="0 0 200 22" preserveAspectRatio="none" aria-hidden="true"><path class="axis" d="M100 0V22"/>'
        f"{bar(expected, 3, 'expected')}{bar(actual, 12, 'actual')}</svg>"
    )


# Parameters ------------------------------------------------------------------------------------------------


def parameters(rows: list[dict[str, Any]]) -> str:
    body = "".join(
        f'<tr><th scope="row">{escape(row["name"])}</th><td data-label="shape:">{escape(shape(row["shape"]))}</td>'
        f'<td class="number" data-label="backward passes:">{row["received"]}</td>'
        f'<td class="number" data-label="steps:">{row["steps"]}</td></tr>'
        for row in rows
    )
    return (
        f'<details><summary>{counted(len(rows), "parameter")}</summary><table class="stack"><thead><tr>'
        '<th scope="col">name</th><th scope="col">shape</th>'
        '<th scope="col" class="number">backward passes that added</th>'
        '<th scope="col" class="number">steps that used it</th></tr></thead>'
        f"<tbody>{body}</tbody></table></details>"
    )


def shape(sizes: list[int]) -> str:
    return " × ".join(map(str, sizes)) or "a number"
