"""Everything that matters on a GPU in one run, with one table at the end: python tools/gpu_check.py [part ...]

Agreement of every op with the CPU, forward and backward; training of small networks; what steps cost beside
PyTorch's, where torch is installed.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cleargrad as cg  # noqa: E402


def agreement(rows: list, limit: float) -> None:
    """Every sample of every op, with its gradients, on the GPU and on the CPU."""
    from cleargrad.core import philox
    from cleargrad.core.device import drivers
    from tests.devices.test_every_op import calls, results
    from tests.ops.cases import cases

    begun, good, bad = time.time(), 0, []
    for case in cases():
        if time.time() - begun > limit:
            break
        try:
            for args, kwargs, state, expected in calls(case, "C", "cuda"):
                after = cg.get_rng_state()
                cg.set_rng_state(state)
                before = philox.states()
                found = results(case, args, kwargs)
                cg.set_rng_state(after)
                drawn = {name: x.tolist() for name, x in philox.states().items()} != {
                    name: x.tolist() for name, x in before.items()
                }
                for ours, cpu in zip(found, expected, strict=True):
                    if drawn:  # other numbers than those of the CPU
                        assert (ours.shape, ours.dtype) == (cpu.shape, cpu.dtype)
                        continue
                    x, y = (
                        each.detach().cpu().float() if each.dtype == cg.bfloat16 else each.detach().cpu()
                        for each in (ours, cpu)
                    )
                    np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-4, atol=2e-5)
            good += 1
        except Exception as failure:
            bad.append(case.name)
            print(
                "differs:",
                case.name,
                type(failure).__name__,
                str(failure)[:300].replace("\n", " | "),
                flush=True,
            )
    driver = drivers["cuda"]
    rows.append(("ops that agree", good))
    rows.append(("ops that differ", " ".join(bad)))
    rows.append(("calls on the host, by op", dict(driver.on_host.most_common(400))))
    rows.append(("seconds", round(time.time() - begun, 1)))


DRAWS = {
    "rand": lambda m, n: m.rand(n, device="cuda"),
    "rand float64": lambda m, n: m.rand(n, device="cuda", dtype=m.float64),
    "rand bfloat16": lambda m, n: m.rand(n, device="cuda", dtype=m.bfloat16),
    "uniform_": lambda m, n: m.empty(n, device="cuda").uniform_(-2.5, 0.7),
    "randn": lambda m, n: m.randn(n, device="cuda"),
    "randn float64": lambda m, n: m.randn(n, device="cuda", dtype=m.float64),
    "randn float16": lambda m, n: m.randn(n, device="cuda", dtype=m.float16),
    "randn complex64": lambda m, n: m.randn(n, device="cuda", dtype=m.complex64),
    "normal_": lambda m, n: m.empty(n, device="cuda").normal_(1.5, 0.3),
    "randint": lambda m, n: m.randint(-7, 1000, (n,), device="cuda"),
    "randint of a large range": lambda m, n: m.randint(0, 2**40, (n,), device="cuda"),
    "random_": lambda m, n: m.empty(n, device="cuda", dtype=m.int32).random_(),
    "randperm": lambda m, n: m.randperm(n, device="cuda"),
    "bernoulli_": lambda m, n: m.empty(n, device="cuda").bernoulli_(0.3),
    "bernoulli": lambda m, n: m.bernoulli(m.linspace(0, 1, n, device="cuda")),
    "dropout": lambda m, n: m.nn.functional.dropout(m.ones(n, device="cuda"), 0.3),
    "dropout bfloat16": lambda m, n: m.nn.functional.dropout(m.ones(n, device="cuda", dtype=m.bfloat16), 0.3),
    "dropout2d": lambda m, n: m.nn.functional.dropout2d(m.ones(n, 3, 2, 2, device="cuda"), 0.3),
    "exponential_": lambda m, n: m.empty(n, device="cuda").exponential_(1.5),
    "log_normal_": lambda m, n: m.empty(n, device="cuda").log_normal_(),
    "geometric_": lambda m, n: m.empty(n, device="cuda").geometric_(0.2),
    "cauchy_": lambda m, n: m.empty(n, device="cuda").cauchy_(),
    "multinomial": lambda m, n: m.ones(5, n, device="cuda").multinomial(2),
}


def random(rows: list) -> None:
    """Whether random numbers are PyTorch's, and the generator's offset behind them."""
    import torch

    for name, draw in DRAWS.items():
        found = []
        for n in (1, 7, 1000, 4098, 100_001, 3_000_000):
            cg.manual_seed(1234)
            torch.manual_seed(1234)
            for call in range(2):
                ours, theirs = draw(cg, n).cpu(), draw(torch, n).cpu()
                if ours.dtype == cg.bfloat16:
                    ours, theirs = ours.float(), theirs.float()
                x, y = ours.numpy(), theirs.numpy()
                same = np.array_equal(x, y)
                apart = "" if same else f" differs in {(x != y).mean():.2%}, by {np.abs(x - y).max():.3g}"
                state = cg.cuda.get_rng_state().tolist() == torch.cuda.get_rng_state().tolist()
                if not same or not state:
                    found.append(f"n={n} call {call}{apart}{'' if state else ' offsets differ'}")
        rows.append((f"random: {name}", "; ".join(found) or "the same bits"))


def timed(step: Any, synchronize: Any, steps: int = 30) -> float:
    for _ in range(5):
        step()
    synchronize()
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        for _ in range(steps):
            step()
        synchronize()
        times.append((time.perf_counter() - begun) / steps)
    return min(times) * 1e6


def workloads(rows: list, names: tuple[str, ...] = ("linear", "mlp", "cnn", "gpt", "lstm", "adam")) -> None:
    """The steps of `cleargrad bench` on the GPU: unchanged loops here and in PyTorch, the same numbers in both."""
    from cleargrad.bench.workloads import WORKLOADS, Setup

    for name in names:
        found: dict[str, tuple] = {}
        for title, library, options in variants():
            try:
                found[title] = trained(library, WORKLOADS[name].make, Setup(optimizer=options), title)
            except Exception as failure:
                traceback.print_exc()
                found[title] = (None, f"{type(failure).__name__}: {str(failure)[:80]}")
            print(name, title, found[title], flush=True)
        times = {title: time for title, (time, *_) in found.items() if time is not None}
        best = min((time for title, time in times.items() if title.startswith("torch")), default=None)
        ratio = "" if best is None or "waiting" not in times else f"{times['waiting'] / best:.3f}"
        rows.append((f"{name}: waiting / best torch", ratio))
        rows.append((f"{name}: microseconds", {title: round(time, 1) for title, time in times.items()}))
        rows.append((f"{name}: values", {title: rest[:1] for title, (_, *rest) in found.items()}))


def variants() -> list[tuple[str, Any, dict]]:
    found: list[tuple[str, Any, dict]] = [("waiting", cg, {}), ("eager", cg, {})]
    try:
        import torch
    except ImportError:
        return found
    return [*found, ("torch", torch, {}), ("torch fused", torch, {"fused": True})]


def trained(library: Any, make: Any, setup: Any, title: str) -> tuple:
    """Microseconds of a step; what training has got to; microseconds until the step has been asked for."""
    from cleargrad.compile import beside
    from cleargrad.compile.script import waiting

    library.set_default_device("cuda")
    try:
        if "fused" in title and make.__name__ in ("linear", "cnn"):
            setup.optimizer = {"fused": True}
        task = make(library, setup)
        batches = [task.data(task.batch, number) for number in range(8)]
        switch = waiting() if title == "waiting" else None
        synchronize = library.cuda.synchronize
        loss, times, asked = None, [], []
        for turn in range(6):
            count = 6 if turn < 2 else 40
            synchronize()
            begun = time.perf_counter()
            for number in range(count):
                loss = task.step(*batches[number % len(batches)])
            asked.append((time.perf_counter() - begun) / count)
            synchronize()
            times.append((time.perf_counter() - begun) / count)
            beside.wait()
        value = task.value(loss)
        more: list[Any] = []
        if switch is not None:
            programs = [each.program for each in switch.waiter.tree.endings if each.program is not None]
            more = [[len(p.steps), p.size >> 20, p.graph is not None, p.hosted] for p in programs]
            switch.__exit__(None)
        return min(times) * 1e6, round(value, 6), round(min(asked) * 1e6, 1), *more
    finally:
        library.set_default_device(None)


def main() -> None:
    warnings.simplefilter("ignore")
    rows: list[tuple[str, Any]] = []
    parts = sys.argv[1:] or ["agreement"]
    for part in parts:
        try:
            globals()[part](rows, 120.0) if part == "agreement" else globals()[part](rows)
        except Exception:
            traceback.print_exc()
    for name, value in rows:
        print(f"{name:40} {json.dumps(value) if isinstance(value, dict) else value}")


if __name__ == "__main__":
    main()
