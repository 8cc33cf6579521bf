"""Programs that nobody changed: calls wait wherever they come from, not only inside of compiled functions.

`waiting()` begins it for the current thread, `eager()` ends it; both can be used in a `with` statement as well.
`cleargrad run --fast` runs a whole script so. Read next: compile/waiting.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from cleargrad.compile.traces import Tree
from cleargrad.compile.waiting import Waiter
from cleargrad.core.mode import mode, settle
from cleargrad.devices.cpu.programs.program import Program


class Switch:
    """Who has calls wait, from now on or within a `with` statement."""

    def __init__(self, waiter: Waiter | None) -> None:
        settle()
        self.waiter = waiter
        self.resting, mode.resting = mode.resting, None
        self.before = mode.wait(waiter)

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        waiter = mode.waiter
        try:
            if waiter is not None:
                waiter.close() if kind is not None else waiter.flush()
        finally:
            mode.wait(self.before)
            mode.resting = self.resting


def waiting(make: Callable | None = None, tree: Tree | None = None) -> Switch:
    """Calls wait until somebody looks at a value, and known traces of calls run as compiled programs."""
    if os.environ.get("CLEARGRAD_EAGER"):
        return Switch(None)
    waiter = Waiter(make or Program, tree or Tree())
    waiter.beside = make is None  # reports want to see all programs
    return Switch(waiter)


def eager() -> Switch:
    """Every call is made at its line, for debugging."""
    return Switch(None)


__all__ = ["eager", "waiting"]
