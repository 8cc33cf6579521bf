"""cleargrad: PyTorch's API, gradients that explain themselves. Read next: errors.py."""

from __future__ import annotations

import warnings as _warnings
from math import e, inf, nan, pi
from typing import Any as _Any

# Modules that are here because PyTorch has them lie in a folder of their own: `cleargrad.fx` is torch_names/fx.py.
__path__.append(f"{__path__[0]}/torch_names")

from cleargrad import autograd
from cleargrad.devices.cpu import native as _native
from cleargrad.core import dtype as _dtypes
from cleargrad.core.device import device, get_default_device, set_default_device
from cleargrad.core.dtype import (
    bfloat16,
    can_cast,
    complex64,
    complex128,
    dtype,
    finfo,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from cleargrad.core.memory import keep_freed_memory as _keep_freed_memory
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor

_keep_freed_memory()
# PyTorch never warns about overflow or division by zero; NumPy's warnings inside our ops say nothing new.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"cleargrad\.")

from cleargrad import devices as _devices
from cleargrad import ops as _ops

_ops.load()

from cleargrad import tensor as _tensor
from cleargrad import interop as _interop
from cleargrad import storage
from cleargrad import rare_methods as _rare_methods
from cleargrad.storage import TypedStorage, UntypedStorage
from cleargrad.autograd.modes import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from cleargrad.ops.conversion import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from cleargrad.printing import set_printoptions
from cleargrad.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

_tensor.attach()
globals().update(_ops.functions(""))
globals().update(_dtypes.ALIASES)
globals()["bool"] = _dtypes.bool_

from cleargrad import fft, linalg, nn, random, signal, special
from cleargrad.ops import return_types

__version__ = "0.1.0"

# Modules, and names in them, that are imported when they are first asked for: `import cleargrad` stays quick.
_LATER = {
    "optim": "cleargrad.optim",
    "compile": "cleargrad.compile",
    **dict.fromkeys(("eager", "waiting"), "cleargrad.compile.script"),
    "accumulate": "cleargrad.optim.accumulation",
    "distributions": "cleargrad.distributions",
    "func": "cleargrad.func",
    "vmap": "cleargrad.func",
    "serialization": "cleargrad.serialization",
    "save": "cleargrad.serialization",
    "load": "cleargrad.serialization",
    "amp": "cleargrad.amp",
    "autocast": "cleargrad.amp",
    "cpu": "cleargrad.cpu",
    "cuda": "cleargrad.cuda",
    **dict.fromkeys(
        (
            "autocast_decrement_nesting",
            "autocast_increment_nesting",
            "clear_autocast_cache",
            "get_autocast_cpu_dtype",
            "get_autocast_dtype",
            "get_autocast_gpu_dtype",
            "is_autocast_cache_enabled",
            "is_autocast_cpu_enabled",
            "is_autocast_enabled",
            "set_autocast_cache_enabled",
            "set_autocast_cpu_dtype",
            "set_autocast_cpu_enabled",
            "set_autocast_dtype",
            "set_autocast_enabled",
            "set_autocast_gpu_dtype",
        ),
        "cleargrad.amp.state",
    ),
    "utils": "cleargrad.utils",
    **{
        name: f"cleargrad.{name}"
        for name in (
            "_C",
            "_VF",
            "__config__",
            "_dynamo",
            "_inductor",
            "_utils",
            "accelerator",
            "ao",
            "backends",
            "compiler",
            "datasets",
            "distributed",
            "doctor",
            "export",
            "fx",
            "hub",
            "jit",
            "library",
            "mps",
            "multiprocessing",
            "onnx",
            "overrides",
            "profiler",
            "quantization",
            "testing",
            "types",
            "version",
            "xpu",
        )
    },
    **dict.fromkeys(
        (
            "are_deterministic_algorithms_enabled",
            "compiled_with_cxx11_abi",
            "get_deterministic_debug_mode",
            "get_device_module",
            "get_float32_matmul_precision",
            "has_cuda",
            "has_cudnn",
            "has_lapack",
            "has_mkl",
            "has_mps",
            "has_openmp",
            "has_spectral",
            "is_deterministic_algorithms_warn_only_enabled",
            "is_storage",
            "is_vulkan_available",
            "is_warn_always_enabled",
            "set_default_tensor_type",
            "set_deterministic_debug_mode",
            "set_float32_matmul_precision",
            "set_flush_denormal",
            "set_warn_always",
            "typename",
            "use_deterministic_algorithms",
        ),
        "cleargrad.settings",
    ),
    **dict.fromkeys(
        ("get_num_interop_threads", "get_num_threads", "set_num_interop_threads", "set_num_threads"),
        "cleargrad.threads",
    ),
    **dict.fromkeys(("Event", "Stream"), "cleargrad.cpu"),
    "functional": "cleargrad.functional",
    **dict.fromkeys(("AcceleratorError", "OutOfMemoryError"), "cleargrad.errors"),
    "GradScaler": "cleargrad.amp",
    **dict.fromkeys(("ScriptFunction", "ScriptModule"), "cleargrad.jit"),
}


def _compiled_kernels() -> _Any:
    import importlib

    return importlib.import_module("cleargrad.devices.cpu.programs.eager")


_native.loader = _compiled_kernels


def __getattr__(name: str) -> _Any:
    import importlib

    home = _LATER.get(name, "cleargrad.rare_functions")
    if name.startswith("__") and name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(home)
    if home == "cleargrad.rare_functions" and name not in module.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value
