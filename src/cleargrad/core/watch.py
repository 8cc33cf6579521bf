"""Who listens to the life of gradients: nobody, or an observer of the doctor's.

The backward walk looks here once per leaf, and a compiled function once per call; with nobody listening that is all
it costs. Everything else the doctor hears through hooks and patches, as it does on PyTorch. Read next:
core/tensor.py.
"""

from __future__ import annotations

from typing import Any


class Watch:
    """A backward pass that has added to the gradient of a leaf appends it to `observer.filled`; one that is being
    recorded calls `observer.leaf_filled(leaf)` instead.

    Of compiled functions it hears `recording_begins()` and `recording_ends(entry)` around a call that is recorded,
    and `program_begins(entry)` and `program_ends(entry)` around the run of a program. When the program has made the
    recorded call itself, which was taken back, `program_stands_in(entry)` says so.
    """

    __slots__ = ("cleared", "observer", "onlookers")

    cleared: Any  # where zero_grad last took gradients away, as errors.Place, for the error of who misses one
    observer: Any
    onlookers: set[Any]  # hooks of its own: they change nothing, so that no program depends on them


watch = Watch()
watch.cleared = None
watch.observer = None
watch.onlookers = set()


def is_told(observer: int | None) -> bool:
    """Whether a program may run: who listens now, if anybody does, has heard what it does being recorded."""
    return watch.observer is None or id(watch.observer) == observer
