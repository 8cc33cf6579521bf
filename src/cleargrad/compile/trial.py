"""Whether waiting is worth it: now and then some steps of training are made call by call, and timed.

Programs save most of the time of most loops. But calls that wait cost more Python than calls that do not, and
where values are looked at after every few small calls, or where no trace comes again, that is never earned back.
Which way is quicker is measured, not guessed; since both give the same bits, nobody sees which one runs. Read next:
compile/script.py.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import Any

from cleargrad.compile import beside
from cleargrad.core.mode import mode

TIMED = 8  # steps of either way: even, for loops that have two optimizers
FIRST = 16  # steps that wait before the first trial
PATIENCE = 4  # times as many, while programs are being made
FARTHER, FARTHEST = 8, 2048  # times as many before the next trial, up to so many
BETTER = 0.9  # of the time of steps that wait: less than noise explains
REST, LONGEST_REST = 64, 4096  # steps made call by call where that is quicker, every time twice as many


class Trial:
    """What is known of one thread's steps, in either way."""

    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=TIMED)
        self.since = 0.0  # when the last step had been made
        self.count, self.distance = 0, FIRST  # steps that have waited since the last trial, and are to
        self.busy = 0  # which of them was the last beside which a program was made
        self.waited = 0.0  # how long a step takes that waits
        self.left = self.rest = 0  # steps that are yet to be made call by call; in the last rest
        self.trying = False

    def step_made(self, waiter: Any) -> None:
        """An optimizer has made its step."""
        now = perf_counter()
        self.times.append(now - self.since)
        self.since = now
        if mode.resting is waiter:
            self.left -= 1
            if self.left == 0:
                self.end(waiter)
            return
        self.count += 1
        if beside.is_working():
            self.busy = self.count
        ready = self.count > max(self.distance, self.busy + TIMED)
        if ready or self.count > PATIENCE * self.distance:
            self.waited = typical(self.times)
            self.trying = True
            self.left = TIMED + 1  # the first of them is not timed: it ends what has waited
            waiter.flush()
            mode.resting = waiter
            mode.wait(None)

    def end(self, waiter: Any) -> None:
        """After a trial the quicker way goes on; after a rest, calls wait again for a while."""
        if self.trying and typical(self.times) < BETTER * self.waited:
            self.rest = self.left = min(max(REST, 2 * self.rest), LONGEST_REST)
            self.distance = FIRST
        else:
            if self.trying:
                self.rest, self.distance = 0, min(FARTHER * self.distance, FARTHEST)
            mode.resting = None
            mode.wait(waiter)
            self.count = self.busy = 0
        self.trying = False


def typical(times: deque[float]) -> float:
    """The time of all steps but the longest, which something else may have held up."""
    return sum(times) - max(times)
