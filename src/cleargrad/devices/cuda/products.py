"""Products of matrices on a GPU, by cuBLASLt: called directly, so that graphs can hold them.

A product is planned once for its sizes and layouts: descriptions, and the algorithm that cuBLASLt's own rules
choose for them. The choice follows from these facts alone, so that the same product has the same bits whoever asks
for it. Read next: devices/cuda/counts.py.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cleargrad.core.precision import Tf32

WORKSPACE = 32 << 20  # bytes that cuBLASLt may use beside the operands; as NVIDIA advises for Hopper
ALIGNED = 256  # bytes, beyond which no algorithm asks for more

TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType
COMPUTE = {"float32": 68, "tf32": 77, "float64": 70}  # cublasComputeType
TURN_LEFT, TURN_RIGHT, EPILOGUE, BIAS = 3, 4, 7, 8  # attributes of a product
ADDS_BIAS = 4  # the epilogue that adds a number to each row, in the memory order of columns
BATCH_COUNT, BATCH_APART = 5, 6  # attributes of a matrix
MOST_WORKSPACE, ALIGNMENT = 1, 5  # attributes of a wish; the alignments of four matrices follow one another


@dataclass(frozen=True)
class Matrix:
    """A stack of matrices as cuBLAS knows them: by columns, or turned, with a distance between columns and between
    matrices."""

    address: int
    turned: bool
    lead: int
    apart: int


class Choice(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, and what is known of it."""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


class Planned:
    """A product that is ready to be asked for: descriptions, an algorithm, and the factors."""

    def __init__(self) -> None:
        self.parts = [ctypes.c_void_p() for _ in range(4)]  # the product, left, right, result
        self.choice = Choice()
        self.factors = np.zeros(2)


class Products:
    """cuBLASLt on one GPU."""

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        """`allocate` gives blocks of memory on the GPU."""
        self.allocate = allocate
        self.library = library()
        self.handle = ctypes.c_void_p()
        self.planned: dict[tuple, Planned] = {}
        self.rooms: dict[int, Any] = {}  # memory beside the operands, for each queue of work
        self.lock = threading.Lock()
        self.matmul = self.library.cublasLtMatmul
        self.matmul.argtypes = [ctypes.c_void_p] * 14 + [ctypes.c_size_t, ctypes.c_void_p]
        self.call("Create", ctypes.byref(self.handle))

    def call(self, name: str, *arguments: Any) -> None:
        failed = getattr(self.library, f"cublasLt{name}")(*arguments)
        if failed:
            raise RuntimeError(f"cuBLASLt could not do {name} (error {failed})")

    def multiply(
        self,
        stream: int,
        kind: str,
        sizes: tuple[int, int, int],
        matrices: tuple[Matrix, Matrix, Matrix],
        count: int,
        beta: float,
        bias: int = 0,
    ) -> None:
        """out = left @ right + beta * out, in the memory order of columns; the sizes are m, n and k.

        With the address of a bias, its m numbers are added to all columns before anything is rounded.
        """
        layouts = tuple((x.turned, x.lead, x.apart, min(x.address & -x.address, ALIGNED)) for x in matrices)
        key = (kind, Tf32.products, sizes, layouts, count, beta, bias != 0)
        planned = self.planned.get(key)
        if planned is None:
            with self.lock:
                planned = self.planned[key] = self.plan(kind, sizes, layouts, count, beta, bias)
        room = self.rooms.get(stream)
        if room is None:
            room = self.rooms[stream] = self.allocate(WORKSPACE)
        (product, *described), (left, right, out) = planned.parts, (x.address for x in matrices)
        at = planned.factors.__array_interface__["data"][0]
        first, second, result = described
        if bias:
            self.set("MatmulDesc", product, BIAS, ctypes.c_void_p(bias))
        failed = self.matmul(
            self.handle, product, at, left, first, right, second, at + planned.factors.itemsize,
            out, result, out, result, ctypes.byref(planned.choice), room.address, WORKSPACE, stream,
        )  # fmt: skip
        if failed:
            raise RuntimeError(f"cuBLASLt could not multiply {kind} matrices {sizes} (error {failed})")

    def plan(
        self, kind: str, sizes: tuple[int, int, int], layouts: tuple, count: int, beta: float, bias: int
    ) -> Planned:
        m, n, k = sizes
        made, double = Planned(), kind == "float64"
        compute = COMPUTE[
            "float64" if double else "tf32" if kind == "float32" and Tf32.products else "float32"
        ]
        made.factors = np.array([1, beta], np.float64 if double else np.float32)
        product, *described = map(ctypes.byref, made.parts)
        self.call("MatmulDescCreate", product, compute, TYPES["float64" if double else "float32"])
        for attribute, (turned, *_) in zip((TURN_LEFT, TURN_RIGHT), layouts):
            self.set("MatmulDesc", made.parts[0], attribute, ctypes.c_int(turned))
        if bias:
            self.set("MatmulDesc", made.parts[0], EPILOGUE, ctypes.c_int(ADDS_BIAS))
            self.set("MatmulDesc", made.parts[0], BIAS, ctypes.c_void_p(bias))
        shapes = ((m, k), (k, n), (m, n))
        for matrix, there, (turned, lead, apart, _), shape in zip(made.parts[1:], described, layouts, shapes):
            rows, columns = reversed(shape) if turned else shape
            sides = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(lead)
            self.call("MatrixLayoutCreate", there, TYPES[kind], *sides)
            self.set("MatrixLayout", matrix, BATCH_COUNT, ctypes.c_int32(count))
            self.set("MatrixLayout", matrix, BATCH_APART, ctypes.c_int64(apart))
        wish, found = ctypes.c_void_p(), ctypes.c_int()
        self.call("MatmulPreferenceCreate", ctypes.byref(wish))
        self.set("MatmulPreference", wish, MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        for number, (*_, aligned) in enumerate((*layouts, layouts[2])):
            self.set("MatmulPreference", wish, ALIGNMENT + number, ctypes.c_uint32(aligned))
        left, right, out = made.parts[1:]
        self.call(
            "MatmulAlgoGetHeuristic", self.handle, made.parts[0], left, right, out, out, wish, 1,
            ctypes.byref(made.choice), ctypes.byref(found),
        )  # fmt: skip
        self.call("MatmulPreferenceDestroy", wish)
        if not found.value:
            raise RuntimeError(f"cuBLASLt knows no way to multiply {kind} matrices {sizes}")
        return made

    def set(self, whose: str, described: ctypes.c_void_p, attribute: int, value: Any) -> None:
        at, size = ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
        self.call(f"{whose}SetAttribute", described, attribute, at, size)


def library() -> ctypes.CDLL:
    """The library that CuPy works with, which it has loaded; its name holds CUDA's version."""
    from cupy_backends.cuda.libs import cublas

    cublas.getVersion(cublas.create())
    loaded = {
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "cublasLt" in line
    }
    return ctypes.CDLL(min(loaded)) if loaded else ctypes.CDLL("libcublasLt.so")
