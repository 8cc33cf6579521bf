"""What one small op costs, here and in PyTorch, measured side by side in one process.

    python benchmarks/op_overhead.py [--json benchmarks/results/op_overhead.json] [--rounds 40]

8x8 float32 tensors with gradients recorded, the backward of a 50-op chain, and the time of the import. The
two libraries take turns in short rounds and the best round of each counts: the machine is shared, only ratios
mean something. Needs torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import timeit
from functools import partial

import numpy as np
from side_by_side import arguments, compare, microseconds, report, table, take_turns

OPS = {
    "add": "x + y",
    "mul": "x * y",
    "relu": "torch.relu(x)",
    "matmul": "x @ y",
    "sum": "x.sum()",
    "getitem (number)": "x[0]",
    "getitem (slice)": "x[1:3]",
    "reshape": "x.reshape(4, 16)",
}
CHAINS = {
    "backward of 50 mul": "products.backward(retain_graph=True)",
    "backward of 25 relu(z + y)": "rectified.backward(retain_graph=True)",
}


def leaves(torch) -> dict:
    """The operands, made in one library."""
    generator = np.random.default_rng(0)
    x, y = (torch.tensor(generator.standard_normal((8, 8), np.float32), requires_grad=True) for _ in range(2))
    return {"torch": torch, "x": x, "y": y}


def chains(torch) -> dict:
    """Two graphs of 50 ops."""
    names = leaves(torch)
    products, rectified, y = names["x"], names["x"], names["y"]
    for _ in range(50):
        products = products * y
    for _ in range(25):
        rectified = torch.relu(rectified + y)
    return {**names, "products": products.sum(), "rectified": rectified.sum()}


def measure(cases: dict[str, str], scopes: dict[str, dict], calls: int, rounds: int) -> dict[str, dict]:
    """The best round of each library, in microseconds, and the ratio of the two."""
    rows = {}
    for name, code in cases.items():
        timers = {library: timeit.Timer(code, globals=names) for library, names in scopes.items()}
        once = {library: partial(microseconds, timer, calls) for library, timer in timers.items()}
        rows[name] = compare(take_turns(once, rounds))
    return rows


def import_seconds(module: str) -> float:
    """In a fresh process; bytecode may be cached, as it is for an installed package."""
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return float(subprocess.check_output([sys.executable, "-c", code], env=environment))


def main() -> None:
    options = arguments(__doc__, rounds=40).parse_args()
    import torch

    import cleargrad

    libraries = {"torch": torch, "cleargrad": cleargrad}
    rows = measure(OPS, {name: leaves(library) for name, library in libraries.items()}, 2000, options.rounds)
    rows |= measure(
        CHAINS, {name: chains(library) for name, library in libraries.items()}, 100, options.rounds
    )
    imports = {library: partial(import_seconds, library) for library in libraries}
    rows["import (seconds)"] = compare(take_turns(imports, 5))
    table("microseconds", rows)
    report(options.json, unit="microseconds", rows=rows)


if __name__ == "__main__":
    main()
