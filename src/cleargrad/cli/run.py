"""`cleargrad run script.py ...`: a program that says `import torch` runs on cleargrad, unchanged.

The program sees what it would see under `python`: its own `__main__` module, `sys.argv`, first entry of `sys.path`,
exit status and traceback. What it imports as `torch` is compat.py's matter. Read next: compat.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from types import CodeType, ModuleType, TracebackType

from cleargrad import compat
from cleargrad.cli.none_gradient import explain_none_gradient
from cleargrad.cli.terminal import FAILURE, WRONG_USAGE, CommandError

DESCRIPTION = """\
Runs a program that says `import torch` on cleargrad instead, without a change
to it. Its arguments, output, exit status and tracebacks are its own."""

EPILOG = """\
examples:
  cleargrad run train.py --epochs 3       a script, with its arguments
  cleargrad run -m package.train          a module, as with python -m
  cleargrad run --fast train.py           compiled as it runs (docs/compile.md)

What PyTorch has and cleargrad has not is named where it is used.
Read on: README.md, "What does not work yet"."""


def add_to(commands) -> None:
    """Declares the command and its options."""
    parser = commands.add_parser(
        "run",
        help="run a PyTorch script on cleargrad, unchanged",
        description=DESCRIPTION,
        usage="cleargrad run [--fast] [-m] PROGRAM ...",
        epilog=EPILOG,
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="PROGRAM is the name of a module, as in python -m"
    )
    parser.add_argument(
        "--fast", action="store_true", help="calls wait, and steps that repeat run as compiled programs"
    )
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or a module with -m")
    parser.add_argument(
        "arguments", metavar="...", nargs=argparse.REMAINDER, help="the program's own arguments"
    )
    parser.set_defaults(command=start)


def start(options: argparse.Namespace) -> None:
    """Runs a program; with --fast, its calls wait."""
    if not options.fast:
        run(options.program, options.arguments, options.module)
        return
    from cleargrad.compile.script import waiting

    with waiting():
        run(options.program, options.arguments, options.module)


def run(
    program: str, arguments: list[str], as_module: bool = False, serve: Callable[[], None] = compat.serve
) -> None:
    """Runs a program as `python program arguments` would, with cleargrad as `torch`, or what `serve` provides."""
    main = ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    sys.excepthook = TracebackOfProgram(program)
    if as_module:
        sys.path[0] = os.getcwd()
        serve()
        code = open_module(program, main)
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(program))
        serve()
        code = open_script(program, main)
    sys.argv = [str(main.__file__), *arguments]
    sys.excepthook = TracebackOfProgram(code.co_filename)
    exec(code, vars(main))


def open_script(path: str, main: ModuleType) -> CodeType:
    """The code of a script, and where it comes from as facts of its module."""
    if os.path.isdir(path):
        sys.path[0] = os.path.abspath(path)
        path = os.path.join(path, "__main__.py")
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as reason:
        rule, fix = (
            f"can't open file {path!r}",
            "give the path of a Python file, or the name of a module with -m",
        )
        raise CommandError("cleargrad", rule, reason=reason.strerror, fix=fix, status=WRONG_USAGE) from None
    main.__file__ = path
    return compile(source, path, "exec", dont_inherit=True)


def open_module(name: str, main: ModuleType) -> CodeType:
    """The code of a module named as in `python -m`; a package stands for the `__main__` in it."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError:
        spec = None
    code = None if spec is None or spec.loader is None else spec.loader.get_code(spec.name)
    if spec is None or code is None:
        fix = "run it from the folder that it is in, or install it"
        raise CommandError(
            "cleargrad", f"no module named {name}", folder=os.getcwd(), fix=fix, status=FAILURE
        )
    main.__file__, main.__spec__, main.__package__ = spec.origin, spec, spec.parent
    main.__loader__ = spec.loader
    return code


class TracebackOfProgram:
    """An excepthook that leaves out the frames between the shell and the program."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        compat.explain_missing(error)
        explain_none_gradient(error)
        inner = traceback
        while inner is not None and inner.tb_frame.f_code.co_filename != self.file:
            inner = inner.tb_next
        sys.__excepthook__(kind, error.with_traceback(inner), inner)
