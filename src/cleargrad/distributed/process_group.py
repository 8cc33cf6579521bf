"""The group of processes that exchange tensors: one process. Read next: nn/parallel/__init__.py."""

from __future__ import annotations

from cleargrad.errors import error

NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class ProcessGroup:
    """A group of one process."""

    def __init__(self, backend: str):
        self.backend = backend

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1

    def name(self) -> str:
        return self.backend


class group:
    """The group of all processes, once init_process_group was called."""

    WORLD: ProcessGroup | None = None


def group_of(name: str, chosen: ProcessGroup | None) -> ProcessGroup:
    """The group a function is called with, or all processes."""
    if group.WORLD is None:
        raise error(ValueError, name, NOT_INITIALIZED)
    return group.WORLD if chosen is None else chosen
