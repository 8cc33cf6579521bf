"""Devices by name. Only the CPU exists so far; "cuda" is a known name that says so.

Read next: core/shape.py.
"""

from __future__ import annotations

from cleargrad.errors import error

KNOWN = ("cpu", "cuda", "mps", "xpu", "meta")


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
        return check(self)

    def __exit__(self, *exception: object) -> None:
        pass


CPU = device("cpu")


def check(where: device | str | int | None) -> device:
    """The device as an object; an error when cleargrad cannot run there."""
    if where is None:
        return CPU
    place = where if isinstance(where, device) else device(where)
    if place.type != "cpu":
        raise unavailable(place)
    return CPU


def unavailable(place: device) -> Exception:
    """What PyTorch built for the CPU alone raises when a program asks for another device."""
    fix = "use device='cpu', or choose with torch.cuda.is_available()"
    if place.type in ("cuda", "xpu"):
        rule = f"Torch not compiled with {place.type.upper()} enabled"
        return error(AssertionError, "device", rule, asked=str(place), fix=fix)
    rule = f"the device {str(place)!r} is not available in this build"
    return error(RuntimeError, "device", rule, fix=fix)


def get_default_device() -> device:
    """The device that factories use when none is named."""
    return CPU


def set_default_device(device: device | str | int | None) -> None:
    """Accepts the CPU; other devices say that they are not available."""
    check(device)
