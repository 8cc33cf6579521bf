"""`cleargrad explain --compile script.py ...`: runs a program and says what became of every function it compiled.

The program runs as under `cleargrad run`; the report follows what it prints. Read next: compile/report.py.
"""

from __future__ import annotations

import argparse

from cleargrad.cli.run import run


def add_to(commands) -> None:
    """Declares the command and its options."""
    parser = commands.add_parser(
        "explain",
        help="run a PyTorch script on cleargrad and say what was done with it",
        description="Runs a program as `cleargrad run` does, then says what became of it.",
        usage="cleargrad explain --compile [--full] [-m] PROGRAM ...",
        epilog="Example: cleargrad explain --compile train.py --epochs 1",
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        required=True,
        help="the graph, kernels, memory and time of every function that torch.compile compiled",
    )
    parser.add_argument("--full", action="store_true", help="leave nothing out")
    parser.add_argument(
        "-m", "--module", action="store_true", help="PROGRAM is the name of a module, as in python -m"
    )
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or a module with -m")
    parser.add_argument(
        "arguments", metavar="...", nargs=argparse.REMAINDER, help="the program's own arguments"
    )
    parser.set_defaults(command=explain)


def explain(options: argparse.Namespace) -> None:
    """Runs a program and reports, also when it ends early or fails."""
    from cleargrad.compile.report import report
    from cleargrad.compile.watched import watching

    with watching() as found:
        try:
            run(options.program, options.arguments, options.module)
        finally:
            print()
            for compiled in found:
                print(report(compiled, options.full), end="\n\n")
            if not found:
                print("No function was compiled: the program does not call torch.compile.")
