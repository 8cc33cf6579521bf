"""A GPU made of the CPU: kernels are compiled by the C++ compiler, with loops in the place of threads.

Everything above `Runtime` is as on a GPU, down to the text of kernels; what cannot be seen here is what only a GPU
does: threads at the same time, streams, cuBLAS.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import mmap
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cleargrad.core.layout import pages
from cleargrad.devices.cuda.products import Matrix
from cleargrad.devices.cuda.program import array_at
from cleargrad.devices.cuda.runtime import Runtime
from cleargrad.devices.cuda.text import PRELUDE

LIBC, PAGE = ctypes.CDLL(None), mmap.PAGESIZE
COMPILER = shutil.which("g++")

HEAD = r"""
#include <cmath>
#include <cstring>
using namespace std;
typedef long long i64;
struct Dim { unsigned x, y, z; };
static Dim blockIdx, threadIdx, blockDim, gridDim;
#define DEVICE static inline
#define SHARED(type, name, n) static type name[n];
#define PHASE for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++) \
  for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) \
  for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) {
#define END }
#define KERNEL(name, n, threads) static void body_##name(const Words<n>& words); \
extern "C" void name(const i64* at, const unsigned* sizes) { \
  gridDim = {sizes[0], sizes[1], sizes[2]}; blockDim = {sizes[3], sizes[4], sizes[5]}; \
  for (unsigned z = 0; z < gridDim.z; z++) for (unsigned y = 0; y < gridDim.y; y++) \
  for (unsigned x = 0; x < gridDim.x; x++) { blockIdx = {x, y, z}; body_##name(*(const Words<n>*)at); } } \
static void body_##name(const Words<n>& words)
static inline unsigned bits_of(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
static inline float float_of(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
static inline i64 bits_of(double f) { i64 u; memcpy(&u, &f, 8); return u; }
static inline double double_of(i64 u) { double f; memcpy(&f, &u, 8); return f; }
static inline float from_half(unsigned short h) { _Float16 f; memcpy(&f, &h, 2); return (float)f; }
static inline unsigned short to_half(float x) {
  _Float16 f = (_Float16)x;
  unsigned short h;
  memcpy(&h, &f, 2);
  return h;
}
static inline float erfinv(float x) { return NAN; }
static inline float erfcx(float x) { return NAN; }
"""


# What the runtime takes from CuPy, made of the CPU --------------------------------------------------------


class NoMoreMemory(MemoryError):
    """What CuPy raises."""


class Piece:
    """A part of the GPU's memory, for as long as somebody needs it."""

    def __init__(self, pool: Pool, at: int, size: int) -> None:
        self.pool, self.at, self.size = pool, at, size
        self.ptr = pool.gpu.first + at

    def __del__(self) -> None:
        self.pool.free.setdefault(self.size, []).append(self.at)


class Pool:
    """Memory that was given back is given out again, as CuPy's pool does."""

    def __init__(self, gpu: Emulated) -> None:
        self.gpu, self.taken = gpu, 0
        self.free: dict[int, list[int]] = {}

    def malloc(self, size: int) -> Piece:
        gpu, found = self.gpu, self.free.get(size)
        assert gpu.captured is None or gpu.queues.recording, (
            "memory taken for a graph would not be the graph's"
        )
        if not found:
            if gpu.free < size:
                self.free_all_blocks()
            if gpu.free < size or gpu.used + size > gpu.room.size:
                raise NoMoreMemory(f"{size} bytes")
            found = self.free.setdefault(size, [])
            found.append(gpu.used)
            gpu.used += size
            gpu.free -= size
            self.taken += size
        at = found.pop()
        with gpu.opened():
            gpu.room[at : at + size] = 0xCC
        return Piece(self, at, size)

    def total_bytes(self) -> int:
        return self.taken

    def free_all_blocks(self) -> None:
        """The addresses are not used again; there are plenty of them."""
        size = sum(size * len(found) for size, found in self.free.items())
        self.free.clear()
        self.taken -= size
        self.gpu.free += size


class Stream:
    """A queue whose work is done as soon as it is asked for; but for work that is recorded."""

    priority = 0
    done = True

    def __init__(self, gpu: Emulated, number: int) -> None:
        self.gpu, self.ptr = gpu, number

    def use(self) -> Stream:
        self.gpu.current = self
        return self

    def synchronize(self) -> None:
        self.gpu.calls.append(f"synchronize {self.ptr}")

    def wait_event(self, event: Event) -> None:
        self.gpu.calls.append(f"{self.ptr} waits for {event.stream}")

    def begin_capture(self) -> None:
        assert self.ptr and self.gpu.captured is None
        self.gpu.captured = []

    def end_capture(self) -> Graph:
        captured, self.gpu.captured = self.gpu.captured, None
        return Graph(self.gpu, captured)


class Graph:
    """Work that was recorded."""

    def __init__(self, gpu: Emulated, captured: list[Callable[[], object]]) -> None:
        self.gpu, self.captured = gpu, captured

    def launch(self, stream: Stream) -> None:
        with self.gpu.opened():
            for work in self.captured:
                work()


class Event:
    """A moment of a stream."""

    done = True
    ptr = 1

    def __init__(self, disable_timing: bool = False, **options: Any) -> None:
        self.timed, self.moment, self.stream = not disable_timing, 0.0, None

    def record(self, stream: Stream) -> None:
        self.stream, self.moment = stream.ptr, time.perf_counter()

    def synchronize(self) -> None:
        pass


def fake_cupy(gpu: Emulated) -> Any:
    """The part of CuPy that `Runtime` uses besides launching."""

    @contextlib.contextmanager
    def using_allocator(malloc: Callable[[int], Piece]) -> Iterator[None]:
        before, gpu.malloc = gpu.malloc, malloc
        try:
            yield
        finally:
            gpu.malloc = before

    def alloc_pinned_memory(size: int) -> Any:
        buffer = pages(size)
        return SimpleNamespace(ptr=buffer.__array_interface__["data"][0], buffer=buffer)

    def elapsed(start: Event, end: Event) -> float:
        assert start.timed and end.timed
        return 1000 * (end.moment - start.moment)

    numbers = itertools.count(1)
    properties = {
        "name": b"Emulated", "major": 9, "minor": 0, "totalGlobalMem": gpu.total, "multiProcessorCount": 1,
    }  # fmt: skip
    cuda = SimpleNamespace(
        alloc=lambda size: gpu.malloc(size),
        alloc_pinned_memory=alloc_pinned_memory,
        using_allocator=using_allocator,
        memory=SimpleNamespace(OutOfMemoryError=NoMoreMemory),
        MemoryPool=lambda: Pool(gpu),
        Event=Event,
        Stream=lambda non_blocking=False, priority=None: Stream(gpu, next(numbers)),
        ExternalStream=lambda pointer: Stream(gpu, pointer),
        get_current_stream=lambda: gpu.current,
        get_elapsed_time=elapsed,
        runtime=SimpleNamespace(
            memGetInfo=lambda: (gpu.free, gpu.total), getDeviceProperties=lambda index: properties
        ),
    )
    cuda.Stream.null = gpu.current
    return SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: gpu.pool)


class Emulated(Runtime):
    """A runtime on the CPU."""

    stream = 0
    resident = 132 * 8  # as on an H200
    guarded = (
        True  # whether who reads memory on the CPU is stopped, which takes time where there is much of it
    )
    captured: list[Callable[[], object]] | None = None  # what a graph that is being made consists of

    def __init__(self, total: int = 1 << 33) -> None:
        self.room = pages(1 << 33)
        self.first, self.used = self.room.__array_interface__["data"][0], 0
        self.total = self.free = total
        self.depth, self.door = 0, threading.RLock()  # of those who may read, one thread at a time
        self.pool = Pool(self)
        self.malloc = self.pool.malloc
        self.current = Stream(self, 0)
        self.calls: list[str] = []  # what streams were asked for
        self.functions: dict[str, Any] = {}
        self.libraries: list[Any] = []
        self.folder = Path(tempfile.mkdtemp(prefix="emulated-"))
        self.launches: list[str] = []
        self.sources: dict[str, str] = {}
        self.start(fake_cupy(self), 0)
        self.clear(self.error_block.address, 8)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Memory of the GPU is open to kernels and copies; whoever reads it meanwhile on the CPU is stopped."""
        with self.door:
            self.protect(mmap.PROT_READ | mmap.PROT_WRITE)
            self.depth += 1
            try:
                yield
            finally:
                self.depth -= 1
                self.protect(0)

    def protect(self, rights: int) -> None:
        if not self.depth and self.guarded:
            LIBC.mprotect(ctypes.c_void_p(self.first), ctypes.c_size_t(-(-self.used // PAGE) * PAGE), rights)

    def is_there(self, address: int, nbytes: int = 1) -> bool:
        """Whether memory is the GPU's."""
        return self.first <= address and address + nbytes <= self.first + self.used

    def upload(self, address: int, array: np.ndarray) -> None:
        if self.captured is not None:
            self.queues.recording.kept.append(array)
        source = array.__array_interface__["data"][0]
        assert array.flags.c_contiguous and not self.is_there(source) and self.is_there(address, array.nbytes)
        self.do(lambda: ctypes.memmove(address, source, array.nbytes))

    def download(self, array: np.ndarray, address: int) -> None:
        if self.captured is not None:
            raise RuntimeError("operation not permitted when stream is capturing")
        target = array.__array_interface__["data"][0]
        assert array.flags.c_contiguous and not self.is_there(target) and self.is_there(address, array.nbytes)
        with self.opened():
            ctypes.memmove(target, address, array.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        assert self.is_there(target, nbytes) and self.is_there(source, nbytes)
        self.do(lambda: ctypes.memmove(target, source, nbytes))

    def clear(self, address: int, nbytes: int) -> None:
        assert self.is_there(address, nbytes)
        self.do(lambda: ctypes.memset(address, 0, nbytes))

    def do(self, work: Callable[[], object]) -> None:
        """Something that a graph can consist of."""
        if self.captured is None:
            with self.opened():
                work()
        else:
            self.captured.append(work)

    def synchronize(self) -> None:
        pass

    def load(self, kernels: Iterable[tuple[str, str]]) -> None:
        new = {name: source for name, source in kernels if name not in self.functions}
        if not new:
            return
        self.sources.update(new)
        text = "".join(new.values())
        name = hashlib.sha256(text.encode()).hexdigest()[:20]
        source, library, head = (self.folder / each for each in (f"{name}.cpp", f"{name}.so", "head.h"))
        flags = ["-O0", "-fPIC", "-ffp-contract=off", "-fwrapv", "-w", "-std=c++20"]
        if not head.exists():
            head.write_text(HEAD + PRELUDE)
            subprocess.run([COMPILER, *flags, "-x", "c++-header", head], check=True)
        source.write_text('#include "head.h"\n' + text)
        done = subprocess.run(
            [COMPILER, *flags, "-shared", "-nostdlib", "-o", library, source, "-lm", "-lgcc"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[:3000] + text
        self.libraries.append(ctypes.CDLL(str(library)))
        for each in new:
            self.functions[each] = getattr(self.libraries[-1], each)

    def launch(self, name: str, grid: tuple, block: tuple, words: int) -> None:
        assert all(n > 0 for n in (*grid, *block)) and np.prod(block) <= 1024
        assert grid[0] < 1 << 31 and grid[1] < 1 << 16 and grid[2] < 1 << 16
        self.launches.append(name)
        count = int(re.search(r"KERNEL\(\w+, (\d+)", self.sources[name])[1])
        found = np.ctypeslib.as_array(ctypes.cast(words, ctypes.POINTER(ctypes.c_int64)), (count,))
        assert all(self.is_there(int(word)) for word in found if word > 1 << 40), (
            "a kernel gets memory of the CPU"
        )
        given = found.copy()
        sizes = (ctypes.c_uint * 6)(*grid, *block)
        self.do(lambda: self.functions[name](ctypes.c_void_p(given.ctypes.data), sizes))

    def multiply(self, *given: Any) -> None:
        self.do(lambda: product(*given))

    def capture(self, work: Callable[[], None]) -> Any:
        """Nothing is done now; what is asked for is noted as it is at this time, as a GPU does."""
        self.captured = captured = []
        try:
            work()
        finally:
            self.captured = None
        return captured

    def replay(self, graph: Any) -> None:
        with self.opened():
            for work in graph:
                work()


def seen(matrix: Matrix, number: int, rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """A matrix of a stack as cuBLAS reads it."""
    size = dtype.itemsize
    high, wide = (columns, rows) if matrix.turned else (rows, columns)
    assert matrix.lead >= max(high, 1), matrix
    at = matrix.address + number * matrix.apart * size
    array = array_at(at, (high, wide), dtype, (size, matrix.lead * size), None)
    return array.T if matrix.turned else array


def product(
    kind: str,
    sizes: tuple[int, int, int],
    matrices: tuple[Matrix, Matrix, Matrix],
    count: int,
    beta: float,
    bias: int = 0,
) -> None:
    """What cuBLASLt does."""
    (m, n, k), (left, right, out) = sizes, matrices
    dtype = np.dtype(kind) if kind != "bfloat16" else np.dtype("bfloat16")
    for number in range(count):
        a, b, c = (
            seen(each, number, rows, columns, dtype)
            for each, rows, columns in ((left, m, k), (right, k, n), (out, m, n))
        )
        wide = np.float32 if dtype.itemsize < 4 else dtype
        result = a.astype(wide) @ b.astype(wide)
        if bias:
            result += array_at(bias, (m, 1), dtype, (dtype.itemsize, dtype.itemsize), None)
        c[...] = (result + c if beta else result).astype(dtype)
