"""What a step costs, here and in PyTorch, side by side in one process.

    python benchmarks/optimizer_step.py [--json benchmarks/results/optimizer_step.json] [--threads 1]

Each optimizer on a small network (ten parameters, 15,000 numbers), where calls cost most, and on ten million
numbers, where memory does. The two libraries take turns and the best round of each counts: the machine is
shared, only ratios mean something. PyTorch runs its default (no foreach on the CPU). Needs torch.
"""

from __future__ import annotations

import gc
import timeit
from functools import partial
from typing import Any

from side_by_side import arguments, compare, microseconds, report, table, take_turns

SMALL = [(64, 32), (64,), (64, 64), (64,), (64, 64), (64,), (64, 64), (64,), (10, 64), (10,)]
LARGE = [(2000, 2000), (2000, 2000), (1000, 2000)]
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("Adagrad", {}),
    ("RMSprop", {}),
    ("Adadelta", {}),
    ("Rprop", {}),
    ("ASGD", {}),
    ("Adafactor", {}),
]


def prepared(library: Any, name: str, kwargs: dict[str, Any], shapes: list[tuple]) -> timeit.Timer:
    """A timer of steps, after two that make the state."""
    params = [library.randn(*shape).requires_grad_() for shape in shapes]
    for parameter in params:
        parameter.grad = library.randn(*parameter.shape)
    optimizer = getattr(library.optim, name)(params, **kwargs)
    optimizer.step()
    optimizer.step()
    return timeit.Timer(optimizer.step)


def measure(libraries: dict[str, Any], shapes: list[tuple], calls: int, rounds: int) -> dict[str, dict]:
    rows = {}
    for name, kwargs in OPTIMIZERS:
        timers = {library: prepared(module, name, kwargs, shapes) for library, module in libraries.items()}
        once = {library: partial(microseconds, timer, calls) for library, timer in timers.items()}
        rows[f"{name} {', '.join(kwargs)}".strip()] = compare(take_turns(once, rounds))
        del timers, once
        gc.collect()
    return rows


def main() -> None:
    parser = arguments(__doc__, rounds=15)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; cleargrad has one")
    options = parser.parse_args()
    import torch

    import cleargrad

    torch.set_num_threads(options.threads)
    libraries = {"torch": torch, "cleargrad": cleargrad}
    tables = {
        "ten parameters of a small network": measure(libraries, SMALL, 20, options.rounds),
        "ten million numbers": measure(libraries, LARGE, 1, max(2, options.rounds // 3)),
    }
    for title, rows in tables.items():
        table(title, rows)
    report(options.json, unit="microseconds", rows=tables)


if __name__ == "__main__":
    main()
