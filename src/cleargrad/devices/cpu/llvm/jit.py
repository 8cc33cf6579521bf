"""Machine code from LLVM assembly, in this process, without a compiler on the user's machine.

`Kernel` is the text of one function; `addresses` compiles those not seen before and gives back where each lies in
memory. Object code is kept on disk under the hash of everything it depends on, so the next process
only links it. A kernel with a name need not even be written, as long as the modules that write kernels are the
same. Read next: core/disk_cache.py, then devices/cpu/programs/loops.py.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from cleargrad.core.disk_cache import cache_folder, read_cached, write_cached
from cleargrad.core.pace import give_way

PASSES = "2"  # changes with the list of passes, which decides the code too
# The rooms whose modules decide what the text of a kernel is.
WRITERS = ("devices/cpu/llvm", "devices/cpu/kernels", "devices/cpu/programs", "expr", "schedule")


class Kernel:
    """A function in LLVM assembly, whose name in the text is `kernel`, with what it declares."""

    def __init__(self, text: str, declarations: Iterable[str] = ()) -> None:
        self.identity = self.written = "\n".join([*sorted(declarations), text])

    @classmethod
    def later(cls, name: str, write: Callable[[], Kernel]) -> Kernel:
        """A kernel that is written when it is needed; its name must say all that decides the text."""
        if not sources():
            return write()
        kernel = cls.__new__(cls)
        kernel.identity, kernel.written, kernel.write = f"{sources()} {name}", "", write
        return kernel

    @property
    def module(self) -> str:
        if not self.written:
            self.written = self.write().module
        return self.written


def named(write: Callable[..., Kernel]) -> Callable[..., Kernel]:
    """Decorates a function that writes a kernel by nothing but its arguments, which print as what they are."""

    @cache
    def made(*arguments: Any) -> Kernel:
        return Kernel.later(
            f"{write.__module__}.{write.__qualname__}{arguments!r}", lambda: write(*arguments)
        )

    return update_wrapper(made, write)


@cache
def sources() -> str:
    """The hash of the modules that write kernels; nothing where they cannot be read."""
    package = Path(__file__).parents[3]
    digest = hashlib.blake2b(digest_size=16)
    try:
        for path in sorted(path for room in WRITERS for path in (package / room).glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    except OSError:
        return ""
    return digest.hexdigest() if Path(__file__).suffix == ".py" else ""


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
    """Every kernel this process has."""

    def __init__(self) -> None:
        host()
        # The default linker may place code and its constants too far apart in a process with much memory, and
        # aborts then; this one keeps what belongs together in one piece.
        self.linker = llvm.create_lljit_compiler(target_machine(), use_jit_link=True)
        self.linked: dict[str, tuple[int, Any]] = {}  # by their identities
        self.compiler = Compiler()
        self.compiled = 0  # kernels that were on no disk

    def addresses(self, kernels: Iterable[Kernel]) -> list[int]:
        """Where the code of each kernel lies; what is missing is compiled first."""
        found = []
        for kernel in kernels:
            place = self.linked.get(kernel.identity)
            if place is None:
                place = self.made(kernel)
            found.append(place[0])
        return found

    def made(self, kernel: Kernel) -> tuple[int, Any]:
        """Compiles and links a kernel. Another thread that needs one waits for no more than this one."""
        with _lock:
            place = self.linked.get(kernel.identity)
            if place is None:
                place = self.linked[kernel.identity] = self.link(self.object_code(kernel))
        give_way()
        return place

    def object_code(self, kernel: Kernel) -> bytes:
        path = cache_folder() / f"{key_of(kernel.identity)}.o"
        code = read_cached(path)
        if code is None:
            code = self.compiler.object_code(kernel.module)
            self.compiled += 1
            write_cached(path, code)
        return code

    def link(self, code: bytes) -> tuple[int, Any]:
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol("kernel")
        tracker = builder.link(self.linker, f"kernel{len(self.linked)}")
        return tracker["kernel"], tracker


_lock = threading.RLock()
_jit: list[Jit] = []


def jit() -> Jit:
    """This process's only one: code of another would be gone with it."""
    if not _jit:
        with _lock:
            if not _jit:
                _jit.append(Jit())
    return _jit[0]


# A child is not forked in the middle of another thread's work, which nobody would finish there.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def addresses(kernels: Iterable[Kernel]) -> list[int]:
    return jit().addresses(kernels)


# On disk ---------------------------------------------------------------------------------------------------


def key_of(identity: str) -> str:
    """The hash of all that decides the object code."""
    facts = [identity, *host(), llvmlite.__version__, PASSES]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:40]
