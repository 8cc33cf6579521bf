"""cleargrad as the doctor's engine.

Accumulation is heard from the backward walk itself, through `core.watch`: hooks on leaves would change the order of
the walk. Read next: session.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from cleargrad.core.mode import at_once, mode
from cleargrad.core.watch import watch
from cleargrad.doctor.events import Event
from cleargrad.doctor.hooks import LibraryObserver, nodes_behind
from cleargrad.doctor.patches import Patches


class CleargradObserver(LibraryObserver):
    """Observes cleargrad."""

    engine = "cleargrad"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # By node: marks in a node's metadata would send it the slower way through the backward walk.
        self.scaled: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def is_compiling(self) -> bool:
        """Calls that wait are like any other."""
        return mode.recorder is not None

    def onlooks(self, patches: Patches, register: Callable, hook: Callable) -> None:
        watch.onlookers.add(hook)
        patches.undo.append(lambda: watch.onlookers.discard(hook))
        super().onlooks(patches, register, hook)

    def attach(self, objects: Iterable[Any]) -> None:
        super().attach(objects)
        watch.observer = self
        self.patches.method(self.tensor, "history", lambda _: property(self.history_of), absent_is_fine=True)

    def detach(self) -> None:
        if watch.observer is self:
            watch.observer = None
        super().detach()

    def history_of(self, tensor: Any) -> list[Event]:
        """`p.grad.history` or `p.history`: the remembered events that concern the parameter."""
        self.flush()
        for record in self.registry.parameters:
            parameter = record.ref()
            if parameter is not None and (parameter is tensor or parameter.grad is tensor):
                return self.ledger.history(record.number)
        return []

    def leaf_filled(self, leaf: Any) -> None:
        """The backward walk has added to a leaf's gradient."""
        if mode.recorder is None:
            self.filled.append(leaf)

    def attend(self, method: Callable, args: tuple) -> None:
        """What the doctor computes is no part of what waits."""
        with at_once():
            super().attend(method, args)

    def mark_graph(self, root: Any) -> weakref.ref | None:
        node = root.grad_fn
        return None if node is None else weakref.ref(node)

    def mark_scaled(self, output: Any, scaler: int) -> None:
        self.scaled[output.grad_fn] = scaler

    def scaler_behind(self, root: Any) -> int | None:
        if not self.scaled:
            return None
        return next((self.scaled[node] for node in nodes_behind(root) if node in self.scaled), None)
