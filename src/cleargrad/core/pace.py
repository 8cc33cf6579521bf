"""Background work that gives way to the training loop: it rests again and again, so that no step is held up.

A thread that works in Python has Python's lock for milliseconds, and a loop that comes out of machine code waits as
long for it, hundreds of times in a step. So the other thread cuts its work into short pieces, and rests after each
for as long as it has worked. Nobody else notices: for all other threads `give_way` does nothing. Read
next: core/tensor.py.
"""

from __future__ import annotations

import threading
from threading import get_ident
from time import sleep, thread_time

PIECE = 3e-4  # seconds of work after which there is a rest
REST = 1.0  # seconds of rest for each of work


class Ended(BaseException):
    """The script has ended, and nobody will need what was being made."""


class Pace:
    """Who works beside the loop, and since when."""

    __slots__ = ("began", "hurry", "thread")


pace = Pace()
pace.thread = 0  # that thread; none has this number
pace.began = 0.0  # by its own clock
pace.hurry = 0  # how many threads wait for it


def give_way() -> None:
    """Called between pieces of work, by whoever does it, but under no lock that the loop may want."""
    if get_ident() == pace.thread:
        worked = thread_time() - pace.began
        if worked > PIECE:
            if not threading.main_thread().is_alive():
                raise Ended
            if not pace.hurry:
                sleep(REST * worked)
            pace.began = thread_time()


def begin_piece() -> None:
    """Work begins after a time in which there was none."""
    pace.began = thread_time()
