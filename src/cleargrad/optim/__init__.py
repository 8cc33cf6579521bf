"""torch.optim: fifteen optimizers, each one rule, and the schedules of their learning rates.

Each is loaded when it is first asked for, since a program steps with one of them. Read next:
optim/optimizer.py.
"""

from __future__ import annotations

import importlib
from typing import Any

from cleargrad.optim.optimizer import Optimizer as Optimizer

FILE_OF = {
    "ASGD": "asgd",
    "LBFGS": "lbfgs",
    "SGD": "sgd",
    "Adadelta": "adadelta",
    "Adafactor": "adafactor",
    "Adagrad": "adagrad",
    "Adam": "adam",
    "AdamW": "adamw",
    "Adamax": "adamax",
    "Muon": "muon",
    "NAdam": "nadam",
    "RAdam": "radam",
    "RMSprop": "rmsprop",
    "Rprop": "rprop",
    "SparseAdam": "sparse_adam",
}
FILES = ("lr_scheduler", "swa_utils", *FILE_OF.values())

__all__ = [*FILE_OF, "Optimizer", "lr_scheduler", "swa_utils"]


def __getattr__(name: str) -> Any:
    if name in FILES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{FILE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *FILES})
