"""torch.torch_version: version numbers that compare as numbers, whatever they are compared with.

Read next: compat.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partialmethod
from operator import eq, ge, gt, le, lt


def release(version: object) -> tuple[int, ...]:
    """The numbers a version begins with, without zeros at the end: "2.13.0+cpu" is (2, 13)."""
    if isinstance(version, str):
        numbers = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
        if numbers is None:
            raise ValueError(f"{version!r} is not a version")
        parts = [int(part) for part in numbers[1].split(".")]
    elif isinstance(version, Iterable):
        parts = [int(part) for part in version]
    else:
        raise TypeError(f"a version compares with strings and tuples, not with {type(version).__name__}")
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


class TorchVersion(str):
    """A version string; `<` and its kin go by the numbers, so that "2.13" is newer than "2.2"."""

    def _compare(self, other: object, rule: Callable[[object, object], bool]) -> bool:
        try:
            return rule(release(self), release(other))
        except ValueError:
            return rule(str(self), str(other))

    __lt__ = partialmethod(_compare, rule=lt)
    __le__ = partialmethod(_compare, rule=le)
    __gt__ = partialmethod(_compare, rule=gt)
    __ge__ = partialmethod(_compare, rule=ge)
    __eq__ = partialmethod(_compare, rule=eq)  # type: ignore[assignment]
    __hash__ = str.__hash__
