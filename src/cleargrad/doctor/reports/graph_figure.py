"""Draws the graph of a step as SVG: leaves and inputs on top, the loss at the bottom.

Boxes come in with what they were computed from; layers, an order within each layer and curved arrows go out.
Read next: reports/as_lesson.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cleargrad.doctor.graph import Box, Graph
from cleargrad.doctor.sentences import counted, listed

HEIGHT, BETWEEN, BESIDE = 38, 34, 16  # of boxes, between layers, between neighbours
LETTER = 6.6  # width of a letter, on average
SWEEPS = 6


class Spot:
    """A box, or a bend of an arrow that passes through a layer, with its place in the drawing."""

    __slots__ = ("box", "inputs", "layer", "outputs", "width", "x")

    def __init__(self, box: int | None, layer: int, width: float) -> None:
        self.box = box
        self.layer = layer
        self.width = width
        self.x = 0.0
        self.inputs: list[Spot] = []
        self.outputs: list[Spot] = []


def figure(graph: Graph) -> str:
    """The drawing, and the same in words."""
    spots = place(graph.boxes)
    left = min(spot.x - spot.width / 2 for spot in spots) - 12
    width = max(spot.x + spot.width / 2 for spot in spots) - left + 12
    height = (max(spot.layer for spot in spots) + 1) * (HEIGHT + BETWEEN) + 4
    arrows = "".join(arrow(above, spot) for spot in spots for above in spot.inputs)
    drawn = [spot for spot in spots if spot.box is not None]
    drawn.sort(key=lambda spot: spot.box or 0)
    boxes = "".join(box_at(spot, graph.boxes, left, position == 0) for position, spot in enumerate(drawn))
    words = "".join(f"<li>{escape(describe(box, graph.boxes))}</li>" for box in graph.boxes)
    return (
        '<figure class="graph" data-timeline="graph"><div class="box">'
        f'<svg width="{width:.0f}" height="{height}" viewBox="{left:.1f} 0 {width:.1f} {height}" role="group" '
        'aria-label="The graph of the first step; arrow keys walk through it">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto">'
        f'<path class="arrow" d="M0 0L8 4L0 8Z"/></marker></defs>{arrows}{boxes}</svg></div>'
        '<p class="readout" aria-live="polite">Arrow keys, a tap or the pointer read a box out here.</p>'
        f"<details><summary>The same in words</summary><ol>{words}</ol></details></figure>"
    )


# Words -----------------------------------------------------------------------------------------------------


def describe(box: Box, boxes: Sequence[Box]) -> str:
    """A box as a sentence."""
    size = "" if box.shape is None else f", {shape(box.shape)}"
    if box.kind == "leaf":
        return f"{box.title}: a leaf{size}. Backward adds to its .grad."
    made = f" from {listed([boxes[source].title for source in box.inputs], 4)}" if box.inputs else ""
    parts = f" ({listed(box.ops, 5)})" if box.kind == "module" else ""
    first = "the loss, " if box.kind == "loss" else ""
    fills = f" Backward adds to .grad of {listed(box.leaves, 4)}." if box.leaves else ""
    return f"{box.title}{parts}: {first}computed{made}{size}. {kept(box)}{fills}"


def kept(box: Box) -> str:
    if not box.saved:
        return "Nothing is kept for backward."
    names = listed([f"{saved.name} {shape(saved.shape)}" for saved in box.saved], 4)
    own = sum(saved.size for saved in box.saved if not saved.is_parameter)
    return f"Kept for backward: {names}" + (
        f"; {size_in_words(own)}." if own else "; parameters, which exist anyway."
    )


def shape(sizes: Sequence[int]) -> str:
    return "×".join(map(str, sizes)) if len(sizes) else "one number"


def size_in_words(count: float) -> str:
    """`512 B`, `1.5 KB`, `20 MB`."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


# Places ----------------------------------------------------------------------------------------------------


def place(boxes: list[Box]) -> list[Spot]:
    """A layer for each box, bends for long arrows, an order in each layer, and x for all."""
    layers = layers_of(boxes)
    spots = [Spot(position, layers[position], width_of(box)) for position, box in enumerate(boxes)]
    everything = list(spots)
    for position, box in enumerate(boxes):
        for source in box.inputs:
            above = spots[source]
            for layer in range(layers[source] + 1, layers[position]):
                bend = Spot(None, layer, 10)
                everything.append(bend)
                join(above, bend)
                above = bend
            join(above, spots[position])
    rows: list[list[Spot]] = [[] for _ in range(max(layers) + 1)]
    for spot in everything:
        rows[spot.layer].append(spot)
    for row in rows:
        spread(row)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            row.sort(key=lambda spot: middle(spot.inputs if down else spot.outputs, spot.x))
            spread(row)
    for _ in range(3):
        straighten(rows)
    return everything


