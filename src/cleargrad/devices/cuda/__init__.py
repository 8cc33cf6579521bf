"""NVIDIA GPUs: whether there are any, asked without loading anything that needs one.

Read next: devices/cuda/driver.py.
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache

from cleargrad.core.device import Driver

INSTALL = "pip install 'cleargrad[cuda]'"


@cache
def gpus() -> int:
    """How many GPUs the system's driver knows."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    if library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


@cache
def missing() -> str | None:
    """What there is not that device="cuda" needs."""
    if not gpus():
        return "no NVIDIA driver was found on this machine, or it knows no GPU"
    if importlib.util.find_spec("cupy") is None:
        return f"there is a GPU, but not CuPy, through which cleargrad reaches it: {INSTALL}"
    return None


def driver() -> Driver | None:
    """The device, if it can be used."""
    if missing() is not None:
        return None
    from cleargrad.devices.cuda.driver import Cuda

    return Cuda()
