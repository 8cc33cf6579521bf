"""Compiled functions: which program fits a call, and what a recorded call becomes.

The first call runs eagerly, the second is recorded while it runs, later ones run the program. A function that has a
program is recorded at once when arguments of another layout come, as long as there are few layouts, and the new
program makes that call. A program fits when the layout of the arguments, the modes and all facts seen while
recording are the same. What cannot be recorded runs eagerly, with one warning. Read next: compile/entry.py.
"""

from __future__ import annotations

import functools
import gc
import os
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from cleargrad.amp import state as autocast_state
from cleargrad.compile.before import Before
from cleargrad.compile.entry import Entry
from cleargrad.compile.facts import Names
from cleargrad.compile.structures import OutOfRange, Unsupported, key_of
from cleargrad.compile.tracer import Tracer
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode, structure
from cleargrad.core.shortage import shortage
from cleargrad.core.tensor import FROZEN, Tensor
from cleargrad.core.watch import watch
from cleargrad.errors import error
from cleargrad.ops.record import CaptureError, Graph
from cleargrad.threads import when_chosen

LIMIT = 16  # programs of one function
ATTEMPTS = 4  # recordings that may come to nothing, such as those that make an optimizer's state
MANY = 64  # layouts of arguments that were seen once
FEW = 4  # programs of one function, up to which a new layout is recorded when it comes first

# One call is recorded at a time: a recorder holds all tensors there are, and asks who else holds them.
recording = threading.Lock()

watchers: list[Callable[[Compiled], None]] = []  # who is shown every compiled function when it is made


everything: weakref.WeakSet[Compiled] = weakref.WeakSet()


def look_again() -> None:
    """All compiled functions look whether their programs still fit."""
    structure.version += 1


when_chosen.append(look_again)  # a program's work is cut for some number of threads


def let_record() -> None:
    """In a forked child: who recorded in another thread is not there to end."""
    global recording
    recording = threading.Lock()


os.register_at_fork(after_in_child=let_record)


def reset() -> None:
    """All compiled functions start again."""
    for compiled in list(everything):
        compiled.forget()


