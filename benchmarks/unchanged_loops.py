"""Training loops that nobody changed, with calls that wait: what logging and the like cost on top of a plain loop.

    python benchmarks/unchanged_loops.py [--json benchmarks/results/unchanged_loops.json] [--rounds 9] [--pytorch]

"logging" looks at `loss.item()` in every step; "everything" has a scheduler, an average of the weights (EMA) and an
evaluation every 50 steps besides. The loops take turns in one process, each with traces of its own; the ratio of
medians counts. With --pytorch another process then measures what the same additions cost PyTorch; two libraries
with threads of their own in one process would disturb each other.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import cleargrad as torch
from cleargrad.bench import machine, workloads
from cleargrad.compile.traces import Tree

STEPS = {"mlp": 200, "cnn": 10, "lstm": 20, "gpt": 10}
WAYS = ("plain", "logging", "everything")


class Loop:
    """One way to train a workload."""

    def __init__(self, name: str, way: str, torch: Any = torch) -> None:
        self.torch = torch
        self.way, self.tree, self.count = way, Tree(), 0
        self.joins = name == "gpt"  # whose batches come in parts
        found: list[Any] = []

        def keep(model: Any) -> Any:
            found.append(model)
            return model

        task = getattr(workloads, name)(torch, workloads.Setup(model=keep))
        self.step, self.model = task.step, found[0]
        self.batches = [task.data(task.batch, number) for number in range(10)]
        self.average = [p.detach().clone() for p in self.model.parameters()]
        dummy = torch.optim.SGD([torch.zeros(1)], lr=0.1)  # the workload keeps its own optimizer to itself
        self.scheduler = torch.optim.lr_scheduler.StepLR(dummy, 100)
        dummy.step()

    def run(self, steps: int) -> float:
        """Seconds of a step."""
        begin = time.perf_counter()
        waits = hasattr(self.torch, "waiting")
        with self.torch.waiting(tree=self.tree) if waits else contextlib.nullcontext():
            for _ in range(steps):
                self.count += 1
                x, y = self.batches[self.count % len(self.batches)]
                loss = self.step(x, y)
                if self.way != "plain":
                    str(loss.item())
                if self.way == "everything":
                    self.look_after(x)
        return (time.perf_counter() - begin) / steps

    def look_after(self, x: Any) -> None:
        """What comes behind a step in many scripts."""
        self.scheduler.step()
        with self.torch.no_grad():
            for kept, p in zip(self.average, self.model.parameters(), strict=True):
                kept.mul_(0.99).add_(p, alpha=0.01)
            if self.count % 50 == 0:
                self.model(x.flatten(0, -2) if self.joins else x).argmax(-1).float().mean().item()


def measured(
    name: str, rounds: int, tell: Callable[[str], Any], library: str = "cleargrad"
) -> dict[str, float]:
    loops = {way: Loop(name, way, importlib.import_module(library)) for way in WAYS}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for loop in loops.values():
        loop.run(60 if STEPS[name] > 50 else 6)
    for _ in range(rounds):
        for way, loop in loops.items():
            times[way].append(loop.run(STEPS[name]))
    row = {f"{way}, ms": round(1e3 * statistics.median(found), 3) for way, found in times.items()}
    for way in WAYS[1:]:
        row[f"{way} ratio"] = round(row[f"{way}, ms"] / row["plain, ms"], 3)
    tell(f"{name:6s} {row}")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pytorch", action="store_true")
    parser.add_argument("--alone", action="store_true", help="measure PyTorch, and print JSON")
    options = parser.parse_args()
    if options.alone:
        rows = {name: measured(name, options.rounds, lambda _: None, "torch") for name in STEPS}
        print(json.dumps(rows))
        return
    rows: dict[str, Any] = {name: measured(name, options.rounds, print) for name in STEPS}
    if options.pytorch:
        command = [sys.executable, __file__, "--alone", "--rounds", str(options.rounds)]
        for name, row in json.loads(subprocess.check_output(command)).items():
            print(f"PyTorch {name:6s} {row}")
            rows[name]["PyTorch"] = row
    if options.json:
        facts = machine.circumstances(" ".join(["python", *sys.argv]))
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**facts, "rows": rows}, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
