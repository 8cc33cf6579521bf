"""torch.random: generators as users see them, and the one that every random function draws from by default.

A Generator here hands out its state as a uint8 tensor; the stream of numbers behind it works on arrays and is
in core/generator.py. Read next: ops/random.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cleargrad.core import device as devices
from cleargrad.core import generator as streams
from cleargrad.core import philox
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error


class Generator:
    """A stream of random numbers with PyTorch's values for every seed."""

    _stream: Any

    def __init__(self, device: Any = "cpu"):
        place = devices.device(device)
        if place.type == "cuda" and is_there(place):
            self._stream = philox.Philox(str(devices.check(place))).manual_seed(streams.DEFAULT_SEED)
            return
        if place.type != "cpu":
            rule = f"Cannot get a {place.type.upper()} generator in a build for the CPU"
            raise error(RuntimeError, "Generator", rule, fix="use torch.Generator() or device='cpu'")
        self._stream = streams.Generator()

    @property
    def device(self) -> devices.device:
        return devices.device(self._stream.device)

    def manual_seed(self, seed: int) -> Generator:
        """Starts the stream again at a seed."""
        self._stream.manual_seed(seed)
        return self

    def seed(self) -> int:
        """Starts the stream again at a seed of the operating system's choice, and returns that."""
        return self._stream.seed()

    def initial_seed(self) -> int:
        return self._stream.initial_seed()

    def get_state(self) -> Tensor:
        """The state as a uint8 tensor, in PyTorch's layout."""
        return wrap(self._stream.get_state())

    def set_state(self, new_state: Tensor) -> None:
        """Continues from a state that was saved, here or by PyTorch."""
        if not isinstance(new_state, Tensor):
            rule = f"expected a torch.ByteTensor, but got {type(new_state).__name__}"
            raise error(TypeError, "set_state", rule)
        self._stream.set_state(new_state._data)

    def clone_state(self) -> Generator:
        """A generator of its own that continues from here."""
        return around(self._stream.clone_state())

    def __repr__(self) -> str:
        return f"<Generator device={self.device} seed={self.initial_seed()}>"


def is_there(place: devices.device) -> bool:
    """Whether a device can be used."""
    try:
        return devices.check(place) is not None
    except (AssertionError, RuntimeError):
        return False


def around(stream: Any) -> Generator:
    generator = Generator.__new__(Generator)
    generator._stream = stream
    return generator


default_generator = around(streams.default_generator)


def stream_of(generator: Generator | None, place: devices.device = devices.CPU) -> Any:
    """The stream that a function with this `generator=` argument draws from, for numbers on a device.

    Where none is given this is the default one of the CPU, in whose stead a GPU takes its own.
    """
    if generator is None:
        return streams.default_generator
    if not isinstance(generator, Generator):
        rule = f"argument 'generator' must be torch.Generator, not {type(generator).__name__}"
        raise error(TypeError, "random", rule)
    found, wanted = generator.device.type, "cuda" if place.type == "cuda" else "cpu"
    if found != wanted:
        rule = f"Expected a '{wanted}' device type for generator but found '{found}'"
        raise error(RuntimeError, "random", rule, fix=f"use torch.Generator(device={wanted!r})")
    return generator._stream


def manual_seed(seed: int) -> Generator:
    """Starts the default generators of all devices again at a seed, and returns that of the CPU."""
    try:
        seed = int(seed)
    except (TypeError, ValueError):
        raise error(TypeError, "manual_seed", f"expected an int, got {type(seed).__name__}") from None
    default_generator.manual_seed(seed)
    philox.seed_all(seed)
    return default_generator


def seed() -> int:
    """Starts the default generators again at a seed of the operating system's choice, and returns that."""
    seed = default_generator.seed()
    philox.seed_all(seed)
    return seed


def initial_seed() -> int:
    """The seed at which the default generator started."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Makes the default generator continue from a saved state."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Inside, default generators may be drawn from and seeded at will; afterwards they are where they were."""
    if not enabled:
        yield
        return
    state, others = get_rng_state(), philox.states()
    try:
        yield
    finally:
        set_rng_state(state)
        philox.restore(others)
