"""torch._C: PyTorch's compiled part, of which programs use a few names."""

from __future__ import annotations

import contextlib
from typing import Any

from cleargrad.core.device import device as device
from cleargrad.core.dtype import dtype as dtype
from cleargrad.core.shape import Size as Size
from cleargrad.core.tensor import Tensor as Tensor
from cleargrad.random import Generator as Generator

TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)


class DisableTorchFunctionSubclass(contextlib.nullcontext):
    """Switches off `__torch_function__` of subclasses, which is never on."""


DisableTorchFunction = DisableTorchFunctionSubclass


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _get_tracing_state() -> None:
    """No trace is being recorded."""
    return


def _jit_option(*args: Any) -> None:
    """An option of TorchScript, which is not here."""


_jit_set_profiling_mode = _jit_set_profiling_executor = _jit_set_texpr_fuser_enabled = _jit_option
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_nvfuser_enabled = _jit_option
_debug_set_autodiff_subgraph_inlining = _jit_option
