"""Draws gradient buckets over the steps: one figure per lane of the timeline, as SVG inside HTML.

A contribution has the colour and the number of its backward pass; it is hatched once a step has used it, and has a
red edge when a step used it again. What happened is a mark below. Read next: reports/sizes_figure.py.
"""

from __future__ import annotations

from html import escape
from typing import Any

from cleargrad.doctor.reports.timeline import Cell, Column, Lane, Timeline
from cleargrad.doctor.sentences import counted, listed

WIDTH, PART = 32, 24  # of a column, and of what is drawn in it
TOP, MARKS = 22, 26  # heights of the row of step numbers and of the row of marks
LOWEST, HIGHEST = 72, 240  # heights of the bucket
COLOURS = 8
WORDS = {
    "backward": "backward adds",
    "zero": "zero_grad empties",
    "clip": "clipped",
    "unscale": "unscaled",
    "write": "written by the program",
    "step": "optimizer step",
    "skip": "step left out",
}
SYMBOLS = """<svg width="0" height="0" style="position:absolute" aria-hidden="true" focusable="false"><defs>
<pattern id="used" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<path d="M3 0V6"/></pattern>
<symbol id="mark-backward" viewBox="-8 -8 16 16"><path d="M-5 0H5M0 -5V5"/></symbol>
<symbol id="mark-zero" viewBox="-8 -8 16 16"><circle r="5"/></symbol>
<symbol id="mark-clip" viewBox="-8 -8 16 16"><path d="M-6 -4H6M-6 4H6M0 -4V4"/></symbol>
<symbol id="mark-unscale" viewBox="-8 -8 16 16"><path d="M-5 3L0 -3L5 3"/></symbol>
<symbol id="mark-write" viewBox="-8 -8 16 16"><path d="M0 -6L6 0L0 6L-6 0Z"/></symbol>
<symbol id="mark-step" viewBox="-8 -8 16 16"><path d="M-6 -5H6L0 6Z"/></symbol>
<symbol id="mark-skip" viewBox="-8 -8 16 16"><path d="M-5 -5L5 5M-5 5L5 -5"/></symbol>
</defs></svg>"""


def section(timeline: Timeline, names: Any) -> str:
    """All lanes, with a legend."""
    if not timeline.lanes:
        return "<p>Nothing happened to any gradient.</p>"
    order = pass_order(timeline)
    parts = [legend(timeline)]
    parts += [figure(lane, timeline.columns, order, names) for lane in timeline.lanes]
    if timeline.left_out:
        parts.append(
            f"<p>{counted(timeline.left_out, 'further parameter')} with other histories are not drawn.</p>"
        )
    return "\n".join(parts)


def pass_order(timeline: Timeline) -> dict[int, int]:
    """Backward passes numbered from 1, in the order in which they ran."""
    numbers = {number for lane in timeline.lanes for cell in lane.cells for number in cell.live}
    return {number: position for position, number in enumerate(sorted(numbers), 1)}


def legend(timeline: Timeline) -> str:
    used = dict.fromkeys(column.kind for column in timeline.columns)
    rows = [f"<li>{symbol_alone(kind)}{WORDS[kind]}</li>" for kind in WORDS if kind in used]
    rows.append(f"<li>{swatch('')}a contribution, in the colour of its backward pass</li>")
    rows.append(f"<li>{swatch('hatch')}used by a step already</li>")
    if any(cell.reused for lane in timeline.lanes for cell in lane.cells):
        rows.append(f"<li>{swatch('reused')}used once more: a mistake</li>")
    return f'<ul class="legend" aria-label="Legend">{"".join(rows)}</ul>'


def swatch(extra: str) -> str:
    over = '<rect x="1" y="1" width="22" height="14" class="hatch"/>' if extra in ("hatch", "reused") else ""
    edge = " reused" if extra == "reused" else ""
    return (
        '<svg width="24" height="16" aria-hidden="true">'
        f'<rect x="1" y="1" width="22" height="14" class="part pass-0{edge}"/>{over}</svg>'
    )


def symbol(kind: str, x: float, y: float, extra: str = "") -> str:
    solid = " solid" if kind in ("step", "write") else ""
    place = f'x="{x - 8:g}" y="{y - 8:g}" width="16" height="16"'
    return f'<use href="#mark-{kind}" {place} class="mark{solid}{extra}"/>'


def symbol_alone(kind: str) -> str:
    return f'<svg width="16" height="16" aria-hidden="true">{symbol(kind, 8, 8)}</svg>'


# One lane --------------------------------------------------------------------------------------------------


def figure(lane: Lane, columns: list[Column], order: dict[int, int], names: Any) -> str:
    found = [names(number) for number in lane.parameters]
    title = escape(listed(found, 3))
    pairs = list(zip(columns, lane.cells, strict=True))
    texts = "".join(f"<li>{escape(describe(column, cell))}</li>" for column, cell in pairs if cell.concerned)
    all_names = f"<p>{escape(', '.join(found))}</p>" if len(found) > 3 else ""  # the caption has a few only
    return (
        f'<figure data-timeline="bucket"><figcaption><b>{title}</b> <span class="soft">'
        f"{counted(len(found), 'parameter')} with this history</span></figcaption>"
        f'<div class="box">{Drawing(lane, columns, order).svg(title)}</div>'
        '<p class="readout" aria-live="polite">Arrow keys, a tap or the pointer read a moment out here.</p>'
        f"<details><summary>The same in words</summary>{all_names}<ol>{texts}</ol></details></figure>"
    )


