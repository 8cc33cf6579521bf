"""What a training step costs: PyTorch eager and compiled, cleargrad eager and compiled, taking turns in one run.

    python benchmarks/train_step.py [--workloads gpt,mlp] [--rounds 15] [--threads 2] [--quick] [--no-torch-compile]

The models are in train_workloads.py. Every variant lives in a process of its own, because both libraries keep
threads; this process asks them in turns for some steps, so that all of them see the same noise. What counts is
the ratio of medians to the best PyTorch variant, fused optimizers and torch.compile included. The spread is
that of the ratio from round to round (first and third quartile), "of least" the ratio of the quickest turns.
"first" is the time of the first three calls: cleargrad runs one, records one and runs the program. Caches of
compiled code are empty (cold) or left by an earlier process (warm). Peak memory is that of the whole process;
"grown" is how much of it came after the import. All variants must give the losses of PyTorch's eager one;
a PyTorch variant that does not is no rival. A whole run writes benchmarks/results/train_step.json. Needs torch,
and a C++ compiler for torch.compile.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from side_by_side import report, resident, seconds
from train_workloads import WORKLOADS, Setup, Streams, Task

RESULTS = Path(__file__).parent / "results" / "train_step.json"
LOSSES = 8  # steps whose losses are compared
CALLS = 3  # the first calls, of which the first two differ from the rest
AGREE = 1e-3  # by how much losses may differ, relative to their size
LIMIT = 600  # seconds after which a worker that does not answer is given up


@dataclass(frozen=True)
class Variant:
    """One way to run a workload."""

    library: str
    optimizer: tuple[tuple[str, Any], ...] = ()
    compiles: str = ""  # "model" or "step"


FUSED, FOREACH = (("fused", True),), (("foreach", True),)
VARIANTS = {
    "torch": Variant("torch"),
    "torch foreach": Variant("torch", FOREACH),
    "torch fused": Variant("torch", FUSED),
    "torch compiled model": Variant("torch", FUSED, "model"),
    "torch compiled step": Variant("torch", (), "step"),
    "cleargrad": Variant("cleargrad"),
    "cleargrad compiled": Variant("cleargrad", (), "step"),
    "bandwidth floor": Variant("numpy"),
}


# A worker --------------------------------------------------------------------------------------------------


def run_worker(workload: str, name: str, threads: int) -> None:
    """Answers requests, one line of JSON each, until there are no more."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # no library may use more
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes where errors go

    def answer(**facts: Any) -> None:
        print(json.dumps(facts), file=answers, flush=True)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        worker = Worker(workload, VARIANTS[name], threads)
        facts = worker.first_calls()
    answer(**facts, warnings=sorted({str(w.message).splitlines()[0] for w in heard if is_news(w)}))
    for line in sys.stdin:
        request = json.loads(line)
        answer(answer=getattr(worker, request.pop("ask"))(**request))


def is_news(warning: warnings.WarningMessage) -> bool:
    return issubclass(warning.category, UserWarning) and "cleargrad" in str(
        warning.filename + str(warning.message)
    )


