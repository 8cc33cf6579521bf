"""Rprop (Riedmiller and Braun 1993): only the signs of gradients count. Read next: optim/asgd.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.ops.comparison import where
from cleargrad.ops.creation import full_like
from cleargrad.optim.rule import RuleOptimizer, averages, check, check_lr


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Steps grow by η₊ where the sign of g stays and shrink by η₋ where it turns; p ← p − sign(g) step.

    Where the sign turned the parameter stays, and the next comparison finds a zero.
    """
    shrink, grow = group["etas"]
    last, size = state["prev"], state["step_size"]
    if group["maximize"]:
        g = -g
    turn = (g * last).detach().sign()
    size.mul_(where(turn > 0, grow, where(turn < 0, shrink, turn + 1))).clamp_(*group["step_sizes"])
    g = where(turn < 0, 0, g)
    p.addcmul_(g.sign(), size, value=-1)
    last.copy_(g)


class Rprop(RuleOptimizer):
    """Resilient backpropagation: each element has a step of its own."""

    _update = staticmethod(update)
    _INPUTS = ()
    _LATER_OPTIONS = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        check_lr("Rprop", lr)
        check("Rprop", 0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = float(group["lr"])
        size = full_like(g, complex(lr, lr) if p.is_complex() else lr)
        return {**averages(p, "prev"), "step_size": size}
