"""torch.optim.lr_scheduler: all schedules, and here those made of others or steered by a measurement.

Read next: optim/swa_utils.py.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Sequence
from math import inf
from typing import Any

from cleargrad.errors import error
from cleargrad.optim.cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from cleargrad.optim.decay import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from cleargrad.optim.optimizer import Optimizer
from cleargrad.optim.scheduler import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    check_optimizer,
    options,
    set_option,
    without,
)

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class _LRScheduler(LRScheduler):
    """The name that schedules written before PyTorch 2.0 inherit from."""


class SchedulerOfSchedulers(LRScheduler):
    """What SequentialLR and ChainedScheduler share: a checkpoint that holds those of its parts."""

    _schedulers: Sequence[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        state = without(vars(self), "optimizer", "_schedulers")
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(without(state_dict, "_schedulers"))
        for scheduler, kept in zip(self._schedulers, state_dict["_schedulers"], strict=False):
            scheduler.load_state_dict(kept)


def check_parts(name: str, schedulers: Sequence[Any], optimizer: Optimizer) -> None:
    for index, scheduler in enumerate(schedulers):
        owner = getattr(scheduler, "optimizer", None)
        if owner is None:
            rule = f"{name} at index {index} should have `optimizer` as its attribute."
            raise error(TypeError, name, rule)
        if isinstance(scheduler, ReduceLROnPlateau):
            rule = (
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to "
                f"be specified when calling `step`, but got one at index {index} in the given sequence."
            )
            raise error(ValueError, name, rule)
        if owner is not optimizer:
            rule = (
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {index}, which belongs to another."
            )
            raise error(ValueError, name, rule)


class SequentialLR(SchedulerOfSchedulers):
    """One schedule after another; a milestone is the epoch at which the next begins."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ):
        if len(schedulers) < 1:
            rule = "SequentialLR expects at least one scheduler, but got no scheduler."
            raise error(ValueError, "SequentialLR", rule)
        check_parts("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            rule = (
                "Sequential Schedulers expects number of schedulers provided to be one more than the number "
                f"of milestone points, but got number of schedulers {len(schedulers)} and the number of "
                f"milestones to be equal to {len(milestones)}"
            )
            raise error(ValueError, "SequentialLR", rule)
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each part set its own first rate when it was made: all of them are taken back but the first.
        for group in optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        take_back(self)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Goes to the next epoch, in the schedule that it belongs to."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def take_back(scheduler: Any) -> None:
    """Undoes the step that making a schedule takes, in all its parts."""
    if isinstance(scheduler, SchedulerOfSchedulers):
        for part in scheduler._schedulers:
            take_back(part)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(SchedulerOfSchedulers):
    """Several schedules at once: each changes what the one before it left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        if len(schedulers) < 1:
            rule = "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler."
            raise error(ValueError, "ChainedScheduler", rule)
        optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
        check_parts("ChainedScheduler", schedulers, optimizer)  # type: ignore[arg-type]
        self._schedulers = schedulers
        self.optimizer = optimizer  # type: ignore[assignment]
        self._last_lr = options(self._schedulers[-1].optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """One step of each schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = options(self._schedulers[-1].optimizer, "lr")


class ReduceLROnPlateau(LRScheduler):
    """lr ← lr · factor when a measurement has not become better for `patience` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ):
        if factor >= 1.0:
            raise error(ValueError, "ReduceLROnPlateau", "Factor should be < 1.0.")
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != groups:
                rule = f"expected {groups} min_lrs, got {len(min_lr)}"
                raise error(ValueError, "ReduceLROnPlateau", rule)
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr  # type: ignore[assignment]
            self.min_lrs = [min_lr] * groups
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = options(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the measurement of an epoch."""
        current = float(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = options(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                rule = (
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param "
                    "group being added to the optimizer"
                )
                fix = "modify the `min_lrs` field to match the length of the `optimizer` param groups"
                raise error(RuntimeError, "ReduceLROnPlateau", rule, fix=fix)
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_option(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        if self.threshold_mode == "rel":
            return (
                a < best * (1.0 - self.threshold) if self.mode == "min" else a > best * (self.threshold + 1.0)
            )
        return a < best - self.threshold if self.mode == "min" else a > best + self.threshold

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise error(ValueError, "ReduceLROnPlateau", f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise error(ValueError, "ReduceLROnPlateau", f"threshold mode {threshold_mode} is unknown!")
        self.mode_worse = inf if mode == "min" else -inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
