"""How quick a training step could be at best: its multiply-adds at the rate this machine's cores do them.

    python benchmarks/arithmetic_floor.py [--json benchmarks/results/arithmetic_floor.json] [--rounds 15]

There are two rates. "product" is that of 1024 x 1024 matrices on all cores, PyTorch's or cleargrad's, whichever
is higher; "peak" is that of a loop that does nothing but multiply and add registers. The multiply-adds are those of
products, convolutions and attention in the program that cleargrad compiles for the step (the products with rows of
a small table, of which it makes fewer than were written, as it makes them); everything else (activations,
normalisation, softmax, the optimizer) is left out. So no program of these products can be below "at peak", and one
whose products are as quick as large ones not below "at product"; PyTorch's own time beside it says what ratio is in
reach. Steps are measured in turns, each right behind one that is not counted. Needs torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch
from side_by_side import arguments, report, seconds, table, take_turns

import cleargrad
import cleargrad.optim
from cleargrad.bench.workloads import WORKLOADS, Setup
from cleargrad.compile.watched import watching
from cleargrad.devices.cpu.kernels.packing import PARAMETERS
from cleargrad.devices.cpu.llvm.jit import Kernel, addresses, lanes
from cleargrad.devices.cpu.llvm.text import Code, vector
from cleargrad.devices.cpu.programs.images import Native
from cleargrad.devices.cpu.team import team
from cleargrad.schedule.statements import Product

SIZE = 1024
CHAINS = 12  # multiply-adds that do not wait for each other
TURNS = 2_000_000
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


def warm_step(step: Callable, batch: tuple) -> Callable[[], float]:
    """A step that is measured behind one that is not: what others have left in the caches is gone."""
    for _ in range(4):
        step(*batch)

    def measured() -> float:
        step(*batch)
        return seconds(lambda: step(*batch))

    return measured


def torch_step(name: str) -> Callable[[], float]:
    task = WORKLOADS[name].make(torch, Setup({"fused": True}))
    return warm_step(task.step, task.data(task.batch, 0))


def our_step(name: str) -> Callable[[], float]:
    task = WORKLOADS[name].make(cleargrad, Setup({}))
    return warm_step(cleargrad.compile(task.step), task.data(task.batch, 0))


def registers_only() -> Callable[[], float]:
    """A loop of multiply-adds of registers on all threads."""
    code = Code()
    kind = vector("float", lanes())
    totals = [code.slot(kind, code.const(0, kind)) for _ in range(CHAINS)]
    numbers_at, _, _, scratch = PARAMETERS
    start = code.load(numbers_at, kind)
    with code.loop(code.integer(0), code.integer(TURNS)):
        for total in totals:
            code.set(total, code.fma(start, start, code.get(total, kind)))
    for number, total in enumerate(totals):
        code.store(code.get(total, kind), code.at(scratch, code.integer(number * lanes()), "float"))
    code.do("ret void")
    (address,) = addresses([Kernel(code.function("kernel", PARAMETERS), tuple(code.declared))])
    numbers = np.ones(lanes(), np.float32)
    record = np.array([[address, numbers.ctypes.data, team().threads, 0]], np.int64)
    return lambda: seconds(lambda: (numbers, team().run(record.ctypes.data, 1, 2)))


def main() -> None:
    options = arguments(__doc__, rounds=15).parse_args()
    a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    x, y = cleargrad.tensor(a.numpy()), cleargrad.tensor(b.numpy())
    cases = {
        "product": partial(seconds, lambda: torch.mm(a, b)),
        "our product": partial(seconds, lambda: x @ y),
        "registers": registers_only(),
    }
    for name in NAMES:
        cases |= {f"{name}, torch": torch_step(name), f"{name}, ours": our_step(name)}
    times = take_turns(cases, options.rounds)
    product = SIZE**3 / min(*times["product"], *times["our product"])
    peak = TURNS * CHAINS * lanes() * team().threads / min(times["registers"])
    rows = {}
    for name in NAMES:
        count = compiled_step(name)
        theirs, ours = (median(times[f"{name}, {who}"]) for who in ("torch", "ours"))
        rows[name] = {
            "torch fused": round(theirs * 1e3, 2),
            "cleargrad": round(ours * 1e3, 2),
            "at product": round(count / product * 1e3, 2),
            "at peak": round(count / peak * 1e3, 2),
            "ratio": round(ours / theirs, 3),
            "by product": round(count / product / theirs, 3),
            "by peak": round(count / peak / theirs, 3),
        }
    rates = {"product": round(2 * product / 1e9, 1), "peak": round(2 * peak / 1e9, 1)}
    print(f"GFLOP/s on {team().threads} threads: {rates}")
    table("ms", rows, tuple(rows[NAMES[0]]))
    report(options.json, unit="ms", gigaflops=rates, rows=rows)


if __name__ == "__main__":
    main()
