"""Files that are replaced whole: a process killed at any moment leaves the old file or the new one.

Read next: serialization/archive.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO


@contextlib.contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` when the block ends without an error."""
    target = os.path.realpath(os.fsdecode(path))  # a link stays a link
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as stream:  # a device or a pipe cannot be replaced
            yield stream
        return
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "xb") as stream:
            with flushing(stream.fileno()):
                yield stream
                stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(target):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise
    settle(folder)


@contextlib.contextmanager
def flushing(handle: int) -> Iterator[None]:
    """Inside, what is written goes to the disk early, so that little is left to wait for at the end."""
    done = threading.Event()

    def flush() -> None:
        while not done.wait(0.01):
            os.fsync(handle)

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def settle(folder: str) -> None:
    """Makes a rename survive a loss of power, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
