"""torch.optim: fifteen optimizers, each one rule, and the schedules of their learning rates."""

from __future__ import annotations

import importlib
from typing import Any

from cleargrad.optim import lr_scheduler
from cleargrad.optim.adadelta import Adadelta
from cleargrad.optim.adafactor import Adafactor
from cleargrad.optim.adagrad import Adagrad
from cleargrad.optim.adam import Adam
from cleargrad.optim.adamax import Adamax
from cleargrad.optim.adamw import AdamW
from cleargrad.optim.asgd import ASGD
from cleargrad.optim.lbfgs import LBFGS
from cleargrad.optim.muon import Muon
from cleargrad.optim.nadam import NAdam
from cleargrad.optim.optimizer import Optimizer
from cleargrad.optim.radam import RAdam
from cleargrad.optim.rmsprop import RMSprop
from cleargrad.optim.rprop import Rprop
from cleargrad.optim.sgd import SGD
from cleargrad.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]


def __getattr__(name: str) -> Any:
    """swa_utils needs modules, which a program that only steps does not."""
    if name == "swa_utils":
        return importlib.import_module("cleargrad.optim.swa_utils")
    raise AttributeError(f"module 'cleargrad.optim' has no attribute {name!r}")
