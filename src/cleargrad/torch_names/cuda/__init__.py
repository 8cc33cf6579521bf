"""torch.cuda on a machine without GPUs: what PyTorch built for the CPU alone answers, and raises.

Read next: cuda/refusal.py.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from cleargrad.core import device as devices
from cleargrad.core.tensor import Tensor
from cleargrad.cuda import memory, nvtx, profiler, random, streams
from cleargrad.cuda.memory import (
    empty_cache,
    get_allocator_backend,
    host_memory_stats,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from cleargrad.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from cleargrad.cuda.refusal import FIX, WITHOUT_CUDA, all_refusing, refusing, refusing_class
from cleargrad.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from cleargrad.errors import AcceleratorError, OutOfMemoryError, error
from cleargrad.ops.legacy import TYPES

default_generators: tuple = ()
has_half, has_magma = True, False
CUDAGraph = refusing_class("CUDAGraph")
MemPool = refusing_class("MemPool")


class CudaError(RuntimeError):
    """An error of a GPU's driver."""


class DeferredCudaCallError(Exception):
    """An error of a call that waited for the first use of a GPU."""


def is_available() -> bool:
    """Whether there is a GPU that tensors can live on."""
    return False


def device_count() -> int:
    """The number of such GPUs."""
    return 0


_initialized = False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_tf32_supported() -> bool:
    return False


def get_arch_list() -> list[str]:
    """The GPUs that kernels were compiled for: none."""
    return []


def get_gencode_flags() -> str:
    return ""


def list_gpu_processes(device: Any = None) -> str:
    return "pynvml module not found, please install nvidia-ml-py"


def set_device(device: Any) -> None:
    """Chooses a GPU; a negative number chooses none."""
    if isinstance(device, int):
        number = device
    else:
        place = devices.device(device)
        if place.type != "cuda":
            raise error(ValueError, "torch.cuda.set_device", f"Expected a cuda device, but got: {place}")
        number = 0 if place.index is None else place.index
    if number >= 0:
        raise error(AttributeError, "torch.cuda.set_device", WITHOUT_CUDA, fix=FIX)


class device:
    """`with torch.cuda.device(k)`: another GPU for a while; -1 changes nothing."""

    def __init__(self, device: Any):
        self.idx = device if isinstance(device, int) else devices.device(device).index or 0

    def __enter__(self) -> None:
        if self.idx >= 0:
            rule = "PyTorch was compiled without CUDA support"
            raise error(RuntimeError, "torch.cuda.device", rule, fix=FIX)

    def __exit__(self, *exception: object) -> None:
        pass


class device_of(device):
    """The GPU of a tensor for a while; a tensor on the CPU changes nothing."""

    def __init__(self, obj: Tensor):
        super().__init__(-1)


globals().update(
    all_refusing(
        "current_device get_device_name get_device_capability get_device_properties synchronize init "
        "ipc_collect can_device_access_peer current_blas_handle cudart get_sync_debug_mode set_sync_debug_mode"
    )
)
globals().update(all_refusing("is_current_stream_capturing graph make_graphed_callables", RuntimeError))
globals().update(
    all_refusing(
        "utilization temperature power_draw clock_rate memory_usage device_memory_used",
        ModuleNotFoundError,
        "nvidia-ml-py does not seem to be installed or it can't be imported.",
    )
)


class CudaType:
    """An old type such as torch.cuda.FloatTensor: no tensor is one, and none can be made."""

    is_cuda = True

    def __init__(self, name: str):
        self.__name__ = name
        rule = f"type torch.cuda.{name} not available. {WITHOUT_CUDA}."
        self.make = refusing(name, TypeError, rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.make()

    def __instancecheck__(self, value: Any) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<class 'torch.cuda.{self.__name__}'>"


globals().update({name: CudaType(name) for name in TYPES if not name.startswith("Complex")})


def __getattr__(name: str) -> object:
    if name not in {module.name for module in pkgutil.iter_modules(__path__)}:
        raise AttributeError(f"module 'torch.cuda' has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
