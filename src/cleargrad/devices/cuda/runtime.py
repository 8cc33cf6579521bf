"""What the driver needs of CUDA: memory, copies, kernels, products of matrices and graphs, all through CuPy.

Memory on the GPU is an array of NumPy's at the GPU's address: shapes, strides, views and overlaps are NumPy's, and
only kernels read elements. `Runtime` is the whole of what touches a GPU; tests put another one in its place, which
compiles the same kernels for the CPU. Read next: devices/cuda/products.py.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np

from cleargrad.core.device import Memory
from cleargrad.core.disk_cache import cache_folder, read_cached, write_cached
from cleargrad.core.shortage import Shortage, out_of_memory
from cleargrad.devices.cuda.counts import Counts
from cleargrad.devices.cuda.products import Products
from cleargrad.devices.cuda.queues import Queues
from cleargrad.devices.cuda.text import PRELUDE
from cleargrad.devices.cuda.triton_code import Binary

ROOM = 512  # bytes that CuPy rounds sizes up to
SHARED = 48 << 10  # bytes of shared memory that a kernel gets without asking
TOGETHER = 8  # kernels at least that are compiled as one text
MOST_SHARED = 8  # the attribute of a kernel by which it asks for more


class Block(Memory):
    """Memory on the GPU, which goes back to the pool with the last array that lies in it."""

    __slots__ = ("__array_interface__", "__weakref__", "address", "counts", "owner", "size", "streams")

    def __init__(self, owner: Any, address: int, nbytes: int, counts: Counts, size: int) -> None:
        self.owner, self.address, self.counts, self.size = owner, address, counts.take(size), size
        self.streams: tuple[Queues, list] | None = None  # that use it besides the one it was made for
        self.__array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip

    def __del__(self) -> None:
        self.counts.back.append(self.size)
        if self.streams is not None:
            self.streams[0].rest(self.owner, self.streams[1])


def array_in(block: Block, shape: tuple, dtype: np.dtype, strides: tuple | None = None) -> np.ndarray:
    """An array whose elements lie in a block."""
    return np.ndarray(shape, dtype, np.asarray(block), 0, strides)


class Here(threading.local):
    """What a thread has of its own: the GPU it works with, which CUDA asks every thread for, and a cell."""

    def __init__(self, cupy: Any, index: int) -> None:
        if index:
            cupy.cuda.Device(index).use()
        self.cell = (ctypes.c_void_p * 1)()


class Runtime:
    """A GPU, by CuPy."""

    tiled: int | None = None  # the number of the architecture, if kernels written in Triton can run

    def __init__(self, index: int = 0) -> None:
        import cupy

        self.start(cupy, index)
        self.functions: dict[str, int] = {}
        self.modules: list[Any] = []
        self.lock = threading.Lock()
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.enqueue = self.driver.cuLaunchKernel
        self.enqueue.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
        self.clear(self.error_block.address, 8)
        major, minor = (self.runtime.deviceGetAttribute(k, index) for k in (75, 76))
        self.architecture = f"sm_{major}{minor}"
        self.tiled = 10 * major + minor if major >= 8 and find_spec("triton") is not None else None
        # blocks of 256 threads that the GPU holds at once, by its processors and what each of them holds
        processors, threads = (self.runtime.deviceGetAttribute(k, index) for k in (16, 39))
        self.resident = processors * (threads // 256)

    def start(self, cupy: Any, index: int) -> None:
        """What there is before the first call."""
        self.cupy, self.index = cupy, index
        self.runtime = cupy.cuda.runtime
        self.here = Here(cupy, index)
        self.queues = Queues(cupy)
        self.counts = Counts()
        self.error_block = self.allocate(8)
        self.counts = Counts()  # of what the program has asked for

    @property
    def stream(self) -> int:
        self.here.cell  # noqa: B018 (the thread's first look chooses the GPU)
        return self.cupy.cuda.get_current_stream().ptr

    # Memory ------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Block:
        size = -(-max(nbytes, 16) // ROOM) * ROOM
        self.here.cell  # noqa: B018
        try:
            pointer = self.cupy.cuda.alloc(size)
        except self.cupy.cuda.memory.OutOfMemoryError:
            pointer = self.second_try(size)
        return Block(pointer, pointer.ptr, nbytes, self.counts, size)

    def second_try(self, size: int) -> Any:
        """Memory that was not there at first: tensors that only hold each other are given up."""
        self.counts.reserved(self.reserved)
        self.counts.retries += 1
        gc.collect()
        self.queues.look()
        try:
            return self.cupy.cuda.alloc(size)
        except self.cupy.cuda.memory.OutOfMemoryError:
            self.counts.failures += 1
        raise out_of_memory("cuda", self.shortage(size)) from None

    def shortage(self, size: int) -> Shortage:
        """The facts about memory that could not be had."""
        free, total = self.memory()
        held, reserved = self.counts.current, self.reserved
        return Shortage(f"GPU {self.index}", size, free + reserved - held, held, total)

    @property
    def reserved(self) -> int:
        """Bytes that were taken from the GPU: what is in use, and what is kept for the next call."""
        pools = {id(each.pool): each.pool for each in self.queues.recordings}
        pools[0] = self.cupy.get_default_memory_pool()
        return sum(pool.total_bytes() for pool in pools.values())

    def memory(self) -> tuple[int, int]:
        """Bytes of the GPU that are free, and all."""
        self.here.cell  # noqa: B018
        free, total = self.runtime.memGetInfo()
        return int(free), int(total)

    def empty_cache(self) -> None:
        """Gives back what is kept for the next call."""
        self.counts.reserved(self.reserved)
        self.queues.look()
        self.cupy.get_default_memory_pool().free_all_blocks()

    def limit(self, fraction: float) -> None:
        """Tensors get no more than this part of the GPU's memory."""
        self.cupy.get_default_memory_pool().set_limit(fraction=fraction)

    def upload(self, address: int, array: np.ndarray) -> None:
        """Copies a dense array to the GPU."""
        if self.queues.recording is not None:
            self.queues.recording.kept.append(array)  # replays read it again
        self.runtime.memcpyAsync(address, array.__array_interface__["data"][0], array.nbytes, 1, self.stream)

    def download(self, array: np.ndarray, address: int) -> None:
        """Copies from the GPU into a dense array, after all that was asked for."""
        stream = self.stream
        self.runtime.memcpyAsync(array.__array_interface__["data"][0], address, array.nbytes, 2, stream)
        self.runtime.streamSynchronize(stream)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.runtime.memcpyAsync(target, source, nbytes, 3, self.stream)

    def clear(self, address: int, nbytes: int) -> None:
        self.runtime.memsetAsync(address, 0, nbytes, self.stream)

    def synchronize(self) -> None:
        self.runtime.deviceSynchronize()

    def index_failed(self) -> bool:
        """Whether a kernel has met an index that is out of range since this was asked last."""
        found = np.zeros(1, np.int64)
        self.download(found, self.error_block.address)
        if found[0]:
            self.clear(self.error_block.address, 8)
        return bool(found[0])

    # Kernels -----------------------------------------------------------------------------------------------

    def load(self, kernels: Iterable[tuple[str, str]]) -> None:
        """Compiles kernels, by name and source, that are not there yet: many of them on several cores."""
        with self.lock:
            new = {name: source for name, source in kernels if name not in self.functions}
            if not new:
                return
            names = list(new)
            count = max(1, min(os.cpu_count() or 1, len(names) // TOGETHER))
            parts = [names[first::count] for first in range(count)]
            texts = [PRELUDE + "".join(new[name] for name in part) for part in parts]
            with ThreadPoolExecutor(count) as pool:
                images = list(pool.map(self.compiled, texts)) if count > 1 else [self.compiled(texts[0])]
            self.here.cell  # noqa: B018
            for part, image in zip(parts, images):
                module = self.cupy.cuda.function.Module()
                module.load(image)
                self.modules.append(module)
                for name in part:
                    function = module.get_function(name)
                    self.modules.append(function)
                    self.functions[name] = function.ptr

    def compiled(self, source: str) -> bytes:
        """Machine code, from the cache on disk or by NVRTC."""
        from cupy_backends.cuda.libs import nvrtc

        key = hashlib.sha256(f"{source}{self.architecture}{nvrtc.getVersion()}".encode()).hexdigest()[:40]
        path = cache_folder() / f"{key}.o"
        image = read_cached(path)
        if image is None:
            image = compile_source(source, self.architecture)
            write_cached(path, image)
        return image

    def launch(self, name: str, grid: tuple, block: tuple, words: int) -> None:
        """Has a kernel run; its arguments lie at `words` on the CPU, and are copied at once."""
        parameter = self.here.cell
        parameter[0] = words
        failed = self.enqueue(self.functions[name], *grid, *block, 0, self.stream, parameter, None)
        if failed:
            raise RuntimeError(f"CUDA could not start a kernel (error {failed})")

    def load_binary(self, name: str, binary: Binary) -> None:
        """Loads a kernel that is compiled already."""
        with self.lock:
            if name in self.functions:
                return
            self.here.cell  # noqa: B018
            module = self.cupy.cuda.function.Module()
            module.load(binary.image)
            function = module.get_function(binary.entry)
            self.modules += [module, function]
            if binary.shared > SHARED and self.driver.cuFuncSetAttribute(
                ctypes.c_void_p(function.ptr), MOST_SHARED, binary.shared
            ):
                raise RuntimeError(
                    f"a kernel needs {binary.shared} bytes of shared memory, which this GPU has not"
                )
            self.functions[name] = function.ptr

    def launch_binary(self, name: str, grid: tuple, binary: Binary, parameters: int) -> None:
        """Has such a kernel run; `parameters` is the address of the addresses of its arguments."""
        self.here.cell  # noqa: B018
        block = (binary.threads, 1, 1)
        failed = self.enqueue(
            self.functions[name], *grid, *block, binary.shared, self.stream, parameters, None
        )
        if failed:
            raise RuntimeError(f"CUDA could not start a kernel (error {failed})")

    def multiply(self, *product: Any) -> None:
        """Has matrices multiplied: what `Products.multiply` takes behind the queue of work."""
        self.products.multiply(self.stream, *product)

    @cached_property
    def products(self) -> Products:
        self.here.cell  # noqa: B018
        return Products(self.allocate)

    # Graphs ------------------------------------------------------------------------------------------------

    def capture(self, work: Callable[[], None]) -> Any:
        """What some work asks the GPU for, as one graph that can be asked for again."""
        stream = self.cupy.cuda.Stream(non_blocking=True)
        self.synchronize()
        with stream:
            stream.begin_capture()
            try:
                work()
            finally:
                graph = stream.end_capture()
        return graph

    def replay(self, graph: Any) -> None:
        graph.launch(self.cupy.cuda.get_current_stream())


def compile_source(source: str, architecture: str) -> bytes:
    """CUDA C++ as machine code for GPUs of an architecture; no GPU is needed for that."""
    from cupy_backends.cuda.libs import nvrtc

    program = nvrtc.createProgram(source, "cleargrad.cu", (), ())
    try:
        # Products and sums round one by one, as the calls do that a kernel stands for.
        nvrtc.compileProgram(program, (f"--gpu-architecture={architecture}", "-std=c++17", "--fmad=false"))
        return nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError:
        raise RuntimeError(
            f"a kernel could not be compiled: {nvrtc.getProgramLog(program)}\n{source}"
        ) from None
    finally:
        nvrtc.destroyProgram(program)
