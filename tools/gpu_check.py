"""Everything that matters on a GPU in one run, with one table at the end: python tools/gpu_check.py [part ...]

Agreement of every op with the CPU, forward and backward; training of small networks; what steps cost beside
PyTorch's, where torch is installed.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cleargrad as cg  # noqa: E402


def agreement(rows: list, limit: float = 120.0) -> None:
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


# Kernels of tiles ------------------------------------------------------------------------------------------

HEADS = [  # batch, heads, queries, keys, width, causal
    (2, 3, 200, 200, 64, True), (1, 2, 77, 130, 40, False), (1, 2, 256, 256, 128, True),
]  # fmt: skip
WINDOWS = [  # images, inputs, outputs, size, kernel, stride, padding
    (2, 3, 16, 32, 7, 2, 3), (2, 32, 32, 14, 3, 1, 1), (2, 32, 64, 14, 3, 2, 1), (2, 33, 17, 19, 5, 1, 2),
]  # fmt: skip
CLOSE = {"float32": 1e-5, "bfloat16": 8e-3, "float16": 1e-3}


def tiles(rows: list) -> None:
    """Attention and convolutions with their gradients, against float64 on the CPU."""
    cg.backends.cudnn.allow_tf32 = False
    functional, worst = cg.nn.functional, {}
    for kind, close in CLOSE.items():
        dtype = getattr(cg, kind)
        for batch, heads, queries, keys, width, causal in HEADS:
            shapes = [(batch, n, heads, width) for n in (queries, keys, keys)]
            given = [cg.randn(shape).to(dtype) for shape in shapes]
            compare(
                lambda q, k, v, causal=causal: functional.scaled_dot_product_attention(
                    q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=causal
                ),
                given, f"attention {kind} {(batch, heads, queries, keys, width, causal)}", close, worst,
            )  # fmt: skip
        for images, inputs, outputs, size, kernel, stride, padding in WINDOWS:
            shapes = [(images, inputs, size, size), (outputs, inputs, kernel, kernel), (outputs,)]
            given = [cg.randn(shape).to(dtype) for shape in shapes]
            compare(
                lambda x, w, b, s=stride, p=padding: functional.conv2d(x, w, b, s, p),
                given, f"convolution {kind} {(images, inputs, outputs, size, kernel, stride)}", close, worst,
            )  # fmt: skip
    rows.append(("tiles that differ", {name: error for name, error in worst.items() if error}))
    rows.append(("tiles on the host", dict(cg.core.device.drivers["cuda"].on_host)))


def compare(function: Any, given: list, title: str, close: float, worst: dict) -> None:
    """The relative error of a result and its gradients, if it is too large."""
    found = []
    for place, dtype in (("cuda", None), ("cpu", cg.float64)):
        leaves = [x.to(place).to(dtype or x.dtype).detach().requires_grad_() for x in given]
        out = function(*leaves)
        slope = cg.linspace(-1, 1, out.numel(), dtype=cg.float64).reshape(out.shape).to(given[0].dtype)
        out.backward(slope.to(place).to(out.dtype))
        every = [out, *(x.grad for x in leaves)]
        found.append([x.detach().cpu().double().numpy() for x in every])
    errors = [float(np.linalg.norm(x - y) / (np.linalg.norm(y) or 1)) for x, y in zip(*found)]
    good = all(error < 2 * close for error in errors)
    worst[title] = 0 if good else [f"{error:.1e}" for error in errors]


# Training steps --------------------------------------------------------------------------------------------

VARIANTS = {  # by name: the library, options of the optimizer, what is done to the model
    "waiting": ("cleargrad", {}, None),
    "eager": ("cleargrad", {}, None),
    "torch": ("torch", {}, None),
    "torch fused": ("torch", {"fused": True}, None),
    "torch compiled": ("torch", {"fused": True}, {}),
    "torch reduce-overhead": ("torch", {"fused": True}, {"mode": "reduce-overhead"}),
}
SMALL = ("linear", "mlp", "cnn", "gpt", "lstm", "adam")
OURS, PEERS = ("waiting", "eager"), ("torch", "torch fused")


def workloads(rows: list, names: tuple[str, ...] = SMALL, variants: tuple[str, ...] = OURS + PEERS) -> None:
    """Training steps here and in PyTorch, each in a process of its own: times, memory, and what was learned."""
    for name in names:
        found = {variant: apart(name, variant) for variant in variants}
        found = {variant.removesuffix(" profile"): figures for variant, figures in found.items()}
        for variant, figures in found.items():
            rows.append((f"{name}: {variant}", figures))
        times = {variant: figures["step_us"] for variant, figures in found.items() if "step_us" in figures}
        best = min((time for variant, time in times.items() if variant.startswith("torch")), default=None)
        if best is not None and "waiting" in times:
            rows.append((f"{name}: waiting / best torch", round(times["waiting"] / best, 3)))


def published(rows: list) -> None:
    """What is published."""
    workloads(rows, ("gpt2",), ("waiting profile", "torch fused", "torch compiled"))
    workloads(rows, ("mlp", "cnn", "gpt", "lstm", "adam", "linear"), ("waiting", "torch fused"))
    workloads(rows, ("resnet18",), ("waiting profile", "torch fused"))
    publish(rows)
    tiles(rows)


def large(rows: list) -> None:
    workloads(rows, ("gpt2", "resnet18"), (*OURS, *PEERS, "torch compiled"))


def ours(rows: list) -> None:
    """Without PyTorch."""
    workloads(rows, (*SMALL, "gpt2", "resnet18"), OURS)


def profiles(rows: list) -> None:
    """What takes the time of steps, kernel by kernel."""
    workloads(rows, ("gpt2", "resnet18", "cnn", "lstm"), ("waiting profile",))


def apart(name: str, variant: str) -> dict[str, Any]:
    """Figures of a workload, from another process."""
    begun = time.time()
    command = [sys.executable, __file__, "one", name, variant]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    lines = done.stdout.splitlines()
    for line in lines[:-1]:
        print(line)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[:4000])  # what fails at the end of a process is noise
        return {"failed": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}
    found = json.loads(lines[-1])
    print(name, variant, found, f"({time.time() - begun:.0f} s)", flush=True)
    return found


def one(name: str, variant: str) -> None:
    """Prints the figures of a workload: what a step takes, and until it has been asked for; memory; learning."""
    from cleargrad.bench.large import LARGE
    from cleargrad.bench.workloads import WORKLOADS, Setup

    variant, profiled, _ = variant.partition(" profile")
    library, options, compiled = VARIANTS[variant]
    torch: Any = importlib.import_module(library)
    if name in ("linear", "cnn", "resnet18") and library != "torch":
        options = {}
    setup = Setup(optimizer=options)
    if compiled is not None:
        setup.model = lambda model: torch.compile(model, **compiled)
    torch.set_default_device("cuda")
    task = {**WORKLOADS, **LARGE}[name].make(torch, setup)
    big = name in LARGE
    batches = [task.data(task.batch, number) for number in range(3 if big else 8)]
    switch = cg.waiting() if variant == "waiting" else None
    synchronize, losses, times, asked = torch.cuda.synchronize, [], [], []
    begun = time.perf_counter()
    for number in range(2):
        losses.append(task.step(*batches[number % len(batches)]))
    synchronize()
    figures: dict[str, Any] = {"second_step_s": round(time.perf_counter() - begun, 2)}
    warm = 2  # turns before programs are made and have become graphs
    for turn in range(6):
        count = (3 if big else 6) if turn < warm else (6 if big else 40)
        if turn == warm:
            torch.cuda.reset_peak_memory_stats()
        synchronize()
        begun = time.perf_counter()
        for number in range(count):
            loss = task.step(*batches[number % len(batches)])
        asked.append((time.perf_counter() - begun) / count)
        synchronize()
        times.append((time.perf_counter() - begun) / count)
        if library == "cleargrad":
            from cleargrad.compile import beside

            beside.wait()
    figures |= {"step_us": round(min(times) * 1e6, 1), "asked_us": round(min(asked) * 1e6, 1)}
    figures["peak_GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 3)
    figures["value"] = round(task.value(loss), 5)
    if library == "cleargrad":
        figures["on_host"] = dict(cg.core.device.drivers["cuda"].on_host.most_common(9))
    if switch is not None:
        programs = [each.program for each in switch.waiter.tree.endings if each.program is not None]
        figures["programs"] = [[len(p.steps), p.size >> 20, p.graph is not None, p.hosted] for p in programs]
        if profiled:
            profile(max(programs, key=lambda p: len(p.steps)), name)
    print(json.dumps(figures))


def profile(program: Any, name: str) -> None:
    """The time of every kernel of a program, the longest first; their texts are left in a file."""
    event = program.runtime.cupy.cuda.Event
    marks = [event() for _ in range(len(program.steps) + 1)]
    for _ in range(3):
        for step, mark in zip(program.steps, marks):
            mark.record()
            step()
        marks[-1].record()
        program.runtime.synchronize()
    spent: dict[str, list] = {}
    for title, begin, end in zip(program.titles, marks, marks[1:]):
        found = spent.setdefault(title, [0.0, 0])
        found[0] += program.runtime.cupy.cuda.get_elapsed_time(begin, end)
        found[1] += 1
    rows = sorted(spent.items(), key=lambda item: -item[1][0])
    print(f"{name}: {sum(each for _, (each, _) in rows):.3f} ms in {len(program.steps)} steps")
    for title, (milliseconds, count) in rows[:40]:
        print(f"  {milliseconds:8.3f} ms  {count:4d} x  {title}")
    sources = dict(program.sources)
    texts = [f"// {each:.3f} ms {count} x {title}\n{sources.get(title, '')}" for title, (each, count) in rows]
    (Path(os.environ.get("OUT", tempfile.gettempdir())) / f"{name}.cu").write_text("\n".join(texts))


def main() -> None:
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["one"]:
        one(*sys.argv[2:])
        return
    rows: list[tuple[str, Any]] = []
    named = sys.argv[1:] or ["agreement"]
    for name in named:
        try:
            PARTS[name](rows)
        except Exception:
            traceback.print_exc()
    for name, value in rows:
        print(f"{name:40} {json.dumps(value) if isinstance(value, dict) else value}")
    if named == ["all"]:
        publish(rows)  # once more, with what came behind


def publish(rows: list) -> None:
    """The table as a file: the newest of them is benchmarks/results/gpu.json."""
    from cleargrad.bench.machine import circumstances

    facts = circumstances("python tools/gpu_check.py all")
    facts |= {"gpu": cg.cuda.get_device_name(), "date": time.strftime("%Y-%m-%d"), "rows": dict(rows)}
    folder = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    (folder / "gpu.json").write_text(json.dumps(facts, indent=1) + "\n")


PARTS = {
    "agreement": agreement, "random": random, "tiles": tiles, "workloads": workloads, "large": large, "ours": ours,
    "profiles": profiles, "all": published,
}  # fmt: skip

if __name__ == "__main__":
    main()
