"""torch.cuda.random: the generators of GPUs. Where there is none, seeds are accepted and go nowhere.

Read next: cuda/streams.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor, wrap
from cleargrad.cuda.refusal import gpu, is_available
from cleargrad.random import default_generator


def generator() -> Any:
    """What draws the random numbers of tensors on the GPU: its own generator, or that of the CPU."""
    own = gpu("random").generator
    return default_generator._stream if own is None else own


def manual_seed(seed: int) -> None:
    """Starts the generator again at a seed."""
    seed = int(seed)
    if is_available():
        generator().manual_seed(seed)


def seed() -> None:
    """Starts the generator again at a seed of the operating system's choice."""
    if is_available():
        generator().seed()


manual_seed_all, seed_all = manual_seed, seed  # a process works with one GPU


def initial_seed() -> int:
    """The seed at which the generator started."""
    gpu("initial_seed")
    return generator().initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The generator's state as a uint8 tensor on the CPU."""
    gpu("get_rng_state")
    return wrap(generator().get_state())


def get_rng_state_all() -> list[Tensor]:
    """The states of the generators of all GPUs that are used: none, or one."""
    return [get_rng_state()] if is_available() else []


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Makes the generator continue from a saved state."""
    if is_available():
        generator().set_state(new_state._data)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    for state in new_states:
        set_rng_state(state)
