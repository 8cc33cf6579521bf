"""Adafactor (Shazeer and Stern 2018): Adam's second moment from the means of rows and columns.

Read next: optim/muon.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.dtype import finfo
from cleargrad.core.tensor import Tensor
from cleargrad.ops.creation import zeros_like
from cleargrad.optim.optimizer import scalar
from cleargrad.optim.rule import RuleOptimizer, check, counter, is_on, larger, smaller, steps


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """v ← β v + (1 − β) g², u = g / √v, p ← p − α u / max(1, RMS(u) / d), with 1 − β = t^decay.

    The step is relative to the parameter: α = min(lr, 1/√t) max(ε₂, RMS(p)).
    """
    lr, t = group["lr"], steps(state)
    eps1, eps2 = group["eps"]
    if eps1 is None:
        eps1 = finfo(p.dtype).eps
    g = -g if group["maximize"] else g
    alpha = larger(rms(p), eps2) * smaller(lr, 1 / t**0.5)
    if is_on(group["weight_decay"]):
        p.mul_(1 - lr * group["weight_decay"])
    weight = t ** group["beta2_decay"]
    if g.dim() > 1:
        v = outer_variance(g, state["row_var"], state["col_var"], weight, eps1)
    else:
        v = state["variance"].lerp_(g * g, weight)
    u = v.clamp(min=eps1 * eps1).rsqrt() * g
    p.add_(u, alpha=-alpha / larger(rms(u) / group["d"], 1.0))


def outer_variance(g: Tensor, rows: Tensor, columns: Tensor, weight: float, eps: float) -> Tensor:
    """v ≈ R C / mean(R), with R and C the running means of g² along rows and along columns."""
    rows.lerp_(g.norm(dim=-1, keepdim=True).square() / g.size(-1), weight)
    columns.lerp_(g.norm(dim=-2, keepdim=True).square() / g.size(-2), weight)
    return (rows @ columns) / rows.mean(dim=-2, keepdim=True).clamp(min=eps)


def rms(x: Tensor) -> Any:
    """The root of the mean of squares."""
    return counter(x.norm(2)) / x.numel() ** 0.5


class Adafactor(RuleOptimizer):
    """Adaptive steps whose state for a matrix is one row and one column."""

    _update = staticmethod(update)
    _INPUTS = ("lr", "weight_decay")
    _LATER_OPTIONS = {"foreach": None}
    _by_element = False
    _takes_complex = False

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ):
        if isinstance(lr, Tensor):
            check("Adafactor", lr.numel() == 1, "Tensor lr must be 1-element")
        check("Adafactor", lr >= 0.0, f"Learning rate should be >= 0 but is: {lr}")
        check("Adafactor", beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        check("Adafactor", eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        check("Adafactor", eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        check("Adafactor", d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}")
        check("Adafactor", weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if g.dim() <= 1:
            return {"step": scalar(0.0), "variance": zeros_like(g)}
        *outer, height, width = g.shape
        return {
            "step": scalar(0.0),
            "row_var": g.new_zeros([*outer, height, 1]),
            "col_var": g.new_zeros([*outer, 1, width]),
        }
