"""Writes the tables of README.md and docs/performance.md from benchmarks/results/*.json.

Pages mark where a table stands: `<!-- results: name -->` ... `<!-- end -->`. What lies between is replaced; the
tests compare. Read next: tools/support_table.py.

python tools/result_tables.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cleargrad.bench.architectures import EVERY
from cleargrad.bench.large import LARGE

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md", ROOT / "docs" / "cuda.md")
Rows = list[list[str]]


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def readable(value: float) -> str:
    """Three digits that count, and no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):g}"


def table(heads: list[str], rows: Rows) -> str:
    """Words on the left, numbers on the right."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def source(found: dict[str, Any], name: str) -> str:
    """Where the figures are from, and how to get them again."""
    where = [found["machine"], f"Python {found['python']}"]
    if "torch" in found:
        where.append(f"PyTorch {found['torch']}")
    command = found.get("command", f"python benchmarks/{name}.py --json benchmarks/results/{name}.json")
    return f"`{command}` on {', '.join(where)}; all figures in `benchmarks/results/{name}.json`."


def compared(name: str, rows: dict[str, dict[str, float]], unit: str) -> str:
    """PyTorch beside cleargrad."""
    lines = [
        [row, *(readable(found[key]) for key in ("torch", "cleargrad", "ratio"))]
        for row, found in rows.items()
    ]
    return table([f"{name}, {unit}", "PyTorch", "cleargrad", "ratio"], lines)


# The tables, by name ---------------------------------------------------------------------------------------


def steps(found: dict[str, Any]) -> str:
    """A row for each workload."""
    rows = [
        [
            EVERY[name].title,
            readable(row["compiled"]),
            readable(row["unchanged"]),
            readable(row["eager"]),
            readable(row["peak / least of PyTorch's"]),
            f"{readable(row['first calls cold, s'])} s",
        ]
        for name, row in found["summary"].items()
    ]
    heads = ["compiled", "unchanged", "eager", "peak memory", "first calls"]
    return table(["a training step, relative to PyTorch's best", *heads], rows)


def train_step() -> str:
    found = read("train_step")
    left_out = "--no-torch-compile" in found["command"]
    words = (
        "`torch.compile` was left out of this run, so PyTorch's best is the best without it. "
        if left_out
        else ""
    )
    return steps(found) + f"\n\n{words}{source(found, 'train_step')}"


def architectures() -> str:
    """Nothing where they have not been measured."""
    if not (RESULTS / "architectures.json").exists():
        return ""
    found = read("architectures")
    words = "Other kinds of networks, against PyTorch without `torch.compile`, which takes minutes for each:"
    return f"{words}\n\n{steps(found)}\n\n{source(found, 'architectures')}"


def agreement() -> str:
    """PyTorch's own samples: how many names of ours agree in all of them."""
    found = read("agreement")
    rows = []
    for kind in ("ops", "modules", "optimizers"):
        there = [row for row in found[kind].values() if "missing" not in row]
        whole = sum(row["agree"] == row["samples"] for row in there)
        agree, samples = (sum(row[key] for row in there) for key in ("agree", "samples"))
        missing = len(found[kind]) - len(there)
        rows.append([kind, f"{len(found[kind])}", f"{missing}", f"{whole}", f"{samples:,}", f"{agree:,}"])
    heads = ["PyTorch's own test samples", "entries", "not here", "all samples agree", "samples", "agree"]
    return table(heads, rows) + f"\n\n{source(found, 'agreement')}"


def in_brief() -> str:
    """One line per question, for the README."""
    overhead, launch = read("op_overhead")["rows"], read("launch")["rows"]
    loader, checkpoint = read("dataloader")["rows"], read("checkpoint")["rows"]
    size = read("install")
    picked = [
        ("`import`, seconds", overhead["import (seconds)"], "op_overhead"),
        ("one small `add`, microseconds", overhead["add"], "op_overhead"),
        ("a script from launch to exit, seconds", launch["seconds, bytecode"], "launch"),
        ("its peak memory, MB", launch["peak MB, bytecode"], "launch"),
        ("small images from 2 workers, items a second", loader["small images, 2 workers"], "dataloader"),
        ("writing a checkpoint, GB a second", checkpoint["write"], "checkpoint"),
    ]
    rows = [
        [question, *(readable(row[key]) for key in ("torch", "cleargrad", "ratio")), f"`{name}.json`"]
        for question, row, name in picked
    ]
    ratio = readable(size["MB"] / size["torch, MB"])
    sizes = [readable(size["torch, MB"]), readable(size["MB"]), ratio]
    rows.append(["installed with all dependencies, MB", *sizes, "`install.json`"])
    return table(["", "PyTorch", "cleargrad", "ratio", "in benchmarks/results"], rows)


