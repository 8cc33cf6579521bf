"""RAdam (Liu et al. 2020): Adam that waits until its variance can be trusted. Read next: optim/adamax.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.ops.comparison import where
from cleargrad.optim.rule import (
    RuleOptimizer,
    averages,
    check_betas,
    check_lr,
    check_not_negative,
    descent,
    larger,
    steps,
)


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Adam's averages; p ← p − lr rₜ m̂ / √v̂ once ρₜ > 5, before that p ← p − lr m̂."""
    (beta1, beta2), t = group["betas"], steps(state)
    m, v = state["exp_avg"], state["exp_avg_sq"]
    g = descent(p, g, group)
    m.lerp_(g, 1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    lr = group["lr"] / (1 - beta1**t)
    length = 2 / (1 - beta2) - 1
    seen = length - 2 * t * beta2**t / (1 - beta2**t)
    rectifier = (seen - 4) * (seen - 2) * length / ((length - 4) * (length - 2) * seen)
    scale = -lr * larger(rectifier * (1 - beta2**t), 0.0) ** 0.5
    if isinstance(seen, Tensor):  # recorded: which way to go is not known yet
        p.add_(where(seen > 5, m * scale / (v.sqrt() + group["eps"]), m * -lr))
    elif seen > 5:
        p.addcdiv_(m, v.sqrt() + group["eps"], value=scale)
    else:
        p.add_(m, alpha=-lr)


class RAdam(RuleOptimizer):
    """Adam whose step is rectified by how many gradients its variance has seen."""

    _update = staticmethod(update)
    _LATER_OPTIONS = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        check_lr("RAdam", lr)
        check_not_negative("RAdam", eps=eps)
        check_betas("RAdam", betas)
        check_not_negative("RAdam", weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return averages(p, "exp_avg", "exp_avg_sq")
