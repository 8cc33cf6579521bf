"""torch._C: PyTorch's compiled part, of which programs use a few names. Read next: torch_names/_utils.py."""

from __future__ import annotations

import contextlib
from typing import Any

from cleargrad.core.device import device as device
from cleargrad.core.dtype import dtype as dtype
from cleargrad.core.shape import Size as Size
from cleargrad.core.tensor import Tensor as Tensor
from cleargrad.missing import missing
from cleargrad.nn import functional
from cleargrad.random import Generator as Generator

device_class, dtype_class = device, dtype  # arguments below have their names
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


class _nn:
    """Functions of neural networks that programs call by this path."""

    @staticmethod
    def _parse_to(
        *args: Any,
        device: Any = None,
        dtype: Any = None,
        non_blocking: bool = False,
        tensor: Tensor | None = None,
        memory_format: Any = None,
    ) -> tuple[Any, Any, bool, Any]:
        """The device, dtype, flag and memory format that the arguments of `Module.to` name."""
        for argument in args:
            if isinstance(argument, bool):
                non_blocking = argument
            elif isinstance(argument, dtype_class):
                dtype = argument
            elif isinstance(argument, Tensor):
                tensor = argument
            elif argument is not None:
                device = argument
        if tensor is not None:
            device, dtype = tensor.device, tensor.dtype
        return None if device is None else device_class(device), dtype, non_blocking, memory_format

    gelu = staticmethod(functional.gelu)


# Keys by which PyTorch chooses an operator's code. Libraries make sets of them when they are imported.
DispatchKey = missing("torch._C.DispatchKey", "choose operators by keys")


class DispatchKeySet:
    """A set of keys; nothing asks what is in it."""

    def __init__(self, *keys: Any):
        self.keys = keys

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys, *other.keys)


class _ExcludeDispatchKeyGuard(contextlib.nullcontext):
    """Leaves some keys out of the choice."""
