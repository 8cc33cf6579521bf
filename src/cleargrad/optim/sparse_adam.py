"""SparseAdam: Adam for gradients that are sparse tensors, which cleargrad does not have.

It can be made, checkpointed and refuses dense gradients, as PyTorch's does. Read next: optim/lr_scheduler.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cleargrad.autograd.modes import enable_grad
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.optim.optimizer import Optimizer
from cleargrad.optim.rule import check, check_betas


class SparseAdam(Optimizer):
    """Adam that only visits the rows a sparse gradient names."""

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ):
        if isinstance(lr, Tensor):
            check("SparseAdam", lr.numel() == 1, "Tensor lr must be 1-element")
        check("SparseAdam", lr > 0.0, f"Invalid learning rate: {lr}")
        check("SparseAdam", eps > 0.0, f"Invalid epsilon value: {eps}")
        check_betas("SparseAdam", betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [
            ([i, j], p) for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])
        ]
        sparse = [place for place, p in places if p.is_sparse]
        complex_ = [place for place, p in places if p.is_complex()]
        rule = f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
        check("SparseAdam", not sparse, rule)
        rule = f"Complex params at indices {complex_}: SparseAdam does not support complex parameters"
        check("SparseAdam", not complex_, rule)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Refuses every gradient, since all are dense; returns the closure's loss, if there is one."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            if any(p.grad is not None for p in group["params"]):
                rule = "SparseAdam does not support dense gradients, please consider Adam instead"
                raise error(RuntimeError, "SparseAdam", rule, fix="use Adam")
        return loss
