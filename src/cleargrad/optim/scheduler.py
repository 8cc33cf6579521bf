"""LRScheduler: a schedule that changes the learning rates of an optimizer's groups, step by step.

Subclasses say what comes next, `get_lr`. Where a schedule can be computed from the epoch alone it also has
a closed form, used by `step(epoch)`. Attributes have PyTorch's names, since they are the checkpoint. Read
next: optim/decay.py.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import ref

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.optim.optimizer import Optimizer

MORE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, "
    "make sure to call `optimizer.step()` before `lr_scheduler.step()`. " + MORE
)
WRONG_ORDER = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
    "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do "
    "this will result in PyTorch skipping the first value of the learning rate schedule. " + MORE
)
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use `scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from "
    "None, the closed form is used instead of the new chainable form, where available. Please open an issue "
    "if you are unable to replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)
NO_INITIAL_LR = (
    "param 'initial_lr' is not specified in param_groups[{}] when resuming scheduler with last_epoch >= 0. "
    "Load the optimizer's state first, or leave last_epoch at -1 in a fresh run"
)


class LRScheduler:
    """The base of all schedules; making one sets the first learning rates."""

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise error(KeyError, type(self).__name__, NO_INITIAL_LR.format(number))
        self.base_lrs = options(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        track_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave, here or in PyTorch."""
        vars(self).update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The learning rates that were set last, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The learning rates that come next, one per group."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch, after the optimizer's step."""
        if self._step_count == 1:
            if not is_tracked(self.optimizer):
                warnings.warn(OVERRIDDEN, UserWarning, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(WRONG_ORDER, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = getattr(self, "_get_closed_form_lr", None)
        self._set(self.get_lr if epoch is None or closed_form is None else closed_form)

    def _set(self, compute: Callable[[], list[Any]]) -> None:
        self._get_lr_called_within_step = True
        try:
            values = compute()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_option(group, "lr", value)
        self._last_lr = options(self.optimizer, "lr")

    # What schedules are made of: each is a list with one rate per group.

    def _unchanged(self) -> list[Any]:
        return options(self.optimizer, "lr")

    def _times(self, factor: float) -> list[Any]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _base_times(self, factor: float) -> list[Any]:
        return [base * factor for base in self.base_lrs]


def track_steps(optimizer: Optimizer) -> None:
    """Lets `optimizer.step` note that it was called, to warn about the wrong order."""
    if is_tracked(optimizer):
        return
    step, owner = optimizer.step, ref(optimizer)
    own = step.__func__ if isinstance(step, types.MethodType) else None
    free = step if own is None else None  # a bound method would keep its optimizer alive

    @wraps(step)
    def tracked(*args: Any, **kwargs: Any) -> Any:
        optimizer = owner()
        optimizer._opt_called = True  # type: ignore[union-attr]
        return own(optimizer, *args, **kwargs) if own is not None else free(*args, **kwargs)  # type: ignore[misc]

    tracked._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    tracked.tracks = owner, own  # type: ignore[attr-defined]
    optimizer.step = tracked  # type: ignore[method-assign]


def is_tracked(optimizer: Optimizer) -> bool:
    return getattr(optimizer.step, "_wrapped_by_lr_sched", False)


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise error(TypeError, "LRScheduler", f"{type(optimizer).__name__} is not an Optimizer")


def warn_outside_step(scheduler: LRScheduler) -> None:
    """get_lr counts on being called once per step."""
    if not scheduler._get_lr_called_within_step:
        rule = "To get the last learning rate computed by the scheduler, please use `get_last_lr()`."
        warnings.warn(rule, UserWarning, stacklevel=3)


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def options(optimizer: Optimizer, key: str) -> list[Any]:
    """The value of an option in each group."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Sets an option; a tensor keeps its identity, since others may hold it."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.squeeze() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group, from one for all or a list of them."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(groups)]
    if len(value) != groups:
        rule = (
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {groups}."
        )
        raise error(ValueError, "LRScheduler", rule)
    return [copied(one) for one in value]


def set_momentum(group: dict[str, Any], momentum: Any, in_betas: bool) -> None:
    if in_betas:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def cycles_betas(optimizer: Optimizer) -> bool:
    """Whether the momentum that is cycled is the first of `betas`."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        rule = "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        raise error(ValueError, "LRScheduler", rule)
    return "betas" in optimizer.defaults


def without(state: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in keys}


def attributes(function: Any) -> dict[str, Any] | None:
    """What a checkpoint keeps of a callable: the attributes of an object, nothing of a function."""
    return None if isinstance(function, types.FunctionType) else vars(function).copy()
