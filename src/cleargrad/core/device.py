"""Devices: their names, where new tensors go, and what a kind of device can do.

`device("cuda", 0)` is a name. A `Driver` is what can be done with memory of that type; the types that have one can
be used. What lies in NumPy's memory needs none: that is the CPU, whose tensors have their array at hand. Any other
tensor has a layout, no array, and is `Held`: whoever looks for the array is told so by `Elsewhere`, which for the
doors of ops means that the driver makes the call. Read next: core/shape.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cleargrad.core.layout import ghost, ghost_of
from cleargrad.errors import error, laid_out, line_of, place_in, standing

KNOWN = ["cpu", "cuda", "mps", "xpu", "meta"]


class device:
    """A device such as `device("cpu")` or `device("cuda", 0)`."""

    __slots__ = ("index", "type")

    def __init__(self, type: str | int | device, index: int | None = None):
        if isinstance(type, device):
            index, type = type.index, type.type
        if isinstance(type, int):
            index, type = type, "cuda"
        if not isinstance(type, str):
            kind = type.__class__.__name__
            raise error(
                TypeError, "device", f"a device is given by a string, a number or a device, not {kind}"
            )
        name, colon, number = type.partition(":")
        if name not in KNOWN or (colon and not number.isdigit()):
            rule = f"a device string is a type and an optional index, such as 'cpu' or 'cuda:0', not {type!r}"
            raise error(RuntimeError, "device", rule, known=", ".join(KNOWN))
        self.type: str = name
        self.index: int | None = int(number) if colon else index

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self):
        return device, (str(self),)

    def __enter__(self) -> device:
        default.outer.append(default.place)
        turn_to(check(self))
        return self

    def __exit__(self, *exception: object) -> None:
        turn_to(default.outer.pop())


CPU = device("cpu")


# What a kind of device can do ------------------------------------------------------------------------------


class Driver:
    """What can be done with memory of one type of device. `memory` below is whatever the driver hands out."""

    type: str  # as in `device.type`
    has_values = True  # whether what is computed there can be known
    whole: frozenset[str] = frozenset()  # fused ops that its programs have kernels for
    addressed = False  # whether memory is an array at the device's address, which is the layout as well

    def place(self, asked: device) -> device:
        """The device that a name means, such as the current one of several."""
        return asked

    def allocate(self, form: np.ndarray) -> Any:
        """Memory for a value of this layout."""
        raise NotImplementedError

    def receive(self, array: np.ndarray) -> Any:
        """A copy of an array, laid out as it is."""
        raise NotImplementedError

    def receive_later(self, array: np.ndarray) -> Any:
        """The same, perhaps beside Python's work: pinned memory must then stay as it is until it is copied."""
        return self.receive(array)

    def pin(self, array: np.ndarray) -> np.ndarray:
        """A copy of an array in memory of the CPU that the device reads by itself."""
        raise NotImplementedError

    def is_pinned(self, array: np.ndarray) -> bool:
        """Whether an array lies in such memory."""
        return False

    def keep_until(self, memory: Any, stream: Any) -> None:
        """Memory is not given out again before what a stream was asked for is done."""

    def give(self, memory: Any, form: np.ndarray) -> np.ndarray:
        """A copy of a value as an array of this layout."""
        raise NotImplementedError

    def write(self, target: Any, form: np.ndarray, source: Any) -> None:
        """Copies a value of the same shape over one of this layout, converted to its dtype."""
        raise NotImplementedError

    def fill(self, target: Any, form: np.ndarray, value: np.ndarray) -> None:
        """Writes one number all over new memory of this layout."""
        self.write(target, form, self.receive(value))

    def run(self, op: Any, operands: Sequence, attrs: dict[str, Any], forms: Sequence[np.ndarray]) -> list:
        """What an op gives: its operands are `Held` or numbers, its results memory in these layouts.

        What a view gives is memory of its operand.
        """
        raise NotImplementedError

    def made(self, op: Any, arrays: list, attrs: dict[str, Any]) -> list:
        """What an op gives that is no view, of arrays at addresses, laid out as it comes. This and `program` are
        asked of `addressed` drivers, whose calls can wait."""
        raise NotImplementedError

    def program(self, graph: Any) -> Any:
        """What runs a graph on this device, with the methods of devices/cpu/programs/program.py."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Returns when all that was asked for has been done."""


drivers: dict[str, Driver] = {}  # by type
makers: dict[str, Callable[[], Driver | None]] = {}  # of drivers that are made when they are first asked for
absent: dict[str, Callable[[], str | None]] = {}  # what there is not that such a type needs, in words


def register(driver: Driver) -> None:
    """Makes a type of device known, or known as one that can be used."""
    if driver.type not in KNOWN:
        KNOWN.append(driver.type)
    drivers[driver.type] = driver


