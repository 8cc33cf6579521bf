"""torch.serialization: save and load, in PyTorch's checkpoint format and in safetensors.

A checkpoint is a zip archive of one pickle and the bytes of every storage. Loading executes nothing: only the
classes and functions in a table are known, everything else is refused by name. Read next:
serialization/atomic.py.
"""

from __future__ import annotations

import contextlib
import os
import pickle  # noqa: F401  programs say torch.serialization.pickle
import sys
from collections.abc import Iterator
from typing import Any

from cleargrad.errors import error
from cleargrad.serialization import safe
from cleargrad.serialization.allowed import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from cleargrad.serialization.archive import Reader, Writer
from cleargrad.serialization.atomic import replacing
from cleargrad.serialization.loading import load_archive
from cleargrad.serialization.pickling import dump

DEFAULT_PROTOCOL = 2


def save(
    obj: object,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes an object to a path, which is replaced whole or not at all, or to an open file."""
    if not _use_new_zipfile_serialization:
        rule = "the format of PyTorch before 1.6 is not written"
        raise error(RuntimeError, "save", rule, fix="leave out _use_new_zipfile_serialization=False")
    if not is_path(f):
        if not hasattr(f, "write"):
            rule = (
                f"expected 'f' to be string, path, or an object with a 'write' attribute, but got {type(f)}"
            )
            raise error(AttributeError, "save", rule)
        write(obj, f, "archive", pickle_protocol)
        return
    folder, name = os.path.split(os.fspath(f))
    if folder and not os.path.isdir(folder):
        raise error(RuntimeError, "save", f"Parent directory {folder} does not exist.")
    if safe.is_safetensors(f):
        safe.save(obj, f)
        return
    with replacing(f) as stream:
        write(obj, stream, os.path.splitext(os.fsdecode(name))[0] or "archive", pickle_protocol)


class SourceChangeWarning(Warning):
    """Old programs silence it; files hold no source code any more."""


def default_restore_location(storage: Any, location: str) -> Any:
    """Where `load` puts a storage that was on a device: here, on the CPU."""
    return storage


def is_path(f: Any) -> bool:
    return isinstance(f, (str, bytes, os.PathLike))


def write(obj: object, stream: Any, folder: str, protocol: int) -> None:
    content, storages = dump(obj, protocol)
    archive = Writer(stream, folder)
    archive.write("data.pkl", content)
    archive.write(".format_version", b"1")
    archive.write(".storage_alignment", b"64")
    archive.write("byteorder", sys.byteorder.encode())
    archive.write_storages({f"data/{stored.key}": stored.memory for stored in storages})
    archive.write("version", b"3\n")
    archive.write(".data/serialization_id", b"0" * 40)
    archive.close()


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads what `save`, or PyTorch's torch.save, has written; a file never makes it execute anything.

    With weights_only=False modules, and a few harmless classes of Python's library, are accepted as well; other
    classes must be named with add_safe_globals.
    """
    weights_only = True if weights_only is None else weights_only
    if weights_only and pickle_module is not None:
        rule = "Can not safely load weights when explicit pickle_module is specified"
        raise error(RuntimeError, "load", rule)
    if mmap and not is_path(f):
        rule = "f must be a file path in order to use the mmap argument"
        raise error(ValueError, "load", rule)
    if safe.is_safetensors(f):
        return safe.load(f)
    with opened(f) as stream:
        return load_archive(Reader(stream), map_location, weights_only, f if mmap else None)


@contextlib.contextmanager
def opened(f: Any) -> Iterator[Any]:
    """A seekable stream for a path or an open file."""
    if is_path(f):
        with open(f, "rb") as stream:
            yield stream
        return
    missing = [name for name in ("read", "readline", "seek", "tell") if not hasattr(f, name)]
    if missing:
        rule = f"You can only torch.load from a file that is seekable; it has no {missing[0]!r}"
        fix = "read it into an io.BytesIO and load from that"
        raise error(AttributeError, "load", rule, fix=fix)
    yield f


__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]
