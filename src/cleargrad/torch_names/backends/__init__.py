"""torch.backends: what PyTorch's kernels are built on, as switches that programs set and read back.

Each backend is a file whose names are the switches; nothing in cleargrad depends on them. `switched` is how
their `flags` change some for a while. Read next: backends/cudnn.py.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

fp32_precision = "none"


@contextlib.contextmanager
def switched(namespace: dict[str, Any], **values: Any) -> Iterator[None]:
    """Inside, names of a module have these values."""
    before = {name: namespace[name] for name in values}
    namespace.update(values)
    try:
        yield
    finally:
        namespace.update(before)


def __getattr__(name: str) -> ModuleType:
    if name not in {module.name for module in pkgutil.iter_modules(__path__)}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
