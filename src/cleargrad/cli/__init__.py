"""The command line: `cleargrad COMMAND ...`, also as `python -m cleargrad`. One file per command."""

from __future__ import annotations

import argparse
import sys

import cleargrad


def main(arguments: list[str] | None = None) -> int | None:
    """Runs one command; what it returns is the exit status."""
    parser = argparse.ArgumentParser(
        prog="cleargrad",
        description="A training framework with PyTorch's API whose gradients explain themselves.",
    )
    parser.add_argument("--version", action="version", version=f"cleargrad {cleargrad.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    from cleargrad.cli import doctor, explain, run

    run.add_to(commands)
    explain.add_to(commands)
    doctor.add_to(commands)
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    return options.command(options)
