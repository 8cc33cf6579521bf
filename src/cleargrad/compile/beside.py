"""Programs made beside the loop: one thread compiles, while the script goes on call by call.

A program gives the bits that single calls give, so it does not matter when it takes over. Python's lock is handed
over more often meanwhile: a thread that asks for it after every kernel would otherwise wait for five milliseconds
each time. Read next: compile/computing.py.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

OFTEN = 2e-4  # seconds after which the other thread may go on

_team: list[ThreadPoolExecutor] = []
_jobs: list[Future[None]] = []  # that may not be done


def beside(job: Callable[[], None]) -> None:
    """Has something done by the other thread, after all that it was given before."""
    if not _team:
        _team.append(ThreadPoolExecutor(1, "cleargrad compiles"))
    _jobs[:] = [known for known in _jobs if not known.done() or known.exception() is not None]
    _jobs.append(_team[0].submit(do, job))


def do(job: Callable[[], None]) -> None:
    if not threading.main_thread().is_alive():
        return  # the script has ended, and nobody will need it
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, OFTEN))
    try:
        job()
    finally:
        sys.setswitchinterval(before)


def wait() -> None:
    """Until all is done that the other thread was given; raises what went wrong there."""
    while _jobs:
        _jobs.pop(0).result()


def forget() -> None:
    """In a forked child, which has no such thread, and makes programs of its own."""
    _team.clear()
    _jobs.clear()


os.register_at_fork(after_in_child=forget)
