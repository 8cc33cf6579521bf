"""What one small op costs, here and in PyTorch, measured side by side in one process.

    python benchmarks/op_overhead.py [--json benchmarks/results/op_overhead.json] [--rounds 40]

8x8 float32 tensors with gradients recorded, the backward of a 50-op chain, and the time of the import. The
two libraries take turns in short rounds and the best round of each counts: the machine is shared, only ratios
mean something. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import timeit

import numpy as np

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
        best = dict.fromkeys(timers, float("inf"))
        for _ in range(rounds):
            for library, timer in timers.items():
                best[library] = min(best[library], timer.timeit(calls) / calls * 1e6)
        rows[name] = {**best, "ratio": best["cleargrad"] / best["torch"]}
    return rows


def import_seconds(module: str, runs: int = 5) -> float:
    """The best of some fresh processes; bytecode may be cached, as it is for an installed package."""
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    return min(float(subprocess.check_output(command, env=environment)) for _ in range(runs))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    import torch

    import cleargrad

    libraries = {"torch": torch, "cleargrad": cleargrad}
    rows = measure(OPS, {name: leaves(library) for name, library in libraries.items()}, 2000, options.rounds)
    rows |= measure(
        CHAINS, {name: chains(library) for name, library in libraries.items()}, 100, options.rounds
    )
    best = {library: import_seconds(library) for library in ("torch", "cleargrad")}
    rows["import (seconds)"] = {**best, "ratio": best["cleargrad"] / best["torch"]}
    print(f"{'':28s} {'PyTorch':>10s} {'cleargrad':>10s} {'ratio':>6s}   (microseconds)")
    for name, row in rows.items():
        print(f"{name:28s} {row['torch']:10.2f} {row['cleargrad']:10.2f} {row['ratio']:6.2f}")
    if options.json:
        with open(options.json, "w") as file:
            machine = {
                "machine": platform.processor() or platform.machine(),
                "python": platform.python_version(),
            }
            command = "python benchmarks/op_overhead.py --json " + options.json
            json.dump({**machine, "numpy": np.__version__, "command": command, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
