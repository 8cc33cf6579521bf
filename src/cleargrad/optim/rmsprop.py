"""RMSprop (Hinton 2012), also centred (Graves 2013). Read next: optim/adadelta.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.optim.rule import RuleOptimizer, averages, check_lr, check_not_negative, descent, is_on


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """v ← α v + (1 − α) g², p ← p − lr g / (√v + ε); centred, v is lessened by the squared average of g."""
    lr, alpha, v = group["lr"], group["alpha"], state["square_avg"]
    g = descent(p, g, group)
    v.mul_(alpha).addcmul_(g, g, value=1 - alpha)
    if group["centered"]:
        mean = state["grad_avg"].lerp_(g, 1 - alpha)
        v = v.addcmul(mean, mean, value=-1)
    size = v.sqrt() + group["eps"]
    if is_on(group["momentum"]):
        step = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(g, size)
        p.add_(step, alpha=-lr)
    else:
        p.addcdiv_(g, size, value=-lr)


class RMSprop(RuleOptimizer):
    """Steps divided by the root of the mean of recent squared gradients."""

    _update = staticmethod(update)
    _INPUTS = ("lr", "alpha", "eps", "weight_decay", "momentum")
    _LATER_OPTIONS = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        check_lr("RMSprop", lr)
        check_not_negative("RMSprop", eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = ["square_avg"]
        if is_on(group["momentum"]):
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return averages(p, *names)