def is_usable(type: str) -> bool:
    """Whether tensors can lie on a type of device; asking makes no driver."""
    return type in drivers or (type in absent and absent[type]() is None)


class Memory:
    """What owns memory of an `addressed` device; arrays at its address lead to it by their bases."""

    __slots__ = ()


class Elsewhere(NotImplementedError):
    """Somebody looks for the array of a tensor that lies on another device."""

    def __init__(self, held: Held):
        super().__init__(held)
        self.held, self.line = held, standing.place

    def __str__(self) -> str:
        place, driver = self.held.place, self.held.driver
        line = self.line or place_in(
            self.__traceback__
        )  # looked for only now: doors raise this at every call
        rows = {} if line is None else {"at": line_of(line)}
        if driver.has_values:
            rule = f"the memory of a tensor on {place} cannot be read by the CPU"
            return laid_out("device", rule, {"fix": "copy it there first, with tensor.cpu()", **rows})
        rule = f"Cannot copy out of {place} tensor; no data!"
        return laid_out("device", rule, {"fix": "make the tensor on a device that keeps values", **rows})


class Held:
    """Where the value of a tensor lies that is not on the CPU. It stands where else stands who computes it."""

    __slots__ = ("driver", "form", "memory", "place")
    probe = False  # as against what a proof puts in the place of values (compile/proofs/witness.py)

    def __init__(self, place: device, driver: Driver, memory: Any, form: np.ndarray):
        self.place, self.driver, self.memory = place, driver, memory
        self.form = memory if driver.addressed else form

    def __reduce__(self) -> tuple:
        """Pickled, it is an array, which goes to the same device again."""
        if not self.driver.has_values:
            return empty_on, (self.place, self.form.shape, self.form.dtype, self.form.strides)
        return on_device, (self.driver.give(self.memory, self.form), self.place)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.form.shape

    @property
    def dtype(self) -> np.dtype:
        return self.form.dtype

    def look(self, tensor: object) -> None:
        raise Elsewhere(self)


def hold(place: device, memory: Callable[[Driver], Any], form: np.ndarray) -> Held:
    """A value on a device, in memory that its driver gives."""
    driver = drivers[place.type]
    return Held(place, driver, memory(driver), form)


def empty_on(place: device, shape: tuple, dtype: np.dtype, strides: tuple) -> Held:
    form = ghost(shape, dtype, strides)
    return hold(place, lambda driver: driver.allocate(form), form)


def on_host(value: np.ndarray | Held) -> np.ndarray:
    """A value as an array: itself, or a copy of what lies on another device."""
    return value.driver.give(value.memory, value.form) if isinstance(value, Held) else value


def on_device(value: np.ndarray | Held, place: device, later: bool = False) -> np.ndarray | Held:
    """A value on a device: itself if it is there, else a copy, which may be made `later`."""
    if place == (value.place if isinstance(value, Held) else CPU):
        return value
    array = on_host(value)
    if place is CPU:
        return array
    return hold(
        place,
        lambda driver: driver.receive_later(array) if later else driver.receive(array),
        ghost_of(array),
    )


# Where new tensors go --------------------------------------------------------------------------------------


class Default(threading.local):
    """Where new tensors of a thread go that name no device."""

    place = CPU

    def __init__(self) -> None:
        self.outer: list[device] = []


default = Default()
when_default_turns: list[Callable[[], None]] = []  # called before another device becomes the default


def turn_to(place: device) -> None:
    if place != default.place:
        for told in when_default_turns:
            told()
        default.place = place


def check(where: device | str | int | None) -> device:
    """The device asked for, or the default; an error when cleargrad cannot run there."""
    if where is None:
        return default.place
    place = where if isinstance(where, device) else device(where)
    if place.type == "cpu":
        return CPU
    driver = drivers.get(place.type)
    if driver is None:
        make = makers.pop(place.type, None)
        driver = None if make is None else make()
        if driver is None:
            raise unavailable(place)
        register(driver)
    return driver.place(place)


def unavailable(place: device) -> Exception:
    """What PyTorch built for the CPU alone raises when a program asks for another device."""
    fix = "use device='cpu', or choose with torch.cuda.is_available()"
    if place.type in ("cuda", "xpu"):
        rule = f"Torch not compiled with {place.type.upper()} enabled"
        because = absent[place.type]() if place.type in absent else None
        facts = {} if because is None else {"because": because}
        return error(AssertionError, "device", rule, asked=str(place), fix=fix, **facts)
    rule = f"the device {str(place)!r} is not available in this build"
    return error(RuntimeError, "device", rule, fix=fix)


def get_default_device() -> device:
    """The device that factories use when none is named."""
    return default.place


def set_default_device(device: device | str | int | None) -> None:
    """Where new tensors go that name no device; None is the CPU."""
    turn_to(CPU if device is None else check(device))
