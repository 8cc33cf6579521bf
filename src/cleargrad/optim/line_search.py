"""A line search for LBFGS: a step that meets the strong Wolfe conditions (Nocedal and Wright, section 3.5).

A direction's first step and a function that tries steps come in; the accepted trial comes out. Read next:
optim/sparse_adam.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cleargrad.core.tensor import Tensor

ENOUGH, FLAT = 1e-4, 0.9  # c₁ and c₂: how much the loss must fall, and how flat the slope must become


class Trial(NamedTuple):
    """A point on the line: the step from the start, the loss, its gradient, and the slope along the line."""

    step: float
    loss: float
    grad: Tensor
    slope: float


def strong_wolfe(
    attempt: Callable[[float], Trial], start: Trial, step: float, size: float, tolerance: float, limit: int
) -> tuple[Trial, int]:
    """A trial that meets the conditions, or the best within `limit` rounds; and how many were made.

    `size` is the largest element of the direction: below `tolerance / size` two steps count as one.
    """
    previous, trial = start, attempt(step)
    for rounds in range(limit):
        if too_high(trial, start) or (rounds > 1 and trial.loss >= previous.loss):
            break
        if is_flat(trial, start):
            return trial, rounds + 1
        if trial.slope >= 0:
            break
        bounds = (trial.step + 0.01 * (trial.step - previous.step), trial.step * 10)
        step = cubic_minimum(previous, trial, bounds)
        previous, trial = trial, attempt(step)
    else:
        return [start, trial][lower([start, trial])], limit + 1
    return zoom(attempt, start, [previous, trial], size, tolerance, rounds, limit)


def zoom(
    attempt: Callable[[float], Trial],
    start: Trial,
    bracket: list[Trial],
    size: float,
    tolerance: float,
    rounds: int,
    limit: int,
) -> tuple[Trial, int]:
    """Narrows the bracket around a minimum until its lower end is accepted."""
    low, stuck = lower(bracket), False
    while rounds < limit and abs(bracket[1].step - bracket[0].step) * size >= tolerance:
        step, stuck = inside(cubic_minimum(bracket[0], bracket[1]), bracket[0].step, bracket[1].step, stuck)
        trial = attempt(step)
        rounds += 1
        high = 1 - low
        if too_high(trial, start) or trial.loss >= bracket[low].loss:
            bracket[high] = trial
            low = lower(bracket)
            continue
        if is_flat(trial, start):
            return trial, rounds + 1
        if trial.slope * (bracket[high].step - bracket[low].step) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = trial
    return bracket[low], rounds + 1


def lower(bracket: list[Trial]) -> int:
    """Which end of a bracket has the lower loss."""
    return 0 if bracket[0].loss <= bracket[1].loss else 1


def too_high(trial: Trial, start: Trial) -> bool:
    return trial.loss > start.loss + ENOUGH * trial.step * start.slope


def is_flat(trial: Trial, start: Trial) -> bool:
    return abs(trial.slope) <= -FLAT * start.slope


def inside(step: float, one: float, other: float, stuck: bool) -> tuple[float, bool]:
    """Keeps a step away from the ends of its bracket when it has come too near twice in a row."""
    low, high = min(one, other), max(one, other)
    margin = 0.1 * (high - low)
    if min(high - step, step - low) >= margin:
        return step, False
    if not stuck and low < step < high:
        return step, True
    return (high - margin if abs(step - high) < abs(step - low) else low + margin), False


def cubic_minimum(one: Trial, other: Trial, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two losses and slopes is least, within bounds (by default between the two)."""
    left, right = (one, other) if one.step <= other.step else (other, one)
    low, high = bounds or (left.step, right.step)
    bend = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.step - right.step)
    square = bend * bend - left.slope * right.slope
    root = square**0.5 if square >= 0 else 0.0
    spread = right.slope - left.slope + 2 * root
    if not square >= 0 or spread == 0:
        return (low + high) / 2
    share = (right.slope + root - bend) / spread
    return min(max(right.step - (right.step - left.step) * share, low), high)
