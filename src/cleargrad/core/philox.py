"""Streams of random numbers on GPUs: a seed and an offset, from which kernels make the numbers.

Philox is a function of a key and a counter. The key is the seed, and the offset says how much of the stream has
been used, so this is the whole state, and drawing needs nothing but to advance it. Kernels are in
devices/cuda/draws.py. Read next: core/random_rules.py.
"""

from __future__ import annotations

import os
import threading

import numpy as np

from cleargrad.core.random_rules import checked_seed
from cleargrad.errors import error

STATE = np.dtype([("seed", "<u8"), ("offset", "<i8")])  # as PyTorch saves it


class Philox:
    """A stream of random numbers for a device; safe to draw from in several threads."""

    def __init__(self, device: str = "cuda:0"):
        self.device = device
        self._lock = threading.Lock()
        self._seed, self._offset = 0, 0
        self.seed()

    def manual_seed(self, seed: int) -> Philox:
        """Restart the stream at `seed`; negative seeds mean 2**64 + seed."""
        self._seed, self._offset = checked_seed(seed), 0
        return self

    def seed(self) -> int:
        """Restart the stream at a seed taken from the operating system, and return it."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> np.ndarray:
        """The whole state as 16 bytes, in PyTorch's layout."""
        return np.array([(self._seed, self._offset)], STATE).view(np.uint8)

    def set_state(self, state: np.ndarray) -> None:
        """Continue from a state that this class or PyTorch has saved."""
        if not isinstance(state, np.ndarray) or state.dtype != np.uint8:
            raise error(TypeError, "set_state", "the state must be an array of uint8", state=state)
        if state.size != STATE.itemsize:
            rule = f"a CUDA generator's state has {STATE.itemsize} bytes, not {state.size}"
            raise error(RuntimeError, "set_state", rule, state=state)
        seed, offset = np.ascontiguousarray(state).view(STATE)[0].item()
        if offset < 0 or offset % 4:
            raise error(RuntimeError, "set_state", "the offset must be a multiple of 4", offset=offset)
        self._seed, self._offset = seed, offset

    def clone_state(self) -> Philox:
        """A generator of its own that continues from here."""
        clone = Philox(self.device)
        clone.set_state(self.get_state())
        return clone

    def take(self, count: int) -> tuple[int, int]:
        """The seed and the offset for a draw that uses so many numbers of every thread."""
        with self._lock:
            offset = self._offset
            self._offset += -(-count // 4) * 4
            return self._seed, offset

    def __getstate__(self) -> dict:
        return {"device": self.device, "state": self.get_state()}

    def __setstate__(self, saved: dict) -> None:
        self.__init__(saved["device"])  # type: ignore[misc]
        self.set_state(saved["state"])

    def __repr__(self) -> str:
        return f"<Generator device={self.device} seed={self._seed}>"


# Those that are drawn from where no generator is named ------------------------------------------------------


defaults: dict[str, Philox] = {}  # by device
seeds: list[int] = []  # the one that every device has been given


def default_of(device: str) -> Philox:
    """The default stream of a device, made when it is first asked for."""
    found = defaults.get(device)
    if found is None:
        found = defaults.setdefault(device, Philox(device))
        if seeds:
            found.manual_seed(seeds[0])
    return found


def seed_all(seed: int) -> None:
    """Restarts the default streams of all devices, also of those that are not in use yet."""
    seeds[:] = [checked_seed(seed)]
    for stream in defaults.values():
        stream.manual_seed(seed)


def states() -> dict[str, np.ndarray]:
    """The states of the default streams, by device."""
    return {device: stream.get_state() for device, stream in defaults.items()}


def restore(saved: dict[str, np.ndarray]) -> None:
    """Makes default streams continue from saved states."""
    for device, state in saved.items():
        default_of(device).set_state(state)


def in_child() -> None:
    """Another thread may have held a lock at the moment of a fork, and does not exist in the child."""
    for stream in defaults.values():
        stream._lock = threading.Lock()


os.register_at_fork(after_in_child=in_child)
