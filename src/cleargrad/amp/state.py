"""Whether autocast is on, for each kind of device and each thread, and the functions that ask and say so.

What the casts are is in ops/autocast.py; here they are switched on and off. Read next:
amp/autocast_mode.py.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode
from cleargrad.errors import error
from cleargrad.ops.autocast import Casts

LOWER_DTYPES = {
    "cpu": dtypes.bfloat16,
    "cuda": dtypes.float16,
    "xpu": dtypes.float16,
    "mps": dtypes.float16,
    "hpu": dtypes.bfloat16,
    "mtia": dtypes.float16,
    "xla": dtypes.bfloat16,
    "maia": dtypes.bfloat16,
    "ipu": dtypes.float16,
    "privateuseone": dtypes.float16,
}


class State(threading.local):
    """The settings of a thread; a new one has autocast off everywhere."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.lower = dict(LOWER_DTYPES)
        self.caching = True
        self.nesting = 0
        self.cache: dict = {}

    def apply(self) -> None:
        """Tells the doors of ops."""
        lower = {device: self.lower[device] for device, on in self.enabled.items() if on}
        mode.set(
            autocast=Casts(lower, self.cache if self.caching and self.nesting else None) if lower else None
        )


state = State()


def known(device_type: str) -> str:
    if device_type not in LOWER_DTYPES:
        rule = (
            f"Expected one of {', '.join(LOWER_DTYPES)} device type at start of device string: {device_type}"
        )
        raise error(RuntimeError, "autocast", rule)
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a kind of device."""
    return known(device_type) in LOWER_DTYPES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a kind of device."""
    return state.enabled.get(known(device_type), False)


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Turns autocast on or off for a kind of device; with one argument, for "cuda"."""
    if enabled is None:
        device_type, enabled = "cuda", bool(device_type)
    state.enabled[known(str(device_type))] = bool(enabled)
    state.apply()


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The dtype that autocast lowers to on a kind of device."""
    return state.lower[known(device_type)]


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Sets the dtype that autocast lowers to on a kind of device."""
    state.lower[known(device_type)] = dtype
    state.apply()


def is_autocast_cache_enabled() -> bool:
    """Whether weights are converted once per region."""
    return state.caching


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Says whether weights are converted once per region."""
    state.caching = bool(enabled)
    state.apply()


def clear_autocast_cache() -> None:
    """Forgets the converted weights."""
    state.cache.clear()


def autocast_increment_nesting() -> int:
    """Enters one region more; inside of one, weights are cached."""
    state.nesting += 1
    return state.nesting


def autocast_decrement_nesting() -> int:
    """Leaves a region."""
    state.nesting -= 1
    return state.nesting


def deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"torch.{old} is deprecated. Please use torch.{new} instead.", DeprecationWarning, stacklevel=3
    )


def is_autocast_cpu_enabled() -> bool:
    deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtypes.dtype:
    deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtypes.dtype) -> None:
    deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtypes.dtype:
    deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtypes.dtype) -> None:
    deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)


def settings(device: str) -> tuple[Any, ...]:
    """What a region changes, for restoring."""
    return state.enabled.get(device, False), state.lower[device], state.caching


def enter(device: str, enabled: bool, lower: dtypes.dtype, caching: bool) -> None:
    state.enabled[device], state.lower[device], state.caching = enabled, lower, caching
    state.nesting += 1
    state.apply()


def leave(device: str, before: tuple[Any, ...]) -> None:
    state.enabled[device], state.lower[device], state.caching = before
    state.nesting -= 1
    if not state.nesting:
        state.cache.clear()
    state.apply()