class Drawing:
    """The picture of one lane. It is as high as its fullest bucket needs, within limits."""

    def __init__(self, lane: Lane, columns: list[Column], order: dict[int, int]) -> None:
        self.lane = lane
        self.columns = columns
        self.order = order
        most = max(len(cell.live) + bool(cell.older) for cell in lane.cells)
        room = min(HIGHEST, max(LOWEST, 14 * most + 8))
        self.part = min(18.0, (room - 8) / max(1, most))  # height of one contribution
        self.floor = TOP + room
        self.height = self.floor + MARKS

    def svg(self, title: str) -> str:
        pairs = zip(self.columns, self.lane.cells, strict=True)
        moments = "".join(
            self.moment(position, column, cell) for position, (column, cell) in enumerate(pairs)
        )
        return (
            f'<svg width="{WIDTH * len(self.columns) + 16}" height="{self.height}" role="group" '
            f'aria-label="Gradient bucket of {title} over the steps; arrow keys walk through it">'
            f"{self.bands()}{moments}</svg>"
        )

    def bands(self) -> str:
        """Steps as bands with their numbers, and dotted lines where steps are left out."""
        columns, parts, begin = self.columns, [], 0
        for position in range(1, len(columns) + 1):
            is_last = position == len(columns)
            if is_last or columns[position].step != columns[begin].step or columns[position].after_gap:
                parts.append(self.band(begin, position))
                if not is_last and columns[position].after_gap:
                    parts.append(
                        f'<path class="gap" d="M{8 + WIDTH * position} 2V{self.height - 2}" fill="none"/>'
                    )
                begin = position
        floor = f'<path class="base" d="M8 {self.floor}H{8 + WIDTH * len(columns)}" fill="none"/>'
        return "".join(parts) + floor

    def band(self, begin: int, end: int) -> str:
        x, width, step = 8 + WIDTH * begin, WIDTH * (end - begin), self.columns[begin].step
        back = (
            f'<rect class="band" x="{x}" y="0" width="{width}" height="{self.height}"/>' if step % 2 else ""
        )
        label = f"step {step}" if width > 50 else str(step)
        return f'{back}<text x="{x + width / 2:g}" y="15" text-anchor="middle">{label}</text>'

    def moment(self, position: int, column: Column, cell: Cell) -> str:
        x = 8 + WIDTH * position
        shapes = self.stack(x + (WIDTH - PART) / 2, cell)
        if cell.concerned:
            shapes += symbol(
                column.kind, x + WIDTH / 2, self.floor + MARKS / 2, " wrong" if cell.reused else ""
            )
        quiet = "" if cell.concerned else " quiet"
        return (
            f'<g class="moment{quiet}" tabindex="{0 if position == 0 else -1}" role="img" '
            f'data-step="{column.step}" data-left="{x}"><title>{escape(describe(column, cell))}</title>'
            f'<rect class="hit" x="{x + 1}" y="{TOP}" width="{WIDTH - 2}" '
            f'height="{self.height - TOP - 2}" rx="3"/>{shapes}</g>'
        )

    def stack(self, x: float, cell: Cell) -> str:
        """The contributions, oldest at the bottom; those beyond the newest few are one grey part."""
        shapes: list[str] = []
        parts: list[int | None] = [None, *cell.live] if cell.older else list(cell.live)
        for position, number in enumerate(parts):
            age = position if not cell.older else position - 1 + cell.older
            y = self.floor - self.part * (position + 1)
            kind = "older" if number is None else f"pass-{(self.order[number] - 1) % COLOURS}"
            edge = " reused" if age < cell.reused else ""
            size = f'x="{x:g}" y="{y:.1f}" width="{PART}" height="{self.part - 1:.1f}"'
            shapes.append(f'<rect {size} class="part {kind}{edge}"/>')
            if age < cell.used:
                shapes.append(f'<rect {size} class="hatch"/>')
            if self.part >= 12:
                label = cell.older if number is None else self.order[number]
                at = f'x="{x + PART / 2:g}" y="{y + self.part / 2 + 3.2:.1f}"'
                shapes.append(f'<text class="pass-label" {at} text-anchor="middle">{label}</text>')
        return "".join(shapes)


def describe(column: Column, cell: Cell) -> str:
    """A moment as a sentence: what is under the pointer, and what a screen reader says."""
    where = "" if column.place is None else f", {column.place}"
    what = column.what if cell.concerned else f"something else happened ({column.what})"
    total = len(cell.live) + cell.older
    holds = "the bucket is empty" if not total else f"the bucket holds {counted(total, 'contribution')}"
    used = (
        f", {cell.used} of them used by a step" if cell.used and column.kind not in ("step", "skip") else ""
    )
    wrong = f"; {cell.reused} of them had been used before" if cell.reused else ""
    return f"Step {column.step}{where}: {what}; {holds}{used}{wrong}."
