"""torch.cuda.random: generators of GPUs. There are none, so seeds are accepted and go nowhere.

Read next: cuda/streams.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.cuda.refusal import all_refusing


def manual_seed(seed: int) -> None:
    """Accepted, as PyTorch does: the seed would be used once there is a GPU."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    int(seed)


def seed() -> None:
    pass


def seed_all() -> None:
    pass


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' generators: an empty list."""
    return []


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    pass


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    pass


globals().update(all_refusing("get_rng_state initial_seed"))
