"""Random permutations by Fisher and Yates: the swaps in, the shuffled order out, without swapping one by one.

Step i of a Fisher-Yates shuffle swaps position i with a partner at i or behind it. What ends up at i is what
lies at the partner just before step i: the number that the previous step with the same partner put there, or,
if there was none, the number that was there from the start. Read next: core/generator.py, which draws them.
"""

from __future__ import annotations

import numpy as np

SHORT = 1000  # below this the plain loop is quicker


def shuffle(partners: np.ndarray) -> np.ndarray:
    """The numbers 0 to n - 1 after swapping position i with partners[i] >= i, for every i in turn."""
    if len(partners) < SHORT:
        return _swap_in_turn(partners)
    steps = np.arange(len(partners))
    last, previous = _steps_by_partner(partners, steps)
    # arrived[i] is the number at position i just before step i: walk back step by step, in doubling strides.
    before = np.where(last == steps, previous, last)
    arrived = np.where(before < 0, steps, before)
    while True:
        further = arrived[arrived]
        if np.array_equal(further, arrived):
            return np.where(previous < 0, partners, arrived[previous])
        arrived = further


def _steps_by_partner(partners: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last step that has a position as partner, and the one before a step that has the same partner."""
    last = np.full(len(partners), -1)
    previous = np.full(len(partners), -1)
    last[partners] = steps  # of several steps with one partner the last one stays
    latest = last.copy()
    waiting = np.flatnonzero(last[partners] != steps)
    while waiting.size:
        positions = partners[waiting]
        later = latest[positions]
        latest[positions] = waiting
        found = latest[positions]
        previous[later] = found
        waiting = waiting[found != waiting]
    return last, previous


def _swap_in_turn(partners: np.ndarray) -> np.ndarray:
    order = list(range(len(partners)))
    for here, there in enumerate(partners.tolist()):
        order[here], order[there] = order[there], order[here]
    return np.array(order, np.int64)
