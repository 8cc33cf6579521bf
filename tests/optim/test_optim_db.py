"""Every configuration of PyTorch's optim_db: ten steps, some without gradients, agree; so do its errors."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db

import cleargrad as cg
from tests.optim.both import close, here, parameters, there

SHAPES = ((3, 5), (5, 3), (4, 4))
WITH_VECTORS = ((3, 5), (5,), ())
STEPPING = [info for info in optim_db if info.name not in ("SparseAdam", "LBFGS")]


def configurations(infos: list) -> list:
    return [
        pytest.param(info, entry.kwargs, id=f"{info.name}-{entry.desc or entry.kwargs}")
        for info in infos
        for entry in info.optim_inputs_func("cpu")
    ]


def shapes_for(info: Any) -> tuple:
    return SHAPES if info.name == "Muon" else WITH_VECTORS


def pair(info: Any, kwargs: dict, dtype: torch.dtype = torch.float32) -> tuple:
    theirs, ours = parameters(3, *shapes_for(info), dtype=dtype)
    mine = getattr(cg.optim, info.name)(ours, **here(kwargs))
    return info.optim_cls(theirs, **kwargs), mine, theirs, ours


def tolerance(info: Any, kwargs: dict) -> float:
    """Muon computes in bfloat16, whose last bit depends on the order of sums: steps agree to 1 %."""
    return 0.01 * float(kwargs.get("lr", 1e-3)) if info.name == "Muon" else 1e-7


def set_gradients(step: int, theirs: list, ours: list) -> None:
    """Gradients of both; in the middle of the run one parameter, then all, have none."""
    torch.manual_seed(100 + step)
    for number, (p, q) in enumerate(zip(theirs, ours, strict=True)):
        missing = (step == 4 and number == 1) or step == 6 or (step < 2 and number == 0)
        p.grad = None if missing else torch.randn_like(p) + 0.3 * p.detach()
        q.grad = None if missing else here(p.grad)


@pytest.mark.parametrize("info, kwargs", configurations(STEPPING))
def test_ten_steps(info: Any, kwargs: dict) -> None:
    their, mine, theirs, ours = pair(info, kwargs)
    for step in range(10):
        set_gradients(step, theirs, ours)
        their.step()
        mine.step()
        close(ours, theirs, atol=tolerance(info, kwargs) * (step + 1))
    close(mine.state_dict(), their.state_dict(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("info, kwargs", configurations(STEPPING))
def test_checkpoints_travel(info: Any, kwargs: dict) -> None:
    """Half a run there and half here, and the reverse, ends where an uninterrupted run ends."""
    their, mine, theirs, ours = pair(info, kwargs)
    for step in range(5):
        set_gradients(step, theirs, ours)
        their.step()
        mine.step()
    moved_here = getattr(cg.optim, info.name)(ours, **here(kwargs))
    moved_here.load_state_dict(here(their.state_dict()))
    copies = [there(q).requires_grad_() for q in ours]
    moved_there = info.optim_cls(copies, **kwargs)
    moved_there.load_state_dict(there(mine.state_dict()))
    for step in range(5, 10):
        set_gradients(step, theirs, ours)
        for p, copy in zip(theirs, copies, strict=True):
            copy.grad = None if p.grad is None else p.grad.clone()
        their.step()
        moved_here.step()
        moved_there.step()
    close(ours, theirs, atol=10 * tolerance(info, kwargs))
    close(here(copies), theirs, atol=10 * tolerance(info, kwargs))


COMPLEX = [info for info in STEPPING if info.supports_complex]


@pytest.mark.parametrize("info, kwargs", configurations(COMPLEX))
def test_complex_parameters(info: Any, kwargs: dict) -> None:
    their, mine, theirs, ours = pair(info, kwargs, torch.complex64)
    for step in range(4):
        set_gradients(step, theirs, ours)
        their.step()
        mine.step()
    close(ours, theirs)
    close(mine.state_dict(), their.state_dict(), rtol=1e-3, atol=1e-5)


LBFGS = [info for info in optim_db if info.name == "LBFGS"]


def quartic(a: Any, b: Any, c: Any) -> Any:
    """A bowl, steep in some directions, so that rounding does not decide where the search ends."""
    return ((a - 0.5) ** 4).sum() + ((a @ b - 1) ** 2).sum() + ((b - 1) ** 2).sum() + (c - b.sum()) ** 2


@pytest.mark.parametrize("dtype, rtol", [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.parametrize("info, kwargs", configurations(LBFGS))
def test_lbfgs(info: Any, kwargs: dict, dtype: torch.dtype, rtol: float) -> None:
    their, mine, theirs, ours = pair(info, kwargs, dtype)

    def closure(optimizer: Any, params: list) -> Any:
        def evaluate() -> Any:
            optimizer.zero_grad()
            loss = quartic(*params)
            loss.backward()
            return loss

        return evaluate

    for _ in range(10):
        one, other = mine.step(closure(mine, ours)), their.step(closure(their, theirs))
        close(one.detach(), other.detach(), rtol)
    close(ours, theirs, rtol, atol=rtol)
    one, other = mine.state[ours[0]], their.state[theirs[0]]
    assert one.keys() == other.keys()
    if dtype == torch.float64:
        assert (one["func_evals"], one["n_iter"]) == (other["func_evals"], other["n_iter"])
        resumed = info.optim_cls([there(q).requires_grad_() for q in ours], **kwargs)
        resumed.load_state_dict(there(mine.state_dict()))
        mine.load_state_dict(here(their.state_dict()))
        params = resumed.param_groups[0]["params"]
        losses = [mine.step(closure(mine, ours)), resumed.step(closure(resumed, params))]
        close(losses[0].detach(), losses[1].detach(), 1e-6)


def error_inputs() -> list:
    return [
        pytest.param(info, entry, id=f"{info.name}-{entry.optimizer_error_input.desc}")
        for info in optim_db
        for entry in info.optim_error_inputs_func("cpu", torch.float32)
        if "dense params required" not in entry.optimizer_error_input.desc  # there are no sparse tensors
    ]


def parameter_here(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        mine = here(value).requires_grad_()
        mine.grad = None if value.grad is None else here(value.grad)
        return mine
    return value


def same_here(value: Any, seen: dict) -> Any:
    """As `here`, but the same parameter twice stays the same parameter twice."""
    if isinstance(value, torch.Tensor):
        return seen.setdefault(id(value), parameter_here(value))
    if isinstance(value, dict):
        return {key: same_here(part, seen) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(same_here(part, seen) for part in value)
    return value


@pytest.mark.parametrize("info, entry", error_inputs())
def test_errors(info: Any, entry: Any) -> None:
    given = entry.optimizer_error_input
    params = given.params if given.params is not None else [torch.randn(2, 3).requires_grad_()]
    params = same_here(params, {})
    make = getattr(cg.optim, info.name)
    if entry.error_type is UserWarning:
        with pytest.warns(UserWarning, match=entry.error_regex):
            make(params, **here(given.kwargs))
        return
    if entry.error_on is OptimizerErrorEnum.CONSTRUCTION_ERROR:
        with pytest.raises(entry.error_type, match=entry.error_regex):
            make(params, **here(given.kwargs))
        return
    optimizer = make(params, **here(given.kwargs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(entry.error_type, match=entry.error_regex):
            optimizer.step()
