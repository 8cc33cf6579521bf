"""Replacing functions and methods of a library for the length of a watch, and putting everything back.

Read next: torch_adapter.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from cleargrad.doctor.places import is_in_library

ABSENT = object()


class Patches:
    """What was replaced, in order; `restore` undoes it, newest first."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []

    def method(self, owner: Any, name: str, make: Callable[[Any], Any], absent_is_fine: bool = False) -> None:
        """Replaces an attribute of a class by what `make` makes of it."""
        original = vars(owner).get(name, ABSENT)
        inherited = None if absent_is_fine and original is ABSENT else getattr(owner, name)
        replacement = make(inherited if original is ABSENT else original)
        setattr(owner, name, replacement)

        def undo() -> None:
            if vars(owner).get(name) is not replacement:
                return  # somebody has patched it after us; what they call still works, since ours only calls on
            if original is ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

        self.undo.append(undo)

    def function(self, original: Callable, replacement: Callable) -> None:
        """Replaces a function wherever a module has it, under whatever name."""
        replace_everywhere(original, replacement)
        self.undo.append(lambda: replace_everywhere(replacement, original))

    def handle(self, handle: Any) -> None:
        """Remembers to remove a hook."""
        self.undo.append(handle.remove)

    def restore(self) -> None:
        while self.undo:
            self.undo.pop()()


def replace_everywhere(old: Callable, new: Callable) -> None:
    """Libraries have a function under its own name; the user's modules are looked through for any name."""
    own = old.__name__
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType):
            continue
        space = vars(module)
        if space.get(own) is old:
            space[own] = new
        file = space.get("__file__")
        if file is None or not is_in_library(file):
            for name, value in list(space.items()):
                if value is old:
                    space[name] = new
