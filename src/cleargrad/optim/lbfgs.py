"""LBFGS (Liu and Nocedal 1989): Newton's direction from the last steps and changes of the gradient.

All parameters are one long vector. Read next: optim/line_search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cleargrad.autograd.modes import enable_grad, no_grad
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.complex_numbers import view_as_real
from cleargrad.ops.creation import zeros_like
from cleargrad.ops.joining import cat
from cleargrad.optim.line_search import Trial, strong_wolfe
from cleargrad.optim.optimizer import Optimizer
from cleargrad.optim.rule import check, check_lr

KEPT = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class LBFGS(Optimizer):
    """Limited-memory BFGS; `step` needs a closure and may call it up to `max_eval` times."""

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ):
        check_lr("LBFGS", lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        rule = "LBFGS doesn't support per-parameter options (parameter groups)"
        check("LBFGS", len(self.param_groups) == 1, rule)

    @property
    def _params(self) -> list[Any]:
        """The parameters, under the name by which programs find them in PyTorch's."""
        return self.param_groups[0]["params"]

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations; returns the loss before the first."""
        group, closure = self.param_groups[0], enable_grad()(closure)
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, grad, evaluations = float(first_loss), flat_gradient(group["params"]), 1
        state["func_evals"] += 1
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        memory = {key: state.get(key) for key in KEPT}
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = direction(grad, memory, state, group["history_size"])
            t = float(group["lr"])
            if state["n_iter"] == 1:
                t *= min(1.0, 1.0 / grad.abs().sum().item())
            memory.update(d=d, t=t, prev_flat_grad=grad.clone(), prev_loss=loss)
            slope = grad.dot(d).item()
            if slope > -group["tolerance_change"]:
                break
            start = Trial(0.0, loss, grad, slope)
            last = iteration == group["max_iter"]
            trial, made = self._advance(closure, start, d, t, group["max_eval"] - evaluations, last)
            loss, grad, memory["t"] = trial.loss, trial.grad, trial.step
            evaluations += made
            state["func_evals"] += made
            if last or evaluations >= group["max_eval"] or self._converged(trial, d, memory["prev_loss"]):
                break
        state.update(memory)
        return first_loss

    def _advance(
        self, closure: Callable, start: Trial, d: Tensor, t: float, limit: int, last: bool
    ) -> tuple[Trial, int]:
        """Moves the parameters along the direction; the trial that is kept, and how many were made."""
        group = self.param_groups[0]
        params = group["params"]
        if group["line_search_fn"] is None:
            move(params, d, t)
            if last:  # nobody would look at the loss
                return start._replace(step=t), 0
            return Trial(t, float(closure()), flat_gradient(params), 0.0), 1
        if group["line_search_fn"] != "strong_wolfe":
            raise error(RuntimeError, "LBFGS", "only 'strong_wolfe' is supported")
        origin = [p.clone() for p in params]

        def attempt(step: float) -> Trial:
            move(params, d, step)
            loss, grad = float(closure()), flat_gradient(params)
            for p, before in zip(params, origin, strict=True):
                p.copy_(before)
            return Trial(step, loss, grad, grad.dot(d).item())

        trial, made = strong_wolfe(attempt, start, t, d.abs().max().item(), 1e-9, limit)
        move(params, d, trial.step)
        return trial, made

    def _converged(self, trial: Trial, d: Tensor, before: float) -> bool:
        group = self.param_groups[0]
        if trial.grad.abs().max() <= group["tolerance_grad"]:
            return True
        moved = (d * trial.step).abs().max().item()
        return moved <= group["tolerance_change"] or abs(trial.loss - before) < group["tolerance_change"]


def direction(grad: Tensor, memory: dict[str, Any], state: dict[str, Any], history_size: int) -> Tensor:
    """−H g, by the two-loop recursion: H is the inverse Hessian that the remembered steps suggest."""
    if state["n_iter"] == 1:
        memory.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return -grad
    remember(grad, memory, history_size)
    changes, moves, ro = memory["old_dirs"], memory["old_stps"], memory["ro"]
    weights = state.setdefault("al", [None] * history_size)
    q = -grad
    for i in reversed(range(len(changes))):
        weights[i] = moves[i].dot(q) * ro[i]
        q.add_(changes[i], alpha=-weights[i].item())
    q = q * memory["H_diag"]
    for i in range(len(changes)):
        q.add_(moves[i], alpha=(weights[i] - changes[i].dot(q) * ro[i]).item())
    return q


def remember(grad: Tensor, memory: dict[str, Any], history_size: int) -> None:
    """Notes the last step s and the change y of the gradient over it, when the curvature y·s is positive."""
    y, s = grad - memory["prev_flat_grad"], memory["d"] * memory["t"]
    curvature = y.dot(s)
    if curvature > 1e-10:
        pasts, notes = [memory[key] for key in ("old_dirs", "old_stps", "ro")], (y, s, 1.0 / curvature)
        for past, note in zip(pasts, notes, strict=True):
            if len(past) == history_size:
                past.pop(0)
            past.append(note)
        memory["H_diag"] = curvature / y.dot(y)


def flat_gradient(params: list[Tensor]) -> Tensor:
    grads = [zeros_like(p) if p.grad is None else p.grad for p in params]
    return cat([as_real(grad).reshape(-1) for grad in grads])


def move(params: list[Tensor], d: Tensor, step: float) -> None:
    """p ← p + step d."""
    first = 0
    for p in map(as_real, params):
        p.add_(d[first : first + p.numel()].view_as(p), alpha=step)
        first += p.numel()


def as_real(x: Tensor) -> Tensor:
    return view_as_real(x) if x.is_complex() else x
