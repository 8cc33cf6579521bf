"""torch.cpu.amp: old names of torch.amp. Read next: cpu/amp/autocast_mode.py."""

from cleargrad.cpu.amp.autocast_mode import autocast
from cleargrad.cpu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
