"""Numbers that a recorded call asks for: known to be others at the next call.

A pending number may be handed back. Whoever does anything else with it needs its value, and ends the recording.
Read next: compile/tracer.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cleargrad.core.tensor import Tensor
from cleargrad.interop import number_of

if TYPE_CHECKING:
    from cleargrad.compile.tracer import Tracer


class Pending:
    """What `item()` gives while a call is recorded: the number, known to be one that will differ next time."""

    __slots__ = ("__weakref__", "symbol", "tracer", "value")

    def __init__(self, tracer: Tracer, tensor: Tensor) -> None:
        self.tracer: Tracer | None = tracer
        self.value = number_of(tensor._data) if tracer.fills else None
        self.symbol = tracer.value(tensor)  # what it stands for, whatever is written to the tensor later

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.used(), dtype)

    def used(self) -> Any:
        """The number; whoever asks for it needs a value."""
        if self.tracer is not None and self.tracer.reason is None:
            self.tracer.refuse("item")
        return self.value


def forward_operators() -> None:
    """Pending answers every operator as its number would."""
    names = """add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow divmod rdivmod
    neg pos abs lt le gt ge eq ne hash bool int float complex index round trunc floor ceil repr str format"""

    def answering(name: str) -> Callable:
        def answer(self: Pending, *others: Any) -> Any:
            others = tuple(other.used() if isinstance(other, Pending) else other for other in others)
            return getattr(self.used(), name)(*others)

        return answer

    for name in names.split():
        setattr(Pending, f"__{name}__", answering(f"__{name}__"))
    Pending.__getattr__ = lambda self, name: getattr(self.used(), name)  # type: ignore[attr-defined]


forward_operators()