class Compiled:
    """A function that runs as compiled programs."""

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
        self.entries: dict[Any, list[Entry]] = {}
        self.tried: dict[Any, int] = {}
        self.last: Entry | None = None
        self.eager: set[Any] = set()  # layouts whose calls cannot be recorded
        self.said = False
        self.reason = ""  # why it is eager
        everything.add(self)
        functools.update_wrapper(self, function, updated=())
        self.title = name or getattr(function, "__qualname__", type(function).__name__)
        for watcher in watchers:
            watcher(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        entry = self.last
        if entry is not None and entry.fits(args, kwargs):
            return self.run(entry, args, kwargs)
        return self.choose(args, kwargs)

    def run(self, entry: Entry, args: tuple, kwargs: dict[str, Any]) -> Any:
        observer = watch.observer
        if observer is None:
            return self.make_call(entry, args, kwargs)
        observer.program_begins(entry)
        result = self.make_call(entry, args, kwargs)
        observer.program_ends(entry)
        return result

    def make_call(self, entry: Entry, args: tuple, kwargs: dict[str, Any]) -> Any:
        try:
            return entry.run(args, kwargs)
        except OutOfRange:
            return self.function(*args, **kwargs)  # fails as well, and names the tensor and the user's line
        except MemoryError as failure:
            raise shortage(str(self.title), failure, args) from failure

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __deepcopy__(self, memo: dict) -> Compiled:
        return self

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<compiled {self.title}>"

    def forget(self) -> None:
        """Gives up all programs."""
        self.last = None
        for table in (self.entries, self.tried, self.eager):
            table.clear()  # type: ignore[attr-defined]
        self.said = False

    # Choosing ----------------------------------------------------------------------------------------------

    def choose(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if cannot_record():
            return self.function(*args, **kwargs)
        tensors: list[Tensor] = []
        try:
            key = (modes(), key_of(args, tensors), key_of(kwargs, tensors), shared(tensors))
        except Unsupported as reason:
            return self.give_up(None, str(reason), args, kwargs)
        for entry in self.entries.get(key, ()):
            if entry.holds(tensors):
                self.last = entry
                return self.run(entry, args, kwargs)
        tries = self.tried[key] = self.tried.get(key, 0) + 1
        if key in self.eager or (tries == 1 and not self.knows_the_way()):
            if len(self.tried) > MANY:
                self.complain()
            return self.function(*args, **kwargs)
        lock = recording
        if not lock.acquire(blocking=False):  # another thread is recording
            return self.function(*args, **kwargs)
        try:
            return self.record(key, tensors, args, kwargs)
        finally:
            lock.release()

    def knows_the_way(self) -> bool:
        """Whether calls can be recorded, and what lasts, such as an optimizer's state, is there."""
        return 0 < sum(map(len, self.entries.values())) < FEW and not self.eager

    def record(self, key: Any, tensors: list[Tensor], args: tuple, kwargs: dict[str, Any]) -> Any:
        """One eager call, recorded; the program is for the next, and for this one if its values could wait."""
        if gc.get_freeze_count() > FROZEN:
            return self.give_up(key, "gc.freeze", args, kwargs)
        observer = watch.observer
        waits = self.knows_the_way()
        with no_collection():
            if observer is None:
                tracer = Tracer(fills=not waits)
            else:
                tracer = Tracer(before=Before() if waits else None)
            entry = Entry(key, self.make)
            given = entry.begin(tracer, tensors, args, kwargs)
            names = Names(tracer, self.function)
            if observer is not None:
                observer.recording_begins()
            try:
                with fresh_casts(), tracer, names:
                    result = self.function(*given[0], **given[1])
            except BaseException:
                tracer.run_now()
                raise
            finally:
                if observer is not None:
                    observer.recording_ends(entry)
            result = entry.finish(tracer, names, result)
        if tracer.reason is None:
            self.keep(entry)
            if waits:
                tracer.take_back()
                result = self.make_call(entry, args, kwargs)
                if observer is not None:
                    observer.program_stands_in(entry)
        elif tracer.permanent or self.tried[key] > ATTEMPTS:
            self.explain(key, tracer.reason, tracer.place)
        return result

    def keep(self, entry: Entry) -> None:
        found = self.entries.setdefault(entry.key, [])
        found.insert(0, entry)
        self.last = entry
        if sum(map(len, self.entries.values())) > LIMIT:
            self.complain()
            oldest = next(iter(self.entries))
            self.entries[oldest].pop()
            if not self.entries[oldest]:
                del self.entries[oldest]

    def complain(self) -> None:
        """Says once that too much changes from call to call."""
        self.tried.clear()
        if not self.said:
            self.said = True
            warn(
                f"{self.title} has been called in more than {LIMIT} ways, and each takes a program of its own. "
                "Arguments that differ in shape or value from call to call, or names it reads that change, are "
                "the cause; numbers that change can be given as tensors"
            )

    def give_up(self, key: Any, reason: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        self.explain(key, reason, "")
        return self.function(*args, **kwargs)

    def explain(self, key: Any, reason: str, place: str) -> None:
        """Such calls go on eagerly, which is said once; with `fullgraph` it is an error."""
        rule = f"{self.title} cannot be recorded: {REASONS.get(reason, reason)}"
        fix = "move that out of the compiled function, or express it in tensor operations such as torch.where"
        if self.fullgraph:
            raise error(CaptureError, "compile", rule, fix=fix, **({"because of": place} if place else {}))
        self.eager.add(key)
        if not self.said:
            self.said = True
            because = f"\n  because of  {place}" if place else ""
            self.reason = f"{rule}{because}"
            warn(f"{rule}. It runs eagerly from now on{because}\n  fix  {fix}")


def warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=5)


VALUE = "it asks for a value while it runs"
REASONS = {
    "item": f"{VALUE} (a number from .item() may only be handed back as it is)",
    "float": f"{VALUE} (float() of a tensor; .item() may be handed back as it is)",
    "print": "it prints",
    "data": "it gives a tensor other memory by assigning .data",
    "gc.freeze": "gc.freeze() hides tensors from the recorder",
    **dict.fromkeys(("tolist", "bool", "numpy", "format", "int", "index", "complex"), VALUE),
}


def cannot_record() -> bool:
    """Inside of another recording the call is part of that; under anomaly mode and observers it stays eager."""
    watched = mode.recorder is not None or mode.observer is not None
    return bool(watched or mode.anomaly or mode.saved_hooks)


def modes() -> tuple:
    casts = None
    if mode.autocast is not None:
        casts = (tuple(mode.autocast.lower.items()), mode.autocast.cache is None)
    return mode.grad, mode.inference, casts, dtypes.get_default_dtype()


def shared(tensors: list[Tensor]) -> tuple | None:
    """Which arguments are the same memory; None when all differ."""
    ids = [id(tensor._data) for tensor in tensors]
    return None if len(set(ids)) == len(ids) else tuple(ids.index(each) for each in ids)


class no_collection:
    """Graphs and formulas are many objects and no garbage: to look through them again and again takes long."""

    def __enter__(self) -> None:
        self.before = gc.isenabled()
        gc.disable()

    def __exit__(self, *exception: object) -> None:
        if self.before:
            gc.enable()


class fresh_casts:
    """Weights that autocast has converted before are not those of the next call."""

    def __enter__(self) -> None:
        self.before = autocast_state.state.cache
        autocast_state.state.cache = {}
        if mode.autocast is not None:
            autocast_state.state.apply()

    def __exit__(self, *exception: object) -> None:
        autocast_state.state.cache = self.before
        if mode.autocast is not None:
            autocast_state.state.apply()
