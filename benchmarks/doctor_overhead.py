"""What a watch of the doctor's costs: training steps watched and unwatched, on PyTorch and on cleargrad.

    python benchmarks/doctor_overhead.py [--json benchmarks/results/doctor_overhead.json] [--rounds 24]

The same loop runs in three processes: unwatched, watched without statistics ("events"), and watched with them
("statistics", the default). They take turns of some steps each, on one thread; the CPU time of a turn counts, which
other processes disturb little, and of all turns the least. All have trained for a while before: what is
measured is a long run. Rows that end in "compiled" have the whole step compiled by cleargrad. Needs torch.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from typing import Any

from side_by_side import LIBRARIES, arguments, report

WAYS = ("unwatched", "events", "statistics")
WARM_UP = 100  # steps: more than the doctor takes to trust a program
# Steps of one turn (of the quick task as many as lie between two full looks of the doctor's), and turns of a round.
STEPS = {"tiny MLP": 512, "char-GPT": 16}
TURNS = {"tiny MLP": 2, "char-GPT": 1}


def tiny_mlp(torch: Any, compiled: bool) -> Any:
    """A step that is nearly all overhead: 8 rows through a network of 16 units."""
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(8, 16), torch.randn(8, 1)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step) if compiled else step
    return lambda: run(x, y)


def char_gpt(torch: Any, compiled: bool) -> Any:
    from cleargrad.bench.workloads import WORKLOADS, Setup

    task = WORKLOADS["gpt"].make(torch, Setup())
    batch = task.data(task.batch, 0)
    run = torch.compile(task.step) if compiled else task.step
    return lambda: run(*batch)


TASKS = {"tiny MLP": tiny_mlp, "char-GPT": char_gpt}


def run_child(library: str, task: str, way: str) -> None:
    """Runs as many steps as each line of the input says, and prints the microseconds of one."""
    torch = importlib.import_module(library)
    torch.set_num_threads(1)
    name, _, compiled = task.partition(", ")
    if way != "unwatched":
        from cleargrad.doctor.session import Session

        Session(engine=library, statistics=way == "statistics").attach()
    step = TASKS[name](torch, bool(compiled))
    for line in sys.stdin:
        count = int(line)
        begin = time.process_time()
        for _ in range(count):
            step()
        print((time.process_time() - begin) / count * 1e6, flush=True)


def measure(library: str, task: str, rounds: int) -> dict[str, float]:
    children = {
        way: subprocess.Popen(
            [sys.executable, __file__, "--child", library, task, way],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for way in WAYS
    }  # fmt: skip
    name = task.partition(", ")[0]
    steps, rounds = STEPS[name], rounds * TURNS[name]
    for child in children.values():
        take_turn(child, WARM_UP)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, child in children.items():
            times[way].append(take_turn(child, steps))
    for child in children.values():
        child.communicate()
    least = {way: min(found) for way, found in times.items()}
    row = {f"{way}, us": round(value, 2) for way, value in least.items()}
    return {**row, **{f"{way} ratio": round(least[way] / least["unwatched"], 3) for way in WAYS[1:]}}


def take_turn(child: subprocess.Popen, steps: int) -> float:
    assert child.stdin is not None and child.stdout is not None
    print(steps, file=child.stdin, flush=True)
    return float(child.stdout.readline())


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        run_child(*sys.argv[2:])
        return
    parser = arguments(__doc__ or "", rounds=24)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    options = parser.parse_args()
    rows = {}
    for task in TASKS:
        for library in LIBRARIES:
            for kind in (task, f"{task}, compiled") if library == "cleargrad" else (task,):
                name = f"{library}: {kind}"
                if options.only in name:
                    rows[name] = measure(library, kind, options.rounds)
                    print(name, json.dumps(rows[name]), flush=True)
                    report(options.json, unit="CPU time of a step", rows=rows)


if __name__ == "__main__":
    main()
