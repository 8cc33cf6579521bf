"""Muon (Jordan 2024): momentum whose singular values are all brought to about one.

Read next: optim/lbfgs.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.ops.creation import zeros_like
from cleargrad.ops.matmul import addmm
from cleargrad.optim.rule import RuleOptimizer, check


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """m ← μ m + (1 − μ) g, p ← (1 − lr λ) p − lr′ orthogonal(m); Nesterov takes (1 − μ) g + μ m for m."""
    lr, momentum = group["lr"], group["momentum"]
    m = state["momentum_buffer"].lerp_(g, 1 - momentum)
    step = g.lerp(m, momentum) if group["nesterov"] else m
    step = orthogonal(step, group["ns_coefficients"], group["ns_steps"], group["eps"])
    p.mul_(1 - lr * group["weight_decay"])
    p.add_(step, alpha=-adjusted(lr, group["adjust_lr_fn"], *p.shape))


def orthogonal(x: Tensor, coefficients: tuple, iterations: int, eps: float) -> Tensor:
    """Newton–Schulz in bfloat16: x ← a x + (b x xᵀ + c (x xᵀ)²) x, which drives singular values to one."""
    check("Muon", iterations < 100, "Number of steps must be less than 100 for computational efficiency")
    check("Muon", x.ndim == 2, "Input tensor gradient must be a 2D matrix")
    check("Muon", len(coefficients) == 3, "Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = x.size(0) > x.size(1)
    x = x.bfloat16()
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(iterations):
        gram = x @ x.T
        gram = addmm(gram, gram, gram, beta=b, alpha=c)
        x = addmm(x, gram, x, beta=a)
    return x.T if tall else x


def adjusted(lr: Any, how: str | None, height: int, width: int) -> Any:
    """The learning rate for a matrix of this shape, so that its elements move by about as much."""
    if how == "match_rms_adamw":
        return lr * (0.2 * math.sqrt(max(height, width)))
    return lr * math.sqrt(max(1, height / width))


class Muon(RuleOptimizer):
    """Orthogonalised momentum for the matrices of hidden layers."""

    _update = staticmethod(update)
    _INPUTS = ("lr", "weight_decay", "momentum")
    _NUMBERS = ()
    _by_element = False
    _takes_complex = False

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ):
        if isinstance(lr, Tensor):
            check("Muon", lr.numel() == 1, "Tensor lr must be 1-element")
        check("Muon", lr >= 0.0, f"Learning rate should be >= 0 but is: {lr}")
        check("Muon", momentum >= 0.0, f"momentum should be >= 0 but is: {momentum}")
        check("Muon", weight_decay >= 0.0, f"weight decay should be >= 0 but is: {weight_decay}")
        known = adjust_lr_fn in (None, "original", "match_rms_adamw")
        check("Muon", known, f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                rule = "Muon only supports 2D parameters whereas we found a parameter with size: "
                check("Muon", p.ndim == 2, rule + str(p.size()))

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": zeros_like(g)}

    def _count(self, state: dict[str, Any], group: dict[str, Any]) -> None:
        pass
