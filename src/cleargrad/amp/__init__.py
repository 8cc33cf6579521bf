"""torch.amp: mixed precision. Read next: amp/state.py."""

from cleargrad.amp.autocast_mode import (
    autocast,
    autocast_decorator,
    custom_bwd,
    custom_fwd,
    is_autocast_available,
)
from cleargrad.amp.grad_scaler import GradScaler

__all__ = [
    "GradScaler",
    "autocast",
    "autocast_decorator",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
]
