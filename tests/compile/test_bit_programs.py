"""Fifty training programs give the same bits however their calls are made.

The reference makes every call at its line, on two threads. Other ways are one thread, calls that wait, calls that
wait while each loss is looked at, a compiled step, and the reference once more. Every program has a process of its
own, as a script has: without graphs being verified, since a graph that fails there is called one by one.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import cleargrad
from tests.bits import alike_in
from tests.compile.bits import PROGRAMS

STEPS = 8
ROOT = Path(__file__).parents[2]
beside = importlib.import_module("cleargrad.compile.beside")


class Found(NamedTuple):
    """What a training gave, and how often programs ran in it."""

    losses: list[np.ndarray]
    state: list[np.ndarray]
    ran: int = 0


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = cleargrad.get_num_threads()
    cleargrad.set_num_threads(count)
    try:
        yield
    finally:
        cleargrad.set_num_threads(before)


def train(
    name: str, prepare: Callable = lambda step: step, look: bool = False, after: Callable = lambda: None
) -> Found:
    """Build a program and take its steps; `after` is called behind the third and all that follow."""
    step, state = PROGRAMS[name](cleargrad)
    step = prepare(step)
    losses = []
    for k in range(STEPS):
        losses.append(step(k).detach())
        if look:
            losses[-1].item()
        if k >= 2:
            after()
    return Found(arrays(losses), arrays([*state(), cleargrad.get_rng_state()]))


def arrays(tensors: list) -> list[np.ndarray]:
    """Copies as NumPy has them; for bfloat16, which it does not have, the same numbers in float32."""
    found = []
    for tensor in tensors:
        wide = tensor.detach().float() if tensor.dtype is cleargrad.bfloat16 else tensor.detach()
        found.append(wide.resolve_conj().numpy().copy())
    return found


def called(name: str, count: int) -> Found:
    with threads(count), cleargrad.eager():
        return train(name)


def waited(name: str, count: int, look: bool = False) -> Found:
    """Calls wait; programs are made in another thread, which is waited for so that they run."""
    with threads(count), cleargrad.waiting() as switch:
        found = train(name, look=look, after=beside.wait)
        return found._replace(ran=sum(ending.runs for ending in switch.waiter.tree.endings))


def compiled(name: str) -> Found:
    with threads(2), cleargrad.eager():
        return train(name, cleargrad.compile)


WAYS = {
    "one thread": lambda name: called(name, 1),
    "waiting": lambda name: waited(name, 2),
    "waiting on one thread, every loss looked at": lambda name: waited(name, 1, look=True),
    "compiled": compiled,
    "once more": lambda name: called(name, 2),
}


def differences(found: Found, expected: Found) -> Iterator[str]:
    """A sentence for each tensor that is not the same to the bit."""
    for what in ("losses", "state"):
        ours, theirs = getattr(found, what), getattr(expected, what)
        if len(ours) != len(theirs):
            yield f"{len(ours)} instead of {len(theirs)} tensors of the {what}"
            continue
        for number, (x, y) in enumerate(zip(ours, theirs, strict=True)):
            if (x.shape, x.dtype) != (y.shape, y.dtype):
                yield f"{what} {number}: {x.dtype} {x.shape} instead of {y.dtype} {y.shape}"
                continue
            alike = alike_in(x, y)
            if not alike.all():
                yield f"{what} {number} {x.shape}: {size_of(x[~alike], y[~alike])} of {x.size}"


def size_of(x: np.ndarray, y: np.ndarray) -> str:
    with np.errstate(all="ignore"):
        apart = np.abs(np.subtract(x, y, dtype=np.result_type(x, np.float64)))
        share = apart / np.maximum(np.abs(x), np.abs(y))
    return f"{x.size} differ by up to {apart.max():.3g}, {share.max():.3g} of themselves, as {x[0]!r} from {y[0]!r}"


def compare(name: str) -> dict[str, Any]:
    """What is wrong in which way, and how often programs ran while calls waited."""
    expected = called(name, 2)
    wrong, ran = {}, 0
    for way, run in WAYS.items():
        try:
            found = run(name)
        except Exception as error:
            wrong[way] = repr(error)
            continue
        ran = max(ran, found.ran)
        if said := list(differences(found, expected)):
            wrong[way] = f"{len(said)} tensors; " + "; ".join(said[:3])
    return {"wrong": wrong, "ran": ran}


@functools.cache
def compared(name: str) -> dict[str, Any]:
    """`compare`, in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "CLEARGRAD_VERIFY"}
    command = [sys.executable, "-m", "tests.compile.test_bit_programs", name]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        return {"wrong": {"the process": f"ended with {done.returncode}: {done.stderr[-500:]}"}, "ran": 0}
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_bits_in_every_way(name: str) -> None:
    wrong = compared(name)["wrong"]
    if wrong:
        pytest.fail("\n".join(f"{way}: {said}" for way, said in wrong.items()), pytrace=False)


def test_most_programs_ran_compiled() -> None:
    assert len(PROGRAMS) == 50
    idle = [name for name in PROGRAMS if not compared(name)["ran"]]
    assert len(idle) < 5, idle


if __name__ == "__main__":
    print(json.dumps(compare(sys.argv[1])))
