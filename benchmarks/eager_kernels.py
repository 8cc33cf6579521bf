"""Eager calls at training sizes, here and in PyTorch, side by side in one process.

    python benchmarks/eager_kernels.py [--json benchmarks/results/eager_kernels.json] [--threads 1] [--only gelu]

The two libraries take turns and the best round of each counts. With one thread the processor's time is measured,
which other programs on the machine disturb least; with more, the clock. "NumPy" is cleargrad with compiled kernels
turned off. Needs torch.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, dtype=np.float32)


def whole(high: int, *shape: int) -> np.ndarray:
    return RANDOM.integers(0, high, shape)


HEADS = (12, 4, 64, 32)
# Name: a function of the library that gives the function to measure, and its operands.
CALLS: dict[str, tuple[Callable[[Any], Callable], list[np.ndarray]]] = {
    "softmax 1024x512": (lambda t: lambda x: t.softmax(x, -1), [normal(1024, 512)]),
    "log_softmax 1024x512": (lambda t: lambda x: t.log_softmax(x, -1), [normal(1024, 512)]),
    "logsumexp 1024x512": (lambda t: lambda x: t.logsumexp(x, -1), [normal(1024, 512)]),
    "cross_entropy 768x65": (
        lambda t: t.nn.functional.cross_entropy,
        [normal(768, 65), whole(65, 768)],
    ),
    "cross_entropy 1024x1000": (
        lambda t: t.nn.functional.cross_entropy,
        [normal(1024, 1000), whole(1000, 1024)],
    ),
    "layer_norm 768x128": (
        lambda t: lambda x, w, b: t.nn.functional.layer_norm(x, (128,), w, b),
        [normal(768, 128), normal(128), normal(128)],
    ),
    "layer_norm 1024x512": (
        lambda t: lambda x, w, b: t.nn.functional.layer_norm(x, (512,), w, b),
        [normal(1024, 512), normal(512), normal(512)],
    ),
    "batch_norm 32x64x28x28": (
        lambda t: lambda x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, True),
        [normal(32, 64, 28, 28), normal(64), normal(64)],
    ),
    "group_norm 32x64x28x28": (
        lambda t: lambda x, w, b: t.nn.functional.group_norm(x, 8, w, b),
        [normal(32, 64, 28, 28), normal(64), normal(64)],
    ),
    "gelu 768x512": (lambda t: t.nn.functional.gelu, [normal(768, 512)]),
    "silu 768x512": (lambda t: t.nn.functional.silu, [normal(768, 512)]),
    "tanh 768x512": (lambda t: t.tanh, [normal(768, 512)]),
    "sigmoid 768x512": (lambda t: t.sigmoid, [normal(768, 512)]),
    "relu 768x512": (lambda t: t.relu, [normal(768, 512)]),
    "exp 768x512": (lambda t: t.exp, [normal(768, 512)]),
    "leaky_relu 768x512": (lambda t: t.nn.functional.leaky_relu, [normal(768, 512)]),
    "dropout 768x512": (lambda t: lambda x: t.nn.functional.dropout(x, 0.1), [normal(768, 512)]),
    "bce_with_logits 768x512": (
        lambda t: t.nn.functional.binary_cross_entropy_with_logits,
        [normal(768, 512), RANDOM.random((768, 512), dtype=np.float32)],
    ),
    "attention 12x4x64x32": (
        lambda t: lambda q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        [normal(*HEADS), normal(*HEADS), normal(*HEADS)],
    ),
    "embedding 32x64 of 1000x128": (
        lambda t: t.nn.functional.embedding,
        [whole(1000, 32, 64), normal(1000, 128)],
    ),
    "LSTM layer 128, 32x32": (
        lambda t: lstm(t),
        [normal(32, 32, 128)],
    ),
}


def lstm(library: Any) -> Callable:
    layer = library.nn.LSTM(128, 128)
    return lambda x: layer(x)[0]


def forward(library: Any, make: Callable, arrays: list[np.ndarray]) -> Callable:
    function = make(library)
    tensors = [library.tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]
    return lambda: function(*tensors)


def backward(library: Any, make: Callable, arrays: list[np.ndarray]) -> Callable:
    """The backward pass alone: the forward pass before each is not measured."""
    run = forward(library, make, arrays)
    state: list[Any] = []

    def step() -> None:
        out, gradient = state.pop()
        out.backward(gradient)

    def before() -> None:
        out = run()
        state[:] = [(out, library.ones_like(out))]

    step.before = before  # type: ignore[attr-defined]
    return step


def optimizer(library: Any, name: str, fused: bool) -> Callable:
    parameters = [library.tensor(normal(100_000), requires_grad=True) for _ in range(100)]
    for p in parameters:
        p.grad = library.tensor(normal(100_000))
    options: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
    return getattr(library.optim, name)(parameters, fused=fused, **options).step


def clipping(library: Any) -> Callable:
    parameters = [library.tensor(normal(100_000), requires_grad=True) for _ in range(100)]
    for p in parameters:
        p.grad = library.tensor(normal(100_000))
    return lambda: library.nn.utils.clip_grad_norm_(parameters, 1.0)


def best(functions: dict[str, Callable], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    found = dict.fromkeys(functions, math.inf)
    for number in range(rounds + 2):
        for name, function in functions.items():
            before = getattr(function, "before", None)
            if before is not None:
                before()
            start = clock()
            function()
            if number >= 2:
                found[name] = min(found[name], (clock() - start) * 1e6)
    return found


def rows(torch: Any, cleargrad: Any, only: str, rounds: int, clock: Callable) -> dict[str, dict[str, float]]:
    from cleargrad.devices.cpu.native import without_kernels

    tasks: dict[str, Callable[[Any], Callable]] = {}
    for name, (make, arrays) in CALLS.items():
        tasks[name] = lambda library, make=make, arrays=arrays: forward(library, make, arrays)
        tasks[f"{name} backward"] = lambda library, make=make, arrays=arrays: backward(library, make, arrays)
    for name in ("Adam", "AdamW", "SGD"):
        tasks[f"{name} 100x100000"] = lambda library, name=name: optimizer(library, name, library is torch)
    tasks["clip_grad_norm_ 100x100000"] = clipping
    found = {}
    for name, task in tasks.items():
        if only in name:
            functions = {"torch": task(torch), "cleargrad": task(cleargrad)}
            row = best(functions, rounds, clock)
            with without_kernels():
                row["numpy"] = best({"numpy": functions["cleargrad"]}, max(3, rounds // 4), clock)["numpy"]
            found[name] = {**row, "ratio": row["cleargrad"] / row["torch"]}
            gc.collect()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="the calls whose name holds this")
    options = parser.parse_args()
    import torch

    import cleargrad

    torch.set_num_threads(options.threads)
    cleargrad.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    found = rows(torch, cleargrad, options.only, options.rounds, clock)
    print(f"{'microseconds':42s} {'PyTorch':>9s} {'cleargrad':>9s} {'NumPy':>9s} {'ratio':>6s}")
    for name, row in found.items():
        figures = f"{row['torch']:9.0f} {row['cleargrad']:9.0f} {row['numpy']:9.0f} {row['ratio']:6.2f}"
        print(f"{name:42s} {figures}")
    mean = math.exp(sum(math.log(row["ratio"]) for row in found.values()) / len(found))
    print(f"{'geometric mean of the ratios':42s} {'':29s} {mean:6.2f}")
    if options.json:
        facts = {
            "machine": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "threads": options.threads,
            "measured": "processor time" if options.threads == 1 else "clock",
            "mean ratio": mean,
        }
        with open(options.json, "w") as file:
            json.dump({**facts, "microseconds": found}, file, indent=1)


if __name__ == "__main__":
    main()
