"""torch.cuda.amp.GradScaler: torch.amp's with "cuda" filled in. Read next: torch_names/cpu/__init__.py."""

from __future__ import annotations

import warnings

from cleargrad.amp import grad_scaler as amp
from cleargrad.amp.grad_scaler import OptState


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler("cuda", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        message = (
            "`torch.cuda.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('cuda', "
            "args...)` instead."
        )
        warnings.warn(message, FutureWarning, stacklevel=2)
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__all__ = ["GradScaler", "OptState"]
