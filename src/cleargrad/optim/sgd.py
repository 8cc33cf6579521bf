"""Stochastic gradient descent with momentum (Sutskever et al. 2013). Read next: optim/adam.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.optim.rule import (
    RuleOptimizer,
    check,
    check_fused,
    check_lr,
    check_not_negative,
    descent,
    is_on,
)


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """v ← μ v + (1 − τ) g, p ← p − lr v; with Nesterov's momentum p ← p − lr (g + μ v)."""
    g = descent(p, g, group)
    momentum = group["momentum"]
    if is_on(momentum):
        v = state["momentum_buffer"]
        if v is None:
            v = state["momentum_buffer"] = g.detach().clone()
        else:
            v.mul_(momentum).add_(g, alpha=1 - group["dampening"])
        g = g.add(v, alpha=momentum) if group["nesterov"] else v
    p.add_(g, alpha=-group["lr"])


class SGD(RuleOptimizer):
    """Stochastic gradient descent with momentum, dampening and weight decay."""

    _update = staticmethod(update)
    _LATER_OPTIONS = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }
    _NUMBERS = ()

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        check_lr("SGD", lr)
        check_not_negative("SGD", momentum=momentum, weight_decay=weight_decay)
        allowed = not nesterov or (momentum > 0 and dampening == 0)
        check("SGD", allowed, "Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused("SGD", fused, foreach, differentiable)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": None} if is_on(group["momentum"]) else {}

    def _count(self, state: dict[str, Any], group: dict[str, Any]) -> None:
        pass
