"""From launch to exit: a script that makes one optimizer step on Linear(10, 2), here and in PyTorch.

    python benchmarks/launch.py [--json benchmarks/results/launch.json] [--rounds 7]

Wall seconds and peak megabytes of a fresh process, imports included; the libraries take turns, the median counts.
"bytecode" has the package's bytecode cached, as an installed package has; "no bytecode" compiles all of cleargrad
at every launch, as a source tree does under PYTHONDONTWRITEBYTECODE; "cleargrad run" runs PyTorch's script. Needs
torch.
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


WAYS = ("bytecode", "no bytecode", "cleargrad run")


def launch(command: list[str], package: str) -> tuple[float, float]:
    """Seconds from launch to exit, and peak megabytes."""
    environment = {**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1"}
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - start
    process.returncode = status
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return elapsed, usage.ru_maxrss / 1024


def commands(folder: Path) -> dict[str, tuple[list[str], str]]:
    """For each way to launch the command line, and the folder of the package."""
    for library in LIBRARIES:
        (folder / f"{library}_step.py").write_text(SCRIPT.format(library=library))
    for name in ("bytecode", "no bytecode"):
        shutil.copytree(SOURCE, folder / name / "cleargrad", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(folder / "bytecode")], check=True)
    theirs, ours = (str(folder / f"{library}_step.py") for library in LIBRARIES)
    return {
        "torch": ([theirs], ""),
        "bytecode": ([ours], str(folder / "bytecode")),
        "no bytecode": ([ours], str(folder / "no bytecode")),
        "cleargrad run": (["-m", "cleargrad", "run", theirs], str(folder / "bytecode")),
    }


def measure(folder: Path, rounds: int) -> dict[str, dict]:
    ways = commands(folder)
    runs: dict[str, list] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (command, package) in ways.items():
            runs[name].append(launch(command, package))
    rows = {}
    for place, quantity in enumerate(("seconds", "peak MB")):
        for name in WAYS:
            values = {"torch": runs["torch"], "cleargrad": runs[name]}
            rows[f"{quantity}, {name}"] = compare(
                {library: [run[place] for run in found] for library, found in values.items()}, "median"
            )
    return rows


def main() -> None:
    options = arguments(__doc__, rounds=7).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options.rounds)
    table("launch to exit", rows)
    report(options.json, unit="seconds and MB; at most 0.2 and 0.4 of PyTorch's are asked for", rows=rows)


if __name__ == "__main__":
    main()
