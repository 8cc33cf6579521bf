"""Sizes over time, by layer: norms of gradients, of weights, and of what steps changed in the weights.

Statistics of parameters come in (story.py); one series per layer goes out, as plain data for JSON and the page.
Read next: reports/sizes_figure.py.
"""

from __future__ import annotations

import math
from typing import Any

MOST_LAYERS = 64


def sizes(session: Any) -> list[dict[str, Any]]:
    """Per layer: `steps`, and the norms `gradient`, `update` and `weight` at each of them."""
    layers: dict[str, dict[str, Any]] = {}
    for series in session.story.statistics.values():
        for event in series.kept:
            for layer, norms in by_layer(event, session.registry.name).items():
                found = layers.setdefault(
                    layer, {"layer": layer, "steps": [], "gradient": [], "update": [], "weight": []}
                )
                found["steps"].append(event.step)
                for name, norm in zip(("gradient", "update", "weight"), norms, strict=True):
                    found[name].append(norm)
    return list(layers.values())[:MOST_LAYERS]


def by_layer(event: Any, names: Any) -> dict[str, list[float]]:
    """One event's norms, those of a layer's parameters taken together."""
    layers: dict[str, list[list[float]]] = {}
    rows = zip(event.parameters, event.gradient_norms, event.update_norms, event.weight_norms, strict=True)
    for number, *norms in rows:
        layers.setdefault(layer_of(names(number)), []).append(norms)
    return {
        layer: [math.hypot(*column) for column in zip(*found, strict=True)] for layer, found in layers.items()
    }


def layer_of(name: str) -> str:
    """`blocks.0.fc` of `blocks.0.fc.weight`; a parameter without a layer is one of its own."""
    return name.rpartition(".")[0] or name
