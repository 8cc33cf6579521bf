"""What a step costs, here and in PyTorch, side by side in one process.

    python benchmarks/optimizer_step.py [--json benchmarks/results/optimizer_step.json] [--threads 1]

Each optimizer on a small network (ten parameters, 15,000 numbers), where calls cost most, and on ten million
numbers, where memory does. The two libraries take turns and the best round of each counts: the machine is
shared, only ratios mean something. PyTorch runs its default (no foreach on the CPU). Needs torch.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import timeit
from typing import Any

import numpy as np

SMALL = [(64, 32), (64,), (64, 64), (64,), (64, 64), (64,), (64, 64), (64,), (10, 64), (10,)]
LARGE = [(2000, 2000), (2000, 2000), (1000, 2000)]
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("Adagrad", {}),
    ("RMSprop", {}),
    ("Adadelta", {}),
    ("Rprop", {}),
    ("ASGD", {}),
    ("Adafactor", {}),
]


def prepared(library: Any, name: str, kwargs: dict[str, Any], shapes: list[tuple]) -> timeit.Timer:
    """A timer of steps, after two that make the state."""
    params = [library.randn(*shape).requires_grad_() for shape in shapes]
    for parameter in params:
        parameter.grad = library.randn(*parameter.shape)
    optimizer = getattr(library.optim, name)(params, **kwargs)
    optimizer.step()
    optimizer.step()
    return timeit.Timer(optimizer.step)


def measure(libraries: dict[str, Any], shapes: list[tuple], calls: int, rounds: int) -> dict[str, dict]:
    rows = {}
    for name, kwargs in OPTIMIZERS:
        timers = {library: prepared(module, name, kwargs, shapes) for library, module in libraries.items()}
        best = dict.fromkeys(timers, float("inf"))
        for _ in range(rounds):
            for library, timer in timers.items():
                best[library] = min(best[library], timer.timeit(calls) / calls * 1e6)
        label = f"{name} {', '.join(kwargs)}".strip()
        rows[label] = {**best, "ratio": best["cleargrad"] / best["torch"]}
        del timers
        gc.collect()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; cleargrad has one")
    options = parser.parse_args()
    import torch

    import cleargrad

    torch.set_num_threads(options.threads)
    libraries = {"torch": torch, "cleargrad": cleargrad}
    tables = {
        "ten parameters of a small network": measure(libraries, SMALL, 20, options.rounds),
        "ten million numbers": measure(libraries, LARGE, 1, max(2, options.rounds // 3)),
    }
    for title, rows in tables.items():
        print(f"{title:42s} {'PyTorch':>10s} {'cleargrad':>10s} {'ratio':>6s}   (microseconds)")
        for name, row in rows.items():
            print(f"{name:42s} {row['torch']:10.0f} {row['cleargrad']:10.0f} {row['ratio']:6.2f}")
    if options.json:
        with open(options.json, "w") as file:
            machine = {
                "machine": platform.processor() or platform.machine(),
                "python": platform.python_version(),
            }
            command = f"python benchmarks/optimizer_step.py --threads {options.threads} --json {options.json}"
            json.dump({**machine, "numpy": np.__version__, "command": command, **tables}, file, indent=1)


if __name__ == "__main__":
    main()
