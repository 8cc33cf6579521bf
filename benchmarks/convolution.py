"""What convolutions, their gradients and pooling cost, here and in PyTorch, side by side in one process.

    python benchmarks/convolution.py [--json benchmarks/results/convolution.json] [--threads 1]

Layers of a network for MNIST, of ResNets and MobileNets, a sequence and a volume, through the public
functions. The two libraries take turns and the best round of each counts: the machine is shared, only ratios
mean something. With one thread, time is the thread's own, which other processes disturb least. Needs torch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from side_by_side import arguments, compare, report, table, take_turns

# samples, channels, size, results, kernel, stride, padding, groups
LAYERS = {
    "MNIST 1 to 32": (64, 1, (28, 28), 32, 3, 1, 0, 1),
    "MNIST 32 to 64": (64, 32, (26, 26), 64, 3, 1, 0, 1),
    "ResNet 56 x 56": (4, 64, (56, 56), 64, 3, 1, 1, 1),
    "ResNet 14 x 14": (4, 256, (14, 14), 256, 3, 1, 1, 1),
    "ResNet 7 x 7": (4, 512, (7, 7), 512, 3, 1, 1, 1),
    "ResNet one tap": (4, 64, (56, 56), 256, 1, 1, 0, 1),
    "ResNet stride 2": (4, 64, (56, 56), 128, 3, 2, 1, 1),
    "ResNet first": (2, 3, (224, 224), 64, 7, 2, 3, 1),
    "depthwise": (4, 96, (56, 56), 96, 3, 1, 1, 96),
    "eight groups": (8, 64, (28, 28), 64, 3, 1, 1, 8),
    "sequence": (8, 64, (256,), 64, 5, 1, 2, 1),
    "volume": (2, 16, (8, 28, 28), 32, 3, 1, 1, 1),
}
POOLS = {"MNIST 2 x 2": ((64, 64, 24, 24), 2, 2, 0), "ResNet 3 x 3": ((4, 64, 112, 112), 3, 2, 1)}


def convolution(library: Any, layer: tuple, what: str) -> Callable[[], object]:
    """A call of one convolution, or of one of its gradients."""
    samples, channels, size, results, kernel, stride, padding, groups = layer
    library.manual_seed(0)
    x = library.randn(samples, channels, *size)
    w = library.randn(results, channels // groups, *(kernel,) * len(size))
    bias = library.randn(results)
    function = partial(
        getattr(library.nn.functional, f"conv{len(size)}d"), stride=stride, padding=padding, groups=groups
    )
    if what == "forward":
        return partial(function, x, w, bias)
    wanted = {"input": x, "weight": w}[what].requires_grad_()
    out = function(x, w)
    gradient = library.randn(*out.shape)
    return partial(library.autograd.grad, out, wanted, gradient, retain_graph=True)


def pooling(
    library: Any, shape: tuple, kernel: int, stride: int, padding: int, what: str
) -> Callable[[], object]:
    library.manual_seed(0)
    x = library.randn(*shape).requires_grad_()
    function = partial(library.nn.functional.max_pool2d, x, kernel, stride, padding)
    if what == "forward":
        return function
    out = function()
    gradient = library.randn(*out.shape)
    return partial(library.autograd.grad, out, x, gradient, retain_graph=True)


def spent(action: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    action()
    return (clock() - start) * 1e3


def measure(
    actions: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    for action in actions.values():
        action()
    return compare(
        take_turns({name: partial(spent, action, clock) for name, action in actions.items()}, rounds)
    )


def main() -> None:
    parser = arguments(__doc__, rounds=10)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads :])
    import torch

    import cleargrad

    torch.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    libraries = {"torch": torch, "cleargrad": cleargrad}
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for what in ("forward", "input", "weight"):
        tables[f"convolution, {what}"] = {
            name: measure(
                {key: convolution(library, layer, what) for key, library in libraries.items()},
                options.rounds,
                clock,
            )
            for name, layer in LAYERS.items()
        }
    for what in ("forward", "gradient"):
        tables[f"largest of windows, {what}"] = {
            name: measure(
                {key: pooling(library, *pool, what) for key, library in libraries.items()},
                options.rounds,
                clock,
            )
            for name, pool in POOLS.items()
        }
    for title, rows in tables.items():
        table(title, rows)
    report(options.json, unit="milliseconds", threads=options.threads, rows=tables)


if __name__ == "__main__":
    main()
