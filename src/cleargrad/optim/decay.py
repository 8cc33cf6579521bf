"""Schedules in which the learning rate goes one way: by a function, in steps, linearly, along a cosine.

Products are taken in PyTorch's order, so the rates agree to the last digit. Read next: optim/cycles.py.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from cleargrad.errors import error
from cleargrad.optim.optimizer import Optimizer
from cleargrad.optim.scheduler import LRScheduler, attributes, warn_outside_step, without


class ByFunction(LRScheduler):
    """What LambdaLR and MultiplicativeLR share: one function for all groups, or one for each."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        several = isinstance(lr_lambda, (list, tuple))
        if several and len(lr_lambda) != groups:
            rule = f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}"
            raise error(ValueError, type(self).__name__, rule)
        self.lr_lambdas: list[Callable[[int], float]] = list(lr_lambda) if several else [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of the functions only the attributes of callable objects."""
        state = without(vars(self), "optimizer", "lr_lambdas")
        return {**state, "lr_lambdas": [attributes(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(without(state_dict, "lr_lambdas"))
        for function, kept in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            if kept is not None:
                vars(function).update(kept)


class LambdaLR(ByFunction):
    """lr = base · f(epoch)."""

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(ByFunction):
    """lr ← lr · f(epoch)."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        for function in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(function):
                rule = f"lr_lambda should be a function, but got {type(function).__name__}"
                raise error(TypeError, "MultiplicativeLR", rule)
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self._is_initial:
            return self._unchanged()
        groups = self.optimizer.param_groups
        return [group["lr"] * f(self.last_epoch) for f, group in zip(self.lr_lambdas, groups, strict=True)]


class StepLR(LRScheduler):
    """lr ← lr · gamma every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._unchanged()
        return self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_times(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """lr ← lr · gamma at each milestone."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ):
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self.last_epoch not in self.milestones:
            return self._unchanged()
        return self._times(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Any]:
        milestones = sorted(self.milestones.elements())
        return self._base_times(self.gamma ** bisect_right(milestones, self.last_epoch))


class ConstantLR(LRScheduler):
    """lr = base · factor for `total_iters` epochs, then base."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ):
        if factor > 1.0 or factor < 0:
            rule = "Constant multiplicative factor expected to be between 0 and 1."
            raise error(ValueError, "ConstantLR", rule)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self.last_epoch == 0:
            return self._times(self.factor)
        if self.last_epoch != self.total_iters:
            return self._unchanged()
        return self._times(1.0 / self.factor)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_times(self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor))


class LinearLR(LRScheduler):
    """lr = base · factor, with a factor that goes from start to end in `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if start_factor > 1.0 or start_factor <= 0:
            rule = "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            raise error(ValueError, "LinearLR", rule)
        if end_factor > 1.0 or end_factor < 0:
            rule = "Ending multiplicative factor expected to be between 0 and 1."
            raise error(ValueError, "LinearLR", rule)
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._times(1.0 + rise / before)

    def _get_closed_form_lr(self) -> list[Any]:
        rise = (self.end_factor - self.start_factor) * min(self.total_iters, self.last_epoch)
        return self._base_times(self.start_factor + rise / self.total_iters)


class ExponentialLR(LRScheduler):
    """lr ← lr · gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        return self._unchanged() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_times(self.gamma**self.last_epoch)


class PolynomialLR(LRScheduler):
    """lr = base · (1 − epoch / total_iters)^power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        now = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._times((now / before) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        rest = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return self._base_times(rest**self.power)


class CosineAnnealingLR(LRScheduler):
    """lr = eta_min + (base − eta_min) (1 + cos(π epoch / T_max)) / 2 (Loshchilov and Hutter 2017)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self._is_initial:
            return self._unchanged()
        low, groups = self.eta_min, self.optimizer.param_groups
        if self._step_count == 1 and self.last_epoch > 0:
            wave = 1 + math.cos(self.last_epoch * math.pi / self.T_max)
            return [low + (base - low) * wave / 2 for base in self.base_lrs]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # at the bottom the ratio is 0 / 0
            wave = 1 - math.cos(math.pi / self.T_max)
            return [g["lr"] + (base - low) * wave / 2 for base, g in zip(self.base_lrs, groups, strict=True)]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        wave = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * wave / 2 for base in self.base_lrs]
