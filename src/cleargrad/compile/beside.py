"""Background compilation: one thread records and compiles, while the script goes on call by call.

A program gives the bits that single calls give, so it does not matter when it takes over. The thread gives way to
the loop (core/pace.py), and is there only as long as it has something to do: a script that ends has to wait for
no more than the piece of work that is under way. Read next: compile/computing.py.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from cleargrad.core.pace import Ended, begin_piece, pace

_lock = threading.Lock()
_jobs: deque[tuple[Callable, Callable]] = deque()  # the first is being done
_failures: list[BaseException] = []
_thread: list[threading.Thread] = []  # that works, if any


def beside(job: Callable[[], object], lost: Callable[[], object]) -> None:
    """Has something done by the other thread, after all that it was given before.

    A forked child, which has no such thread, calls `lost` instead.
    """
    with _lock:
        _jobs.append((job, lost))
        if not _thread:
            _thread.append(threading.Thread(target=work, name="cleargrad compiles"))
            _thread[0].start()


def is_working() -> bool:
    """Whether there is something to do yet."""
    return bool(_thread)


def work() -> None:
    """Does what there is to do."""
    pace.thread = threading.get_ident()
    while do_next():
        pass


def do_next() -> bool:
    """Does the first of what there is to do; False, and the thread ends, when there is nothing."""
    with _lock:
        if not _jobs or not threading.main_thread().is_alive():
            pace.thread = 0
            _thread.clear()
            return False
    begin_piece()
    try:
        _jobs[0][0]()
    except Ended:
        pass
    except BaseException as failure:
        _failures.append(failure)
    _jobs.popleft()
    return True


def wait() -> None:
    """Until all is done that the other thread was given; raises what went wrong there."""
    pace.hurry += 1
    try:
        for thread in list(_thread):
            thread.join()
    finally:
        pace.hurry -= 1
    if _failures:
        failure = _failures[0]
        _failures.clear()
        raise failure


def forget() -> None:
    """In a forked child."""
    global _lock
    _lock = threading.Lock()
    pace.thread = pace.hurry = 0
    for _, lost in _jobs:
        lost()
    for some in (_jobs, _failures, _thread):
        some.clear()


os.register_at_fork(after_in_child=forget)
