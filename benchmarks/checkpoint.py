"""How fast checkpoints are written and read, here and in PyTorch, measured side by side in one process.

    python benchmarks/checkpoint.py [--json benchmarks/results/checkpoint.json] [--rounds 21] [--folder DIR]

A dict of 32 float32 tensors, 256 MB in all. The libraries take turns; the best round of each counts. Our file is
synchronised to the disk before it replaces the old one and PyTorch's is not: the second row gives PyTorch's
file the same guarantee. We verify what we read, with two threads, and PyTorch does not: where other processes keep
the cores busy, `read` measures those as well. Needs torch.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial

import numpy as np
import torch
from side_by_side import arguments, compare, report, seconds, table, take_turns

import cleargrad

TENSORS, ELEMENTS = 32, 2 * 1024 * 1024
GIGABYTES = TENSORS * ELEMENTS * 4 / 1e9


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
        "read PyTorch's file": (lambda: cleargrad.load(other), lambda: torch.load(other)),
        "read, mapped": (lambda: cleargrad.load(path, mmap=True), lambda: torch.load(other, mmap=True)),
    }
    rows = {}
    for name, (mine, yours) in cases.items():
        times = take_turns({"cleargrad": partial(seconds, mine), "torch": partial(seconds, yours)}, rounds)
        rates = {library: [GIGABYTES / value for value in values] for library, values in times.items()}
        rows[name] = compare(rates, "most")
    return rows


def main() -> None:
    parser = arguments(__doc__, rounds=21)
    parser.add_argument("--folder", help="where the files are written; a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rows = measure(folder, options.rounds)
    table("GB/s", rows)
    report(options.json, unit="GB/s", rows=rows)


if __name__ == "__main__":
    main()
