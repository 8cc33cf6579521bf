"""The sizes of gradients and updates: not finite, vanishing, exploding, lost.

All from Statistics events. A size counts as wrong by its ratio to the weights, to the other layers and to its own
history, and for several steps. Read next: rules/modes.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from cleargrad.doctor.events import Backward, End, Statistics
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import counted, listed, passes_by_line

UNMOVED = 3  # measured steps in which a parameter has never moved
UNMOVED_LATELY = 5  # measured steps at the end, for one that moved before
LOST_RATIO = 1e-6  # gradients below this share of the weights may well round to nothing
VANISHED = 1e-6  # norm of a gradient
VANISHED_RATIO = 1e-5  # to the largest gradient of the same step
VANISHING_STEPS = 3
EXPLODED = 1e6  # norm of a gradient that is too large in any history
EXPLODED_RATIO = 1e5  # to the weights
STEEP = 10  # relative change of the loss per relative change of the weights
SPIKE, GROWTH = 1e4, 1e3  # to the first steps: at once, or after growing for a few steps
LARGE = 1e2  # norms below this are never called exploding


def passes_of(event: Statistics, case: Case) -> list[Backward]:
    """The backward passes that the measured step used."""
    use = case.ledger.last_use.get(event.optimizer)
    if use is None:
        return []
    passes = {backward.number: backward for found in use.fresh.values() for backward in found}
    return [passes[number] for number in sorted(passes)]


def matrices(event: Statistics, case: Case) -> Iterator[tuple[int, float, float]]:
    """Parameter, gradient norm, weight norm of all weights with two dimensions or more. Biases are left out: before
    a normalization theirs is zero but for rounding."""
    for number, gradient, weight in zip(
        event.parameters, event.gradient_norms, event.weight_norms, strict=True
    ):
        if len(case.registry.parameters[number].shape) > 1:
            yield number, gradient, weight


# Not finite ------------------------------------------------------------------------------------------------


@rule("non-finite-gradient", "error", on=Statistics)
def non_finite_gradient(event: Statistics, case: Case) -> Iterator[Finding]:
    """A step used gradients with inf or NaN."""
    wrong = [
        number
        for number, norm in zip(event.parameters, event.gradient_norms, strict=True)
        if not math.isfinite(norm) and has_non_finite(case.registry.parameters[number].ref())
    ]
    if not wrong or event.optimizer in case.memory:
        return
    case.memory[event.optimizer] = event
    passes = passes_of(event, case)
    origin = next((backward.not_finite for backward in passes if backward.not_finite), None)
    slope = next((backward.infinite_slope for backward in passes if backward.infinite_slope), None)
    kinds = sorted({kind_of_value(case.registry.parameters[number].ref()) for number in wrong})
    where = f"backward at {passes_by_line(passes)}" if passes else "the program itself"
    yield case.finding(
        event,
        f"step {event.step} used gradients with {' and '.join(kinds)}, first in {listed(case.names(wrong), 3)}, "
        f"filled by {where}; the weights are spoiled from here on",
        fix=(
            f"keep {origin} within its domain (clamp its input or add a small number)"
            if origin
            else f"keep the input of {slope} away from there (clamp it or add a small number first); a mask "
            "after the op, as by torch.where, does not help"
            if slope
            else "find the op with torch.autograd.set_detect_anomaly(True): often sqrt, norm or a division at 0; "
            "skip the step when the gradients are not finite"
        ),
        evidence=[
            f"the first op that is not finite: {origin}"
            if origin
            else f"the loss itself was finite, but {slope} has an infinite slope at some of its inputs"
            if slope
            else "the loss itself was finite: the backward pass of some op made it so"
            if passes
            else "no backward pass made it",
            f"{counted(len(wrong), 'parameter')} of {len(event.parameters)} affected",
        ],
        parameters=wrong,
        facts={"first_op": origin or slope},
    )


def has_non_finite(tensor: Any) -> bool:
    """Whether a gradient has inf or NaN; the norm of a very large one may overflow all by itself."""
    return tensor is None or tensor.grad is None or not bool(tensor.grad.isfinite().all())


def kind_of_value(tensor: Any) -> str:
    if tensor is None or tensor.grad is None:
        return "inf or NaN"
    return "NaN" if bool(tensor.grad.isnan().any()) else "inf"


# Vanishing and exploding -----------------------------------------------------------------------------------


@rule("gradient-vanishing", "warning", on=Statistics)
def gradient_vanishing(event: Statistics, case: Case) -> Iterator[Finding]:
    """Gradients of several layers are nothing beside those of others, step after step."""
    found = [each for each in matrices(event, case) if math.isfinite(each[1])]
    largest = max((gradient for _, gradient, _ in found), default=0.0)
    small = [
        (number, gradient)
        for number, gradient, weight in found
        if gradient < VANISHED and gradient < VANISHED_RATIO * largest and gradient < VANISHED * weight
    ]
    streak = case.memory.setdefault(event.optimizer, [0])
    # Exact zeros alone have other reasons: a branch that starts at zero, a loss with weight zero.
    if len(small) < 2 or not any(gradient > 0 for _, gradient in small):
        streak[0] = 0
        return
    streak[0] += 1
    passes = passes_of(event, case)
    if streak[0] != VANISHING_STEPS or not passes:
        return
    smallest = min(small, key=lambda each: each[1])
    yield case.finding(
        event,
        f"gradients vanish on the way back: {case.registry.name(smallest[0])} has a gradient of norm "
        f"{smallest[1]:.1e}, while the largest is {largest:.1e}; {counted(len(small), 'layer')} hardly train",
        fix="use ReLU-like activations, residual connections or normalization, and an initialization made for them",
        evidence=[
            f"in each of the last {VANISHING_STEPS} measured steps",
            f"layers: {listed(case.names(number for number, _ in small), 5)}",
        ],
        place=passes[-1].place,
        parameters=[number for number, _ in small],
    )


class Growth:
    """Total gradient norms of one optimizer: the first few, and the last."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.last: list[float] = []
        self.huge = 0  # steps with a size that is too large in any history

    @property
    def usual(self) -> float:
        return sorted(self.first)[len(self.first) // 2]


@rule("gradient-exploding", "warning", on=Statistics)
def gradient_exploding(event: Statistics, case: Case) -> Iterator[Finding]:
    """Gradients are far larger than in the first steps, or than any weight could bear."""
    growth = case.memory.setdefault(event.optimizer, Growth())
    passes = passes_of(event, case)
    if growth.huge < 0 or not passes or any(backward.scaler is not None for backward in passes):
        return
    total = math.hypot(*event.gradient_norms)
    reason = explosion(event, case, growth, total)
    if len(growth.first) < 3:
        growth.first.append(total)
    growth.last = [*growth.last[-2:], total]
    if reason is None:
        return
    growth.huge = -1  # said once
    largest = max(range(len(event.parameters)), key=lambda index: event.gradient_norms[index])
    yield case.finding(
        event,
        f"gradients explode: norm {total:.1e} in step {event.step}, {reason}; the largest is that of "
        f"{case.registry.name(event.parameters[largest])}",
        fix="clip with torch.nn.utils.clip_grad_norm_ before step(), lower the learning rate, or scale inputs and "
        "weights",
        evidence=[f"norms of the last measured steps: {listed(f'{norm:.1e}' for norm in growth.last)}"],
        place=passes[-1].place,
        parameters=[event.parameters[largest]],
        facts={"norm": total if math.isfinite(total) else None},
    )


def explosion(event: Statistics, case: Case, growth: Growth, total: float) -> str | None:
    """In what respect a step's gradients are too large, or None. Values that are not finite are another rule's."""
    if math.isnan(total) or (math.isinf(total) and not overflows(event, case)):
        return None
    if is_steep(event, case):
        growth.huge += 1
    if math.isinf(total) or growth.huge == 2:
        return "far beyond the weights"
    if total < LARGE or len(growth.first) < 3 or total < math.hypot(*event.weight_norms):
        return None
    rising = growth.last[-2] < growth.last[-1] < total
    if total > SPIKE * growth.usual or (rising and total > GROWTH * growth.usual):
        return f"{total / max(growth.usual, 1e-30):.0e} times as large as in the first steps"
    return None


def is_steep(event: Statistics, case: Case) -> bool:
    """Whether gradients are huge because the weights multiply each other, and not because the data is large: then a
    small relative change of all weights changes the loss by many times itself."""
    rows = list(matrices(event, case))
    if not any(gradient > max(EXPLODED, EXPLODED_RATIO * weight) for _, gradient, weight in rows):
        return False
    losses = [abs(backward.loss) for backward in passes_of(event, case) if backward.loss]
    return bool(losses) and sum(gradient * weight for _, gradient, weight in rows) > STEEP * max(losses)


def overflows(event: Statistics, case: Case) -> bool:
    return not any(
        not math.isfinite(norm) and has_non_finite(case.registry.parameters[number].ref())
        for number, norm in zip(event.parameters, event.gradient_norms, strict=True)
    )


# Updates that are lost -------------------------------------------------------------------------------------


class Movement:
    """How often a parameter was measured, whether it ever moved, and for how many steps it has not."""

    __slots__ = ("event", "moved", "optimizer", "rate", "still")

    def __init__(self, optimizer: int) -> None:
        self.optimizer = optimizer
        self.still = 0
        self.moved = False
        self.event: Statistics | None = None
        self.rate: Any = None  # learning rate


@rule("update-lost", "warning", on=(Statistics, End))
def update_lost(event: Statistics | End, case: Case) -> Iterator[Finding]:
    """Steps with a gradient do not change the weights: a learning rate of 0, or updates that are rounded away."""
    if isinstance(event, End):
        yield from lost_updates(event, case)
        return
    rows = zip(event.parameters, event.gradient_norms, event.weight_norms, event.moved, strict=True)
    for number, gradient, weight, moved in rows:
        if gradient == 0 or not math.isfinite(gradient):
            continue
        if (
            not moved
            and gradient < LOST_RATIO * weight
            and is_precise(case.registry.parameters[number].ref())
        ):
            continue
        movement = case.memory.setdefault(number, Movement(event.optimizer))
        movement.moved |= moved
        movement.still = 0 if moved else movement.still + 1
        if movement.still in (1, UNMOVED):
            movement.event = event
            movement.rate = rate_of(case, event.optimizer, number)


def is_precise(tensor: Any) -> bool:
    return tensor is None or tensor.element_size() >= 4


def rate_of(case: Case, optimizer: int, number: int) -> Any:
    """The learning rate of a parameter now."""
    live, tensor = case.registry.optimizers[optimizer].ref(), case.registry.parameters[number].ref()
    for group in () if live is None else live.param_groups:
        if any(each is tensor for each in group["params"]):
            return group.get("lr")
    return None


def lost_updates(event: End, case: Case) -> Iterator[Finding]:
    groups: dict[int, list[int]] = {}
    moving = {movement.optimizer for movement in case.memory.values() if not movement.still}
    for number, movement in case.memory.items():
        tensor = case.registry.parameters[number].ref()
        # In float32, a weight of 1 with a very small gradient may stand still for a while in a healthy run.
        certain = movement.rate == 0 or not is_precise(tensor) or movement.optimizer not in moving
        if certain and movement.still >= (UNMOVED_LATELY if movement.moved else UNMOVED):
            groups.setdefault(movement.optimizer, []).append(number)
    for numbers in groups.values():
        movement = case.memory[numbers[0]]
        tensors = [case.registry.parameters[number].ref() for number in numbers]
        coarse = {str(tensor.dtype) for tensor in tensors if not is_precise(tensor)}
        yield case.finding(
            event,
            f"{counted(movement.still, 'step')} with a gradient left {listed(case.names(numbers), 4)} exactly as "
            "before: " + reason_lost(movement.rate, coarse),
            fix=fix_lost(movement.rate, coarse),
            evidence=[
                f"learning rate {movement.rate}",
                "the step was not skipped and the gradient was not zero",
            ],
            place=movement.event.place,
            parameters=numbers,
        )


def reason_lost(rate: Any, coarse: set[str]) -> str:
    if rate is not None and float(rate) == 0.0:
        return "the learning rate is 0"
    if coarse:
        return f"the updates are smaller than {listed(sorted(coarse))} can tell apart from the weights"
    return f"the updates are too small to change the weights (learning rate {rate})"


def fix_lost(rate: Any, coarse: set[str]) -> str:
    if rate is not None and float(rate) == 0.0:
        return "set a learning rate above 0; look at the scheduler, if there is one"
    if coarse:
        return (
            "keep the weights in float32 (autocast does the arithmetic in bfloat16), or step a float32 copy"
        )
    return "raise the learning rate"
