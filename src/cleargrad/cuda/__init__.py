"""torch.cuda: NVIDIA's GPUs. Without one, what PyTorch built for the CPU alone answers, and raises.

Nothing here imports CuPy before a GPU is used. Read next: cuda/refusal.py.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.cuda import gpus, graphs, memory, nvtx, profiler, random, streams
from cleargrad.cuda.gpus import (
    can_device_access_peer,
    cudart,
    current_blas_handle,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    get_sync_debug_mode,
    init,
    ipc_collect,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    set_sync_debug_mode,
    synchronize,
)
from cleargrad.cuda.graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from cleargrad.cuda.memory import (
    device_memory_used,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    list_gpu_processes,
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
    memory_usage,
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
from cleargrad.cuda.refusal import (
    WITHOUT_CUDA,
    all_refusing,
    is_available,
    refusing,
    refusing_class,
)
from cleargrad.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)
from cleargrad.errors import AcceleratorError, OutOfMemoryError
from cleargrad.ops.legacy import TYPES

default_generators: tuple = ()
has_half, has_magma = True, False
MemPool = refusing_class("MemPool")
_device_t = Any


class CudaError(RuntimeError):
    """An error of a GPU's driver."""


class DeferredCudaCallError(Exception):
    """An error of a call that waited for the first use of a GPU."""


globals().update(
    all_refusing(
        "utilization temperature power_draw clock_rate",
        ModuleNotFoundError,
        "nvidia-ml-py does not seem to be installed or it can't be imported.",
    )
)


class CudaType:
    """An old type such as torch.cuda.FloatTensor."""

    is_cuda = True

    def __init__(self, name: str):
        self.__name__ = name
        self.dtype = TYPES[name].dtype
        rule = f"type torch.cuda.{name} not available. {WITHOUT_CUDA}."
        self.refuse = refusing(name, TypeError, rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return TYPES[self.__name__](*args, **kwargs).cuda() if is_available() else self.refuse()

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.is_cuda and value.dtype is self.dtype

    def __repr__(self) -> str:
        return f"<class 'torch.cuda.{self.__name__}'>"


globals().update({name: CudaType(name) for name in TYPES if not name.startswith("Complex")})


def __getattr__(name: str) -> object:
    if name not in {module.name for module in pkgutil.iter_modules(__path__)}:
        raise AttributeError(f"module 'torch.cuda' has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
