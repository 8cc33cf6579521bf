"""torch.nn: modules, parameters, functions and starting values.

Modules and parameters are loaded when they are first asked for (nn/modules/__init__.py). Read next:
nn/parameter.py.
"""

from __future__ import annotations

import importlib
from typing import Any

from cleargrad.nn import functional as functional
from cleargrad.nn import init as init
from cleargrad.nn import modules as modules

PARAMETERS = ("Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter")
FILES = ("attention", "common_types", "parallel", "parameter", "utils")
PARALLEL = ("DataParallel",)

__all__ = [*modules.__all__, *PARAMETERS, *PARALLEL]


def __getattr__(name: str) -> Any:
    if name in FILES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in PARAMETERS:
        value = getattr(importlib.import_module(f"{__name__}.parameter"), name)
    elif name in PARALLEL:
        value = getattr(importlib.import_module(f"{__name__}.parallel"), name)
    elif name in modules.FILE_OF:
        value = getattr(modules, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *FILES})
