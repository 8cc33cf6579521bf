"""Kernels written in Triton, as machine code: compiled without PyTorch, without a GPU, and kept on disk.

A kernel's parameters are pointers, in the order of its arguments; everything else (extents, strides, sizes of
tiles) is a constant, since programs are made for layouts. What calls one is a `Launch` of devices/cuda/nests.py
like any other, with words for the pointers. Read next: devices/cuda/flash_kernels.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from cleargrad.core.disk_cache import cache_folder, read_cached, write_cached

POINTERS = {
    "bool": "*i1", "int32": "*i32", "int64": "*i64", "float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32",
    "float64": "*fp64",
}  # fmt: skip
HIDDEN = 2  # words behind the pointers, for memory that these kernels do not ask for


@dataclass(frozen=True)
class Binary:
    """Machine code of one kernel."""

    entry: str  # its name in there
    image: bytes
    threads: int
    shared: int  # bytes of shared memory, which it is given when it starts

    @cached_property
    def name(self) -> str:
        return f"{self.entry}_{hashlib.sha256(self.image).hexdigest()[:20]}"


@dataclass(frozen=True)
class Layout:
    """What is known of an operand or a result before there is memory for it; strides are in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


@dataclass
class Start:
    """A kernel that is to run, so many times, and what its pointers mean."""

    binary: Binary
    grid: tuple[int, int, int]
    pointers: list[tuple[str, int]]  # ("operand", k), ("result", k), or ("work", bytes from its beginning)


@dataclass
class Plan:
    """How a call is made: kernels one after the other, and bytes of memory that lie between them."""

    starts: list[Start]
    work: int = 0


@dataclass
class Kernel:
    """A kernel as it is written down, before it is compiled: of a pointer its place, as in `Start`, and dtype."""

    function: Any
    pointers: dict[str, tuple[tuple[str, int], str]]
    constants: dict[str, Any]
    grid: tuple[int, int, int]
    warps: int = 4
    stages: int = 2

    def start(self, architecture: int) -> Start:
        dtypes = {name: dtype for name, (_, dtype) in self.pointers.items()}
        binary = compiled(self.function, dtypes, self.constants, self.warps, self.stages, architecture)
        order = [name for name in self.function.arg_names if name in dtypes]
        return Start(binary, self.grid, [self.pointers[name][0] for name in order])


@dataclass
class Written:
    """The kernels of a call as they are written down; tests run them by Triton's interpreter."""

    kernels: list[Kernel]
    work: int = 0

    def plan(self, architecture: int) -> Plan:
        return Plan([kernel.start(architecture) for kernel in self.kernels], self.work)


def compiled(
    function: Any,
    pointers: Mapping[str, str],
    constants: Mapping[str, Any],
    warps: int = 4,
    stages: int = 2,
    architecture: int = 90,
) -> Binary:
    """A function of Triton's for pointers to dtypes, by its arguments' names, and for constants."""
    words = (
        text_of(function),
        [*pointers.items()],
        [*constants.items()],
        warps,
        stages,
        architecture,
        version(),
    )
    path = cache_folder() / f"{hashlib.sha256(repr(words).encode()).hexdigest()[:40]}.o"
    kept = read_cached(path)
    if kept is not None:
        head, _, image = kept.partition(b"\n")
        entry, threads, shared = head.decode().split()
        return Binary(entry, image, int(threads), int(shared))
    found = made(function, pointers, constants, warps, stages, architecture)
    write_cached(path, f"{found.entry} {found.threads} {found.shared}\n".encode() + found.image)
    return found


def made(
    function: Any,
    pointers: Mapping[str, str],
    constants: Mapping[str, Any],
    warps: int,
    stages: int,
    architecture: int,
) -> Binary:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = function.arg_names
    signature = {name: POINTERS[pointers[name]] if name in pointers else "constexpr" for name in names}
    values = {(position,): constants[name] for position, name in enumerate(names) if name not in pointers}
    whole = {
        (position,): [["tt.divisibility", 16]] for position, name in enumerate(names) if name in pointers
    }
    source = ASTSource(function, signature, values, whole)
    options = {"num_warps": warps, "num_stages": stages}
    done = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options)
    facts = done.metadata
    assert not facts.global_scratch_size and not facts.profile_scratch_size
    return Binary(facts.name, done.asm["cubin"], 32 * facts.num_warps, facts.shared)


def text_of(function: Any) -> str:
    """The source of a kernel and of all that it calls."""
    return function.cache_key


@cache
def version() -> str:
    import triton

    return triton.__version__
