"""torch.cuda.random: the default generators of GPUs. Without one, seeds are kept for later.

Read next: cuda/streams.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core import device as devices
from cleargrad.core import philox
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.cuda.refusal import gpu, is_available

HERE = "cuda:0"  # the current device


def stream(name: str, device: Any) -> philox.Philox:
    """The default stream of a GPU, which must be there."""
    gpu(name)
    place = devices.device("cuda", device) if isinstance(device, int) else devices.device(device)
    return philox.default_of(str(devices.check(place)))


def manual_seed(seed: int) -> None:
    """Starts the generator of the current GPU again at a seed; without one, this is for later."""
    philox.default_of(HERE).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    philox.seed_all(int(seed))


def seed() -> None:
    """Starts the generator of the current GPU again at a seed of the operating system's choice."""
    philox.default_of(HERE).seed()


def seed_all() -> None:
    philox.seed_all(philox.default_of(HERE).seed())


def initial_seed() -> int:
    """The seed at which the generator of the current GPU started."""
    return stream("initial_seed", "cuda").initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's generator as a uint8 tensor on the CPU."""
    return wrap(stream("get_rng_state", device).get_state())


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' generators: an empty list where there are none."""
    return [get_rng_state()] if is_available() else []


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Makes a GPU's generator continue from a saved state; without a GPU, this does nothing."""
    if is_available():
        stream("set_rng_state", device).set_state(new_state._data)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    for number, state in enumerate(new_states):
        set_rng_state(state, number)
