"""Adadelta (Zeiler 2012): steps in the units of the parameter. Read next: optim/rprop.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.optim.rule import RuleOptimizer, averages, check, check_lr, check_not_negative, descent


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """v ← ρ v + (1 − ρ) g², Δ = √((u + ε) / (v + ε)) g, u ← ρ u + (1 − ρ) Δ², p ← p − lr Δ."""
    rho, eps = group["rho"], group["eps"]
    v, u = state["square_avg"], state["acc_delta"]
    g = descent(p, g, group)
    v.mul_(rho).addcmul_(g, g, value=1 - rho)
    delta = ((u + eps) / (v + eps)).sqrt() * g
    u.mul_(rho).addcmul_(delta, delta, value=1 - rho)
    p.add_(delta, alpha=-group["lr"])


class Adadelta(RuleOptimizer):
    """Steps scaled by the ratio of past steps to past gradients."""

    _update = staticmethod(update)
    _INPUTS = ("lr", "rho", "eps", "weight_decay")
    _LATER_OPTIONS = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        check_lr("Adadelta", lr)
        check("Adadelta", 0.0 <= rho <= 1.0, f"Invalid rho value: {rho}")
        check_not_negative("Adadelta", eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return averages(p, "square_avg", "acc_delta")
