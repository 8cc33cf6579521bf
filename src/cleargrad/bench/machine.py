"""What benchmarks measure with, and what a report says of the machine.

Nothing of cleargrad is imported here: benchmarks/side_by_side.py loads this file by itself, because the peak
memory of a process counts what its parent held when it was started. Read next: bench/weights.py.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def resident(which: str = "VmRSS") -> float:
    """Megabytes of this process in memory: VmRSS now, VmHWM at most since the start or the last `forget_peak`."""
    with open("/proc/self/status") as file:
        return int(re.findall(rf"{which}:\s+(\d+)", file.read())[0]) / 1024


def told_of_processor() -> str:
    """What the system says of the processor, if it does."""
    try:
        with open("/proc/cpuinfo") as file:
            return file.read()
    except OSError:
        return ""


def processor() -> str:
    """The processor's name, as its maker writes it where the system says so."""
    names = re.findall(r"model name\s*: (.*)", told_of_processor())
    return names[0] if names else platform.processor() or platform.machine()


def vectors() -> str:
    """The widest vectors it has, as an addition to its name."""
    told = told_of_processor()
    return next((f" with {name}" for flag, name in VECTORS.items() if re.search(rf"\b{flag}\b", told)), "")


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def installed(package: str) -> str | None:
    """The version of an installed package, which is not imported."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """The commit of the working folder; nothing outside a repository."""
    try:
        found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    except OSError:
        return ""
    return found.stdout.strip()


def circumstances(command: str) -> dict[str, Any]:
    """The facts that every report begins with: how it was made, where, and with which versions."""
    return {
        "command": command,
        "commit": commit(),
        "machine": f"{processor()}{vectors()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{name: installed(name) for name in ("numpy", "torch")},
    }
