"""Compiled functions: calls of a function wait from its beginning to its end.

Python runs every time, so that everything it decides is decided anew; what it calls waits, and is computed by
programs when the function returns, or when a value is looked at inside. With `fullgraph`, such a look is an error.
Read next: compile/waiting.py.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from typing import Any

from cleargrad.compile.ending import Ending
from cleargrad.compile.traces import Tree
from cleargrad.compile.waiting import Waiter
from cleargrad.core.mode import at_once, mode, settle
from cleargrad.core.shortage import shortage
from cleargrad.ops.record import Graph

watchers: list[Callable[[Compiled], None]] = []  # who is shown every compiled function when it is made


class Waiters(threading.local):
    """The waiter of a compiled function, one in each thread; they share what they have learnt."""

    waiter: Waiter | None = None


class Compiled:
    """A function whose calls run as compiled programs."""

    def __init__(
        self,
        function: Callable,
        make: Callable[[Graph], Any],
        fullgraph: bool = False,
        name: str | None = None,
    ) -> None:
        self.function = function
        self.make = make
        self.fullgraph = fullgraph
        functools.update_wrapper(self, function, updated=())
        self.title = name or getattr(function, "__qualname__", type(function).__name__)
        self.tree = Tree()
        self.waiters = Waiters()
        self.names: Callable[..., dict[int, str]] | None = None  # what arguments are called, for reports
        for watcher in watchers:
            watcher(self)

    @property
    def programs(self) -> list[Ending]:
        """What was compiled so far."""
        return self.tree.endings

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if mode.recorder is not None or (mode.waiter is not None and mode.waiter.compiled):
            return self.function(*args, **kwargs)  # it is a part of another one
        if mode.waiter is not None:  # calls around it wait, too: those before it come first
            settle()
            with at_once():
                return self(*args, **kwargs)
        waiter = self.waiters.waiter
        if waiter is None:
            waiter = self.waiters.waiter = Waiter(
                self.make, self.tree, self.title if self.fullgraph else None
            )
            waiter.compiled = True
        if self.names is not None:
            waiter.names = self.names(args, kwargs)
        mode.wait(waiter)
        try:
            result = self.function(*args, **kwargs)
            waiter.flush()
            return result
        except MemoryError as failure:
            raise shortage(str(self.title), failure, args) from failure
        finally:
            waiter.close()
            mode.wait(None)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __deepcopy__(self, memo: dict) -> Compiled:
        return self

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<compiled {self.title}>"
