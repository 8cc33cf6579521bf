"""Switches of the whole process that PyTorch has at its top level, and questions about what it was built with.

cleargrad computes the same from run to run and in full precision, so most switches are only remembered: a
program reads back what it wrote. Read next: backends/__init__.py.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.precision import allow_tf32
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.legacy import NAMES, TYPES, TensorType
from cleargrad.storage import TypedStorage, UntypedStorage

DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}
PRECISIONS = ("highest", "high", "medium")


class Chosen:
    """What was chosen last; the switches below read and write it."""

    debug_mode = 0
    precision = "highest"
    warn_always = False


# Determinism -----------------------------------------------------------------------------------------------


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for algorithms that give the same result every time; all of cleargrad's do."""
    if not isinstance(mode, bool):
        rule = f"argument 'mode' must be bool, not {type(mode).__name__}"
        raise error(TypeError, "use_deterministic_algorithms", rule)
    Chosen.debug_mode = 0 if not mode else 1 if warn_only else 2


def are_deterministic_algorithms_enabled() -> bool:
    return Chosen.debug_mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return Chosen.debug_mode == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """use_deterministic_algorithms by a word: "default", "warn" or "error", or its number."""
    name = "set_deterministic_debug_mode"
    if not isinstance(debug_mode, (int, str)):
        raise error(TypeError, name, f"debug_mode must be str or int, but got {type(debug_mode)}")
    number = DEBUG_MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if number not in (0, 1, 2):
        rule = (
            f"invalid value of debug_mode, expected `default`, `warn`, `error` or 0, 1, 2, got {debug_mode}"
        )
        raise error(RuntimeError, name, rule)
    Chosen.debug_mode = number


def get_deterministic_debug_mode() -> int:
    return Chosen.debug_mode


# Precision and warnings ------------------------------------------------------------------------------------


def set_float32_matmul_precision(precision: str) -> None:
    """Allows less than float32 inside matrix products of float32 on a GPU; those on the CPU keep all digits."""
    if precision not in PRECISIONS:
        message = f"{precision} is not one of 'highest', 'high', or 'medium'; the current call has no effect."
        warnings.warn(message, stacklevel=2)
        return
    Chosen.precision = precision
    allow_tf32("products", precision != "highest")


def get_float32_matmul_precision() -> str:
    return Chosen.precision


def set_flush_denormal(mode: bool) -> bool:
    """Asks that numbers next to zero become zero; the answer False says that they keep their value here."""
    return False


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that come once would come always; remembered."""
    Chosen.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    return Chosen.warn_always


def set_default_tensor_type(t: Any, /) -> None:
    """The old form of set_default_dtype: a type such as torch.DoubleTensor, or its name."""
    name = "set_default_tensor_type"
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() "
        "and torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    kind = TYPES.get(t.removeprefix("torch.")) if isinstance(t, str) else t
    if "cuda" in str(t):
        raise error(TypeError, name, f"type {t} not available. Torch not compiled with CUDA enabled.")
    if not isinstance(kind, TensorType):
        raise error(TypeError, name, f"invalid type object {t!r}: only floating-point types are supported")
    if not kind.dtype.is_floating_point:
        raise error(TypeError, name, "only floating-point types are supported as the default type")
    dtypes.set_default_dtype(kind.dtype)


# What this is ----------------------------------------------------------------------------------------------

has_lapack = has_spectral = True
has_mkl = has_openmp = has_cuda = has_cudnn = has_mps = False


def compiled_with_cxx11_abi() -> bool:
    """Nothing is compiled; PyTorch's answer since 2.6."""
    return True


def is_vulkan_available() -> bool:
    return False


def is_storage(obj: Any, /) -> bool:
    """Whether an object is the memory behind tensors."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def typename(obj: Any, /) -> str:
    """The name of an object's type, with its module; for a tensor the old name of its dtype's type."""
    if isinstance(obj, Tensor):
        return NAMES[obj.dtype]
    named = obj if isinstance(obj, type) or inspect.isroutine(obj) else type(obj)
    module = named.__module__ or "builtins"
    prefix = "" if module == "builtins" else module.replace("cleargrad", "torch", 1) + "."
    return prefix + named.__qualname__


def get_device_module(device: Any = None) -> Any:
    """The module of a kind of device: torch.cpu, torch.cuda and so on."""
    kind = "cpu" if device is None else devices.device(device).type
    try:
        return importlib.import_module(f"cleargrad.{kind}")
    except ImportError:
        rule = f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        raise error(RuntimeError, "get_device_module", rule) from None
