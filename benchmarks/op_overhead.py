"""What one small op costs, here and in PyTorch, measured side by side in one process.

    python benchmarks/op_overhead.py [--json benchmarks/results/op_overhead.json] [--rounds 40] [--looked]

8x8 float32 tensors with gradients recorded, the backward of a 50-op chain, and the time of the import. A second
table has calls whose result is looked at (`tolist()`) before the next one: here at their line ("cleargrad"), and
as calls that wait. The libraries take turns in short rounds and the best round of each counts: the machine is
shared, only ratios mean something. Needs torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import timeit
from functools import partial

import numpy as np
from side_by_side import arguments, compare, microseconds, report, table, take_turns

OPS = {
    "add": "x + y",
    "mul": "x * y",
    "relu": "torch.relu(x)",
    "matmul": "x @ y",
    "sum": "x.sum()",
    "getitem (number)": "x[0]",
    "getitem (slice)": "x[1:3]",
    "reshape": "x.reshape(4, 16)",
}
LOOKED = {
    "add": "x + y",
    "sub": "x - y",
    "mul": "x * y",
    "div": "x / p",
    "mul (number)": "x * 2.5",
    "pow": "x ** 2",
    "neg": "-x",
    "abs": "x.abs()",
    "exp": "x.exp()",
    "log": "p.log()",
    "sqrt": "p.sqrt()",
    "tanh": "torch.tanh(x)",
    "sigmoid": "torch.sigmoid(x)",
    "relu": "torch.relu(x)",
    "gelu": "F.gelu(x)",
    "clamp": "x.clamp(-1, 1)",
    "where": "torch.where(mask, x, y)",
    "maximum": "torch.maximum(x, y)",
    "gt": "x > y",
    "sum": "x.sum()",
    "sum (dim)": "x.sum(1)",
    "mean": "x.mean()",
    "max": "x.max()",
    "argmax": "x.argmax(1)",
    "softmax": "torch.softmax(x, 1)",
    "matmul": "x @ y",
    "linear": "F.linear(x, y, b)",
    "layer_norm": "F.layer_norm(x, (8,), b, b)",
    "cross_entropy": "F.cross_entropy(x, classes)",
    "mse_loss": "F.mse_loss(x, y)",
    "cat": "torch.cat([x, y])",
    "stack": "torch.stack([x, y])",
    "t().contiguous()": "x.t().contiguous()",
    "reshape": "x.reshape(4, 16)",
    "getitem (number)": "x[0]",
    "getitem (tensor)": "x[classes]",
    "clone": "x.clone()",
}
CHAINS = {
    "backward of 50 mul": "products.backward(retain_graph=True)",
    "backward of 25 relu(z + y)": "rectified.backward(retain_graph=True)",
}


def leaves(torch) -> dict:
    """The operands, made in one library."""
    generator = np.random.default_rng(0)
    x, y = (torch.tensor(generator.standard_normal((8, 8), np.float32), requires_grad=True) for _ in range(2))
    p = torch.tensor(generator.uniform(0.5, 1.5, (8, 8)).astype(np.float32), requires_grad=True)
    b = torch.tensor(generator.standard_normal(8, np.float32), requires_grad=True)
    mask, classes = x.detach() > 0, torch.tensor([3, 1, 4, 1, 5, 2, 6, 0])
    names = {"x": x, "y": y, "p": p, "b": b, "mask": mask, "classes": classes}
    return {"torch": torch, "F": torch.nn.functional, **names}


def chains(torch) -> dict:
    """Two graphs of 50 ops."""
    names = leaves(torch)
    products, rectified, y = names["x"], names["x"], names["y"]
    for _ in range(50):
        products = products * y
    for _ in range(25):
        rectified = torch.relu(rectified + y)
    return {**names, "products": products.sum(), "rectified": rectified.sum()}


def measure(cases: dict[str, str], scopes: dict[str, dict], calls: int, rounds: int) -> dict[str, dict]:
    """The best round of each library, in microseconds, and the ratio of the two."""
    rows = {}
    for name, code in cases.items():
        timers = {library: timeit.Timer(code, globals=names) for library, names in scopes.items()}
        once = {library: partial(microseconds, timer, calls) for library, timer in timers.items()}
        rows[name] = compare(take_turns(once, rounds))
    return rows


def measure_looked(libraries: dict, rounds: int) -> dict[str, dict]:
    """The same for calls whose results are looked at, here also by calls that wait."""
    calls, rows = 500, {}
    scopes = {name: leaves(library) for name, library in libraries.items()}
    for name, code in LOOKED.items():
        timers = {
            library: timeit.Timer(f"({code}).tolist()", globals=names) for library, names in scopes.items()
        }

        def at_once(timer: timeit.Timer = timers["cleargrad"]) -> float:
            with libraries["cleargrad"].eager():
                return microseconds(timer, calls)

        once = {
            "torch": partial(microseconds, timers["torch"], calls),
            "cleargrad": at_once,
            "waiting": partial(microseconds, timers["cleargrad"], calls),
        }
        with libraries["cleargrad"].waiting():
            found = take_turns(once, rounds)
        both = {side: compare(found, sides=("torch", side)) for side in ("cleargrad", "waiting")}
        rows[name] = {
            **both["cleargrad"], "waiting": both["waiting"]["waiting"], "waiting ratio": both["waiting"]["ratio"],
        }  # fmt: skip
    return rows


def import_seconds(module: str) -> float:
    """In a fresh process; bytecode may be cached, as it is for an installed package."""
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return float(subprocess.check_output([sys.executable, "-c", code], env=environment))


def main() -> None:
    parser = arguments(__doc__, rounds=40)
    parser.add_argument("--looked", action="store_true", help="nothing but the second table")
    options = parser.parse_args()
    import torch

    import cleargrad

    libraries = {"torch": torch, "cleargrad": cleargrad}
    looked = measure_looked(libraries, options.rounds)
    table("microseconds, looked at", looked, ("torch", "cleargrad", "ratio", "waiting", "waiting ratio"))
    if options.looked:
        report(options.json, unit="microseconds", looked=looked)
        return
    rows = measure(OPS, {name: leaves(library) for name, library in libraries.items()}, 2000, options.rounds)
    rows |= measure(
        CHAINS, {name: chains(library) for name, library in libraries.items()}, 100, options.rounds
    )
    imports = {library: partial(import_seconds, library) for library in libraries}
    rows["import (seconds)"] = compare(take_turns(imports, 5))
    table("microseconds", rows)
    report(options.json, unit="microseconds", rows=rows, looked=looked)


if __name__ == "__main__":
    main()
