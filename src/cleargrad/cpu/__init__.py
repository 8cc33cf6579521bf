"""torch.cpu: the CPU as a device. Read next: cpu/amp/__init__.py."""

from __future__ import annotations


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def device_count() -> int:
    """The number of CPUs, which count as one device."""
    return 1


def __getattr__(name: str) -> object:
    if name == "amp":
        import importlib

        return importlib.import_module("cleargrad.cpu.amp")
    raise AttributeError(f"module 'torch.cpu' has no attribute {name!r}")
