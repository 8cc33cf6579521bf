"""A GPU made of the CPU: kernels are compiled by the C++ compiler, with loops in the place of threads.

Everything above `Runtime` is as on a GPU, down to the text of kernels; what cannot be seen here is what only a GPU
does: threads at the same time, streams, cuBLAS.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cleargrad.core.layout import pages
from cleargrad.devices.cuda.program import array_at
from cleargrad.devices.cuda.runtime import Block, Matrix, Runtime
from cleargrad.devices.cuda.text import PRELUDE

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


class Piece:
    """A part of the GPU's memory, for as long as somebody needs it."""

    def __init__(self, free: list[int], at: int) -> None:
        self.free, self.at = free, at

    def __del__(self) -> None:
        self.free.append(self.at)


class Emulated(Runtime):
    """A runtime on the CPU."""

    stream = 0
    resident = 132 * 8  # as on an H200

    def __init__(self) -> None:
        self.room = pages(1 << 33)
        self.first, self.used = self.room.__array_interface__["data"][0], 0
        self.free: dict[int, list[int]] = {}
        self.functions: dict[str, Any] = {}
        self.libraries: list[Any] = []
        self.folder = Path(tempfile.mkdtemp(prefix="emulated-"))
        self.launches: list[str] = []
        self.sources: dict[str, str] = {}
        self.error_block = self.allocate(8)
        self.clear(self.error_block.address, 8)

    def allocate(self, nbytes: int) -> Block:
        """Memory of the GPU; what was given back is given out again, as CuPy's pool does."""
        size = -(-max(nbytes, 16) // 512) * 512
        free = self.free.setdefault(size, [])
        if not free:
            free.append(self.used)
            self.used += size
            assert self.used <= self.room.size
        at = free.pop()
        self.room[at : at + size] = 0xCC
        return Block(Piece(free, at), self.first + at, nbytes)

    def is_there(self, address: int, nbytes: int = 1) -> bool:
        """Whether memory is the GPU's."""
        return self.first <= address and address + nbytes <= self.first + self.used

    def upload(self, address: int, array: np.ndarray) -> None:
        source = array.__array_interface__["data"][0]
        assert array.flags.c_contiguous and not self.is_there(source) and self.is_there(address, array.nbytes)
        ctypes.memmove(address, source, array.nbytes)

    def download(self, array: np.ndarray, address: int) -> None:
        target = array.__array_interface__["data"][0]
        assert array.flags.c_contiguous and not self.is_there(target) and self.is_there(address, array.nbytes)
        ctypes.memmove(target, address, array.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        assert self.is_there(target, nbytes) and self.is_there(source, nbytes)
        ctypes.memmove(target, source, nbytes)

    def clear(self, address: int, nbytes: int) -> None:
        assert self.is_there(address, nbytes)
        ctypes.memset(address, 0, nbytes)

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
        self.functions[name](ctypes.c_void_p(words), (ctypes.c_uint * 6)(*grid, *block))

    def multiply(
        self,
        kind: str,
        m: int,
        n: int,
        k: int,
        left: Matrix,
        right: Matrix,
        out: Matrix,
        count: int,
        beta: float,
    ) -> None:
        dtype = np.dtype(kind) if kind != "bfloat16" else np.dtype("bfloat16")
        for number in range(count):
            a, b, c = (
                seen(each, number, rows, columns, dtype)
                for each, rows, columns in ((left, m, k), (right, k, n), (out, m, n))
            )
            wide = np.float32 if dtype.itemsize < 4 else dtype
            result = a.astype(wide) @ b.astype(wide)
            c[...] = (result + c if beta else result).astype(dtype)

    def capture(self, work: Callable[[], None]) -> Any:
        work()  # which a GPU would not do here; once more does no harm to programs that only compute
        return work

    def replay(self, graph: Any) -> None:
        graph()


def seen(matrix: Matrix, number: int, rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """A matrix of a stack as cuBLAS reads it."""
    size = dtype.itemsize
    high, wide = (columns, rows) if matrix.turned else (rows, columns)
    assert matrix.lead >= max(high, 1), matrix
    at = matrix.address + number * matrix.apart * size
    array = array_at(at, (high, wide), dtype, (size, matrix.lead * size), None)
    return array.T if matrix.turned else array
