"""Modes of the current thread: whether gradients are recorded, and who else wants to see every op.

The door of an op reads one word on every call, `gate.how or mode.how`: NO_GRAD, GRAD, or SPECIAL, behind
which everything unusual hides. Read next: core/tensor.py.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

NO_GRAD, GRAD, SPECIAL = 0, 1, 2


class Gate:
    """A shortcut around the slow look-up of a thread's mode: GRAD while all threads are in it, else 0."""

    __slots__ = ("how",)


gate = Gate()
gate.how = GRAD


class ChangeCount:
    """Counts changes of what programs are made of: modes, parameters and hooks of modules, groups of optimizers.

    A compiled program looks at its modules and optimizers again only when the count has moved. Changes of the
    default dtype are counted besides: what is recorded may depend on it.
    """

    __slots__ = ("defaults", "version")


structure = ChangeCount()
structure.version = structure.defaults = 0
_elsewhere: set[int] = set()  # threads that are in another mode
_lock = threading.Lock()


class Mode(threading.local):
    """Class attributes are the defaults of a new thread."""

    how = GRAD
    grad = True
    inference = False
    anomaly = False
    check_nan = True
    recorder = None  # ops.record.Recorder: the second reading of every call
    waiter: Any = None  # compile.waiting.Waiter: calls wait until somebody looks at a value
    simply: Any = None  # the same waiter, while nobody else wants to see calls before it does
    resting: Any = None  # a waiter, while its calls are made at once (compile/trial.py)
    observer = None  # autograd.profiler.Observer: measures every run of an op
    autocast = None  # reserved for amp: casts inputs before the op sees them
    walk: tuple | None = None  # (roots, targets) of the backward walk that is under way
    saved_hooks = None  # tuple of (pack, unpack), innermost last

    def set(self, **changes: object) -> dict[str, object]:
        """Changes some settings and returns what they were, for restoring."""
        before = {name: getattr(self, name) for name in changes}
        for name, value in changes.items():
            setattr(self, name, value)
        if self.inference:
            self.grad = False  # enable_grad cannot bring back what inference mode does not track
        self.simply = self.waiter if self.recorder is None and self.autocast is None else None
        watched = self.recorder is not None or self.observer is not None or self.autocast is not None
        if self.waiter is not None:
            self.waiter.spared = 0
            self.waiter.aside = self.observer is not None or bool(self.saved_hooks)
            self.waiter.grad = None if self.waiter.aside or self.inference else self.grad
        special = watched or self.waiter is not None or self.saved_hooks or self.inference or self.anomaly
        self.enter(SPECIAL if special else GRAD if self.grad else NO_GRAD)
        return before

    def turn(self, grad: bool) -> bool:
        """Turns recording of gradients on or off and returns what it was: `set(grad=...)`, but quicker."""
        before = self.grad
        if before != grad:
            if self.how == SPECIAL:
                self.grad = grad and not self.inference
                waiter = self.waiter
                if waiter is not None and waiter.grad is not None:
                    waiter.grad = self.grad
            else:
                self.grad = grad
                self.enter(GRAD if grad else NO_GRAD)
        return before

    def wait(self, waiter: Any) -> Any:
        """Has calls wait, or no longer: `set(waiter=...)`, but quicker. Returns who had them wait before."""
        before, self.waiter = self.waiter, waiter
        self.set()
        return before

    def enter(self, how: int) -> None:
        self.how = how
        with _lock:
            (_elsewhere.discard if how == GRAD else _elsewhere.add)(get_ident())
            gate.how = 0 if _elsewhere else GRAD


mode = Mode()


def in_child() -> None:
    """A forked child has no other threads."""
    _elsewhere.intersection_update([get_ident()])
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=in_child)


def spared() -> int:
    """How a call is made, where the word is SPECIAL: as if nobody waited, if it is one that is not to wait."""
    waiter = mode.simply
    if waiter is None or not waiter.spared:
        return SPECIAL
    waiter.spared -= 1
    return GRAD if waiter.grad else NO_GRAD


@contextmanager
def at_once() -> Iterator[None]:
    """Calls within are made at their line, whoever had them wait."""
    before = mode.wait(None)
    try:
        yield
    finally:
        mode.wait(before)


SEEN = "memory is seen or written by other ways than ops"


def settle(why: str = SEEN) -> None:
    """Computes all that waits."""
    if mode.waiter is not None:
        mode.waiter.flush(why)


def step_made() -> None:
    """An optimizer has made its step: the moment at which calls may begin to wait, or cease to."""
    waiter = mode.waiter or mode.resting
    if waiter is not None:
        waiter.step_made()
