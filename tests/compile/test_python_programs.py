"""Random Python programs around compiled functions: every call gives and leaves what a plain call does.

A program of `python_writer.py` runs twice, once plain and once with its function compiled, and writes all that can
be seen to a log; the two logs must agree. One that fails is shortened, statement by statement, and printed with its
seed.
`python -m tests.compile.test_python_programs COUNT SEED` runs COUNT programs from SEED on.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.compile import capture, computing
from cleargrad.compile.waiting import Waiter
from tests.bits import alike_in
from tests.compile.python_writer import written

FIRST, CHUNKS = 0, 50
COUNT = int(os.environ.get("CLEARGRAD_FUZZ", "5000"))
PROGRAM = "<program>"
NATIVE = 4  # every fourth program is compiled to machine code, the others run their graphs with NumPy
pytestmark = pytest.mark.filterwarnings("ignore")


def look(value: Any) -> Any:
    """A value as it is now: tensors as facts and a copy of their numbers."""
    if hasattr(value, "requires_grad") and hasattr(value, "detach"):
        facts = ("tensor", tuple(value.shape), str(value.dtype), value.requires_grad, value.is_leaf)
        grad = look(value.grad) if value.is_leaf else None
        return facts, value.detach().numpy().copy(), grad
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return "dict", [(key, look(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return type(value).__name__, [look(part) for part in value]
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, Iterator):
        return "iterator", list(value)
    return type(value).__name__


def agree(one: Any, other: Any) -> bool:
    """Whether two looks are the same, numbers to the last bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and bool(alike_in(one, other).all())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(agree, one, other))
    if isinstance(one, float):
        return bool(alike_in(np.float64(one), np.float64(other)))
    return one == other


class Run:
    """One run of a program with one library: its log, and the functions that were wrapped."""

    def __init__(self, source: str, library: Any, wrap: Callable) -> None:
        self.log: list[Any] = []
        self.wrapped: list[Any] = []
        names = {
            "torch": library,
            "wrap": lambda f: self.keep(wrap(f)),
            "note": self.note,
            "__name__": "program",
        }
        library.manual_seed(0)
        linecache.cache[PROGRAM] = (
            len(source),
            None,
            source.splitlines(True),
            PROGRAM,
        )  # proofs read sources
        try:
            exec(compile(source, PROGRAM, "exec"), names)
        except Exception as error:
            self.log.append(("raised", type(error).__name__))

    def keep(self, function: Any) -> Any:
        self.wrapped.append(function)
        return function

    def note(self, name: str, *values: Any) -> None:
        self.log.append((name, *map(look, values)))

    def compiled(self) -> bool:
        return any(len(function.programs) > 0 for function in self.wrapped)

    def proven(self) -> bool:
        """Whether calls were made without Python."""
        return any(shortcut.runs for function in self.wrapped for shortcut in function.shortcuts)


def plain(function: Callable) -> Callable:
    return function


class Keen(Waiter):
    """Has every call of a compiled function be proven, not only those behind one that ran as a program."""

    ready = property(lambda self: True, lambda self, value: None)  # type: ignore[assignment]


@contextmanager
def keenly() -> Iterator[None]:
    """Programs are made of calls that came once, and proofs of calls that came twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computing, "OFTEN", 1)
        patch.setattr(capture, "Waiter", Keen)
        yield


def difference(plain_run: Run, compiled_run: Run) -> str | None:
    """The first entry of the logs that differs."""
    for number, (expected, found) in enumerate(zip(plain_run.log, compiled_run.log)):
        if not agree(expected, found):
            return f"entry {number}\nplain     {expected}\ncompiled  {found}"
    lengths = len(plain_run.log), len(compiled_run.log)
    return None if lengths[0] == lengths[1] else f"{lengths[0]} entries plain, {lengths[1]} compiled"


def check(source: str, backend: str) -> tuple[str | None, Run]:
    """What differs between a plain and a compiled run, and the latter."""
    expected = Run(source, cg, plain)
    with keenly():
        found = Run(source, cg, lambda function: cg.compile(function, backend=backend))
    return difference(expected, found), found


def shortened(source: str, backend: str) -> str:
    """The program without the statements that the difference does not need."""
    tree, number = ast.parse(source), 0
    while True:
        smaller = [text for text in variants(tree, number) if still_fails(text, backend)]
        if smaller:
            tree = ast.parse(smaller[0])
        elif number < sum(1 for _ in statements(tree)):
            number += 1
        else:
            return ast.unparse(tree)


def statements(tree: ast.AST) -> Iterator[tuple[list[ast.stmt], int]]:
    """Every statement, as a list and a place in it, the last first."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                yield from ((body, place) for place in reversed(range(len(body))))


