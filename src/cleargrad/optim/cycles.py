"""Schedules in which the learning rate goes up and down, and the momentum the other way.

Read next: optim/lr_scheduler.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from cleargrad.errors import error
from cleargrad.optim.optimizer import Optimizer
from cleargrad.optim.scheduler import (
    LRScheduler,
    attributes,
    check_optimizer,
    cycles_betas,
    per_group,
    set_momentum,
    set_option,
    warn_outside_step,
    without,
)


class CyclicLR(LRScheduler):
    """Between base_lr and max_lr in triangles, which `mode` may shrink from cycle to cycle (Smith 2017)."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_option(group, "lr", rate)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise error(ValueError, "CyclicLR", "mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom: Any = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = cycles_betas(optimizer)
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                start_momentum(optimizer, self.base_momentums, self.max_momentums, self.use_beta1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        by_cycle = {"triangular": same_height, "triangular2": half_height}
        self._scale_fn_ref = by_cycle.get(self.mode) or partial(falling_height, self.gamma)
        self.scale_mode = "cycle" if self.mode in by_cycle else "iterations"

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, by its number or by the number of steps."""
        return (self._scale_fn_custom or self._scale_fn_ref)(x)

    def get_lr(self) -> list[Any]:
        """The next rates; the momentum is set here as well."""
        warn_outside_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        height = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ranges = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in ranges:
                set_momentum(group, high - (high - low) * height * scale, self.use_beta1)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height * scale for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a scale function only the attributes of a callable object."""
        state = without(super().state_dict(), "_scale_fn_ref")
        custom = state["_scale_fn_custom"]
        state["_scale_fn_custom"] = None if custom is None else attributes(custom)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        kept = state_dict["_scale_fn_custom"]
        super().load_state_dict(without(state_dict, "_scale_fn_custom"))
        if kept is not None:
            vars(self._scale_fn_custom).update(kept)
        self._init_scale_fn()


def same_height(cycle: float) -> float:
    return 1.0


def half_height(cycle: float) -> float:
    return 1 / (2.0 ** (cycle - 1))


def falling_height(gamma: float, steps: float) -> float:
    return gamma**steps


def start_momentum(optimizer: Optimizer, low: list, high: list, in_betas: bool) -> None:
    for group, base_momentum, max_momentum in zip(optimizer.param_groups, low, high, strict=True):
        set_momentum(group, max_momentum, in_betas)
        group["max_momentum"] = max_momentum
        group["base_momentum"] = base_momentum


class CosineAnnealingWarmRestarts(LRScheduler):
    """A cosine that starts again after T_0 epochs, then T_0 · T_mult, and so on (Loshchilov, Hutter 2017)."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ):
        name = "CosineAnnealingWarmRestarts"
        if T_0 <= 0 or not isinstance(T_0, int):
            raise error(ValueError, name, f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise error(ValueError, name, f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            rule = f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            raise error(ValueError, name, rule)
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        wave = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * wave / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Goes to the next epoch, or to any, also between two."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur = self.T_cur + 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        else:
            self._find(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr)

    def _find(self, epoch: float) -> None:
        """The period that an epoch is in, and how far into it."""
        if epoch < 0:
            rule = f"Expected non-negative epoch, but got {epoch}"
            raise error(ValueError, "CosineAnnealingWarmRestarts", rule)
        first, factor = self.T_0, self.T_mult
        if epoch < first:
            self.T_i, self.T_cur = first, epoch
        elif factor == 1:
            self.T_cur = epoch % first
        else:
            period = int(math.log(epoch / first * (factor - 1) + 1, factor))
            self.T_cur = epoch - first * (factor**period - 1) / (factor - 1)
            self.T_i = first * factor**period


class OneCycleLR(LRScheduler):
    """Up to max_lr and down to almost nothing, once (Smith and Topin 2018)."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = length_of_cycle(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = phases(self.total_steps, pct_start, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            rule = f"Expected float between 0 and 1 pct_start, but got {pct_start}"
            raise error(ValueError, "OneCycleLR", rule)
        if anneal_strategy not in ANNEALING:
            rule = f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            raise error(ValueError, "OneCycleLR", rule)
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = cycles_betas(optimizer)
            high = per_group("max_momentum", optimizer, max_momentum)
            low = per_group("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                start_momentum(optimizer, low, high, self.use_beta1)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next rates; the momentum is set here as well."""
        warn_outside_step(self)
        if self.last_epoch > self.total_steps:
            rule = (
                f"Tried to step {self.last_epoch} times. "
                f"The specified number of total steps is {self.total_steps}"
            )
            raise error(ValueError, "OneCycleLR", rule)
        phase, start = self._phase()
        share = (self.last_epoch - start) / (phase["end_step"] - start)
        between = ANNEALING[self._anneal_func_type]
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                set_momentum(group, between(*ends, share), self.use_beta1)
        return rates

    def _phase(self) -> tuple[dict[str, Any], float]:
        """The phase of the present step, and the step it began at."""
        start = 0.0
        for phase in self._schedule_phases[:-1]:
            if self.last_epoch <= phase["end_step"]:
                return phase, start
            start = phase["end_step"]
        return self._schedule_phases[-1], start


def length_of_cycle(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        return positive("total_steps", total_steps)
    if epochs is not None and steps_per_epoch is not None:
        return positive("epochs", epochs) * positive("steps_per_epoch", steps_per_epoch)
    rule = "You must define either total_steps OR (epochs AND steps_per_epoch)"
    raise error(ValueError, "OneCycleLR", rule)


def positive(name: str, value: int) -> int:
    if value <= 0 or not isinstance(value, int):
        raise error(ValueError, "OneCycleLR", f"Expected positive integer {name}, but got {value}")
    return value


def phases(total_steps: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """Where each phase ends, and between which options of a group the rate and the momentum go."""
    top = float(pct_start * total_steps) - 1
    last = total_steps - 1
    if three_phase:
        back = float(2 * pct_start * total_steps) - 2
        return [
            phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
            phase(back, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
            phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
        ]
    return [
        phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
        phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum"),
    ]


def phase(
    end_step: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str
) -> dict[str, Any]:
    return {
        "end_step": end_step,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


def along_cosine(start: Any, end: Any, share: float) -> Any:
    return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def along_line(start: Any, end: Any, share: float) -> Any:
    return (end - start) * share + start


ANNEALING = {"cos": along_cosine, "linear": along_line}
