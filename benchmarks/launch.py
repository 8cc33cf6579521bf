"""From launch to exit: a script that makes one optimizer step on Linear(10, 2), here and in PyTorch.

    python benchmarks/launch.py [--json benchmarks/results/launch.json] [--rounds 7]

Wall seconds and peak megabytes of a fresh process, imports included; the libraries take turns, the median counts.
"bytecode" has the package's bytecode cached, as an installed package has; "no bytecode" compiles all of cleargrad
at every launch, as a source tree does under PYTHONDONTWRITEBYTECODE. Needs torch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from side_by_side import LIBRARIES, arguments, compare, report, table

SCRIPT = """
import {library} as torch
from {library} import nn, optim

model = nn.Linear(10, 2)
optimizer = optim.SGD(model.parameters(), lr=0.1)
loss = nn.functional.mse_loss(model(torch.ones(4, 10)), torch.zeros(4, 2))
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""
SOURCE = Path(__file__).parent.parent / "src" / "cleargrad"


def launch(script: str, package: str) -> tuple[float, float]:
    """Seconds from launch to exit, and peak megabytes."""
    environment = {**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1"}
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, script], env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - start
    if status:
        raise SystemExit(f"{script} failed")
    process.returncode = 0
    return elapsed, usage.ru_maxrss / 1024


def packages(folder: Path) -> dict[str, str]:
    """Copies of cleargrad with and without bytecode."""
    for name in ("bytecode", "no bytecode"):
        shutil.copytree(SOURCE, folder / name / "cleargrad", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(folder / "bytecode")], check=True)
    return {name: str(folder / name) for name in ("bytecode", "no bytecode")}


def measure(folder: Path, rounds: int) -> dict[str, dict]:
    paths = packages(folder)
    scripts = {}
    for library in LIBRARIES:
        scripts[library] = str(folder / f"{library}_step.py")
        Path(scripts[library]).write_text(SCRIPT.format(library=library))
    runs: dict[tuple[str, str], list] = {}
    for _ in range(rounds):
        runs.setdefault(("torch", ""), []).append(launch(scripts["torch"], ""))
        for name, path in paths.items():
            runs.setdefault(("cleargrad", name), []).append(launch(scripts["cleargrad"], path))
    rows = {}
    for name in paths:
        for quantity, place in (("seconds", 0), ("peak MB", 1)):
            values = {"torch": runs["torch", ""], "cleargrad": runs["cleargrad", name]}
            values = {library: [run[place] for run in chosen] for library, chosen in values.items()}
            rows[f"{quantity}, {name}"] = compare(values, "median")
    return rows


def main() -> None:
    options = arguments(__doc__, rounds=7).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options.rounds)
    table("launch to exit", rows)
    report(options.json, unit="seconds and MB; at most 0.2 and 0.4 of PyTorch's are asked for", rows=rows)


if __name__ == "__main__":
    main()
