"""torch.amp.autocast: a region where each function runs in the dtype that suits it.

Read next: amp/grad_scaler.py.
"""

from __future__ import annotations

import collections.abc
import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.amp import state
from cleargrad.amp.state import get_autocast_dtype, is_autocast_available, is_autocast_enabled
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error

SUPPORTED = (dtypes.bfloat16, dtypes.float16)


def check_device_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        rule = f"Expected `device_type` of type `str`, got: `{type(device_type)}`"
        raise error(ValueError, "autocast", rule)


class autocast:
    """A context manager and decorator: inside, functions of the table in ops/autocast.py cast their operands."""

    def __init__(
        self,
        device_type: str,
        dtype: dtypes.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ):
        check_device_type(device_type)
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and is_usable(device_type, self.fast_dtype)
        self.before: list[tuple] = []  # one entry per region that is open: a decorated function may recurse

    def __enter__(self) -> autocast:
        self.before.append(state.settings(self.device))
        state.enter(self.device, self._enabled, self.fast_dtype, self._cache_enabled)
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        state.leave(self.device, self.before.pop())

    def __call__(self, func: Callable) -> Callable:
        if not callable(func):
            rule = f"autocast()(func) requires a callable, but got {type(func).__name__}."
            raise error(TypeError, "autocast", rule, fix="use `with torch.autocast(device_type=...):`")
        return autocast_decorator(self, func)


def is_usable(device: str, lower: dtypes.dtype) -> bool:
    """Whether a region can be on; the warning says why not."""
    if device == "cuda" and not devices.is_usable("cuda"):
        warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=3)
        return False
    if lower not in SUPPORTED:
        name = device.upper()
        warnings.warn(
            f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
            f"{name} Autocast only supports dtypes of {', '.join(map(str, SUPPORTED))} currently.",
            stacklevel=3,
        )
        return False
    return True


def autocast_decorator(autocast_instance: autocast, func: Callable) -> Callable:
    """A function that runs inside a region."""

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return inside


# Functions with a gradient of their own ---------------------------------------------------------------------


def _cast(value: Any, device_type: str, dtype: dtypes.dtype) -> Any:
    """Floating-point tensors as another dtype, also inside containers; all else stays."""
    if isinstance(value, Tensor):
        narrow = value.is_floating_point() and value.dtype is not dtypes.float64
        return value.to(dtype) if narrow and value.device.type == device_type else value
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, collections.abc.Iterable):
        parts = (_cast(part, device_type, dtype) for part in value)
        return type(value)(parts) if isinstance(value, (list, tuple)) else parts  # type: ignore[call-arg]
    return value


def custom_fwd(
    fwd: Callable | None = None, *, device_type: str, cast_inputs: dtypes.dtype | None = None
) -> Callable:
    """Decorates `forward` of an autograd.Function: with `cast_inputs` it runs outside autocast on cast inputs."""
    check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        inside = is_autocast_enabled(device_type)
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = inside and cast_inputs is None
        if not inside or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """Decorates `backward` of an autograd.Function: it runs inside autocast when forward did."""
    check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return backward


__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]
