"""Measures a workload: every variant in a process of its own, asked in turns, so that all see the same noise.

`measure` gives the figures of all variants of a workload. Whatever happens, no worker outlives it. Read next:
bench/results.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from cleargrad.bench.variants import VARIANTS, variants_of
from cleargrad.bench.worker import CALLS

START = str(Path(__file__).parent / "start_worker.py")
SOURCES = str(Path(__file__).parents[2])
LIMIT = 600  # seconds after which a worker that does not answer is given up


@dataclass(frozen=True)
class Plan:
    """How to measure."""

    variants: list[str]
    rounds: int
    turn: float  # seconds that a turn takes, about
    threads: int
    torch_compile: bool


class Failed(Exception):
    """A worker that has ended, with the last thing it said."""


@dataclass
class Runner:
    """A worker as seen from here, and what it has reported so far."""

    workload: str
    name: str
    threads: int
    caches: str
    facts: dict[str, Any] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    failure: str = ""
    process: subprocess.Popen | None = None

    def start(self) -> None:
        os.makedirs(self.caches, exist_ok=True)
        self.errors = Path(self.caches) / f"{self.name}.txt"
        words = [START, self.workload, self.name, str(self.threads)]
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(self.threads, self.caches),
                start_new_session=True,  # with what it starts itself, such as compilers, it can be ended at once
            )

    def listen(self) -> Any:
        assert self.process is not None and self.process.stdout is not None
        watch = threading.Timer(LIMIT, self.kill)
        watch.daemon = True
        watch.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watch.cancel()
        if not line:
            self.process.wait()
            said = self.errors.read_text(errors="replace").strip().splitlines()
            raise Failed(said[-1] if said else "it ended without a word")
        return json.loads(line)

    def be_ready(self) -> None:
        """Waits for the first calls."""
        with self.noting_failure():
            self.facts |= self.listen()

    def ask(self, what: str, **details: Any) -> Any:
        assert self.process is not None and self.process.stdin is not None
        print(json.dumps({"ask": what, **details}), file=self.process.stdin, flush=True)
        return self.listen()["answer"]

    @contextlib.contextmanager
    def noting_failure(self):
        try:
            yield
        except (Failed, BrokenPipeError) as reason:
            self.failure = self.failure or str(reason)

    def stop(self) -> None:
        """Lets the worker end by itself, for a while."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends the worker and all that it has started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def first_calls(self) -> float:
        return sum(self.facts["calls"][:CALLS])


def write_bytecode() -> None:
    """A package that is installed has its bytecode, as the rivals have theirs; a working tree may not."""
    import compileall

    compileall.compile_dir(Path(__file__).parents[1], quiet=2)


def environment(threads: int, caches: str) -> dict[str, str]:
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    folders = {
        "CLEARGRAD_CACHE": os.path.join(caches, "cleargrad"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(caches, "torch"),
        "CACHEDB": os.path.join(caches, "tinygrad.db"),
        # A worker finds cleargrad where this process did.
        "PYTHONPATH": os.pathsep.join(filter(None, [SOURCES, os.environ.get("PYTHONPATH")])),
    }
    processor = {"JAX_PLATFORMS": "cpu", "DEV": "CPU", "NUM_CPU_THREADS": str(threads)}
    return {**os.environ, **counts, **folders, **processor}


def turns_of(workload: str, plan: Plan) -> int:
    """How often `measure` will report progress."""
    return len(variants_of(workload, plan.variants, plan.torch_compile)) + plan.rounds


def measure(workload: str, plan: Plan, folder: str, tell: Callable[[str], None]) -> dict[str, Runner]:
    """All variants of a workload, by name; `tell` hears what is going on."""
    runners = {}
    for name in variants_of(workload, plan.variants, plan.torch_compile):
        kind = VARIANTS[name].compiles or "eager"  # what one of them has compiled, another would find
        runners[name] = Runner(workload, name, plan.threads, os.path.join(folder, workload, kind))
    plain = [runner for name, runner in runners.items() if not VARIANTS[name].compiles]
    try:
        for runner in plain:
            runner.start()
        for runner in plain:
            runner.be_ready()
            tell(f"{workload}: {runner.name}")
        for runner in runners.values():  # one at a time, because the time of the first calls counts
            if runner not in plain:
                start_compiled(runner)
                tell(f"{workload}: {runner.name}")
        take_turns([runner for runner in runners.values() if not runner.failure], plan, tell)
    except BaseException:
        for runner in runners.values():
            runner.kill()
        raise
    for runner in runners.values():
        runner.stop()
    return runners


def start_compiled(runner: Runner) -> None:
    """Starts a variant that compiles; ours twice, for the second finds what the first has left on disk."""
    runner.start()
    runner.be_ready()
    if VARIANTS[runner.name].library == "cleargrad" and not runner.failure:
        runner.stop()
        runner.facts = {"cold": runner.first_calls}
        runner.start()
        runner.be_ready()


def take_turns(runners: list[Runner], plan: Plan, tell: Callable[[str], None]) -> None:
    steps = {}
    for runner in runners:
        rough = median(runner.facts["calls"][CALLS:])
        steps[runner.name] = max(2, min(2000, int(plan.turn / rough)))
    for turn in range(plan.rounds):
        first = turn % max(1, len(runners))
        for runner in runners[first:] + runners[:first]:
            with runner.noting_failure():
                runner.times.append(runner.ask("turn", steps=steps[runner.name]))
        tell(f"{runners[0].workload}: round {turn + 1} of {plan.rounds}" if runners else "")
    for runner in runners:
        with runner.noting_failure():
            runner.facts |= runner.ask("memory")
            if runner.name == "cleargrad compiled":
                runner.facts["other_batch"] = runner.ask("other_batch")
