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

import importlib
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from side_by_side import LIBRARIES, arguments, compare, report, table, take_turns


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


def to_first_batch(case: str, workers: int, library: str) -> float:
    loader = make_loader(sys.modules[library], case, workers)
    begin = time.perf_counter()
    next(iter(loader))
    return time.perf_counter() - begin


def items_per_second(loader: Any) -> float:
    begin = time.perf_counter()
    for _ in loader:
        pass
    return len(loader.dataset) / (time.perf_counter() - begin)


def measure(case: str, workers: int, rounds: int) -> dict[str, float]:
    """Items per second in the best epoch, and the seconds to the first batch of a fresh loader."""
    start = take_turns({name: partial(to_first_batch, case, workers, name) for name in LIBRARIES}, 3)
    loaders = {library: make_loader(sys.modules[library], case, workers) for library in LIBRARIES}
    rates = take_turns({name: partial(items_per_second, loader) for name, loader in loaders.items()}, rounds)
    starts = {f"{library} start s": round(min(values), 4) for library, values in start.items()}
    return {**compare(rates, "most", digits=0), **starts}


def main() -> None:
    options = arguments(__doc__, rounds=12).parse_args()
    for library in LIBRARIES:
        importlib.import_module(f"{library}.utils.data")
    sys.modules["torch"].set_num_threads(1)
    rows = {}
    for case in CASES:
        for workers in (0, 2):
            rows[f"{case}, {workers} workers"] = measure(case, workers, options.rounds)
    table("items/s", rows)
    report(options.json, unit="items/s", rows=rows)


if __name__ == "__main__":
    main()
