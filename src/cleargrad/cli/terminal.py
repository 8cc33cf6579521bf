"""How commands speak: errors in one layout, progress on a terminal, plain text everywhere else.

A command raises `CommandError` and never prints an error itself; `cli/__init__.py` prints it and ends the
process with its status. Anything that may take longer than a second runs inside `progress`, which shows nothing
unless people watch. Read next: cli/run.py.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from cleargrad.errors import laid_out

FAILURE, WRONG_USAGE, INTERRUPTED = 1, 2, 130

# What each step of a command reports: how far it has got, and a few words.
Advance = Callable[[float, str], None]


class CommandError(Exception):
    """What a command cannot do: one sentence, the facts, and the fix."""

    def __init__(
        self, command: str, rule: str, *, fix: str = "", status: int = FAILURE, **facts: object
    ) -> None:
        rows = {name: str(fact) for name, fact in facts.items()}
        super().__init__(laid_out(command, rule, {**rows, "fix": fix} if fix else rows))
        self.status = status


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """argparse's help at a readable width; the commands are listed without the word that stands for them."""

    def __init__(self, prog: str) -> None:
        super().__init__(
            prog, max_help_position=18, width=min(shutil.get_terminal_size((80, 24)).columns, 96)
        )

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            return "".join(map(self._format_action, action._get_subactions()))
        return super()._format_action(action)


class Parser(argparse.ArgumentParser):
    """argparse's parser: wrong usage is told in our layout, and a misspelt word answered with the nearest."""

    def __init__(self, **options: Any) -> None:
        defaults = {"formatter_class": HelpFormatter, "allow_abbrev": False, "add_help": False}
        super().__init__(**{**defaults, **options})
        self.add_argument("-h", "--help", action="help", help="print this")

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def, override]
        """As argparse does, but it is the command that complains of an option that it does not know."""
        words = sys.argv[1:] if args is None else list(args)
        options, unknown = self.parse_known_args(words, namespace)
        if unknown:
            self.command_of(words).error(f"unrecognized arguments: {' '.join(unknown)}")
        return options

    def command_of(self, words: list[str]) -> Parser:
        """The parser of the command that is named first; this one where none is."""
        commands = [each.choices for each in self._actions if isinstance(each, argparse._SubParsersAction)]
        return commands[0].get(words[0], self) if commands and words else self

    def error(self, message: str) -> NoReturn:
        facts = {}
        named = re.match(r"argument ([^:]+): (.*)", message, re.S)
        rule = named[2] if named else message.removesuffix(", ...")  # a program's own arguments may be none
        chosen = re.match(r"invalid choice: '?([^' ]*)'?", rule)
        if named and chosen:
            action = next(each for each in self._actions if each.choices and chosen[1] not in each.choices)
            rule = f"{named[1]} cannot be {chosen[1]!r}"
            facts["known"] = ", ".join(map(str, action.choices or ()))
        elif named:
            rule = f"{named[1]}: {rule}"
        nearest = nearest_word(message, self.known_words())
        fix = f"did you mean {nearest}? " if nearest else ""
        raise CommandError(self.prog, rule, **facts, fix=f"{fix}see {self.prog} --help", status=WRONG_USAGE)

    def known_words(self) -> list[str]:
        words = [word for action in self._actions for word in action.option_strings]
        return words + [str(choice) for action in self._actions for choice in action.choices or ()]


def nearest_word(message: str, known: Iterable[str]) -> str:
    """The known word that a message's unknown one resembles; nothing where there is none."""
    unknown = re.search(r"(?:invalid choice: '?|unrecognized arguments: )([\w-]+)", message)
    found = difflib.get_close_matches(unknown[1], list(known), 1) if unknown else []
    return found[0] if found else ""


def make_folder(command: str, folder: Path) -> None:
    """Makes a folder for files of ours, before anything long begins."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = "" if os.access(folder, os.W_OK) else "Permission denied"
    except OSError as reason:
        problem = str(reason.strerror)
    if problem:
        fix = "choose another folder with --folder DIR"
        raise CommandError(command, f"cannot write to the folder {folder}", reason=problem, fix=fix)


def program() -> str:
    """What to type for `cleargrad`: where it is not on the path, how this process was started."""
    if shutil.which("cleargrad") is not None:
        return "cleargrad"
    if os.path.basename(sys.argv[0]) == "cleargrad":
        return min(sys.argv[0], os.path.relpath(sys.argv[0]), key=len)
    return "python -m cleargrad"


# What people see ---------------------------------------------------------------------------------------------


def is_watched() -> bool:
    """Whether both streams are terminals: a bar would spoil what a pager or a log shows."""
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def wants_colour() -> bool:
    from cleargrad.doctor.reports import as_text

    return as_text.wants_colour(sys.stdout)


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def paint(text: str, style: str) -> str:
    """The text in a style, such as "bold" or "red", where there is colour."""
    codes = {"bold": 1, "faint": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}
    return f"\x1b[{codes[style]}m{text}\x1b[0m" if wants_colour() else text


def facts(rows: dict[str, str], indent: str = "  ") -> str:
    """Names and values, one pair per line."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"{indent}{name:<{width}}  {text}" for name, text in rows.items())


@contextlib.contextmanager
def progress(title: str, total: float) -> Iterator[Advance]:
    """Gives a function to call as `advance(done, words)`; it draws a bar where somebody watches."""
    if in_notebook():
        with notebook_line(title, total) as advance:
            yield advance
        return
    if not is_watched():
        yield lambda done, words: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(title),
        BarColumn(14),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda done, words: bar.update(task, completed=done, description=words)


@contextlib.contextmanager
def notebook_line(title: str, total: float) -> Iterator[Advance]:
    """A line that a notebook writes anew; rich would need widgets, which may not be installed."""
    from IPython.display import display

    def as_text(text: str) -> dict[str, str]:
        return {"text/plain": text}

    line = display(as_text(title), raw=True, display_id=True)
    yield lambda done, words: line.update(as_text(f"{title} {done / total:4.0%}  {words}"), raw=True)
    line.update(as_text(""), raw=True)
