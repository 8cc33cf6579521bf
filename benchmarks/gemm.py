"""How fast our products of matrices are, next to NumPy's (OpenBLAS) and PyTorch's (MKL), in one process.

    python benchmarks/gemm.py [--json benchmarks/results/gemm.json] [--rounds 40] [--threads 1] [--only gpt]

The shapes are those of the training steps in benchmarks/train_step.py, each with its transposes. Ours run inside
a list of kernels, as they do in a compiled step; the others are called from Python, as eager code does. All take
turns in short rounds and the best round of each counts: the machine is shared, only ratios mean something. One
thread is measured by its processor time, several by the clock, which says something only on an idle machine. What a
busy one can tell is how evenly the work is cut: "cut in 2" and "cut in 8" are the time of the whole by that of the
longest share, each share run alone. Needs torch, and threadpoolctl to hold NumPy to a number of threads.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from cleargrad.devices.cpu.kernels import gemm
from cleargrad.devices.cpu.llvm.jit import addresses
from cleargrad.devices.cpu.team import RECORD, WAIT, Team

# name: batch, m, n, k, whether left and right lie transposed in memory
SHAPES = {
    "linear 10-2, batch 1": (1, 1, 2, 10, False, True),
    "mlp 784-128 forward": (1, 64, 128, 784, False, True),
    "mlp 784-128 weight gradient": (1, 128, 784, 64, True, False),
    "mlp 128-128 forward": (1, 64, 128, 128, False, True),
    "mlp 128-128 input gradient": (1, 64, 128, 128, False, False),
    "mlp 128-10 forward": (1, 64, 10, 128, False, True),
    "mlp 128-10 weight gradient": (1, 10, 128, 64, True, False),
    "mlp 128-10 input gradient": (1, 64, 128, 10, False, False),
    "gpt qkv forward": (1, 768, 384, 128, False, True),
    "gpt qkv input gradient": (1, 768, 128, 384, False, False),
    "gpt qkv weight gradient": (1, 384, 128, 768, True, False),
    "gpt projection forward": (1, 768, 128, 128, False, True),
    "gpt mlp up forward": (1, 768, 512, 128, False, True),
    "gpt mlp up weight gradient": (1, 512, 128, 768, True, False),
    "gpt mlp down forward": (1, 768, 128, 512, False, True),
    "gpt mlp down input gradient": (1, 768, 512, 128, False, False),
    "gpt mlp down weight gradient": (1, 128, 512, 768, True, False),
    "gpt head forward": (1, 768, 65, 128, False, True),
    "gpt head input gradient": (1, 768, 128, 65, False, False),
    "gpt head weight gradient": (1, 65, 128, 768, True, False),
    "attention scores": (48, 64, 64, 32, False, True),
    "attention values": (48, 64, 32, 64, False, False),
    "attention value gradient": (48, 64, 32, 64, True, False),
    "lstm cell forward": (1, 32, 512, 128, False, True),
    "lstm cell input gradient": (1, 32, 128, 512, False, False),
    "lstm cell weight gradient": (1, 512, 128, 32, True, False),
    "lstm weight gradient, whole sequence": (1, 512, 128, 1024, True, False),
    "conv weight gradient": (1, 64, 288, 36864, True, False),
    "square 512": (1, 512, 512, 512, False, False),
    "square 1024": (1, 1024, 1024, 1024, False, False),
    "vector by matrix 512": (1, 1, 512, 512, False, True),
}


KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def operands(shape: tuple) -> tuple[np.ndarray, np.ndarray]:
    batch, m, n, k, left, right = shape
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int, transposed: bool) -> np.ndarray:
        if transposed:
            return random.standard_normal((batch, columns, rows), np.float32).swapaxes(1, 2)
        return random.standard_normal((batch, rows, columns), np.float32)

    return matrix(m, k, left), matrix(k, n, right)


class Ours:
    """A list of kernels that computes one product some times."""

    def __init__(self, team: Team, left: np.ndarray, right: np.ndarray, times: int, cut: int = 0) -> None:
        batch, m, k = left.shape
        n = right.shape[2]
        self.team, self.left, self.right, self.times = team, left, right, times
        self.result = np.empty((batch, m, n), np.float32)
        strides = [[step // 4 for step in array.strides] for array in (left, right, self.result)]
        plan = gemm.product(batch, m, n, k, "float32", *strides, threads=cut or team.threads)
        self.work = np.empty(plan.work + 64, np.uint8)
        starts = {"left": left, "right": right, "place": self.result, "work": self.work}
        self.words, rows = [], []
        for launch, code in zip(plan.launches, addresses(launch.kernel for launch in plan.launches)):
            words = [starts[x[0]].ctypes.data + x[1] if isinstance(x, tuple) else x for x in launch.arguments]
            self.words.append(np.array(words, np.int64))
            rows.append([code, self.words[-1].ctypes.data, launch.units, WAIT])
        self.records = np.array(rows * times, np.int64).reshape(-1, RECORD)

    def __call__(self) -> None:
        self.team.run(self.records.ctypes.data, len(self.records), self.team.threads)


def longest_share(ours: Ours, cut: int) -> float:
    """Seconds of processor time of the busiest of `cut` threads, without the others."""
    seconds = 0.0
    scratch = ours.team.scratch_at[0]
    for code, words, units, _ in ours.records.tolist():
        kernel = KERNEL(code)
        shares = [(units * number // cut, units * (number + 1) // cut) for number in range(cut)]
        seconds += max(best_time(lambda: kernel(words, *share, scratch)) for share in shares)  # noqa: B023
    return seconds


def best_time(function: Callable[[], None], rounds: int = 7) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        for _ in range(4):
            function()
        best = min(best, (time.thread_time() - start) / 4)
    return best


def many(function: Callable, times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            function()

    return run


def measure(shape: tuple, team: Team, rounds: int) -> dict[str, float]:
    """Billions of operations a second, for each library."""
    left, right = operands(shape)
    batch, m, n, k, *_ = shape
    work = 2 * batch * m * n * k
    times = max(1, int(2e7 / max(work, 20000)))
    ours = Ours(team, left, right, times)
    result = np.empty((batch, m, n), np.float32)
    one, two = (torch.from_numpy(x) for x in (left, right))
    three = torch.empty((batch, m, n))
    if batch == 1:
        one, two, three, left, right, result = (x[0] for x in (one, two, three, left, right, result))
        library = many(lambda: torch.mm(one, two, out=three), times)
    else:
        library = many(lambda: torch.bmm(one, two, out=three), times)
    runs = {
        "cleargrad": ours,
        "numpy": many(lambda: np.matmul(left, right, out=result), times),
        "torch": library,
    }
    best = dict.fromkeys(runs, float("inf"))
    with threadpool_limits(team.threads):
        torch.set_num_threads(team.threads)
        for run in runs.values():
            run()
        np.testing.assert_allclose(ours.result.reshape(result.shape), result, rtol=1e-3, atol=1e-2)
        clock = time.thread_time if team.threads == 1 else time.perf_counter
        for _ in range(rounds):
            for name, run in runs.items():
                start = clock()
                run()
                best[name] = min(best[name], clock() - start)
    found = {name: work * times / seconds / 1e9 for name, seconds in best.items()}
    if team.threads == 1:
        whole = longest_share(Ours(team, ours.left, ours.right, 1), 1)
        for cut in (2, 8):
            found[f"cut in {cut}"] = whole / longest_share(Ours(team, ours.left, ours.right, 1, cut), cut)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--only", default="", help="shapes whose name holds this")
    options = parser.parse_args()
    rows = []
    print(
        f"{'GFLOP/s':38s} threads {'cleargrad':>10s} {'numpy':>8s} {'torch':>8s}   to their best, cut in 2, in 8"
    )
    for threads in options.threads:
        team = Team(threads)
        for name, shape in SHAPES.items():
            if options.only not in name:
                continue
            found = measure(shape, team, options.rounds)
            ratio = found["cleargrad"] / max(found["numpy"], found["torch"])
            rows.append({"name": name, "shape": shape, "threads": threads, **found, "ratio": ratio})
            print(
                f"{name:38s} {threads:7d} {found['cleargrad']:10.2f} {found['numpy']:8.2f} "
                f"{found['torch']:8.2f} {ratio:8.2f}       "
                f"{found.get('cut in 2', 0):8.2f} {found.get('cut in 8', 0):5.2f}",
                flush=True,
            )
    if options.json:
        with open(options.json, "w") as file:
            machine = {
                "machine": platform.processor() or platform.machine(),
                "python": platform.python_version(),
                "numpy": np.__version__,
                "torch": torch.__version__,
            }
            command = " ".join(["python", *sys.argv])
            json.dump({**machine, "command": command, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
