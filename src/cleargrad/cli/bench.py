"""`cleargrad bench`: what training steps cost here, against whatever rivals are installed.

benchmarks/train_step.py is the same with the published file as its aim. Read next: bench/runner.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cleargrad.bench.machine import circumstances, installed, usable_cores
from cleargrad.cli import terminal
from cleargrad.cli.terminal import FAILURE, WRONG_USAGE, CommandError

DESCRIPTION = """\
Measures training steps, compiled and eager, against PyTorch, JAX and tinygrad
where they are installed. Variants take turns, so that all see the same noise,
and their losses must agree. Writes the figures as JSON and a page with a chart.
All workloads take about ten minutes against PyTorch."""

EPILOG = """\
workloads: linear, mlp, cnn, lstm, gpt, gpt4, adam
more: resnet, mobilenet, vit, unet, audio, encoder, gru, bag, deep
variants: torch, torch foreach, torch fused, torch compiled model,
  torch compiled step, jax compiled, tinygrad compiled, cleargrad,
  cleargrad unchanged, cleargrad compiled, bandwidth floor

examples:
  cleargrad bench --quick --workloads mlp        a first look, in half a minute
  cleargrad bench                                the published table
  cleargrad bench --workloads more               other kinds of networks

Read on: benchmarks/results/ has the published figures."""


def add_to(commands) -> None:
    """Declares the command and its options."""
    parser = commands.add_parser(
        "bench",
        help="measure training steps against PyTorch and others",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--quick", action="store_true", help="few and short turns, without torch.compile")
    parser.add_argument(
        "--workloads", metavar="A,B", help='names by comma, or "more" (default: the published seven)'
    )
    parser.add_argument("--variants", metavar="A,B", help="some of them, by comma (default: all)")
    parser.add_argument(
        "--rounds", metavar="N", type=int, help="turns of each variant (default: 15, quick: 3)"
    )
    parser.add_argument("--turn", metavar="S", type=float, help="seconds of a turn, about (default: 0.06)")
    parser.add_argument(
        "--threads",
        metavar="N",
        type=int,
        default=usable_cores(),
        help="threads of each variant (default: all cores)",
    )
    parser.add_argument(
        "--no-torch-compile",
        dest="torch_compile",
        action="store_false",
        help="leave out torch.compile, which takes minutes",
    )
    parser.add_argument(
        "--folder", metavar="DIR", default="cleargrad-bench", help="where files go (default: cleargrad-bench)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures here, and no page")
    parser.add_argument("--published", metavar="FILE", help=argparse.SUPPRESS)
    parser.set_defaults(command=bench)


def bench(options: argparse.Namespace) -> int:
    """Measures, prints as it goes, writes, and fails where losses differ."""
    from cleargrad.bench import report, results
    from cleargrad.bench.variants import PEERS, left_out

    workloads, plan, is_whole = planned(options)
    begin = time.perf_counter()
    found = measure_all(workloads, plan)
    took = round(time.perf_counter() - begin, 1)
    rows = results.summary(found)
    mean = results.geometric_mean([row["eager"] for row in rows.values()])
    remarks = left_out(workloads) if options.variants is None else []
    print(f"cleargrad's time over {results.reference(found)}\n")
    with_bars = options.published is not None and all(row["bar"] for row in rows.values())
    print(report.summary_text(rows, mean, with_bars))
    print("\n".join([f"\n{took} seconds, {plan.threads} threads, {plan.rounds} rounds", *remarks]))

    words = ["cleargrad bench", *sys.argv[2:]] if options.published is None else ["python", *sys.argv]
    facts = circumstances(" ".join(words))
    facts |= {peer: installed(peer) for peer in PEERS if installed(peer) is not None}
    facts |= {"threads": plan.threads, "rounds": plan.rounds, "seconds": took}
    write(options, is_whole, facts, {"summary": rows, "eager_mean": mean, "workloads": found}, remarks)
    differ = results.differing(found)
    if differ:
        rule = "the losses of cleargrad are not those of the reference"
        raise CommandError("cleargrad bench", rule, where="; ".join(differ), status=FAILURE)
    return 0


def planned(options: argparse.Namespace) -> tuple[list[str], Any, bool]:
    """The workloads, how to measure them, and whether that is everything there is."""
    from cleargrad.bench.architectures import EVERY, MORE
    from cleargrad.bench.runner import Plan
    from cleargrad.bench.variants import VARIANTS
    from cleargrad.bench.workloads import WORKLOADS

    if options.workloads == "more":
        workloads = list(MORE)
    else:
        workloads = chosen("workloads", options, EVERY, default=WORKLOADS)
    variants = chosen("variants", options, VARIANTS, default=VARIANTS)
    for name in ("rounds", "turn", "threads"):
        given = getattr(options, name)
        if given is not None and given <= 0:
            raise CommandError("cleargrad bench", f"--{name} must be positive", got=given, status=WRONG_USAGE)
    if options.json is None and options.published is None:
        terminal.make_folder("cleargrad bench", Path(options.folder))
    torch_compile = options.torch_compile and not options.quick
    rounds = options.rounds or (3 if options.quick else 15)
    turn = options.turn or (0.01 if options.quick else 0.06)
    everything = workloads == list(MORE) or (workloads == list(WORKLOADS) and torch_compile)
    is_whole = everything and variants == list(VARIANTS) and not options.quick
    return workloads, Plan(variants, rounds, turn, options.threads, torch_compile), is_whole


def chosen(kind: str, options: argparse.Namespace, known: dict[str, Any], default: dict) -> list[str]:
    """The names given by comma."""
    text = getattr(options, kind)
    names = list(default) if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            rule = f"{name!r} is none of the {kind}"
            raise CommandError("cleargrad bench", rule, known=", ".join(known), status=WRONG_USAGE)
    return names


def measure_all(workloads: list[str], plan: Any) -> dict[str, Any]:
    from cleargrad.bench import report, results
    from cleargrad.bench.runner import measure, turns_of, write_bytecode

    write_bytecode()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for workload in workloads:
            with terminal.progress("cleargrad bench", turns_of(workload, plan)) as advance:
                heard: list[str] = []

                def tell(words: str, advance: terminal.Advance = advance, heard: list[str] = heard) -> None:
                    heard.append(words)
                    advance(len(heard), words)

                advance(0, f"{workload}: starting")
                found[workload] = results.results(measure(workload, plan, folder, tell))
            print(report.workload_text(workload, found[workload]) + "\n", flush=True)
    return found


def write(
    options: argparse.Namespace,
    is_whole: bool,
    facts: dict[str, Any],
    figures: dict[str, Any],
    remarks: list[str],
) -> None:
    """The figures alone where a file is named for them; else a folder with figures, page and picture."""
    from cleargrad.bench import report
    from cleargrad.charts import as_png

    text = json.dumps({**facts, **figures}, indent=2) + "\n"
    if options.json is not None or options.published is not None:
        path = options.json or (options.published if is_whole else None)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return
    folder = Path(options.folder)
    (folder / "results.json").write_text(text, encoding="utf-8")
    (folder / "results.html").write_text(
        report.page_of(facts, figures["workloads"], remarks), encoding="utf-8"
    )
    names = ["results.json", "results.html"]
    if as_png.save(folder / "results.png", [report.chart_of(figures["workloads"])]):
        names.append("results.png")
    print(f"Written to {folder}/: {', '.join(names)}")
