"""torch.accelerator: the machine's accelerator, whichever it is. There is none. Read next: mps.py."""

from __future__ import annotations

from typing import Any, NoReturn

from cleargrad.core import device as devices
from cleargrad.errors import error


def is_available() -> bool:
    """Whether there is an accelerator."""
    return False


def current_accelerator(check_available: bool = False) -> devices.device | None:
    """The accelerator's device: None."""
    return None


def device_count() -> int:
    return 0


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    rule = "Cannot access accelerator device when none is available."
    raise error(RuntimeError, "torch.accelerator", rule, fix="ask torch.accelerator.is_available() first")


current_device_index = current_device_idx = set_device_index = set_device_idx = _refuse
current_stream = set_stream = synchronize = empty_cache = get_device_capability = _refuse
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = memory_stats = _refuse
reset_peak_memory_stats = reset_accumulated_memory_stats = get_memory_info = _refuse


class device_index:
    """`with device_index(k)`: another device for a while; None changes nothing."""

    def __init__(self, device: int | None):
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _refuse()

    def __exit__(self, *exception: object) -> None:
        pass
