"""Steps that a program makes by its own hand, as in `w -= rate * w.grad`, without any optimizer.

Nothing is called that could be watched. But weights that have all moved by one multiple of their gradients were
stepped with them. Only gradients that are still there when the next pass begins are compared: a program that clears
them has done nothing that anybody need know of. Read next: observers/passes.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from cleargrad.doctor.ledger import Ledger
from cleargrad.doctor.observers.gradients import probe_of
from cleargrad.doctor.places import Place

CLOSE = 1e-4  # of how far weights have moved: what may be left when their way along the gradient is taken off
ROUNDING = 1e-6  # of the weights themselves


class HandSteps:
    """Weights as passes have left them, and which of them have moved along their gradients since."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.before: dict[int, list[float]] = {}
        self.reads: dict[int, Place] = {}  # ids of tensors: the user's line that last read their gradient

    def remember(self, numbers: Iterable[int]) -> None:
        """Notes the weights that a pass has just made gradients for."""
        parameters = self.ledger.registry.parameters
        for number in numbers:
            tensor = parameters[number].ref()
            if tensor is not None:
                self.before[number] = probe_of(tensor)

    def moved(self) -> list[int]:
        """The parameters that were stepped with the gradients they still have, all of them at one rate."""
        found, before, now, slopes = [], [], [], []
        for number, values in self.before.items():
            record = self.ledger.registry.parameters[number]
            tensor = record.ref()
            grad = None if tensor is None else tensor.grad
            if grad is None or grad.is_sparse or self.ledger.bucket(number).by_hand:
                continue
            if id(grad) != record.grad_id or grad._version != record.grad_version:
                continue  # edited by hand as well
            found.append(number)
            before += values
            now += probe_of(tensor)
            slopes += probe_of(grad)
        return found if len(now) > 1 and along(before, now, slopes) else []

    def place_of(self, numbers: Iterable[int]) -> Place | None:
        """The line that made the step of some parameters: it has read their gradients."""
        parameters = self.ledger.registry.parameters
        found = [self.reads.get(id(parameters[number].ref())) for number in numbers]
        return min((place for place in found if place), key=lambda place: place.line, default=None)


def along(before: list[float], now: list[float], slopes: list[float]) -> bool:
    """Whether values have moved by one multiple of their slopes."""
    ways = [after - value for value, after in zip(before, now, strict=True)]
    squares = sum(slope * slope for slope in slopes)
    length = max(map(abs, ways), default=0.0)
    if not squares > 0 or not length > 0:
        return False
    rate = sum(way * slope for way, slope in zip(ways, slopes, strict=True)) / squares
    rounded = ROUNDING * max(map(abs, before))
    if not rate < 0 or length <= 8 * rounded:
        return False
    left = max(abs(way - rate * slope) for way, slope in zip(ways, slopes, strict=True))
    return left <= CLOSE * length + rounded
