"""Adamax (Kingma and Ba 2015, section 7.1): Adam with the infinity norm. Read next: optim/adagrad.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.optim.rule import (
    RuleOptimizer,
    averages,
    check_betas,
    check_lr,
    check_not_negative,
    descent,
    steps,
)


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """m ← β₁ m + (1 − β₁) g, u ← max(β₂ u, |g| + ε), p ← p − lr / (1 − β₁ᵗ) m / u."""
    beta1, beta2 = group["betas"]
    m, u = state["exp_avg"], state["exp_inf"]
    g = descent(p, g, group)
    m.lerp_(g, 1 - beta1)
    u.mul_(beta2).clamp_min_(g.abs() + group["eps"])
    p.addcdiv_(m, u, value=-group["lr"] / (1 - beta1 ** steps(state)))


class Adamax(RuleOptimizer):
    """Adam whose steps are divided by the largest recent gradient."""

    _update = staticmethod(update)
    _LATER_OPTIONS = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        check_lr("Adamax", lr)
        check_not_negative("Adamax", eps=eps)
        check_betas("Adamax", betas)
        check_not_negative("Adamax", weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return averages(p, "exp_avg", "exp_inf")
