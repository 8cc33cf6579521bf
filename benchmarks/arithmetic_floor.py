"""How quick a training step could be at best: its multiply-adds at the rate this machine's cores do them.

    python benchmarks/arithmetic_floor.py [--json benchmarks/results/arithmetic_floor.json] [--rounds 15]

The rate is that of PyTorch's product of two 1024 x 1024 matrices on all cores, the best of many. The multiply-adds
are those of products, convolutions and attention in the program that cleargrad compiles for the step (the products
with rows of a small table, of which it makes fewer than were written, as it makes them); everything else
(activations, normalisation, softmax, the optimizer) is left out. So the program cannot be below this floor, and
PyTorch's own time beside it says what ratio is in reach. Needs torch.
"""

from __future__ import annotations

from functools import partial
from statistics import median

import torch
from side_by_side import arguments, report, seconds, table, take_turns

import cleargrad
import cleargrad.optim
from cleargrad.bench.workloads import WORKLOADS, Setup
from cleargrad.compile.images import Native
from cleargrad.compile.statements import Product
from cleargrad.compile.watched import watching

SIZE = 1024
NAMES = ("mlp", "cnn", "lstm", "gpt", "gpt4")


def multiply_adds(entries: list) -> int:
    """Those of the products among a program's entries."""
    total = 0
    for entry in entries:
        if isinstance(entry, Product):
            shape = entry.place.shape
            total += entry.left.shape[-1] * torch.Size(shape).numel()
        elif isinstance(entry, Native):
            total += entry.work
    return total


def compiled_step(name: str) -> int:
    task = WORKLOADS[name].make(cleargrad, Setup({}))
    with watching():
        step = cleargrad.compile(task.step)
        for _ in range(3):
            step(*task.data(task.batch, 0))
    return multiply_adds(step.last.program.entries)


def torch_step(name: str):
    task = WORKLOADS[name].make(torch, Setup({"fused": True}))
    batch = task.data(task.batch, 0)
    for _ in range(3):
        task.step(*batch)
    return partial(seconds, lambda: task.step(*batch))


def main() -> None:
    options = arguments(__doc__, rounds=15).parse_args()
    a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    cases = {"product": partial(seconds, lambda: torch.mm(a, b))}
    cases |= {name: torch_step(name) for name in NAMES}
    times = take_turns(cases, options.rounds)
    rate = SIZE**3 / min(times["product"])
    rows = {}
    for name in NAMES:
        count = compiled_step(name)
        floor, theirs = count / rate, median(times[name])
        rows[name] = {
            "torch fused": round(theirs * 1e3, 2),
            "floor": round(floor * 1e3, 2),
            "ratio": round(floor / theirs, 3),
        }
    print(f"{2 * rate / 1e9:.0f} GFLOP/s on {torch.get_num_threads()} threads")
    table("ms", rows, ("torch fused", "floor", "ratio"))
    report(options.json, unit="ms", gigaflops=round(2 * rate / 1e9, 1), rows=rows)


if __name__ == "__main__":
    main()
