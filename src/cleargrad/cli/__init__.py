"""The command line: `cleargrad COMMAND ...`, also as `python -m cleargrad`. One file per command.

A command declares its options in `add_to` and imports what it needs when it runs. The exit status is 0, 1 for a failure,
2 for wrong usage, 130 after Ctrl-C; `run`, `doctor` and `explain` end as the program does that they run.
Read next: cli/terminal.py.
"""

from __future__ import annotations

import os
import sys

import cleargrad
from cleargrad.cli.terminal import FAILURE, INTERRUPTED, WRONG_USAGE, CommandError, Parser

DESCRIPTION = """\
A training framework with PyTorch's API whose gradients explain themselves."""

EPILOG = """\
first steps:
  cleargrad demo                  see a forgotten zero_grad found, and repaired
  cleargrad doctor train.py       look for such mistakes in your own script
  cleargrad run train.py          run your PyTorch script on cleargrad, unchanged

`cleargrad COMMAND --help` explains a command and gives examples. In Python:
`import cleargrad as torch`. Tab completion: `cleargrad completion --help`.
Read on in README.md and docs/."""


def make_parser() -> Parser:
    """The whole command line; completion is generated from it."""
    from cleargrad.cli import bench, completion, demo, doctor, explain, info, run

    parser = Parser(prog="cleargrad", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"cleargrad {cleargrad.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in (demo, run, doctor, explain, bench, info, completion):
        command.add_to(commands)
    return parser


def main(arguments: list[str] | None = None) -> int | None:
    """Runs one command; what it returns is the exit status."""
    options = None
    try:
        parser = make_parser()
        options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
        if "command" not in options:
            parser.print_help(sys.stderr)
            return WRONG_USAGE
        return options.command(options)
    except CommandError as problem:
        sys.stdout.flush()
        print(problem, file=sys.stderr)
        return problem.status
    except KeyboardInterrupt:
        if options is not None and "program" in options:
            raise  # the program's own, with its traceback
        print("\ncleargrad: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        if options is not None and "program" in options:
            raise
        # Whoever read the output has gone; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
