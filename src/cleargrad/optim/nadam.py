"""NAdam (Dozat 2016): Adam with Nesterov's momentum. Read next: optim/radam.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.optim.optimizer import scalar
from cleargrad.optim.rule import (
    RuleOptimizer,
    averages,
    check_betas,
    check_lr,
    check_not_negative,
    counter,
    descent,
    steps,
)


def momentum(t: Any, group: dict[str, Any]) -> Any:
    """μₜ = β₁ (1 − 0.96^(t ψ) / 2), which grows towards β₁."""
    return group["betas"][0] * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"]))


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Adam's averages; p ← p − lr (μₜ₊₁ m / (1 − Πᵗ⁺¹μ) + (1 − μₜ) g / (1 − Πᵗμ)) / (√v̂ + ε)."""
    lr, (beta1, beta2), t = group["lr"], group["betas"], steps(state)
    m, v, product = state["exp_avg"], state["exp_avg_sq"], counter(state["mu_product"])
    now, ahead = momentum(t, group), momentum(t + 1, group)
    g = descent(p, g, group)
    m.lerp_(g, 1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    step = (m * (lr * ahead / (1 - product * ahead))).add_(g, alpha=lr * (1 - now) / (1 - product))
    p.sub_(step / ((v / (1 - beta2**t)).sqrt() + group["eps"]))


class NAdam(RuleOptimizer):
    """Adam that looks one step of momentum ahead."""

    _update = staticmethod(update)
    _INPUTS = ("lr", "betas", "eps", "weight_decay", "momentum_decay")
    _NUMBERS = ("step", "mu_product")
    _LATER_OPTIONS = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        check_lr("NAdam", lr)
        check_not_negative("NAdam", eps=eps)
        check_betas("NAdam", betas)
        check_not_negative("NAdam", weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        step, *others = averages(p, "exp_avg", "exp_avg_sq").items()
        return dict([step, ("mu_product", scalar(1.0)), *others])

    def _count(self, state: dict[str, Any], group: dict[str, Any]) -> None:
        super()._count(state, group)
        product, factor = state["mu_product"], momentum(steps(state), group)
        product.mul_(factor.to(product.dtype) if isinstance(factor, Tensor) else factor)
