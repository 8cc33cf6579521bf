"""torch.backends.opt_einsum: a library that orders the products of einsum, which cleargrad does not use.

Read next: torch_names/backends/cpu.py.
"""

from __future__ import annotations

from typing import NoReturn

enabled = False
strategy: str | None = None


def is_available() -> bool:
    return False


def get_opt_einsum() -> None:
    return None


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> None:
    """Refuses to turn on what is not here, as PyTorch does without the library."""
    if _enabled or _strategy is not None:
        _refuse()


def _refuse() -> NoReturn:
    raise ValueError("opt_einsum is not available, so `enabled` and `strategy` cannot be set.")
