"""Averaged models and their learning rate, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import cleargrad as cg
from tests.oracle import same


def model(T: Any) -> Any:
    T.manual_seed(0)
    return T.nn.Sequential(T.nn.Linear(3, 4), T.nn.BatchNorm1d(4), T.nn.ReLU(), T.nn.Linear(4, 1))


AVERAGES = {
    "swa": lambda T: {},
    "swa-fn": lambda T: {"avg_fn": T.optim.swa_utils.get_swa_avg_fn()},
    "swa-lists": lambda T: {"multi_avg_fn": T.optim.swa_utils.get_swa_multi_avg_fn()},
    "ema-fn": lambda T: {"avg_fn": T.optim.swa_utils.get_ema_avg_fn(0.8)},
    "ema-lists": lambda T: {"multi_avg_fn": T.optim.swa_utils.get_ema_multi_avg_fn(0.8)},
    "buffers": lambda T: {"multi_avg_fn": T.optim.swa_utils.get_ema_multi_avg_fn(0.8), "use_buffers": True},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages(name: str) -> None:
    def run(T: Any) -> dict:
        net = model(T)
        averaged = T.optim.swa_utils.AveragedModel(net, **AVERAGES[name](T))
        optimizer = T.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            net(T.randn(8, 3)).pow(2).mean().backward()
            optimizer.step()
            averaged.update_parameters(net)
        T.optim.swa_utils.update_bn([T.randn(6, 3), [T.randn(6, 3), 1]], averaged)
        averaged.eval()
        return {**averaged.state_dict(), "out": averaged(T.ones(2, 3)).detach()}

    same(run, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 5])
def test_swalr(strategy: str, epochs: int) -> None:
    def run(T: Any) -> list:
        p, q = T.zeros(2, requires_grad=True), T.zeros(2, requires_grad=True)
        optimizer = T.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.3}], lr=0.1)
        make = T.optim.swa_utils.SWALR
        scheduler = make(optimizer, [0.05, 0.5], anneal_epochs=epochs, anneal_strategy=strategy)
        rates = []
        for _ in range(8):
            optimizer.step()
            scheduler.step()
            rates.append(list(scheduler.get_last_lr()))
        return [rates, sorted(scheduler.state_dict())]

    assert run(cg) == run(torch)


def test_errors() -> None:
    with pytest.raises(ValueError, match="Invalid decay"):
        cg.optim.swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(AssertionError, match="Only one"):
        cg.optim.swa_utils.AveragedModel(model(cg), avg_fn=max, multi_avg_fn=max)
    optimizer = cg.optim.SGD([cg.zeros(2)])
    for wrong in ({"anneal_strategy": "square"}, {"anneal_epochs": -1}, {"anneal_epochs": 2.5}):
        with pytest.raises(ValueError, match="anneal"):
            cg.optim.swa_utils.SWALR(optimizer, 0.1, **wrong)
