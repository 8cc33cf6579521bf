"""torch.optim.swa_utils: averages of a model's parameters over training, and their learning rate.

Stochastic weight averaging (Izmailov et al. 2018) and exponential moving averages. Read next:
optim/accumulation.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.module import Module
from cleargrad.nn.modules.batchnorm import _BatchNorm
from cleargrad.ops.creation import tensor
from cleargrad.optim.optimizer import Optimizer
from cleargrad.optim.scheduler import LRScheduler, per_group, warn_outside_step, without

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        rule = f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        raise error(ValueError, "get_ema_avg_fn", rule)


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """average ← decay · average + (1 − decay) · parameter, for one tensor."""
    check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """average ← decay · average + (1 − decay) · parameter, for lists of tensors, in place."""
    check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: list, current_param_list: list, _: Any) -> None:
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_avg_fn() -> Callable:
    """average ← average + (parameter − average) / (n + 1), for one tensor."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn() -> Callable:
    """average ← average + (parameter − average) / (n + 1), for lists of tensors, in place."""

    @no_grad()
    def swa_update(averaged_param_list: list, current_param_list: list, num_averaged: Any) -> None:
        weight = 1 / (float(num_averaged) + 1)
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, weight)
            else:
                average.add_(current - average, alpha=weight)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of those it is shown."""

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable | None = None,
        multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            rule = "Only one of avg_fn and multi_avg_fn should be provided"
            raise error(AssertionError, "AveragedModel", rule)
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes the model's present parameters into the average; buffers are copied or averaged too."""
        average, current = averaged(self.module, self.use_buffers), averaged(model, self.use_buffers)
        count = self.n_averaged
        if count == 0:
            for mean, new in zip(average, current, strict=False):
                mean.copy_(new)
        elif self.avg_fn is not None:
            for mean, new in zip(average, current, strict=True):
                mean.copy_(self.avg_fn(mean, new, count))
        else:
            for means, news in by_dtype(average, current):
                (self.multi_avg_fn or get_swa_multi_avg_fn())(means, news, count)
        if not self.use_buffers:
            for mean, new in zip(self.module.buffers(), model.buffers(), strict=True):
                mean.detach().copy_(new.detach())
        self.n_averaged += 1


def averaged(model: Module, use_buffers: bool) -> list[Tensor]:
    """The tensors that are averaged, without their histories."""
    tensors = chain(model.parameters(), model.buffers()) if use_buffers else model.parameters()
    return [each.detach() for each in tensors]


def by_dtype(average: list[Tensor], current: list[Tensor]) -> Iterable[tuple[list, list]]:
    """Pairs of lists whose averages have one dtype, as averaging functions for lists expect."""
    groups: dict[Any, tuple[list, list]] = {}
    for mean, new in zip(average, current, strict=True):
        means, news = groups.setdefault(mean.dtype, ([], []))
        means.append(mean)
        news.append(new)
    return groups.values()


@no_grad()
def update_bn(loader: Iterable, model: Module, device: Any = None) -> None:
    """Computes the running statistics of batch norms anew, in one pass over the data."""
    norms = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not norms:
        return
    was_training = model.training
    model.train()
    for module in norms:
        module.reset_running_stats()
        module.momentum = None
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for module, momentum in norms.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the learning rate of each group to `swa_lr`, and stays there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ):
        for group, rate in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            rule = f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            raise error(ValueError, "SWALR", rule)
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            rule = f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
            raise error(ValueError, "SWALR", rule)
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, share: float) -> float:
        """How much of the way to swa_lr is gone after a share of the epochs."""
        return share if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * share)) / 2

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        length = max(1, self.anneal_epochs)
        before = self.anneal_func(max(0, min(1, (step - 1) / length)))
        now = self.anneal_func(max(0, min(1, step / length)))
        rates = []
        for group in self.optimizer.param_groups:
            goal, rate = group["swa_lr"], group["lr"]
            first = goal if before == 1 else (rate - before * goal) / (1 - before)
            rates.append(goal * now + first * (1 - now))
        return rates

    def state_dict(self) -> dict[str, Any]:
        return without(vars(self), "optimizer", "anneal_func")
