"""Comparing what a program prints under PyTorch and under cleargrad: the words exactly, the numbers closely.

The scripts under examples/ and tests/lifecycle_scripts/ go in; test_examples.py and test_lifecycle.py use this.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")
CLEARGRAD = ["-m", "cleargrad", "run"]


def run(script: Path, *arguments: str, under: list[str]) -> str:
    """What a script prints in a process of its own, under CLEARGRAD or, with an empty list, the installed torch."""
    settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *under, str(script), *arguments]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", env={**os.environ, **settings}, timeout=180
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def run_under_both(script: Path, *arguments: str) -> tuple[str, str]:
    """What a script prints under cleargrad and under torch; both run at the same time."""
    with ThreadPoolExecutor() as pool:
        ours, theirs = (pool.submit(run, script, *arguments, under=under) for under in (CLEARGRAD, []))
        return ours.result(), theirs.result()


def agree(ours: str, theirs: str, relative: float, absolute: float = 0.0) -> None:
    """Asserts equal words and, to tolerances, equal numbers, line by line."""
    assert len(ours.splitlines()) == len(theirs.splitlines()), ours
    for our_line, their_line in zip(ours.splitlines(), theirs.splitlines(), strict=True):
        place = f"\ncleargrad  {our_line}\ntorch      {their_line}"
        assert NUMBER.sub("#", our_line) == NUMBER.sub("#", their_line), place
        for one, other in zip(NUMBER.findall(our_line), NUMBER.findall(their_line), strict=True):
            distance = abs(float(one) - float(other))
            assert distance <= absolute + relative * abs(float(other)), f"{one} and {other} differ{place}"