def simple(name: str, title: str, unit: str) -> Callable[[], str]:
    """A file whose `rows` compare the two libraries."""

    def write() -> str:
        found = read(name)
        return compared(title, found["rows"], unit) + f"\n\n{source(found, name)}"

    return write


def doctor_overhead() -> str:
    found = read("doctor_overhead")
    heads = [
        "a step under the doctor's watch, µs of CPU",
        "unwatched",
        "events",
        "ratio",
        "with statistics",
        "ratio",
    ]
    keys = ("unwatched, us", "events, us", "events ratio", "statistics, us", "statistics ratio")
    # Rows of compiled steps are from before calls waited, and are left out until they are measured again.
    names = [name for name in found["rows"] if not name.endswith("compiled")]
    rows = [[name, *(readable(found["rows"][name][key]) for key in keys)] for name in names]
    return f"{table(heads, rows)}\n\n{source(found, 'doctor_overhead')}"


def optimizer_step() -> str:
    found = read("optimizer_step")
    parts = [
        compared(title, found[title], "µs")
        for title in ("ten parameters of a small network", "ten million numbers")
    ]
    return "\n\n".join([*parts, source(found, "optimizer_step")])


def memory() -> str:
    found = read("memory")
    return compared("whole process", found["process"], "MB") + f"\n\n{source(found, 'memory')}"


def eager_kernels() -> str:
    found = read("eager_kernels")
    return (
        compared("an op, one thread", found["microseconds"], "µs") + f"\n\n{source(found, 'eager_kernels')}"
    )


def convolution() -> str:
    found = read("convolution")
    parts = [compared(title, rows, "ms") for title, rows in found["rows"].items()]
    return "\n\n".join([*parts, source(found, "convolution")])


def gemm() -> str:
    found = read("gemm")
    rows = [
        [
            row["name"],
            str(row["threads"]),
            readable(row["torch"]),
            readable(row["numpy"]),
            readable(row["cleargrad"]),
        ]
        for row in found["rows"]
    ]
    heads = ["a product of matrices, GFLOP/s", "threads", "PyTorch", "NumPy", "cleargrad"]
    return table(heads, rows) + f"\n\n{source(found, 'gemm')}"


def install() -> str:
    found = read("install")
    rows = [[name, readable(size)] for name, size in found["packages, MB"].items()]
    rows.append(["**all**", readable(found["MB"])])
    return table(["installed package", "MB"], rows) + f"\n\n{source(found, 'install')}"


def gpu() -> str:
    """Nothing where they have not been measured."""
    if not (RESULTS / "gpu.json").exists():
        return ""
    found = read("gpu")
    rows = []
    for name in ("gpt2", "resnet18", "mlp", "cnn", "gpt", "lstm", "adam", "linear"):
        ours = found["rows"].get(f"{name}: waiting", {})
        theirs = [found["rows"].get(f"{name}: {each}", {}) for each in ("torch fused", "torch compiled")]
        if "step_us" not in ours:
            continue
        eager, compiled = (each.get("step_us") for each in theirs)
        best = min(each for each in (eager, compiled) if each)
        times = ["" if each is None else readable(each / 1000) for each in (ours["step_us"], eager, compiled)]
        title = {**EVERY, **LARGE}[name].title
        rows.append([title, *times, readable(ours["step_us"] / best), readable(ours["peak_GiB"])])
    heads = ["unchanged, ms", "PyTorch, ms", "torch.compile, ms", "ratio", "peak, GiB"]
    return table(["a training step", *heads], rows) + f"\n\n{source(found, 'gpu')} The GPU: {found['gpu']}."


TABLES: dict[str, Callable[[], str]] = {
    "train_step": train_step,
    "architectures": architectures,
    "in_brief": in_brief,
    "agreement": agreement,
    "op_overhead": simple("op_overhead", "one call", "µs"),
    "launch": simple("launch", "a training script", "s and MB"),
    "dataloader": simple("dataloader", "loading", "items/s"),
    "checkpoint": simple("checkpoint", "a checkpoint", "GB/s"),
    "optimizer_step": optimizer_step,
    "doctor_overhead": doctor_overhead,
    "memory": memory,
    "eager_kernels": eager_kernels,
    "convolution": convolution,
    "gemm": gemm,
    "install": install,
    "gpu": gpu,
}
PLACE = re.compile(r"(<!-- results: (\w+) -->)\n.*?(<!-- end -->)", re.S)


def filled(text: str) -> str:
    """A page with its tables as they should be."""
    return PLACE.sub(lambda match: f"{match[1]}\n\n{TABLES[match[2]]()}\n\n{match[3]}", text)


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
