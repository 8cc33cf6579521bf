"""Who listens to the life of gradients: nobody, or an observer of the doctor's.

The backward walk looks here once per leaf; with nobody listening that is all it costs. Everything else the doctor
hears through hooks and patches, as it does on PyTorch. Read next: core/tensor.py.
"""

from __future__ import annotations

from typing import Any


class Watch:
    """`observer.leaf_filled(leaf)` is called when a backward pass has added to the gradient of a leaf."""

    __slots__ = ("observer",)

    observer: Any


watch = Watch()
watch.observer = None
