"""Events that are like many before them, so that rules need not look at each again.

A training loop does the same thing thousands of times. What rules have seen often from the same line, with the
same parameters and nothing odd in the ledger, they have judged already; only those that count every time hear
of it again. The ledger takes every event all the same. Read next: rules/__init__.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.doctor.events import Accumulate, Backward, Event, Step, Zero
from cleargrad.doctor.ledger import Ledger

OFTEN = 64  # more than any rule's patience
MOST = 4096  # kinds of moments that are told apart


class Familiarity:
    """Counts moments by what matters in them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.seen: dict[
            tuple, list[Any]
        ] = {}  # moment: its count, and the parameters, whose identity is part of it

    def knows(self, event: Event) -> bool:
        """Whether the same has been heard often."""
        kind = type(event)
        if kind is Accumulate:
            parameters: Any = event.parameters  # type: ignore[attr-defined]
            moment: tuple = (kind, id(event.place), id(parameters))
        elif kind is Step:
            use = self.ledger.use
            if use is None or use.is_odd or event.frozen:  # type: ignore[attr-defined]
                return False
            parameters = (event.with_gradient, event.without_gradient)  # type: ignore[attr-defined]
            moment = (kind, id(event.place), id(parameters[0]), id(parameters[1]), use.passes)
        elif kind is Backward:
            parameters = None
            moment = (kind, id(event.place), event.root, event.scaler, event.graphs_alive)  # type: ignore[attr-defined]
        elif kind is Zero and event.weights is None:  # type: ignore[attr-defined]
            parameters = event.parameters  # type: ignore[attr-defined]
            moment = (kind, id(event.place), id(parameters))
        else:
            return False
        known = self.seen.get(moment)
        if known is None:
            if len(self.seen) > MOST:
                self.seen.clear()
            self.seen[moment] = [1, parameters]
            return False
        known[0] += 1
        return known[0] > OFTEN
