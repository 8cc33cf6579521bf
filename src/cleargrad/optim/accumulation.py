"""cleargrad.accumulate: the gradient of a large batch, from small batches that fit into memory.

Batches come in, windows of them go out. A window adds up gradients and counts what they are about (samples,
tokens); in the end it divides by the whole count, so the result is that of one large batch, also when the
parts differ in size and when the last window is short. Why this matters: docs/accumulation.md. Read next:
optim/lr_scheduler.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain, islice
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.optim.optimizer import Optimizer

END = object()


class accumulate:
    """Windows of up to `steps` batches, each for one step of the optimizer, or of several.

        for window in accumulate(loader, 4, optimizer):
            for x, y in window:
                window.backward(criterion(model(x), y), count=len(x))
            window.step()

    Gradients are cleared when a window begins and when it is left, in whatever way. Batches are read one at a
    time and not ahead, so `batches` may be of unknown length.
    """

    def __init__(
        self,
        batches: Iterable,
        steps: int,
        optimizer: Optimizer | Iterable[Optimizer],
        *,
        scaler: Any = None,
    ) -> None:
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            rule = "steps, the number of batches in a window, must be a positive integer"
            raise error(ValueError, "accumulate", rule, steps=steps)
        self.batches = batches
        self.steps = steps
        self.optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
        self.scaler = scaler

    def __iter__(self) -> Iterator[Window]:
        batches = iter(self.batches)
        while (first := next(batches, END)) is not END:
            rest = islice(batches, self.steps - 1)
            window = Window(chain([first], rest), self.steps, self.optimizers, self.scaler)
            del first  # the window hands it out; a second reference would keep it in memory
            try:
                yield window
                window._check_finished()
            finally:
                window.skip()

    def __len__(self) -> int:
        """The number of windows, which is the number of steps in a pass through the batches."""
        return -(-len(self.batches) // self.steps)  # type: ignore[arg-type]


class Stage(Enum):
    """How far a window is."""

    COLLECTING = "collecting"
    DIVIDED = "divided"  # the gradients are those of the large batch
    CLOSED = "closed"


class Window:
    """The batches of one step. When they are used up, the gradients are unscaled and divided: clip them then."""

    def __init__(self, batches: Iterator, steps: int, optimizers: list[Any], scaler: Any) -> None:
        self.count: float = 0  # all that was given to backward so far
        self._batches = batches
        self._steps = steps
        self._optimizers = optimizers
        self._scaler = scaler
        self._stage = Stage.COLLECTING
        self._loss_sum = 0.0
        self._divisor: float | None = None
        self._counts = [0.0] * len(optimizers)
        self._clear()

    def __iter__(self) -> Window:
        return self

    def __next__(self) -> Any:
        batch = next(self._batches, END)
        if batch is END:
            if self._stage is Stage.COLLECTING:
                self._divide()
            raise StopIteration
        return batch

    @property
    def loss(self) -> float:
        """The mean of the loss over everything counted so far."""
        return self._loss_sum / self.count if self.count else math.nan

    def backward(
        self,
        loss: Tensor,
        count: float | Tensor,
        reduction: str = "mean",
        *,
        optimizer: Optimizer | None = None,
        retain_graph: bool | None = None,
    ) -> None:
        """Adds the gradient of a loss: the mean, or with reduction="sum" the sum, over `count` elements.

        `count` is what the loss divides by: samples, tokens that are not masked, or a sum of weights. With
        `optimizer`, the gradient and the count go to its parameters alone.
        """
        self._expect(Stage.COLLECTING, "backward", "its gradients have been divided already")
        number = checked_count(count)
        if reduction not in ("mean", "sum"):
            rule = 'reduction must be "mean" or "sum", as the loss was given'
            raise error(ValueError, "window.backward", rule, reduction=reduction)
        if optimizer is not None and not any(each is optimizer for each in self._optimizers):
            raise error(ValueError, "window.backward", "optimizer is none of those given to accumulate")
        if number == 0 and reduction == "mean":
            return  # 0 / 0: in the large batch these elements would not have counted either
        goal = self._goal(number)
        part = loss / (goal / number) if reduction == "mean" else loss / goal
        if self._scaler is not None:
            part = self._scaler.scale(part)
        inputs = None if optimizer is None else [p for p in parameters_of(optimizer) if p.requires_grad]
        part.backward(inputs=inputs, retain_graph=retain_graph)
        self.count += number
        self._loss_sum += loss.item() * (number if reduction == "mean" else 1)
        for position, each in enumerate(self._optimizers):
            if optimizer is None or each is optimizer:
                self._counts[position] += number

    def step(self) -> bool:
        """Steps the optimizers; False if one was not stepped: its gradients overflowed, or nothing was counted."""
        if self._stage is Stage.COLLECTING:
            self._divide()
        self._expect(Stage.DIVIDED, "step", "it has been stepped or skipped")
        ready = self._ready()
        made = [self._step(optimizer) for optimizer in ready]
        if ready and self._scaler is not None:
            self._scaler.update()
        self._stage = Stage.CLOSED
        return all(made) and len(made) == len(self._optimizers)

    def skip(self) -> None:
        """Ends the window without a step, and clears its gradients."""
        if self._stage is Stage.DIVIDED and self._scaler is not None and self._ready():
            self._scaler.update()  # it has looked for overflows, and must not expect a step
        self._stage = Stage.CLOSED
        self._clear()

    # Inside ------------------------------------------------------------------------------------------------

    def _goal(self, count: float) -> float:
        """What the whole count will be if all batches are like the first: losses are divided by it at once.

        So gradients have their final size from the beginning and float16 does not overflow; where the guess was
        right, which is most of the time, nothing is left to do at the end.
        """
        if self._divisor is None:
            self._divisor = (count or 1.0) * self._steps
        return self._divisor

    def _divide(self) -> None:
        """Turns sums over the guessed count into means over the real one."""
        self._stage = Stage.DIVIDED
        done: set[int] = set()  # a parameter may belong to two optimizers
        for optimizer, count in zip(self._optimizers, self._counts):
            if count == 0:
                optimizer.zero_grad()
                continue
            if has_gradients(optimizer) and self._scaler is not None:
                self._scaler.unscale_(optimizer)
            if count != self._divisor:
                multiply(optimizer, self._divisor / count, done)  # type: ignore[operator]

    def _ready(self) -> list[Any]:
        """The optimizers that have something to step with."""
        return [optimizer for optimizer in self._optimizers if has_gradients(optimizer)]

    def _step(self, optimizer: Any) -> bool:
        if self._scaler is None:
            optimizer.step()
            return True
        self._scaler.step(optimizer)
        return not self._scaler.step_was_skipped(optimizer)

    def _clear(self) -> None:
        for optimizer in self._optimizers:
            optimizer.zero_grad()

    def _expect(self, stage: Stage, op: str, rule: str) -> None:
        if self._stage is not stage:
            raise error(RuntimeError, f"window.{op}", f"the window is over: {rule}")

    def _check_finished(self) -> None:
        if self._stage is not Stage.CLOSED and self.count:
            rule = "a window with gradients was left without a step"
            fix = "call window.step() behind the loop over the window, or window.skip() to drop its gradients"
            raise error(RuntimeError, "accumulate", rule, count=self.count, fix=fix)


def checked_count(count: float | Tensor) -> float:
    number = count.item() if isinstance(count, Tensor) else count
    if not 0 <= number < math.inf:
        rule = "count is the number of elements that the loss is about, or the sum of their weights"
        raise error(ValueError, "window.backward", rule, count=number)
    return number


def parameters_of(optimizer: Any) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def has_gradients(optimizer: Any) -> bool:
    return any(parameter.grad is not None for parameter in parameters_of(optimizer))


@no_grad()
def multiply(optimizer: Any, factor: float, done: set[int]) -> None:
    """Multiplies an optimizer's gradients, except those of parameters that are done."""
    for parameter in parameters_of(optimizer):
        if parameter.grad is not None and id(parameter) not in done:
            parameter.grad.mul_(factor)
            done.add(id(parameter))
