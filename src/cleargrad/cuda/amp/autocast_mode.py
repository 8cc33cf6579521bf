"""torch.cuda.amp.autocast and its kin: torch.amp's with "cuda" filled in. Read next: cuda/amp/grad_scaler.py."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from cleargrad.amp import autocast_mode as amp
from cleargrad.core import dtype as dtypes


def warn(name: str, instead: str) -> None:
    message = f"`torch.cuda.amp.{name}` is deprecated. Please use `torch.amp.{instead}` instead."
    warnings.warn(message, FutureWarning, stacklevel=3)


class autocast(amp.autocast):
    """`torch.amp.autocast("cuda", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: dtypes.dtype = dtypes.float16, cache_enabled: bool = True
    ):
        warn("autocast(args...)", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: dtypes.dtype | None = None) -> Callable:
    """`torch.amp.custom_fwd(..., device_type="cuda")`."""
    warn("custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Callable:
    """`torch.amp.custom_bwd(..., device_type="cuda")`."""
    warn("custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
