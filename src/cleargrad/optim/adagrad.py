"""Adagrad (Duchi, Hazan and Singer 2011). Read next: optim/rmsprop.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.ops.creation import full_like
from cleargrad.optim.optimizer import scalar
from cleargrad.optim.rule import RuleOptimizer, check_fused, check_lr, check_not_negative, descent, steps


def update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """s ← s + g², p ← p − lrₜ g / (√s + ε), with lrₜ = lr / (1 + (t − 1) η)."""
    s = state["sum"]
    g = descent(p, g, group)
    lr = group["lr"] / (1 + (steps(state) - 1) * group["lr_decay"])
    s.addcmul_(g, g)
    p.addcdiv_(g, s.sqrt() + group["eps"], value=-lr)


class Adagrad(RuleOptimizer):
    """Steps divided by the root of the sum of all squared gradients."""

    _update = staticmethod(update)
    _INPUTS = ("lr", "lr_decay", "eps", "weight_decay")
    _LATER_OPTIONS = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        check_lr("Adagrad", lr)
        check_not_negative(
            "Adagrad",
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused("Adagrad", fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._start(p, p, group)

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        first = self.defaults["initial_accumulator_value"]
        return {"step": scalar(0.0), "sum": full_like(p, complex(first, first) if p.is_complex() else first)}

    def share_memory(self) -> None:
        """Lets other processes see the sums."""
        for state in self.state.values():
            state["sum"].share_memory_()
