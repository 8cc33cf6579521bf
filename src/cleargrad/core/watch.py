"""The doctor's hook in the engine: who listens to the life of gradients, nobody or one observer.

The backward walk looks here once per leaf, and a compiled function once per call; with nobody listening that is all
it costs. Everything else the doctor hears through hooks and patches, as it does on PyTorch. Read next:
core/tensor.py.
"""

from __future__ import annotations

from typing import Any


class Watch:
    """A backward pass that has added to the gradient of a leaf appends it to `observer.filled`; where calls wait or
    are recorded, it calls `observer.leaf_filled(leaf)` instead.
    """

    __slots__ = ("cleared", "observer", "onlookers")

    cleared: Any  # where zero_grad last took gradients away, as errors.Place, for the error of who misses one
    observer: Any
    onlookers: set[Any]  # hooks of its own: they change nothing, so that no program depends on them


watch = Watch()
watch.cleared = None
watch.observer = None
watch.onlookers = set()
