"""How fast checkpoints are written and read, here and in PyTorch, measured side by side in one process.

    python benchmarks/checkpoint.py [--json benchmarks/results/checkpoint.json] [--rounds 9] [--folder DIR]

A dict of 32 float32 tensors, 256 MB in all. The libraries take turns; the best round of each counts. Our file is
synchronised to the disk before it replaces the old one and PyTorch's is not: the third row gives PyTorch's
file the same guarantee. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch

import cleargrad

TENSORS, ELEMENTS = 32, 2 * 1024 * 1024
GIGABYTES = TENSORS * ELEMENTS * 4 / 1e9


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def states() -> tuple[dict, dict]:
    """The same values as tensors of both libraries."""
    arrays = {
        f"weight{k}": np.random.default_rng(k).standard_normal(ELEMENTS, np.float32) for k in range(TENSORS)
    }
    theirs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return {name: cleargrad.from_numpy(array) for name, array in arrays.items()}, theirs


def save_for_good(state: dict, path: str) -> None:
    """PyTorch's save, and the disk's word that the file is there."""
    torch.save(state, path)
    with open(path, "rb") as stream:
        os.fsync(stream.fileno())


def measure(folder: str, rounds: int) -> dict[str, dict]:
    ours, theirs = states()
    path, other = os.path.join(folder, "ours.pt"), os.path.join(folder, "theirs.pt")
    cases = {
        "write": (lambda: cleargrad.save(ours, path), lambda: torch.save(theirs, other)),
        "write, both synchronised": (
            lambda: cleargrad.save(ours, path),
            lambda: save_for_good(theirs, other),
        ),
        "read": (lambda: cleargrad.load(path), lambda: torch.load(other)),
        "read, mapped": (lambda: cleargrad.load(path, mmap=True), lambda: torch.load(other, mmap=True)),
    }
    rows = {}
    for name, (mine, yours) in cases.items():
        pairs = [(seconds(mine), seconds(yours)) for _ in range(rounds)]
        here, there = (GIGABYTES / min(times) for times in zip(*pairs, strict=True))
        rows[name] = {"cleargrad": round(here, 3), "torch": round(there, 3), "ratio": round(here / there, 3)}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rows = measure(folder, options.rounds)
    print(f"{'GB/s':<26}{'cleargrad':>10}{'torch':>10}{'ratio':>8}")
    for name, row in rows.items():
        print(f"{name:<26}{row['cleargrad']:>10}{row['torch']:>10}{row['ratio']:>8}")
    if options.json:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        report = {
            "command": " ".join(["python", *sys.argv]),
            "commit": commit,
            "machine": f"{platform.machine()} {platform.processor()} {os.cpu_count()} cores",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "unit": "GB/s",
            "rows": rows,
        }
        with open(options.json, "w") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
