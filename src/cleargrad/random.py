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
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error


class Generator:
    """A stream of random numbers with PyTorch's values for every seed."""

    def __init__(self, device: Any = "cpu"):
        place = devices.device(device)
        if place.type != "cpu":
            rule = f"Cannot get a {place.type.upper()} generator in a build for the CPU"
            raise error(RuntimeError, "Generator", rule, fix="use torch.Generator() or device='cpu'")
        self._stream = streams.Generator()

    @property
    def device(self) -> devices.device:
        return devices.CPU

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
        return f"<Generator device=cpu seed={self.initial_seed()}>"


def around(stream: streams.Generator) -> Generator:
    generator = Generator.__new__(Generator)
    generator._stream = stream
    return generator


default_generator = around(streams.default_generator)


def stream_of(generator: Generator | None) -> streams.Generator:
    """The stream that a function with this `generator=` argument draws from."""
    if generator is None:
        return streams.default_generator
    if not isinstance(generator, Generator):
        rule = f"argument 'generator' must be torch.Generator, not {type(generator).__name__}"
        raise error(TypeError, "random", rule)
    return generator._stream


def manual_seed(seed: int) -> Generator:
    """Starts the default generator again at a seed, and returns it."""
    try:
        seed = int(seed)
    except (TypeError, ValueError):
        raise error(TypeError, "manual_seed", f"expected an int, got {type(seed).__name__}") from None
    for driver in devices.drivers.values():
        if driver.generator is not None:
            driver.generator.manual_seed(seed)
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Starts the default generator again at a seed of the operating system's choice, and returns that."""
    return default_generator.seed()


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
    """Inside, the default generator may be drawn from and seeded at will; afterwards it is where it was."""
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
