"""Averaged stochastic gradient descent (Polyak and Juditsky 1992). Read next: optim/adafactor.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.ops.creation import zeros_like
from cleargrad.optim.optimizer import scalar
from cleargrad.optim.rule import RuleOptimizer, check_lr, check_not_negative, counter, descent, larger, steps


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """p ← (1 − λ η) p − η g, a ← a + μ (p − a)."""
    eta = counter(state["eta"])
    g = descent(p, g, group)
    p.mul_(1 - group["lambd"] * eta).add_(g, alpha=-eta)
    state["ax"].lerp_(p, counter(state["mu"]))


class ASGD(RuleOptimizer):
    """Gradient descent that also keeps the average of its recent points, `ax`."""

    _update = staticmethod(update)
    _INPUTS = ("lr", "weight_decay")
    _NUMBERS = ("step", "eta", "mu")
    _LATER_OPTIONS = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        check_lr("ASGD", lr)
        check_not_negative("ASGD", weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = float(group["lr"])
        return {"step": scalar(0.0), "eta": scalar(lr), "mu": scalar(1.0), "ax": zeros_like(p)}

    def _apply(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """For the next step, η = lr / (1 + λ lr t)^α and μ = 1 / max(1, t − t₀)."""
        super()._apply(p, g, state, group)
        lr, t = group["lr"], steps(state)
        state["eta"].fill_(lr / (1 + group["lambd"] * lr * t) ** group["alpha"])
        state["mu"].fill_(1 / larger(t - group["t0"], 1.0))