def variants(tree: ast.AST, number: int) -> Iterator[str]:
    """The program without its statement of this number, and with the body of that statement in its place."""
    for inner in (False, True):
        copy = ast.parse(ast.unparse(tree))
        found = list(statements(copy))
        if number < len(found):
            body, place = found[number]
            if isinstance(body[place], ast.AugAssign) and ast.unparse(body[place]).startswith("k"):
                return  # what counts the turns of a loop
            inside = getattr(body[place], "body", [])
            if inner and (not inside or isinstance(body[place], (ast.FunctionDef, ast.ClassDef))):
                return
            body[place : place + 1] = inside if inner else []
            if not body:
                body.append(ast.Pass())
            text = ast.unparse(ast.fix_missing_locations(copy))
            if text != ast.unparse(tree):
                yield text


def still_fails(source: str, backend: str) -> bool:
    """Whether a shorter program is one, and shows a difference."""
    try:
        compile(source, "<program>", "exec")
    except SyntaxError:
        return False
    expected = Run(source, cg, plain)
    lost = re.search("NameError|UnboundLocalError", repr(expected.log))
    return lost is None and check(source, backend)[0] is not None


def backend_of(seed: int) -> str:
    return "inductor" if seed % NATIVE == 0 else "aot_eager"


def report(seed: int, counts: SimpleNamespace, shorten: bool = True) -> str | None:
    """Checks the program of a seed; gives the text of a failure."""
    source, backend = written(seed), backend_of(seed)
    found, run = check(source, backend)
    counts.compiled += run.compiled()
    counts.proven += run.proven()
    counts.programs += 1
    if found is None:
        return None
    short = shortened(source, backend) if shorten else source
    now = check(short, backend)[0]
    return f"seed {seed}, {backend}\n{source}\n--- {found}\n--- shortened\n{short}\n--- {now}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_programs(chunk: int) -> None:
    size = COUNT // CHUNKS
    seeds = range(FIRST + chunk * size, FIRST + (chunk + 1) * size)
    counts = SimpleNamespace(programs=0, compiled=0, proven=0)
    failures = [(seed, text) for seed in seeds if (text := report(seed, counts)) is not None]
    assert not failures, f"seeds {[seed for seed, _ in failures]}\n" + "\n\n".join(
        text for _, text in failures
    )
    assert counts.compiled >= 0.5 * counts.programs


def test_programs_are_valid() -> None:
    """PyTorch runs most programs to their end without an error that nothing catches, and all numbers are finite."""
    import torch

    logs = [repr(Run(written(seed), torch, plain).log) for seed in range(200)]
    assert sum("Error" in log for log in logs) < 0.4 * len(logs)
    assert not any("nan" in log or "inf" in log for log in logs)


def main(count: int = COUNT, first: int = FIRST) -> None:
    warnings.simplefilter("ignore")
    counts, failed = SimpleNamespace(programs=0, compiled=0, proven=0), []
    begun = time.process_time()
    for seed in range(first, first + count):
        text = report(seed, counts)
        if text is not None:
            failed.append(seed)
            print(text, end="\n\n", flush=True)
    print(f"{count} programs, {len(failed)} differ: {failed}")
    print(f"{counts.compiled} ran compiled code, {counts.proven} without Python")
    print(f"{time.process_time() - begun:.0f} s of CPU time")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
