"""`cleargrad doctor train.py ...`: runs a training script, unchanged, and says what is wrong with its gradients.

The script runs on what it imports: real PyTorch, which the doctor begins to watch as soon as it is imported, or
cleargrad. Its output and exit status are its own; the report goes to standard error at the end, also when the
script fails. Read next: doctor/session.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from cleargrad import compat
from cleargrad.cli.run import run
from cleargrad.cli.terminal import WRONG_USAGE, CommandError

DESCRIPTION = """\
Runs a training script, unchanged, on PyTorch or cleargrad, and says at its end
what is wrong with its gradients: where, why, and how to repair it."""

EPILOG = """\
examples:
  cleargrad doctor train.py --epochs 1            a script, with its arguments
  cleargrad doctor --max-steps 50 train.py        only its first steps
  cleargrad doctor --html report.html -m package.train

The exit status is the script's own, and 1 where there is any error or warning.
Read on: docs/doctor.md."""


def add_to(commands) -> None:
    """Declares the command and its options."""
    parser = commands.add_parser(
        "doctor",
        help="find mistakes in the gradients of a training script",
        description=DESCRIPTION,
        usage="cleargrad doctor [options] [-m] PROGRAM ...",
        epilog=EPILOG,
    )
    for form in ("json", "html", "sarif"):
        parser.add_argument(
            f"--{form}", metavar="FILE", help=f"also write the report to a file, as {form.upper()}"
        )
    parser.add_argument(
        "--engine", choices=("torch", "cleargrad"), help="what runs the script's `import torch`"
    )
    parser.add_argument("--strict", action="store_true", help="raise an exception where a problem is found")
    parser.add_argument("--ignore", metavar="RULE", action="append", default=[], help="leave out a rule")
    parser.add_argument("--baseline", metavar="FILE", help="a file of known findings, which do not count")
    parser.add_argument(
        "--write-baseline", action="store_true", help="make what is found now the known findings"
    )
    parser.add_argument("--max-steps", metavar="N", type=int, help="end the script after N optimizer steps")
    parser.add_argument("--rules", action=ListRules, nargs=0, help="list the rules, and end")
    parser.add_argument("-m", "--module", action="store_true", help="PROGRAM is the name of a module")
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or a module with -m")
    parser.add_argument(
        "arguments", metavar="...", nargs=argparse.REMAINDER, help="the program's own arguments"
    )
    parser.set_defaults(command=examine)


class ListRules(argparse.Action):
    """Prints one line per rule: its name, its severity and what it looks for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from cleargrad.doctor.rules import descriptions

        found = descriptions()
        width = max(len(rule.name) for rule, _ in found)
        for rule, text in found:
            print(f"{rule.name:{width}}  {rule.severity:7}  {text}")
        parser.exit()


def examine(options: argparse.Namespace) -> int:
    """Runs the program under a watch, and reports."""
    from cleargrad.doctor.session import Session

    if options.write_baseline and options.baseline is None:
        raise CommandError(
            "cleargrad doctor", "--write-baseline needs a file", fix="add --baseline FILE", status=WRONG_USAGE
        )
    check_names(options.ignore)
    session = Session(
        engine=engine_for(options), strict=options.strict, ignore=options.ignore, max_steps=options.max_steps
    )
    folder = os.getcwd()
    status = run_watched(session, options)
    os.chdir(folder)  # the program may have gone elsewhere, and paths are meant from here
    return conclude(session, options, status)


def check_names(ignored: list[str]) -> None:
    """A rule that is misspelt would otherwise go on to be found, and the reader would wonder why."""
    from cleargrad.doctor.rules import load

    known = sorted({rule.name for rule in load().values()})
    for name in ignored:
        if name not in known:
            raise CommandError(
                "cleargrad doctor", f"there is no rule {name!r}", rules=", ".join(known), status=WRONG_USAGE
            )


def engine_for(options: argparse.Namespace) -> str | None:
    """The engine that was asked for; None to watch what the script imports."""
    return options.engine or ("cleargrad" if importlib.util.find_spec("torch") is None else None)


def run_watched(session: Any, options: argparse.Namespace) -> int:
    """The program's exit status. Its traceback is printed as Python would print it."""

    def serve() -> None:
        if session.engine == "cleargrad":
            compat.serve()
            session.attach()
            return
        # Until PyTorch is imported, the script may as well be one that imports cleargrad.
        wait_for_torch(lambda: session.switch("torch"))
        if session.engine is None:
            session.engine = "cleargrad"
            session.attach()

    failed, reason = True, None
    try:
        run(options.program, options.arguments, options.module, serve)
        status, failed = 0, False
    except CommandError:
        raise
    except SystemExit as leaving:
        status = exit_status(leaving)
        failed = status != 0
    except BaseException as error:
        reason = error
        sys.excepthook(type(error), error, error.__traceback__)
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
    session.detach(failed, reason)
    return status


def exit_status(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    print(leaving.code, file=sys.stderr)
    return 1


def conclude(session: Any, options: argparse.Namespace, status: int) -> int:
    """Writes the reports; the answer is the exit status."""
    from cleargrad.doctor.reports import as_text, write

    sys.stdout.flush()
    known = known_findings(session, options)
    as_text.show(session, known)
    for form in ("json", "html", "sarif"):
        path = getattr(options, form)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(write(session, form))
    return status or int(any(problem not in known for problem in session.findings.problems))


def known_findings(session: Any, options: argparse.Namespace) -> list[Any]:
    """What the baseline lists, after it was written if that was asked for. A missing one lists nothing."""
    from cleargrad.doctor import baseline
    from cleargrad.doctor.sentences import counted

    if options.baseline is None:
        return []
    if options.write_baseline:
        count = baseline.write(options.baseline, session.findings)
        print(
            f"cleargrad doctor: {options.baseline} lists {counted(count, 'known finding')} now",
            file=sys.stderr,
        )
    elif not os.path.exists(options.baseline):
        print(f"cleargrad doctor: there is no {options.baseline}; --write-baseline makes it", file=sys.stderr)
        return []
    return baseline.known_in(options.baseline, session.findings)


# Waiting for PyTorch ---------------------------------------------------------------------------------------


class TorchFinder(MetaPathFinder):
    """Finds torch as Python would, and calls back when it has been imported.

    Importing it before the script does would be too early: scripts set environment variables that it reads.
    """

    def __init__(self, call_back: Callable[[], None]) -> None:
        self.call_back = call_back

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader

        def execute(module: ModuleType) -> None:
            del loader.exec_module
            loader.exec_module(module)
            self.call_back()

        loader.exec_module = execute
        return spec


def wait_for_torch(call_back: Callable[[], None]) -> None:
    if "torch" in sys.modules:
        call_back()
    else:
        sys.meta_path.insert(0, TorchFinder(call_back))
