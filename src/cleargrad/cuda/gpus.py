"""Which GPU a process works with, and what is known of it. Read next: cuda/memory.py."""

from __future__ import annotations

from typing import Any

from cleargrad.core import device as devices
from cleargrad.core.tensor import Tensor, place_of
from cleargrad.cuda.refusal import gpu, index_of, is_available, started
from cleargrad.errors import error


def device_count() -> int:
    """The number of GPUs; a process works with one of them."""
    return gpu("device_count").count if is_available() else 0


def is_initialized() -> bool:
    """Whether anything was asked of the GPU yet."""
    return started() is not None


def init() -> None:
    """Gets the GPU ready, which its first use would do as well."""
    _ = gpu("init").runtime


def current_device() -> int:
    """The number of the GPU that this process works with."""
    return gpu("current_device").index


def set_device(device: Any) -> None:
    """Chooses the GPU, before it is used; a negative number chooses none."""
    if isinstance(device, int):
        number = device
    else:
        place = devices.device(device)
        if place.type != "cuda":
            raise error(ValueError, "torch.cuda.set_device", f"Expected a cuda device, but got: {place}")
        number = 0 if place.index is None else place.index
    if number >= 0:
        gpu("set_device", AttributeError).choose(number)


def synchronize(device: Any = None) -> None:
    """Waits until all that was asked of the GPU is done."""
    index_of("synchronize", device)
    gpu("synchronize").synchronize()


class device:
    """`with torch.cuda.device(k)`: another GPU for a while; -1 changes nothing."""

    def __init__(self, device: Any):
        self.idx = device if isinstance(device, int) else devices.device(device).index or 0

    def __enter__(self) -> None:
        if self.idx >= 0:
            gpu("device", RuntimeError, "PyTorch was compiled without CUDA support").choose(self.idx)

    def __exit__(self, *exception: object) -> None:
        pass


class device_of(device):
    """The GPU of a tensor for a while; a tensor on the CPU changes nothing."""

    def __init__(self, obj: Tensor):
        place = place_of(obj)
        super().__init__(place.index or 0 if place.type == "cuda" else -1)


# What is known of it ---------------------------------------------------------------------------------------


class Properties:
    """What CUDA says of a GPU."""

    def __init__(self, found: dict[str, Any]) -> None:
        name = found["name"]
        self.name: str = name.decode() if isinstance(name, bytes) else name
        self.major, self.minor = int(found["major"]), int(found["minor"])
        self.total_memory = int(found["totalGlobalMem"])
        self.multi_processor_count = int(found["multiProcessorCount"])
        self.warp_size = int(found.get("warpSize", 32))
        self.max_threads_per_multi_processor = int(found.get("maxThreadsPerMultiProcessor", 0))
        self.regs_per_multiprocessor = int(found.get("regsPerMultiprocessor", 0))
        self.shared_memory_per_block = int(found.get("sharedMemPerBlock", 0))
        self.shared_memory_per_multiprocessor = int(found.get("sharedMemPerMultiprocessor", 0))
        self.L2_cache_size = int(found.get("l2CacheSize", 0))
        self.is_integrated = int(found.get("integrated", 0))
        self.is_multi_gpu_board = int(found.get("isMultiGpuBoard", 0))
        self.gcnArchName = f"sm_{self.major}{self.minor}"

    def __repr__(self) -> str:
        memory = self.total_memory // 2**20
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={memory}MB, multi_processor_count={self.multi_processor_count})"
        )


def get_device_properties(device: Any = None) -> Properties:
    """What CUDA says of a GPU: its name, its kind (major and minor), and its sizes."""
    index, driver = index_of("get_device_properties", device), gpu("get_device_properties")
    if index >= driver.count:
        raise error(AssertionError, "get_device_properties", "Invalid device id", device=index)
    return Properties(driver.runtime.runtime.getDeviceProperties(index))


def get_device_name(device: Any = None) -> str:
    gpu("get_device_name")
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The kind of a GPU, as in sm_90: (9, 0)."""
    gpu("get_device_capability")
    found = get_device_properties(device)
    return found.major, found.minor


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU computes in bfloat16: from Ampere on; before, it does so in float32."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether products of float32 may be computed by tensor cores that drop digits."""
    return is_available() and get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """The GPUs that kernels are compiled for: the one that is here."""
    return [f"sm_{''.join(map(str, get_device_capability()))}"] if is_available() else []


def get_gencode_flags() -> str:
    """The same in the words of NVIDIA's compiler."""
    kinds = [name.removeprefix("sm_") for name in get_arch_list()]
    return " ".join(f"-gencode compute=compute_{kind},code=sm_{kind}" for kind in kinds)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a GPU reads another one's memory: a process works with one alone."""
    gpu("can_device_access_peer")
    return False


def ipc_collect() -> None:
    """Nothing to collect: no memory of GPUs is shared between processes."""
    gpu("ipc_collect")


def get_sync_debug_mode() -> int:
    """Whether waits for the GPU are reported: they are not."""
    gpu("get_sync_debug_mode")
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Accepted: waits for the GPU are not reported."""
    gpu("set_sync_debug_mode")


def cudart() -> Any:
    """CUDA's own functions, as CuPy has them."""
    return gpu("cudart").runtime.runtime


def current_blas_handle() -> int:
    """The handle of cuBLAS."""
    return gpu("current_blas_handle").runtime.cupy.cuda.get_cublas_handle()
