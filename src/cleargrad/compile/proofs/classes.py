"""Guards on classes: whether a class is as it was.

CPython gives a class another tag when it, or one that it is derived from, is changed: an attribute is set or
deleted, bases are replaced. A guard that compares the tag knows that what is found in the class, and how, is the
same, and calls nothing that it has not called before. Read next: compile/proofs/guards.py.
"""

from __future__ import annotations

import ctypes
from typing import Any

PLACE = 384  # of the tag in a class, in bytes
FIXED, MADE = 1 << 8, 1 << 9  # flags of classes that cannot be changed, and of those that Python has made


def tag_of(kind: type) -> Any:
    """Where the tag of a class lies; its value is 0 where nobody can tell."""
    type.__getattribute__(kind, "__init__")  # a class that was never asked has none
    return ctypes.c_uint.from_address(id(kind) + PLACE) if trusted else ctypes.c_uint(0)


def can_change(kind: type) -> bool:
    return bool(kind.__flags__ & MADE) and not kind.__flags__ & FIXED


def tags_are_there() -> bool:
    """Whether this Python has tags where they are looked for."""
    if type.__sizeof__(type) < PLACE + 4:
        return False

    class Above:
        first = 1

    class Below(Above):
        pass

    tag = tag_of(Below)
    seen = [tag.value]
    for change in (lambda: None, lambda: setattr(Above, "first", 2), lambda: setattr(Below, "second", 3)):
        change()
        tag_of(Below)
        seen.append(tag.value)
    return 0 not in seen and seen[0] == seen[1] and len(set(seen)) == 3


trusted = True
trusted = tags_are_there()
