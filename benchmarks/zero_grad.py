"""zero_grad that fills with zeros against zero_grad that sets to None: time and peak memory, here and in PyTorch.

    python benchmarks/zero_grad.py [--json benchmarks/results/zero_grad.json] [--rounds 3]

A network of four square layers, by width. "zero and backward" is the time of zero_grad() and backward() in a step
on eight rows, where gradients are most of the work: zeros are written, read and added to. "peak" is by how much
memory grows when the network is made and trained on a large batch: zeros are held beside the activations. Every
run is a process of its own, with one thread; the median of the rounds counts. Needs torch.

docs/figures/zero_grad.py draws the results.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

from side_by_side import LIBRARIES, REDUCERS, arguments, forget_peak, fresh, report, resident

WIDTHS = (256, 512, 1024, 2048)
LAYERS, FEW_ROWS, STEPS = 4, 8, 9
WAYS = {"None": True, "zeros": False}


def network(nn: Any, width: int) -> Any:
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers)


def step(torch: Any, model: Any, rows: int, width: int, set_to_none: bool) -> float:
    """One step; the seconds that zero_grad and backward took of it."""
    begin = time.perf_counter()
    model.zero_grad(set_to_none=set_to_none)
    zeroed = time.perf_counter() - begin
    loss = model(torch.ones(rows, width)).sum()
    begin = time.perf_counter()
    loss.backward()
    return zeroed + time.perf_counter() - begin


def run_child(library: str, width: int, set_to_none: bool) -> None:
    torch, nn = importlib.import_module(library), importlib.import_module(f"{library}.nn")
    torch.set_num_threads(1)
    for _ in range(
        2
    ):  # many rows, so that the code of large ops is loaded, or made, before memory is looked at
        step(torch, network(nn, 64), 512, 64, set_to_none)
    before = resident()
    forget_peak()
    model = network(nn, width)
    for _ in range(3):
        step(torch, model, width, width, set_to_none)
    peak = resident("VmHWM")
    times = [step(torch, model, FEW_ROWS, width, set_to_none) for _ in range(STEPS)]
    print(json.dumps({"zero and backward, ms": min(times) * 1e3, "peak, MB": peak - before}))


def measure(width: int, rounds: int) -> dict[str, dict[str, float]]:
    runs: dict[str, list] = {}
    for _ in range(rounds):
        for library in LIBRARIES:
            for way in WAYS:
                found = fresh(__file__, "--child", library, str(width), way)
                runs.setdefault(f"{library}, {way}", []).append(found)
    return {
        figure: {
            name: round(REDUCERS["median"]([run[figure] for run in found]), 3) for name, found in runs.items()
        }
        for figure in ("zero and backward, ms", "peak, MB")
    }


def main() -> None:
    options = arguments(__doc__, rounds=3).parse_args()
    rows: dict[str, dict] = {}
    for width in WIDTHS:
        for figure, values in measure(width, options.rounds).items():
            rows.setdefault(figure, {})[str(LAYERS * width * (width + 1))] = values
    for figure, found in rows.items():
        print(f"{figure:24}" + "".join(f"{name:>18}" for name in found[min(found)]))
        for parameters, values in found.items():
            print(
                f"{int(parameters):>12,} parameters" + "".join(f"{value:>18.2f}" for value in values.values())
            )
    report(options.json, unit="by number of parameters", rows=rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child(sys.argv[2], int(sys.argv[3]), WAYS[sys.argv[4]])
    else:
        main()
