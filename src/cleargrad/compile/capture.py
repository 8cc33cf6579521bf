"""Compiled functions: calls of a function wait from its beginning to its end.

Python runs, so that everything it decides is decided anew; what it calls waits, and is computed by programs when
the function returns, or when a value is looked at inside. With `fullgraph`, such a look is an error. Once a call
has run as one program, a witness stands beside the next one; where it proves what Python depended on, Python is
left out while that stays as it is (compile/proofs/shortcut.py). Read next: compile/waiting.py.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from typing import Any

from cleargrad.compile.ending import Ending
from cleargrad.compile.proofs.rewriting import Unproven
from cleargrad.compile.proofs.shortcut import MISSED, Shortcut
from cleargrad.compile.proofs.witness import Witness
from cleargrad.compile.traces import Tree
from cleargrad.compile.waiting import Waiter
from cleargrad.core.mode import SPECIAL, at_once, gate, mode, settle
from cleargrad.core.shortage import shortage
from cleargrad.core.watch import watch
from cleargrad.ops.record import Graph

PROOFS = 8  # calls of a function beside which a witness may stand

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
        self.shortcuts: list[Shortcut] = []
        self.unproven: tuple[str, Any] | None = None  # why Python had to run, and where that was seen last
        self.attempts = PROOFS
        self.names: Callable[..., dict[int, str]] | None = None  # what arguments are called, for reports
        for watcher in watchers:
            watcher(self)

    @property
    def programs(self) -> list[Ending]:
        """What was compiled so far."""
        return self.tree.endings

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        how = gate.how or mode.how
        if how != SPECIAL:
            if watch.observer is None:
                for shortcut in self.shortcuts:
                    if shortcut.how == how:
                        result = shortcut.attempt(args, kwargs)
                        if result is not MISSED:
                            return result
        elif mode.recorder is not None or (mode.waiter is not None and mode.waiter.compiled):
            return self.function(*args, **kwargs)  # it is a part of another one
        elif mode.waiter is not None:  # calls around it wait, too: those before it come first
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
        provable = self.attempts > 0 and waiter.ready and watch.observer is None and how != SPECIAL
        waiter.alone = False
        mode.wait(waiter)
        try:
            if provable:
                return self.prove(waiter, how, args, kwargs)
            result = self.function(*args, **kwargs)
            waiter.flush()
            return result
        except MemoryError as failure:
            raise shortage(str(self.title), failure, args) from failure
        finally:
            waiter.close()
            waiter.ready = not waiter.alone
            mode.wait(None)

    def prove(self, waiter: Waiter, how: int, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call beside which a witness stands; what it can prove makes a shortcut."""
        self.attempts -= 1
        waiter.witness = witness = Witness(waiter)
        try:
            result = witness.whole(self.function, args, kwargs)
            waiter.flush()
        except BaseException:
            witness.fail("it has raised an error")
            raise
        finally:
            waiter.witness = None
            witness.let_go()
        if witness.why is None:
            try:
                made = Shortcut(witness, result, how, self.tree)
                self.shortcuts = [made, *[each for each in self.shortcuts if each.is_alive()]]
            except Unproven as reason:
                witness.fail(reason.reason)
        if witness.why is not None:
            self.unproven = witness.why, witness.place
        vars(witness).clear()  # it refers to what refers to it
        witness.why = "the call is over"  # as for generators that were made in it
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __deepcopy__(self, memo: dict) -> Compiled:
        return self

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<compiled {self.title}>"
