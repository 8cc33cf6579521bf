"""Draws docs/figures/zero-grad.svg from what benchmarks/zero_grad.py last wrote. Needs matplotlib.

python docs/figures/zero_grad.py
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RESULTS = HERE.parent.parent / "benchmarks" / "results" / "zero_grad.json"
PANELS = {
    "zero and backward, ms": "zero_grad() and backward(), milliseconds",
    "peak, MB": "peak memory of training, MB",
}
COLOURS = {"cleargrad": "#1f6f8b", "torch": "#c0673a"}
LINES = {"None": "-", "zeros": "--"}


def draw(axes, title: str, rows: dict[str, dict[str, float]]) -> None:
    parameters = [int(count) for count in rows]
    for name in rows[min(rows)]:
        library, way = name.split(", ")
        values = [row[name] for row in rows.values()]
        label = f"{'PyTorch' if library == 'torch' else library}, {way}"
        axes.plot(
            parameters, values, LINES[way], marker="o", markersize=3, color=COLOURS[library], label=label
        )
    axes.set(title=title, xlabel="parameters", xscale="log", yscale="log")
    axes.grid(True, linewidth=0.3)


def main() -> None:
    # Fixed names inside the file, and no date: the same results give the same file.
    plt.rcParams.update(
        {"svg.hashsalt": "cleargrad", "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 9}
    )
    results = json.loads(RESULTS.read_text())["rows"]
    figure, panels = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
    for axes, (name, title) in zip(panels, PANELS.items()):
        draw(axes, title, results[name])
    panels[0].legend(frameon=False)
    figure.savefig(HERE / "zero-grad.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
