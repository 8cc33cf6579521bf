"""`cleargrad info`: what this machine can do and what is installed, for reports of problems.

Every fact is looked up by a function of its group; none may fail, because a report is needed most where
something is broken. Read next: devices/cpu/llvm/jit.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import cleargrad
from cleargrad.bench.machine import installed, processor, usable_cores
from cleargrad.cli import terminal

REQUIRED = ("numpy", "llvmlite", "ml_dtypes", "safetensors", "threadpoolctl", "zlib-ng", "rich")
OPTIONAL = ("torch", "jax", "tinygrad", "matplotlib", "tensorboardX", "pytest")
VARIABLES = ("CLEARGRAD_CACHE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NO_COLOR")
FEATURES = (
    "sse4.2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512vl",
    "avx512bf16",
    "amx-tile",
    "neon",
    "sve",
)

DESCRIPTION = """\
Says what this machine can do and what is installed, for a bug report."""

EPILOG = """\
examples:
  cleargrad info
  cleargrad info --json > machine.json

The cache holds machine code of compiled steps. Deleting it is safe, and the
variable CLEARGRAD_CACHE moves it."""

# A group's facts: text, numbers, lists of text, or None for what is not there.
Facts = dict[str, Any]


def add_to(commands) -> None:
    """Declares the command and its options."""
    parser = commands.add_parser(
        "info",
        help="say what this machine can do, for bug reports",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for other programs")
    parser.set_defaults(command=inform)


def inform(options: argparse.Namespace) -> None:
    found = all_facts()
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for group, rows in found.items():
        print(terminal.paint(group, "bold"))
        print(terminal.facts({name: in_words(value) for name, value in rows.items()}))


def all_facts() -> dict[str, Facts]:
    return {name: guarded(look_up) for name, look_up in GROUPS.items()}


def guarded(look_up: Callable[[], Facts]) -> Facts:
    """A group's facts; what went wrong is a fact too."""
    try:
        return look_up()
    except Exception as reason:
        return {"failed": f"{type(reason).__name__}: {reason}"}


def in_words(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


# Groups ----------------------------------------------------------------------------------------------------


def software() -> Facts:
    import llvmlite.binding as llvm

    return {
        "cleargrad": cleargrad.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        **{name: installed(name) for name in REQUIRED},
        "LLVM": ".".join(map(str, llvm.llvm_version_info)),
        "BLAS": blas(),
    }


def blas() -> str:
    """The linear algebra libraries that NumPy brought along."""
    from cleargrad import threads

    found = threads.controller().info()
    return ", ".join(
        f"{each['internal_api']} {each['version']} ({each.get('architecture', '?')})" for each in found
    )


def processor_facts() -> Facts:
    """Vectors and features are those that the compiler uses."""
    from cleargrad.devices.cpu.llvm import jit

    name, features = jit.host()
    has = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    return {
        "name": processor(),
        "architecture": platform.machine(),
        "as LLVM knows it": name,
        "cores": os.cpu_count(),
        "cores to use": usable_cores(),
        "vectors": f"{32 * jit.lanes()} bits, {jit.lanes()} float32",
        "registers": jit.registers(),
        "features": [feature for feature in FEATURES if feature in has],
        "memory": memory(),
    }


def memory() -> str | None:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return megabytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def threads_facts() -> Facts:
    from cleargrad import threads

    return {
        "threads": threads.get_num_threads(),
        **{name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def gpu() -> Facts:
    """cleargrad computes on the CPU; the name is for those who wonder why it is idle."""
    return {"used": "none: cleargrad computes on the CPU", "found": gpu_names()}


def gpu_names() -> list[str] | None:
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    asked = [command, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip().splitlines() or None


def cache() -> Facts:
    from cleargrad.core.disk_cache import cache_folder

    folder = cache_folder()
    files = [entry for entry in os.scandir(folder) if entry.name.endswith(".o")] if folder.is_dir() else []
    there = next(place for place in (folder, *folder.parents) if place.is_dir())  # the rest would be made
    home = os.path.expanduser("~")
    shown = str(folder).replace(home, "~", 1) if str(folder).startswith(home + os.sep) else str(folder)
    return {
        "folder": shown,
        "size": megabytes(sum(entry.stat().st_size for entry in files)),
        "kernels": len(files),
        "writable": os.access(there, os.W_OK),
    }


def optional() -> Facts:
    return {name: installed(name) for name in OPTIONAL}


def megabytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


GROUPS: dict[str, Callable[[], Facts]] = {
    "software": software,
    "processor": processor_facts,
    "threads": threads_facts,
    "gpu": gpu,
    "cache": cache,
    "optional packages": optional,
}
