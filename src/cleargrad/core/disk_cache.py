"""Object code on disk: a file for each kernel, whole or not there, and gone when nobody has used it for long.

A file that is damaged, or of another format, counts as none. Processes may read, write and tidy at the same time.
Read next: core/pace.py.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

FORMAT = b"cleargrad object 1\n"  # the first line of a file; its second is the hash of what follows
DAY = 86_400.0
KEPT = 60 * DAY  # how long a file stays that nobody reads
UNFINISHED = "unfinished-"
OURS = re.compile(rf"[0-9a-f]{{40}}\.o|{UNFINISHED}\w+")  # the user may keep other files in the folder
TIDIED = ".tidied"  # a file whose age says when the folder was last looked through


@cache
def cache_folder() -> Path:
    """Where object code is kept: CLEARGRAD_CACHE, or the user's folder for caches."""
    chosen = os.environ.get("CLEARGRAD_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cleargrad"


def read_cached(path: Path) -> bytes | None:
    """The object code in a file; None if there is none, or not as it was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    with suppress(OSError):  # another's folder can be read only
        if age_of(path) > DAY:
            os.utime(path)  # the time of a file says when it was last of use
    head, code = content[: len(FORMAT) + 33], content[len(FORMAT) + 33 :]
    return code if head == FORMAT + checksum(code) + b"\n" else None


def write_cached(path: Path, code: bytes) -> None:
    """Puts object code on disk; a folder that cannot be written is no error."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        tidy(path.parent)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
        with os.fdopen(handle, "wb") as file:
            file.write(FORMAT + checksum(code) + b"\n" + code)
        os.replace(name, path)


def tidy(folder: Path) -> None:
    """Removes what nobody has read for long, at most once a day."""
    mark = folder / TIDIED
    with suppress(FileNotFoundError):
        if age_of(mark) < DAY:
            return
    mark.touch()
    for entry in os.scandir(folder):
        with suppress(OSError):  # another process may be quicker
            if OURS.fullmatch(entry.name) and time.time() - entry.stat().st_mtime > KEPT:
                os.unlink(entry)


def age_of(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def checksum(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=16).hexdigest().encode()