def join(above: Spot, below: Spot) -> None:
    above.outputs.append(below)
    below.inputs.append(above)


def layers_of(boxes: list[Box]) -> list[int]:
    """Below everything that a box was computed from, and then as close to its first user as it can be."""
    layers = [0] * len(boxes)
    for position, box in enumerate(boxes):
        layers[position] = 1 + max((layers[source] for source in box.inputs), default=-1)
    nearest: dict[int, int] = {}  # the layer of the first user
    for position in reversed(range(len(boxes))):
        layers[position] = nearest.get(position, layers[position] + 1) - 1
        for source in boxes[position].inputs:
            nearest[source] = min(nearest.get(source, len(boxes)), layers[position])
    return layers


def middle(neighbours: list[Spot], otherwise: float) -> float:
    return sum(spot.x for spot in neighbours) / len(neighbours) if neighbours else otherwise


def spread(row: list[Spot]) -> None:
    """Side by side, in their order, around the middle of the drawing."""
    x = -(sum(spot.width for spot in row) + BESIDE * (len(row) - 1)) / 2
    for spot in row:
        spot.x = x + spot.width / 2
        x += spot.width + BESIDE


def straighten(rows: list[list[Spot]]) -> None:
    """Moves boxes towards what they are joined with, as far as their neighbours let them."""
    for row in rows:
        for position, spot in enumerate(row):
            wanted = middle(spot.inputs + spot.outputs, spot.x)
            if position:
                before = row[position - 1]
                wanted = max(wanted, before.x + (before.width + spot.width) / 2 + BESIDE)
            if position + 1 < len(row):
                after = row[position + 1]
                wanted = min(wanted, after.x - (after.width + spot.width) / 2 - BESIDE)
            spot.x = wanted


def width_of(box: Box) -> float:
    return max(64.0, LETTER * max(len(box.title), len(subtitle(box))) + 18)


def subtitle(box: Box) -> str:
    size = "" if box.shape is None else shape(box.shape)
    own = sum(saved.size for saved in box.saved if not saved.is_parameter)
    return f"{size}, keeps {size_in_words(own)}" if own else size


# Shapes ----------------------------------------------------------------------------------------------------


def top(layer: int) -> int:
    return layer * (HEIGHT + BETWEEN) + 4


def arrow(above: Spot, below: Spot) -> str:
    y1 = top(above.layer) + (HEIGHT if above.box is not None else HEIGHT / 2)
    y2 = top(below.layer) + (0 if below.box is not None else HEIGHT / 2)
    bend = (y2 - y1) * 0.5
    head = ' marker-end="url(#arrow)"' if below.box is not None else ""
    curve = (
        f"M{above.x:.1f} {y1}C{above.x:.1f} {y1 + bend:.1f} {below.x:.1f} {y2 - bend:.1f} {below.x:.1f} {y2}"
    )
    return f'<path class="edge" d="{curve}"{head}/>'


def box_at(spot: Spot, boxes: Sequence[Box], left: float, is_first: bool) -> str:
    box = boxes[spot.box or 0]
    x, y = spot.x - spot.width / 2, top(spot.layer)
    return (
        f'<g class="moment {box.kind}" tabindex="{0 if is_first else -1}" role="img" data-step="{spot.box}" '
        f'data-left="{x - left:.0f}"><title>{escape(describe(box, boxes))}</title>'
        f'<rect class="hit" x="{x:.1f}" y="{y}" width="{spot.width:.1f}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{spot.x:.1f}" y="{y + 16}" text-anchor="middle">{escape(box.title)}</text>'
        f'<text class="small" x="{spot.x:.1f}" y="{y + 30}" text-anchor="middle">{escape(subtitle(box))}</text></g>'
    )


def summary(graph: Graph) -> str:
    """What the drawing shows, in two sentences."""
    leaves = graph.leaves
    gathered = (
        " They are gathered by module here." if any(box.kind == "module" for box in graph.boxes) else ""
    )
    missing = f" The first {graph.left_out} boxes are left out." if graph.left_out else ""
    shown = f", {leaves} of them {'a leaf' if leaves == 1 else 'leaves'}" if leaves else ""
    return (
        f"The forward pass left a graph of {counted(graph.nodes, 'node')}{shown}.{gathered}{missing} "
        f"It keeps {size_in_words(graph.saved)} for backward, beside the parameters themselves."
    )
