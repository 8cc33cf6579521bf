"""Where in the user's program something happens: the nearest frame that is nobody's library.

Libraries are torch, cleargrad, whatever is installed, and Python's own modules. Whether a frame is one of theirs is
worked out once per code object. Read next: registry.py.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from types import CodeType
from typing import NamedTuple

from cleargrad.errors import known_as

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Place(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{os.path.basename(known_as(self.file))}:{self.line}"


def library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {os.path.realpath(paths[key]) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {paths[key] + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (PACKAGE, *found)


LIBRARIES = library_folders()
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
TYPED_IN = ("<stdin>", "<string>", "<ipython")  # code without a file that is the user's all the same

is_library: dict[CodeType, bool] = {}
places: dict[tuple[CodeType, int], Place] = {}


def belongs_to_library(code: CodeType) -> bool:
    file = code.co_filename
    if file.startswith("<"):
        return not file.startswith(TYPED_IN)
    return is_in_library(file)


@cache
def is_in_library(file: str) -> bool:
    return file.startswith(LIBRARIES) or any(part in file for part in INSTALLED)


def user_place(depth: int = 1) -> Place | None:
    """The user's line that led here; None when only libraries are on the stack."""
    frame = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        known = is_library.get(code)
        if known is None:
            known = is_library[code] = belongs_to_library(code)
        if not known:
            key = (code, frame.f_lineno)
            place = places.get(key)
            if place is None:
                place = places[key] = Place(code.co_filename, frame.f_lineno, code.co_name)
            return place
        frame = frame.f_back  # type: ignore[assignment]
    return None


def caller_place(depth: int) -> Place | None:
    """The line of a caller, where that is the user's own; None for calls that libraries make."""
    frame = sys._getframe(depth)
    code = frame.f_code
    return None if belongs_to_library(code) else Place(code.co_filename, frame.f_lineno, code.co_name)


def place_of_error(error: BaseException) -> Place | None:
    """The innermost line of the user's that an exception came through."""
    trace, found = error.__traceback__, None
    while trace is not None:
        code = trace.tb_frame.f_code
        if not belongs_to_library(code):
            found = Place(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found
