"""Whether a long training holds more and more memory while calls wait.

    python benchmarks/long_run.py [--steps 100000] [--sizes 60] [--eager] [--json benchmarks/results/long_run.json]

A small network is trained on batches of changing sizes, with a log every hundredth step, an evaluation every
thousandth and gradients that are looked at now and then. The process's memory is read at twenty points; what was
gained between the second tenth of the run and its end is growth, and so are steps and programs of traces.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from typing import Any

from side_by_side import report, resident

POINTS = 20


def train(steps: int, sizes: int, wait: bool) -> list[dict[str, Any]]:
    """What the process held at some points of a run."""
    import cleargrad as torch
    from cleargrad import nn
    from cleargrad.core.mode import mode

    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    if wait:
        torch.waiting()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, steps // 10, 0.7)
    held, logged, norms = [], 0.0, 0.0
    start = time.perf_counter()
    for step in range(1, steps + 1):
        size = 8 if step % 7 else random.randint(1, sizes)
        x = torch.randn(size, 8)
        loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        if step % 50 == 0:
            norms += nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        scheduler.step()
        if step % 100 == 0:
            logged += loss.item()
        if step % 1000 == 0:
            model.eval()
            with torch.no_grad():
                x = torch.randn(64, 8)
                logged += (model(x).argmax(1) == (x.sum(1) > 0)).float().mean().item()
            model.train()
        if step % max(1, steps // POINTS) == 0:
            gc.collect()
            tree: Any = None if mode.waiter is None else mode.waiter.tree
            held.append(
                {
                    "step": step,
                    "MB": round(resident(), 1),
                    "objects": len(gc.get_objects()),
                    "steps of traces": 0 if tree is None else tree.size,
                    "programs": 0 if tree is None else len(tree.endings),
                    "s": round(time.perf_counter() - start, 1),
                }
            )
    assert logged == logged and norms == norms
    return held


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="write the figures here as well")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--sizes", type=int, default=60, help="batches of how many sizes come up")
    parser.add_argument("--eager", action="store_true", help="calls do not wait")
    options = parser.parse_args()
    held = train(options.steps, options.sizes, not options.eager)
    for point in held:
        print("   ".join(f"{name} {value}" for name, value in point.items()))
    settled = held[len(held) // 10 * 2]
    growth = {name: round(held[-1][name] - settled[name], 1) for name in settled if name not in ("step", "s")}
    print("since step", settled["step"], growth)
    report(
        options.json,
        unit="MB of the process, and how many of each",
        steps=options.steps,
        growth=growth,
        held=held,
    )


if __name__ == "__main__":
    main()
