"""Sixty programs give the same bits, errors and text however their calls are made.

They were written without a look at the code, from Python's corners and from training loops; 55 of them agreed when
they were first run. Each has a process of its own, since several change what holds for the whole process.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cleargrad as torch
from tests.compile.blind import telling

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "tests/compile/blind").glob("*.py") if path.stem != "telling")[
    1:
]


def eager(run: Callable) -> Any:
    with torch.eager():
        return run(torch, lambda function: function)


def waiting(run: Callable) -> Any:
    with torch.waiting():
        return run(torch, lambda function: function)


def compiled(run: Callable) -> Any:
    with torch.eager():
        return run(torch, torch.compile)


def compiled_among_waiting(run: Callable) -> Any:
    with torch.waiting():
        return run(torch, torch.compile)


WAYS = {
    "eager": (eager, True),
    "waiting": (waiting, False),
    "waiting, looked at": (waiting, True),
    "compiled": (compiled, False),
    "compiled among waiting": (compiled_among_waiting, True),
}


def outcome(name: str, way: Callable, looked_at: bool) -> list[Any]:
    """All that a program gives, in one way; text is printed where values are looked at."""
    telling.Looking.on = looked_at
    found = telling.told(way(importlib.import_module(f"tests.compile.blind.{name}").run))
    return [found, telling.Looking.printed if looked_at else None]


def outcomes(name: str) -> dict[str, Any]:
    """The outcomes in all ways, each from a child of this process, which does nothing else."""
    found = {}
    for title, (way, looked_at) in WAYS.items():
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with open(writing, "w") as file:
                try:
                    json.dump(outcome(name, way, looked_at), file)
                except BaseException:
                    json.dump([traceback.format_exc(), None], file)
            os._exit(0)
        os.close(writing)
        with open(reading) as file:
            text = file.read()
        assert os.waitpid(child, 0)[1] == 0, title
        found[title] = json.loads(text)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_same_in_every_way(name: str) -> None:
    command = [sys.executable, "-m", "tests.compile.test_blind", name]
    environment = {key: value for key, value in os.environ.items() if key != "CLEARGRAD_VERIFY"}
    environment["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    result, printed = found["eager"]
    assert isinstance(result, list), result
    for way, (other, text) in found.items():
        assert other == result, f"{way}: {first_difference(result, other)}"
        assert text is None or text == printed, f"{way}: {first_difference(printed, text)}"


def first_difference(one: Any, other: Any) -> str:
    one, other = json.dumps(one), json.dumps(other)
    at = next((k for k, (x, y) in enumerate(zip(one, other)) if x != y), min(len(one), len(other)))
    return f"{one[max(0, at - 200) : at + 100]}\nbecomes\n{other[max(0, at - 200) : at + 100]}"


def test_there_are_sixty() -> None:
    assert len(NAMES) == 60


if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[1])))
