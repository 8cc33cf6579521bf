"""How many items a second a DataLoader gives, here and in PyTorch, with 0 and with 2 worker processes.

    python benchmarks/dataloader.py [--json benchmarks/results/dataloader.json] [--rounds 12]

Four datasets: rows of tensors; small images that are augmented with NumPy; large images that are only handed
on, so that the way between processes is all the work; and tokens with a name. The same code runs under both
libraries, which take turns epoch by epoch, and the best epoch of each counts: the machine is shared, only
ratios mean something. Workers stay alive between epochs; `start` is the time until a fresh loader gives its
first batch.
Needs torch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LIBRARIES = ("torch", "cleargrad")


class Images:
    """Small images: a random crop, sometimes mirrored, scaled to floats."""

    def __init__(self, torch: Any, count: int) -> None:
        self.torch = torch
        self.pixels = np.random.default_rng(0).integers(0, 256, (count, 3, 40, 40), np.uint8)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple:
        top, left = np.random.randint(0, 8, 2)
        image = self.pixels[index, :, top : top + 32, left : left + 32]
        if np.random.rand() < 0.5:
            image = image[:, :, ::-1]
        return self.torch.from_numpy((image - np.float32(127)) / np.float32(64)), index % 10


class LargeImages:
    """Images of 600 KB that are ready to use."""

    def __init__(self, torch: Any, count: int) -> None:
        self.images = [torch.ones(3, 224, 224) for _ in range(16)]
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple:
        return self.images[index % 16], index


class Tokens:
    """Dicts with tokens, a weight and a name."""

    def __init__(self, torch: Any, count: int) -> None:
        self.torch = torch
        self.tokens = np.random.default_rng(0).integers(0, 50257, (count, 128))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict:
        return {"tokens": self.torch.from_numpy(self.tokens[index]), "weight": 0.5, "name": f"line {index}"}


def rows(torch: Any, count: int) -> Any:
    return torch.utils.data.TensorDataset(torch.ones(count, 784), torch.arange(count))


# The dataset, how many samples it has, and how many of them make a batch.
CASES: dict[str, tuple[Callable, int, int]] = {
    "rows of tensors": (rows, 8192, 64),
    "small images": (Images, 2048, 64),
    "large images": (LargeImages, 512, 32),
    "tokens": (Tokens, 4096, 64),
}


def make_loader(torch: Any, case: str, workers: int) -> Any:
    make, count, batch_size = CASES[case]
    return torch.utils.data.DataLoader(
        make(torch, count),
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def measure(case: str, workers: int, rounds: int) -> dict[str, float]:
    """Items per second in the best epoch, and the seconds to the first batch of a fresh loader."""
    best, start = dict.fromkeys(LIBRARIES, 0.0), dict.fromkeys(LIBRARIES, float("inf"))
    for _ in range(3):
        loaders = {library: make_loader(sys.modules[library], case, workers) for library in LIBRARIES}
        for library, loader in loaders.items():
            begin = time.perf_counter()
            next(iter(loader))
            start[library] = min(start[library], time.perf_counter() - begin)
    for _ in range(rounds):
        for library, loader in loaders.items():
            begin = time.perf_counter()
            for _ in loader:
                pass
            best[library] = max(best[library], CASES[case][1] / (time.perf_counter() - begin))
    return {
        **{f"{library} items/s": round(rate) for library, rate in best.items()},
        "ratio": round(best["cleargrad"] / best["torch"], 2),
        **{f"{library} start s": round(seconds, 4) for library, seconds in start.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="write the results here as well")
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    for library in LIBRARIES:
        importlib.import_module(f"{library}.utils.data")
    sys.modules["torch"].set_num_threads(1)
    results: dict[str, Any] = {}
    for case in CASES:
        for workers in (0, 2):
            row = results[f"{case}, {workers} workers"] = measure(case, workers, arguments.rounds)
            print(f"{case}, {workers} workers:", row, flush=True)
    if arguments.json:
        report = {
            "command": " ".join(["python", *sys.argv]),
            "commit": subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "torch": sys.modules["torch"].__version__,
            "results": results,
        }
        with open(arguments.json, "w") as file:
            json.dump(report, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
