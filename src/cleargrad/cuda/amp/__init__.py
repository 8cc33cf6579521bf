"""torch.cuda.amp: old names of torch.amp. Read next: cuda/amp/autocast_mode.py."""

from cleargrad.cuda.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from cleargrad.cuda.amp.grad_scaler import GradScaler


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU for mixed precision."""
    return True


__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]
