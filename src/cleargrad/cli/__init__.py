"""The command line: `cleargrad COMMAND ...`, also as `python -m cleargrad`. One file per command.

A command declares its options in `add_to` and imports what it needs when it runs. The exit status is 0, 1 for a
failure, 2 for wrong usage, 130 after Ctrl-C; `run`, `doctor` and `explain` end as the program does that they
run. Read next: cli/terminal.py.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable

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


COMMANDS = ("demo", "run", "doctor", "explain", "bench", "info", "completion")


def make_parser(names: Iterable[str] = COMMANDS) -> Parser:
    """The command line, whole or only with some commands; completion is generated from it."""
    parser = Parser(prog="cleargrad", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "--version", action="version", version=f"cleargrad {cleargrad.__version__}", help="print the version"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in names:
        importlib.import_module(f"cleargrad.cli.{name}").add_to(commands)
    return parser


def needed(words: list[str]) -> Iterable[str]:
    """The commands whose files must be read: a command that is named needs no other, and a version none."""
    if words[:1] == ["--version"]:
        return ()
    return words[:1] if words[:1] and words[0] in COMMANDS else COMMANDS


def main(arguments: list[str] | None = None) -> int | None:
    """Runs one command; what it returns is the exit status."""
    options = None
    try:
        words = sys.argv[1:] if arguments is None else arguments
        parser = make_parser(needed(words))
        options = parser.parse_args(words)
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
