"""What a training step costs now and at another commit, in turns on this machine: only the ratio means something.

    python benchmarks/against_commit.py COMMIT [--workloads linear,mlp] [--rounds 2] [--json FILE]

The other commit is checked out into a folder of its own, and both run in this environment, each step in a process
of its own: compiled, unchanged (as under `cleargrad run --fast`) and eager. The least of all rounds counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from side_by_side import arguments, machine

ROOT = Path(__file__).parent.parent
WAYS = ("unchanged", "compiled", "eager")
WARM, TURNS, TURN = 3.0, 6, 0.25  # seconds before the first turn; turns, and seconds of each


def one(name: str, way: str) -> None:
    """Prints the microseconds of a step."""
    import cleargrad
    from cleargrad.bench.architectures import EVERY
    from cleargrad.bench.workloads import Setup

    task = EVERY[name].make(cleargrad, Setup())
    batches = [task.data(task.batch, number) for number in range(8)]
    step = cleargrad.compile(task.step) if way == "compiled" else task.step
    if way == "unchanged":
        cleargrad.waiting()
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < WARM or count < 12:
        step(*batches[count % 8])
        count += 1
    steps = max(4, int(TURN * count / (time.perf_counter() - begun)))
    times = []
    for _ in range(TURNS):
        begun = time.perf_counter()
        for number in range(steps):
            last = step(*batches[number % 8])
        task.value(last)
        times.append((time.perf_counter() - begun) / steps)
    print(min(times) * 1e6)


def measured(tree: Path, cache: str, name: str, way: str) -> float:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "CLEARGRAD_CACHE": cache}
    command = [sys.executable, __file__, "one", name, way]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        one(*sys.argv[2:])
        return
    parser = arguments(__doc__ or "", 2)
    parser.add_argument("commit")
    parser.add_argument("--workloads", default="linear,mlp,lstm,gpt")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(other), options.commit], check=True)
        try:
            rows = compared(other, folder, options)
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
    if options.json:
        facts = machine.circumstances(" ".join(["python", "benchmarks/against_commit.py", *sys.argv[1:]]))
        Path(options.json).write_text(
            json.dumps({**facts, "against": options.commit, "rows": rows}, indent=1) + "\n"
        )


def compared(other: Path, folder: str, options: Any) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for name in options.workloads.split(","):
        for way in WAYS:
            times: dict[str, list[float]] = {"before": [], "now": []}
            for _ in range(options.rounds):
                for title, tree in (("before", other), ("now", ROOT)):
                    times[title].append(measured(tree, f"{folder}/{title}", name, way))
            before, now = min(times["before"]), min(times["now"])
            rows[f"{name}, {way}"] = {"before": before, "now": now, "ratio": now / before}
            print(f"{name:8} {way:10} {before:10.1f} us  {now:10.1f} us  {now / before:.3f}", flush=True)
    return rows


if __name__ == "__main__":
    main()
