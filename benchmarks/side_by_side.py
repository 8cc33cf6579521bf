"""What the benchmarks share: two libraries take turns, and the report says where and how it was measured.

The machine is shared, so only ratios of values that were measured in turns mean something. Nothing large is
imported here: the peak memory of a process counts what its parent held when it was started.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


def open_machine() -> ModuleType:
    """The package's file, opened by itself: `import cleargrad.bench` would import all of cleargrad."""
    path = Path(__file__).parents[1] / "src" / "cleargrad" / "bench" / "machine.py"
    spec = importlib.util.spec_from_file_location("machine", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


machine = open_machine()
resident, seconds = machine.resident, machine.seconds

LIBRARIES = ("torch", "cleargrad")
REDUCERS = {"least": min, "most": max, "median": lambda values: sorted(values)[len(values) // 2]}


def arguments(doc: str, rounds: int) -> argparse.ArgumentParser:
    """The options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write the figures here as well")
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser


def microseconds(timer: timeit.Timer, calls: int) -> float:
    """Of one call."""
    return timer.timeit(calls) / calls * 1e6


def take_turns(measures: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Each library's values, one of each library per round; who goes first changes."""
    values: dict[str, list[float]] = {library: [] for library in measures}
    for turn in range(rounds):
        for library in sorted(measures, reverse=turn % 2 == 1):
            values[library].append(measures[library]())
    return values


def compare(
    values: dict[str, list[float]], how: str = "least", digits: int = 4, sides: Sequence[str] = LIBRARIES
) -> dict[str, float]:
    """A row of the report: one value of each library, and ours divided by PyTorch's."""
    row = {library: REDUCERS[how](values[library]) for library in sides}
    theirs, ours = row.values()
    ratio = ours / theirs if theirs else float("nan")
    return {**{library: round(value, digits) for library, value in row.items()}, "ratio": round(ratio, 3)}


def fresh(*words: str) -> Any:
    """What a fresh Python prints as the last line, in JSON; the words are its command line."""
    output = subprocess.run([sys.executable, *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])


def forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def table(
    title: str, rows: dict[str, dict[str, float]], columns: tuple[str, ...] = (*LIBRARIES, "ratio")
) -> None:
    width = max(map(len, [title, *rows]))
    print(f"{title:{width}}" + "".join(f"{column:>14}" for column in columns))
    for name, row in rows.items():
        print(f"{name:{width}}" + "".join(f"{readable(row[column]):>14}" for column in columns))


def readable(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def report(path: str | None, **results: Any) -> None:
    """Writes results as JSON, with machine, commit and command."""
    if path is None:
        return
    facts = machine.circumstances(" ".join(["python", *sys.argv]))
    with open(path, "w") as file:
        json.dump({**facts, **results}, file, indent=2)
        file.write("\n")
