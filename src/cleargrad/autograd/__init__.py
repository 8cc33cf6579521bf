"""torch.autograd: automatic differentiation.

plan.py and node.py are the graph, walk.py the backward pass; the other files are PyTorch's functions on top.
Read next: autograd/plan.py.
"""

import importlib
from types import ModuleType

from cleargrad.autograd import anomaly_mode, functional, grad_mode, graph
from cleargrad.autograd.api import backward, grad
from cleargrad.autograd.function import Function, once_differentiable
from cleargrad.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from cleargrad.autograd.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_multithreading_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
    set_multithreading_enabled,
)
from cleargrad.autograd.variable import Variable

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def __getattr__(name: str) -> ModuleType:
    if name not in ("profiler", "profiler_util", "variable"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
