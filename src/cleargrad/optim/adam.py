"""Adam (Kingma and Ba 2015), with AMSGrad (Reddi et al. 2018) and decoupled weight decay as options.

Read next: optim/adamw.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.optim.optimizer import name_of
from cleargrad.optim.rule import (
    RuleOptimizer,
    averages,
    check,
    check_betas,
    check_fused,
    check_lr,
    check_not_negative,
    descent,
    steps,
)


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², p ← p − lr m̂ / (√v̂ + ε)."""
    lr, (beta1, beta2) = group["lr"], group["betas"]
    m, v, t = state["exp_avg"], state["exp_avg_sq"], steps(state)
    g = descent(p, g, group)
    m.lerp_(g, 1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    if group["amsgrad"]:
        v = state["max_exp_avg_sq"].clamp_min_(v)
    # m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ), with the corrections moved out of the tensors.
    root = (1 - beta2**t) ** 0.5
    p.addcdiv_(m, v.sqrt() + group["eps"] * root, value=-lr * root / (1 - beta1**t))


class Adam(RuleOptimizer):
    """Adaptive moment estimation."""

    _update = staticmethod(update)
    _LATER_OPTIONS = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ):
        by_lists = bool(foreach) and not capturable
        check_scalar("lr", lr, by_lists)
        check_lr("Adam", lr)
        check_not_negative("Adam", eps=eps)
        check_betas("Adam", betas)
        check_not_negative("Adam", weight_decay=weight_decay)
        alike = all(isinstance(beta, float) for beta in betas) or all(isinstance(b, Tensor) for b in betas)
        check("Adam", alike, "betas must be either both floats or both Tensors")
        for index in range(2):
            check_scalar(f"betas[{index}]", betas[index], by_lists)
        defaults = {
            "lr": lr,
            "betas": tuple(beta.squeeze() if isinstance(beta, Tensor) else beta for beta in betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_fused("Adam", fused, foreach, differentiable)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        return averages(p, *names[: 3 if group["amsgrad"] else 2])

    def _step_group(self, group: dict[str, Any]) -> None:
        if group["foreach"] and isinstance(group["lr"], Tensor) and not group["capturable"]:
            rule = "lr as a Tensor is not supported for capturable=False and foreach=True"
            raise error(RuntimeError, name_of(self), rule)
        super()._step_group(group)


def check_scalar(name: str, value: Any, by_lists: bool) -> None:
    if isinstance(value, Tensor):
        check(
            "Adam", not by_lists, f"{name} as a Tensor is not supported for capturable=False and foreach=True"
        )
        check("Adam", value.numel() == 1, f"Tensor {name} must be 1-element")
