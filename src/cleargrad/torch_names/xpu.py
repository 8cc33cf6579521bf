"""torch.xpu: Intel's GPUs, which are not here. Read next: multiprocessing/__init__.py."""

from __future__ import annotations

from typing import Any, NoReturn

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def device_count() -> int:
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def manual_seed(seed: int) -> None:
    """Accepted; there is no generator to seed."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Nothing to do."""


def memory_allocated(device: Any = None) -> int:
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def get_rng_state_all() -> list[Tensor]:
    return []


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    fix = "ask torch.xpu.is_available() first"
    raise error(AssertionError, "torch.xpu", "Torch not compiled with XPU enabled", fix=fix)


current_device = set_device = get_device_name = get_device_properties = get_device_capability = _refuse
synchronize = get_rng_state = init = current_stream = _refuse
