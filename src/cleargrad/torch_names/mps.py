"""torch.mps: Apple's GPUs, which are not here. Read next: xpu.py."""

from __future__ import annotations

from typing import Any, NoReturn

from cleargrad.errors import error


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed: int) -> None:
    """Accepted; there is no generator to seed."""


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    fix = "ask torch.backends.mps.is_available() first"
    raise error(RuntimeError, "torch.mps", "this build has no MPS backend", fix=fix)


synchronize = empty_cache = seed = get_rng_state = set_rng_state = set_per_process_memory_fraction = _refuse
current_allocated_memory = driver_allocated_memory = recommended_max_memory = _refuse