class Worker:
    """A task in its own process."""

    def __init__(self, workload: str, variant: Variant, threads: int) -> None:
        if variant.library == "numpy":
            self.base = resident()
            self.task = Task(Streams(threads).step, lambda size, number: (), 0, lambda _: 0.0)
        else:
            library = importlib.import_module(variant.library)
            importlib.import_module(f"{variant.library}.optim")
            library.set_num_threads(threads)
            self.base = resident()
            setup = Setup(dict(variant.optimizer))
            if variant.compiles == "model":
                setup.model = library.compile
            self.task = WORKLOADS[workload].make(library, setup)
            if variant.compiles == "step":
                self.task.step = library.compile(self.task.step)
        self.batches = [self.task.data(self.task.batch, number) for number in range(4)]
        self.count = 0

    def step(self) -> Any:
        self.count += 1
        return self.task.step(*self.batches[self.count % len(self.batches)])

    def first_calls(self) -> dict[str, Any]:
        losses, times = [], []
        for _ in range(LOSSES):
            begin = time.perf_counter()
            loss = self.step()
            times.append(time.perf_counter() - begin)
            losses.append(self.task.value(loss))
        return {"calls": times, "losses": losses}

    def turn(self, steps: int) -> float:
        """The median time of some steps, after some that bring caches and threads back."""
        for _ in range(max(1, steps // 4)):
            self.step()
        return median(seconds(self.step) for _ in range(steps))

    def other_batch(self) -> float | None:
        """The first calls with a batch of another size, in seconds."""
        if not self.task.batch:
            return None
        arguments = self.task.data(self.task.batch + 1, 0)
        return sum(seconds(lambda: self.task.step(*arguments)) for _ in range(CALLS))

    def memory(self) -> dict[str, float]:
        peak = resident("VmHWM")
        return {"peak": peak, "grown": peak - self.base}


# The one who asks ------------------------------------------------------------------------------------------


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

    def start(self) -> None:
        os.makedirs(self.caches, exist_ok=True)
        self.errors = Path(self.caches) / f"{self.name}.txt"
        words = [__file__, "--worker", self.workload, self.name, str(self.threads)]
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(self.threads, self.caches),
            )

    def listen(self) -> Any:
        assert self.process.stdout is not None
        watch = threading.Timer(LIMIT, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
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
        assert self.process.stdin is not None
        print(json.dumps({"ask": what, **details}), file=self.process.stdin, flush=True)
        return self.listen()["answer"]

    @contextlib.contextmanager
    def noting_failure(self):
        try:
            yield
        except (Failed, BrokenPipeError) as reason:
            self.failure = self.failure or str(reason)

    def stop(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    @property
    def first_calls(self) -> float:
        return sum(self.facts["calls"][:CALLS])


def environment(threads: int, caches: str) -> dict[str, str]:
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    folders = {
        "CLEARGRAD_CACHE": os.path.join(caches, "cleargrad"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(caches, "torch"),
    }
    return {**os.environ, **counts, **folders}


def variants_of(workload: str, options: argparse.Namespace) -> list[str]:
    """The variants that make sense: the model's for workloads that have one, the floor for the update alone."""
    alone = workload == "adam"
    left_out = {"torch compiled model"} if alone else {"bandwidth floor"}
    if not options.torch_compile:
        left_out |= {name for name, v in VARIANTS.items() if v.library == "torch" and v.compiles}
    return [name for name in options.variants if name not in left_out]


def measure(workload: str, options: argparse.Namespace, folder: str) -> dict[str, Any]:
    """All variants of a workload, by name."""
    runners = {}
    for name in variants_of(workload, options):
        kind = "compiled" if VARIANTS[name].compiles else "eager"
        runners[name] = Runner(workload, name, options.threads, os.path.join(folder, workload, kind))
    plain = [runner for name, runner in runners.items() if not VARIANTS[name].compiles]
    try:
        for runner in plain:
            runner.start()
        for runner in plain:
            runner.be_ready()
        for runner in runners.values():  # one at a time, because the time of the first calls counts
            if runner not in plain:
                start_compiled(runner)
        take_turns([runner for runner in runners.values() if not runner.failure], options)
    finally:
        for runner in runners.values():
            if "process" in vars(runner):
                runner.stop()
    return results(runners)


def start_compiled(runner: Runner) -> None:
    """Starts a variant that compiles; ours twice, for the second finds what the first has left on disk."""
    runner.start()
    runner.be_ready()
    if VARIANTS[runner.name].library == "cleargrad" and not runner.failure:
        runner.stop()
        runner.facts = {"cold": runner.first_calls}
        runner.start()
        runner.be_ready()


def take_turns(runners: list[Runner], options: argparse.Namespace) -> None:
    steps = {}
    for runner in runners:
        rough = median(runner.facts["calls"][CALLS:])
        steps[runner.name] = max(2, min(2000, int(options.turn / rough)))
    for turn in range(options.rounds):
        first = turn % len(runners)
        for runner in runners[first:] + runners[:first]:
            with runner.noting_failure():
                runner.times.append(runner.ask("turn", steps=steps[runner.name]))
    for runner in runners:
        with runner.noting_failure():
            runner.facts |= runner.ask("memory")
            if runner.name == "cleargrad compiled":
                runner.facts["other_batch"] = runner.ask("other_batch")


# The report ------------------------------------------------------------------------------------------------


def results(runners: dict[str, Runner]) -> dict[str, Any]:
    """Figures by variant; ratios are to the best PyTorch variant whose losses are those of PyTorch's eager one."""
    measured = {name: runner for name, runner in runners.items() if runner.times and not runner.failure}
    torches = [name for name in measured if VARIANTS[name].library == "torch"]
    reference = measured[torches[0]].facts["losses"] if torches else None
    theirs = {n: median(measured[n].times) for n in torches if agrees(measured[n].facts["losses"], reference)}
    best = min(theirs, key=lambda name: theirs[name], default=None)
    quickest = min((min(measured[name].times) for name in theirs), default=math.nan)
    rows: dict[str, Any] = {}
    for name, runner in runners.items():
        if name not in measured:
            rows[name] = {"failure": runner.failure or "not measured"}
            continue
        facts = runner.facts
        row = rows[name] = {
            "ms": round(median(runner.times) * 1e3, 4),
            "least, ms": round(min(runner.times) * 1e3, 4),
            "first calls, s": round(runner.first_calls, 3),
            "peak, MB": round(facts["peak"], 1),
            "grown, MB": round(facts["grown"], 1),
        }
        if best is not None:
            ratios = [own / other for own, other in zip(runner.times, measured[best].times)]
            row["ratio"] = round(median(runner.times) / theirs[best], 4)
            row["ratio of least"] = round(min(runner.times) / quickest, 4)
            row["spread"] = [round(quantile(ratios, share), 4) for share in (0.25, 0.75)]
        if "cold" in facts:
            row["first calls cold, s"] = round(facts["cold"], 3)
        if facts.get("other_batch") is not None:
            row["another batch size, s"] = round(facts["other_batch"], 3)
        if VARIANTS[name].library != "numpy" and reference is not None:
            row["loss"], row["loss differs by"] = facts["losses"][-1], distance(facts["losses"], reference)
        if facts["warnings"]:
            row["warnings"] = facts["warnings"]
    return {"best": best, "variants": rows}


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def agrees(losses: list[float], reference: list[float]) -> bool:
    return distance(losses, reference) <= AGREE


def distance(losses: list[float], reference: list[float]) -> float:
    pairs = zip(losses, reference, strict=True)
    worst = max(abs(a - b) / max(abs(b), 1e-2) if math.isfinite(a) else math.inf for a, b in pairs)
    return float(f"{worst:.2g}")


def print_workload(title: str, found: dict[str, Any]) -> None:
    columns = ("ms/step", "ratio", "spread", "of least", "first, s", "peak MB", "grown MB", "loss")
    print(
        f"\n{title}\n{'':22}{columns[0]:>10}{columns[1]:>8}{columns[2]:>16}"
        + "".join(f"{c:>10}" for c in columns[3:])
    )
    for name, row in found["variants"].items():
        if "failure" in row:
            print(f"{name:22}  failed: {row['failure']}")
            continue
        spread = "{:.3f}..{:.3f}".format(*row["spread"]) if "spread" in row else ""
        print(
            f"{name:22}{row['ms']:10.4g}{row.get('ratio', math.nan):8.3f}{spread:>16}"
            f"{row.get('ratio of least', math.nan):10.3f}{row['first calls, s']:10.2f}"
            f"{row['peak, MB']:10.0f}{row['grown, MB']:10.0f}{row.get('loss', math.nan):10.4f}"
        )
        if row.get("loss differs by", 0) > AGREE:
            print(f"{'':22}  LOSSES DIFFER by {row['loss differs by']:.2g} of their size")
        for text in row.get("warnings", ()):
            print(f"{'':22}  {text}")


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """What the bars are about, by workload."""
    rows: dict[str, Any] = {}
    for workload, result in found.items():
        variants = result["variants"]
        ours, eager = (variants.get(name, {}) for name in ("cleargrad compiled", "cleargrad"))
        theirs = [v["peak, MB"] for n, v in variants.items() if n.startswith("torch") and "peak, MB" in v]
        row = rows[workload] = {
            "bar": WORKLOADS[workload].bar,
            "goal": WORKLOADS[workload].goal,
            "best": result["best"],
        }
        row["compiled"], row["eager"] = ours.get("ratio"), eager.get("ratio")
        row["first calls cold, s"], row["first calls warm, s"] = (
            ours.get("first calls cold, s"),
            ours.get("first calls, s"),
        )
        row["another batch size, s"] = ours.get("another batch size, s")
        if theirs and "peak, MB" in ours:
            row["peak / least of PyTorch's"] = round(ours["peak, MB"] / min(theirs), 3)
        if "ms" in ours and "ms" in variants.get("bandwidth floor", {}):
            row["time / bandwidth floor"] = round(ours["ms"] / variants["bandwidth floor"]["ms"], 3)
    return rows


def geometric_mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value]
    return round(math.exp(sum(map(math.log, known)) / len(known)), 3) if known else None


def print_summary(rows: dict[str, Any], mean: float | None) -> None:
    def text(value: float | None, width: int = 9) -> str:
        return f"{'-' if value is None else format(value, '.3f'):>{width}}"

    heads = f"{'compiled':>9}{'bar':>7}{'goal':>7}{'':9}{'eager':>9}{'cold, s':>9}{'warm, s':>9}"
    print(f"\n{'to the best PyTorch':46}{heads}")
    for workload, row in rows.items():
        ratio = row["compiled"]
        verdict = (
            ""
            if ratio is None
            else "goal"
            if ratio <= row["goal"]
            else "reached"
            if ratio <= row["bar"]
            else "above"
        )
        print(
            f"{WORKLOADS[workload].title:46}{text(ratio)}{row['bar']:7.2f}{row['goal']:7.2f}  {verdict:7}"
            f"{text(row['eager'])}{text(row['first calls cold, s'])}{text(row['first calls warm, s'])}"
        )
    print(f"{'eager, geometric mean':46}{'':9}{1.0:7.2f}{'':16}{text(mean)}")
    for label in ("another batch size, s", "peak / least of PyTorch's", "time / bandwidth floor"):
        known = [
            f"{workload} {row[label]:.3f}" for workload, row in rows.items() if row.get(label) is not None
        ]
        if known:
            print(f"{label}: {', '.join(known)}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workloads", default=",".join(WORKLOADS), help="some of them, by comma (default: all)"
    )
    parser.add_argument(
        "--variants", default=",".join(VARIANTS), help="some of them, by comma (default: all)"
    )
    parser.add_argument("--rounds", type=int, help="turns of each variant (default: 15)")
    parser.add_argument("--turn", type=float, help="seconds that a turn takes, about (default: 0.06)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="few and short turns, without torch.compile")
    parser.add_argument("--no-torch-compile", dest="torch_compile", action="store_false")
    parser.add_argument("--json", help="write the figures here (default: a whole run writes its own file)")
    options = parser.parse_args()
    options.workloads, options.variants = options.workloads.split(","), options.variants.split(",")
    for chosen, known in ((options.workloads, WORKLOADS), (options.variants, VARIANTS)):
        unknown = [name for name in chosen if name not in known]
        if unknown:
            parser.error(f"{unknown[0]!r} is none of {', '.join(known)}")
    options.rounds = options.rounds or (3 if options.quick else 15)
    options.turn = options.turn or (0.01 if options.quick else 0.06)
    options.torch_compile = options.torch_compile and not options.quick
    whole = (len(options.workloads), len(options.variants)) == (len(WORKLOADS), len(VARIANTS))
    whole = whole and options.torch_compile
    options.json = options.json or (str(RESULTS) if whole else None)
    return options


def main() -> int:
    options = read_options()
    begin = time.perf_counter()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for workload in options.workloads:
            found[workload] = measure(workload, options, folder)
            print_workload(WORKLOADS[workload].title, found[workload])
    rows = summary(found)
    mean = geometric_mean([row["eager"] for row in rows.values()])
    print_summary(rows, mean)
    whole = round(time.perf_counter() - begin, 1)
    print(f"{whole} seconds, {options.threads} threads, {options.rounds} rounds")
    settings = {"threads": options.threads, "rounds": options.rounds, "seconds": whole}
    report(options.json, **settings, summary=rows, eager_mean=mean, workloads=found)
    differ = [
        f"{workload}, {name}"
        for workload, result in found.items()
        for name, row in result["variants"].items()
        if row.get("loss differs by", 0) > AGREE and VARIANTS[name].library == "cleargrad"
    ]
    if differ:
        print(f"losses differ: {'; '.join(differ)}")
    return 1 if differ else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        run_worker(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        sys.exit(main())
