"""Machine code from LLVM assembly, in this process, without a compiler on the user's machine.

`Kernel` is the text of one function; `addresses` compiles those not seen before and gives back where each lies in
memory. Object code is kept on disk under the hash of everything it depends on, so the next process
only links it. A damaged or foreign file in the cache is compiled anew. Read next: codegen/loop_nest.py.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

PASSES = "2"  # changes with the list of passes, which decides the code too
FORMAT = b"cleargrad object 1\n"  # the first line of a cached file; its second is the hash of what follows


@dataclass(frozen=True)
class Kernel:
    """A function in LLVM assembly, whose name in the text is `kernel`, with what it declares."""

    text: str
    declarations: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        return "\n".join([*sorted(self.declarations), self.text])


@cache
def host() -> tuple[str, str]:
    """The processor's name and features, as LLVM writes them."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def lanes() -> int:
    """How many float32 a vector register of this machine holds."""
    features = host()[1].split(",")
    if "+avx512f" in features:
        return 16
    return 8 if "+avx2" in features else 4


@cache
def registers() -> int:
    """How many vector registers a kernel may use at once."""
    features = host()[1].split(",")
    return 32 if "+avx512f" in features or "+neon" in features else 16


def target_machine() -> Any:
    cpu, features = host()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default")


class Compiler:
    """LLVM's machinery."""

    def __init__(self) -> None:
        self.machine = target_machine()
        self.builder = llvm.create_pass_builder(
            self.machine, llvm.create_pipeline_tuning_options(speed_level=2)
        )
        # The vectors are explicit, loops are unrolled as they should be, nothing is written twice: what remains
        # to do is little, and takes a ninth of the time of LLVM's standard list.
        self.passes = passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_loop_rotate_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()

    def object_code(self, module: str) -> bytes:
        parsed = llvm.parse_assembly(module)
        parsed.triple = self.machine.triple
        parsed.data_layout = str(self.machine.target_data)
        self.passes.run(parsed, self.builder)
        return self.machine.emit_object(parsed)


class Jit:
    """Every kernel this process has, by its text."""

    def __init__(self) -> None:
        host()
        self.linker = llvm.create_lljit_compiler(target_machine())
        self.linked: dict[str, tuple[int, Any]] = {}
        self.lock = threading.Lock()
        self.compiler = Compiler()
        self.compiled = 0  # kernels that were on no disk

    def addresses(self, kernels: Iterable[Kernel]) -> list[int]:
        """Where the code of each kernel lies; what is missing is compiled first."""
        modules = [kernel.module for kernel in kernels]
        with self.lock:
            missing = [module for module in dict.fromkeys(modules) if module not in self.linked]
            for module in missing:
                self.linked[module] = self.link(self.object_code(module))
            return [self.linked[module][0] for module in modules]

    def object_code(self, module: str) -> bytes:
        path = cache_folder() / f"{key_of(module)}.o"
        code = read_cached(path)
        if code is None:
            code = self.compiler.object_code(module)
            self.compiled += 1
            write_cached(path, code)
        return code

    def link(self, code: bytes) -> tuple[int, Any]:
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol("kernel")
        tracker = builder.link(self.linker, f"kernel{len(self.linked)}")
        return tracker["kernel"], tracker


@cache
def jit() -> Jit:
    return Jit()


def addresses(kernels: Iterable[Kernel]) -> list[int]:
    return jit().addresses(kernels)


# On disk ---------------------------------------------------------------------------------------------------


def key_of(module: str) -> str:
    """The hash of all that decides the object code."""
    facts = [module, *host(), llvmlite.__version__, PASSES]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:40]


@cache
def cache_folder() -> Path:
    """Where object code is kept: CLEARGRAD_CACHE, or the user's folder for caches."""
    chosen = os.environ.get("CLEARGRAD_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cleargrad"


def read_cached(path: Path) -> bytes | None:
    """The object code in a file; None if there is none, or not as it was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head, code = content[: len(FORMAT) + 33], content[len(FORMAT) + 33 :]
    return code if head == FORMAT + checksum(code) + b"\n" else None


def write_cached(path: Path, code: bytes) -> None:
    """Puts object code on disk, whole or not at all; a cache that cannot be written is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(FORMAT + checksum(code) + b"\n" + code)
        os.replace(name, path)
    except OSError:
        pass


def checksum(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=16).hexdigest().encode()
