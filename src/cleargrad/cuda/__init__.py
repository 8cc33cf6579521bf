"""torch.cuda on a machine without GPUs. Read next: cuda/amp/__init__.py."""

from __future__ import annotations


def is_available() -> bool:
    """Whether there is a GPU that tensors can live on."""
    return False


def device_count() -> int:
    """The number of such GPUs."""
    return 0


def __getattr__(name: str) -> object:
    if name == "amp":
        import importlib

        return importlib.import_module("cleargrad.cuda.amp")
    raise AttributeError(f"module 'torch.cuda' has no attribute {name!r}")
