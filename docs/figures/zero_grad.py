"""Draws docs/figures/zero-grad.svg from what benchmarks/zero_grad.py last wrote.

python docs/figures/zero_grad.py
"""

from __future__ import annotations

import json
from pathlib import Path

import drawing

from cleargrad.charts import Bar, Bars

RESULTS = Path(__file__).parent.parent.parent / "benchmarks" / "results" / "zero_grad.json"
TITLES = {
    "zero and backward, ms": "Time of zero_grad() and backward(): zeros / None",
    "peak, MB": "Peak memory of training: zeros / None",
}
COLOURS = {"cleargrad": 1, "torch": 3}
NAMES = {"cleargrad": "cleargrad", "torch": "PyTorch"}


def bars(rows: dict[str, dict[str, float]]) -> list[Bar]:
    """How many times as much zeros cost, by number of parameters and library."""
    found = []
    for parameters, row in rows.items():
        for library, colour in COLOURS.items():
            ratio = row[f"{library}, zeros"] / row[f"{library}, None"]
            name = f"{int(parameters) / 1e6:.1f} million, {NAMES[library]}"
            found.append(Bar(name, ratio, ratio, ratio, colour))
    return found


def main() -> None:
    rows = json.loads(RESULTS.read_text())["rows"]
    groups = {title: bars(rows[name]) for name, title in TITLES.items()}
    drawing.chart("zero-grad", Bars("What zeros cost, compared with None", groups))


if __name__ == "__main__":
    main()
