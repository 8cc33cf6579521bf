"""What a watch of the doctor's costs: training steps watched and unwatched, on PyTorch and on cleargrad.

    python benchmarks/doctor_overhead.py [--json benchmarks/results/doctor_overhead.json] [--rounds 8]

The same loop runs in three processes: unwatched, watched without statistics ("events"), and watched with them
("statistics", the default). They take turns of a few steps each, on one thread and one core; the CPU time of a
turn counts. What is reported is a step of a run of 10,000 steps from its first on: the first 256 (of the slow task
128), in which the doctor looks at everything, are measured as they are, and all others by turns. Turns in which the
doctor told events and those in which it only counted rounds are kept apart, the lower quartile of each is taken,
since a shared machine only ever adds, and both count as often as they came. Opening the watch (importing its rules)
comes before the first step and is a figure of its own.

Where a process happens to lie in memory makes a few percent of difference. So the three are forked from one, and
there are as many such families as `--rounds` says: the ratio is their median, and "spread" is half the distance
between their quartiles. Rows that end in "compiled" have the whole step compiled by cleargrad.
Needs torch and Linux.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from side_by_side import LIBRARIES, arguments, report

WAYS = ("unwatched", "events", "statistics")
RUN = 10_000  # steps over which the doctor's first steps are spread


@dataclass(frozen=True)
class Plan:
    """How a task is measured in one family."""

    beginning: int  # first steps, measured as they are: more than the doctor takes to trust a program
    steps: int  # of a turn
    turns: int
    families: float = 1.0  # of those that were asked for


PLANS = {"tiny MLP": Plan(256, 32, 192), "char-GPT": Plan(128, 1, 96, families=0.25)}


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


class Watched:
    """A training loop in a process of its own, which runs as many steps as it is told to."""

    def __init__(self, library: str, task: str, way: str) -> None:
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        if os.fork() == 0:
            os.close(self.orders)  # or else the end of the parent would not be the end of the orders
            try:
                with open(orders) as given, open(answers, "w") as made:
                    self.serve(given, made, library, task, way)
            finally:
                os._exit(0)
        os.close(orders)
        os.close(answers)
        self.answer = os.fdopen(self.answers)
        self.opening = json.loads(self.answer.readline())

    @staticmethod
    def serve(orders: Any, answers: Any, library: str, task: str, way: str) -> None:
        begin, observer = time.process_time(), None
        if way != "unwatched":
            from cleargrad.doctor.session import Session

            observer = Session(engine=library, statistics=way == "statistics").attach().observer
        print(time.process_time() - begin, file=answers, flush=True)
        name, _, compiled = task.partition(", ")
        step = TASKS[name](importlib.import_module(library), bool(compiled))
        for line in orders:
            count, events = int(line), 0 if observer is None else observer.count
            begin = time.process_time()
            for _ in range(count):
                step()
            spent = time.process_time() - begin
            told = observer is not None and observer.count != events
            print(json.dumps([spent / count * 1e6, told]), file=answers, flush=True)

    def take_turn(self, steps: int) -> tuple[float, bool]:
        """Microseconds of one step, and whether events were told."""
        os.write(self.orders, f"{steps}\n".encode())
        return json.loads(self.answer.readline())


def run_family(library: str, task: str) -> None:
    """Prints, per way: the opening in seconds, and microseconds of a step in the beginning and later."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    importlib.import_module(library).set_num_threads(1)
    plan = PLANS[task.partition(", ")[0]]
    loops = {way: Watched(library, task, way) for way in WAYS}
    turns: dict[str, list[tuple[float, bool]]] = {way: [] for way in WAYS}
    first, *others = WAYS
    beginning = plan.beginning // plan.steps
    for number in range(beginning + plan.turns):
        # Both orders, one after the other: two turns of one process in a row would find the caches warm.
        for way in (first, *(others if number % 64 < 32 else reversed(others))):
            turns[way].append(loops[way].take_turn(plan.steps))
    figures = {}
    for way, taken in turns.items():
        begun = sum(spent for spent, _ in taken[:beginning]) / beginning
        figures[way] = loops[way].opening, begun, typical(taken[beginning:])
    print(json.dumps(figures))


def typical(turns: list[tuple[float, bool]]) -> float:
    """Of one step, looks of the doctor's counted as often as they came."""
    total = 0.0
    for kind in (False, True):
        times = sorted(spent for spent, told in turns if told is kind)
        if times:
            total += times[len(times) // 4] * len(times)
    return total / len(turns)


def measure(library: str, task: str, rounds: int) -> dict[str, float]:
    plan = PLANS[task.partition(", ")[0]]
    command = [sys.executable, __file__, "--family", library, task]
    families = []
    for _ in range(max(2, round(rounds * plan.families))):
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        families.append(json.loads(output))
    share = plan.beginning / RUN

    def all_of(way: str, value: Callable[[list[float]], float]) -> list[float]:
        return [value(family[way]) for family in families]

    def of_run(values: list[float]) -> float:
        return share * values[1] + (1 - share) * values[2]

    plain = all_of("unwatched", of_run)
    row = {"unwatched, us": round(statistics.median(plain), 2)}
    for way in WAYS[1:]:
        ratios = [one / other for one, other in zip(all_of(way, of_run), plain, strict=True)]
        low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
        row[f"{way}, us"] = round(row["unwatched, us"] * ratio, 2)
        row[f"{way} ratio"], row[f"{way} spread"] = round(ratio, 3), round((high - low) / 2, 3)
        first = [a / b for a, b in zip(all_of(way, second), all_of("unwatched", second), strict=True)]
        row[f"{way}, first {plan.beginning} steps"] = round(statistics.median(first), 2)
        row[f"{way}, opening, ms"] = round(statistics.median(all_of(way, lambda found: found[0])) * 1e3, 1)
    return row


def second(values: list[float]) -> float:
    return values[1]


def main() -> None:
    if sys.argv[1:2] == ["--family"]:
        run_family(*sys.argv[2:])
        return
    parser = arguments(__doc__ or "", rounds=8)
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
                    report(options.json, unit=f"CPU time of a step, in a run of {RUN:,} steps", rows=rows)


if __name__ == "__main__":
    main()
