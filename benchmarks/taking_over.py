"""When programs take over from single calls in a loop that nobody changed, and what their making costs the loop.

    python benchmarks/taking_over.py [--json benchmarks/results/taking_over.json] [--rounds 5] [--only gpt]

Every run is a fresh process: with an empty disk cache ("cold"), and with the one that such a run has left ("warm").
It makes 60 steps with calls that wait, and then as many in eager mode. A program has taken over with the first step
from which on nothing ran call by call; that is so many seconds after the end of the first step. "longest" is the
longest step from the second one on before that, by the median of the eager ones; for a machine that is busy with
other things, "longest eager" is the same of eager steps. "first eager" are the first steps of a process that has no
other, which show what is compiled for single calls. The medians of all rounds count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from statistics import median
from typing import Any

STEPS = 60
NEVER = float("inf")  # None in the table
WORKLOADS = ("mlp", "cnn", "gpt")


def measure(name: str, way: str) -> None:
    """Prints, as JSON, what the steps of one process took."""
    import cleargrad as torch
    from cleargrad.bench import workloads
    from cleargrad.compile.traces import Tree

    task = getattr(workloads, name)(torch, workloads.Setup())
    batches = [task.data(task.batch, number) for number in range(10)]
    tree, now = Tree(), time.perf_counter
    ends, alone = [now()], [tree.alone]

    def steps() -> list[float]:
        ends[:], alone[:] = [now()], [tree.alone]
        for number in range(STEPS):
            task.step(*batches[number % len(batches)])
            ends.append(now())
            alone.append(tree.alone)
        return [after - before for before, after in pairwise(ends)]

    found: dict[str, Any] = {}
    if way == "waiting":
        with torch.waiting(tree=tree):
            found["waiting"] = steps()
        found["alone"] = [after - before for before, after in pairwise(alone)]
    found["eager"] = steps()
    print(json.dumps(found))


def run(name: str, way: str, cache: str) -> dict[str, list]:
    command = [sys.executable, __file__, "--measure", name, way]
    environment = {**os.environ, "CLEARGRAD_CACHE": cache}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def taken_over(found: dict[str, list]) -> dict[str, float]:
    """The figures of one process."""
    waiting, eager = found["waiting"], found["eager"][STEPS // 6 :]
    usual = median(eager)
    single = [number for number, alone in enumerate(found["alone"], 1) if alone]
    last = single[-1] if single else 0  # the last step that ran call by call
    return {
        "took over at step": last + 1 if last < STEPS else NEVER,
        "seconds after the first": sum(waiting[1:last]),
        "eager ms": 1e3 * usual,
        "then ms": 1e3 * median(waiting[last:] or [NEVER]),
        "longest": max(waiting[1 : max(last, 3)]) / usual,
        "middle": median(waiting[1 : max(last, 3)]) / usual,
        "longest eager": max(eager[: max(last, 3)]) / usual,
    }


def measured(name: str, rounds: int) -> dict[str, dict]:
    runs: dict[str, list] = {"cold": [], "warm": [], "cold eager": [], "warm eager": []}
    for _ in range(rounds):
        for way, other in (("waiting", ""), ("eager", " eager")):
            with tempfile.TemporaryDirectory() as cache:
                for state in ("cold", "warm"):
                    runs[state + other].append(run(name, way, cache))
    rows: dict[str, dict] = {}
    for state in ("cold", "warm"):
        figures = [taken_over(found) for found in runs[state]]
        found = {key: median(each[key] for each in figures) for key in figures[0]}
        rows[state] = {key: None if value == NEVER else round(value, 3) for key, value in found.items()}
        for way, other in (("waiting", ""), ("eager", " eager")):
            some = zip(*[found[way][:12] for found in runs[state + other]])
            rows[state][f"first {way}, ms"] = [round(1e3 * median(each), 1) for each in some]
        print(f"{name:4s} {state}: {rows[state]}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=WORKLOADS, action="append")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure)
        return
    rows = {name: measured(name, options.rounds) for name in options.only or WORKLOADS}
    if options.json:
        from cleargrad.bench import machine

        facts = machine.circumstances(" ".join(["python", *sys.argv]))
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**facts, "rows": rows}, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
