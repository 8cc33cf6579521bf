"""torch.cpu.amp.autocast: torch.amp's with "cpu" filled in. Read next: cpu/amp/grad_scaler.py."""

from __future__ import annotations

import warnings

from cleargrad.amp import autocast_mode as amp
from cleargrad.core import dtype as dtypes


class autocast(amp.autocast):
    """`torch.amp.autocast("cpu", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: dtypes.dtype = dtypes.bfloat16, cache_enabled: bool = True
    ):
        message = (
            "`torch.cpu.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cpu', args...)` "
            "instead."
        )
        warnings.warn(message, FutureWarning, stacklevel=2)
        super().__init__("cpu", dtype, enabled, cache_enabled)
