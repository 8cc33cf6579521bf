"""`cleargrad explain script.py ...`: runs a training script and shows, step by step, what became of its gradients.

The lesson is a page, and a few paragraphs on standard error. With `--compile`, the program runs as under
`cleargrad run`, and the report says what became of every function that it compiled.
Read next: doctor/lesson.py, compile/report.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

from cleargrad.cli.doctor import engine_for, run_watched
from cleargrad.cli.run import run

DESCRIPTION = """\
Runs a training script and explains its first steps, in words and as a page: the
graph, and what each call did to the gradients. With --compile it explains what
became of every function that the script compiled."""

EPILOG = """\
examples:
  cleargrad explain train.py --epochs 1           what became of gradients
  cleargrad explain --compile train.py            kernels, memory and time

Read on: docs/gradients.md, docs/compile.md."""


def add_to(commands) -> None:
    """Declares the command and its options."""
    parser = commands.add_parser(
        "explain",
        help="show what becomes of gradients, or of compiled functions",
        description=DESCRIPTION,
        usage="cleargrad explain [options] [-m] PROGRAM ...\n"
        "       cleargrad explain --compile [--full] [-m] PROGRAM ...",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help="instead: the graph, kernels, memory and time of every function that torch.compile compiled",
    )
    parser.add_argument("--full", action="store_true", help="with --compile: leave nothing out")
    parser.add_argument(
        "--html", metavar="FILE", default="explained.html", help="the page (default: explained.html)"
    )
    parser.add_argument(
        "--engine", choices=("torch", "cleargrad"), help="what runs the script's `import torch`"
    )
    parser.add_argument("--max-steps", metavar="N", type=int, help="end the script after N optimizer steps")
    parser.add_argument(
        "-m", "--module", action="store_true", help="PROGRAM is the name of a module, as in python -m"
    )
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or a module with -m")
    parser.add_argument(
        "arguments", metavar="...", nargs=argparse.REMAINDER, help="the program's own arguments"
    )
    parser.set_defaults(command=explain)


def explain(options: argparse.Namespace) -> int | None:
    """Runs a program and reports, also when it ends early or fails."""
    if not options.compile:
        return explain_training(options)
    explain_compiled(options)
    return None


def explain_training(options: argparse.Namespace) -> int:
    """The exit status is the program's own."""
    from cleargrad.doctor.lesson import Lesson
    from cleargrad.doctor.reports.as_lesson import in_words, write

    lesson = Lesson(engine=engine_for(options), max_steps=options.max_steps)
    folder = os.getcwd()
    status = run_watched(lesson, options)
    os.chdir(folder)
    sys.stdout.flush()
    with open(options.html, "w", encoding="utf-8") as file:
        file.write(write(lesson))
    print(in_words(lesson), file=sys.stderr)
    print(f"\nThe page with the graph and all figures: {options.html}", file=sys.stderr)
    return status


def explain_compiled(options: argparse.Namespace) -> None:
    from cleargrad.compile.report import report_of_tree
    from cleargrad.compile.script import waiting
    from cleargrad.compile.traces import Tree
    from cleargrad.compile.watched import WatchedProgram

    tree = Tree()
    tree.ends = Counter()
    try:
        with waiting(WatchedProgram, tree):
            run(options.program, options.arguments, options.module)
    finally:
        names = {
            name: value for name, value in vars(sys.modules["__main__"]).items() if not name.startswith("_")
        }
        title = os.path.basename(options.program)
        print("\n" + report_of_tree(title, tree, names, options.full), end="\n\n")
