"""What functions of torch.cuda raise on a machine without GPUs: PyTorch's exception types and meaning.

`gpu(name)` is the way of all others to the device. Read next: cuda/memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from cleargrad.core import device as devices
from cleargrad.errors import error

WITHOUT_CUDA = "Torch not compiled with CUDA enabled"
FIX = "ask torch.cuda.is_available() first"


def refusal(name: str, kind: type[Exception] = AssertionError, rule: str = WITHOUT_CUDA) -> Exception:
    """What a function raises where there is no GPU; it says what is missing."""
    because = devices.absent["cuda"]()
    facts = {} if because is None else {"because": because}
    return error(kind, f"torch.cuda.{name}", rule, fix=FIX, **facts)


def refusing(name: str, kind: type[Exception] = AssertionError, rule: str = WITHOUT_CUDA) -> Callable:
    """A function that raises, whatever it is called with."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(name, kind, rule)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def all_refusing(names: str, kind: type[Exception] = AssertionError, rule: str = WITHOUT_CUDA) -> dict:
    """Such functions by name, to be put into a module's namespace."""
    return {name: refusing(name, kind, rule) for name in names.split()}


def is_available() -> bool:
    """Whether there is a GPU that tensors can live on: NVIDIA's driver knows one, and CuPy is installed."""
    return devices.is_usable("cuda")


def gpu(name: str, kind: type[Exception] = AssertionError, rule: str = WITHOUT_CUDA) -> Any:
    """The device, for a function of this name; an error where there is none."""
    if not is_available():
        raise refusal(name, kind, rule)
    devices.check("cuda")
    return devices.drivers["cuda"]


def started() -> Any:
    """The device, if anything was asked of it yet."""
    driver: Any = devices.drivers.get("cuda")
    return driver if driver is not None and driver.is_started else None


def index_of(name: str, device: Any = None) -> int:
    """The number of the GPU that an argument means; None is the one in use."""
    driver = gpu(name)
    if device is None:
        return driver.index
    if isinstance(device, int):
        return driver.index if device < 0 else device
    place = devices.device(device)
    if place.type != "cuda":
        raise error(ValueError, f"torch.cuda.{name}", f"Expected a cuda device, but got: {place}")
    return driver.index if place.index is None else place.index


def refusing_class(name: str) -> type:
    """A class that cannot be instantiated, but can be derived from and tested for."""
    make = refusing(name, RuntimeError, f"Tried to instantiate dummy base class {name}")
    return type(name, (), {"__new__": lambda cls, *args, **kwargs: make(), "__module__": "torch.cuda"})
