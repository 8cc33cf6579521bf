"""All schedules agree with PyTorch to the last digit: 60 steps, a checkpoint in the middle, both ways."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cleargrad as cg
from tests.optim.both import parameters

Make = Callable[[Any, Any], Any]


class Halving:
    """A callable object: a checkpoint keeps its attributes."""

    def __init__(self, factor: float = 0.5):
        self.factor = factor

    def __call__(self, epoch: int) -> float:
        return self.factor ** (epoch / 10)


SCHEDULES: dict[str, Make] = {
    "LambdaLR": lambda S, o: S.LambdaLR(o, lambda epoch: 0.95**epoch),
    "LambdaLR-list": lambda S, o: S.LambdaLR(o, [Halving(), lambda epoch: 1 / (epoch + 1)]),
    "MultiplicativeLR": lambda S, o: S.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda S, o: S.StepLR(o, 7, 0.3),
    "MultiStepLR": lambda S, o: S.MultiStepLR(o, [5, 12, 12, 40], 0.7),
    "ConstantLR": lambda S, o: S.ConstantLR(o, 0.4, 9),
    "LinearLR": lambda S, o: S.LinearLR(o, 0.25, 0.8, 20),
    "ExponentialLR": lambda S, o: S.ExponentialLR(o, 0.97),
    "PolynomialLR": lambda S, o: S.PolynomialLR(o, 33, 0.9),
    "CosineAnnealingLR": lambda S, o: S.CosineAnnealingLR(o, 13, 0.001),
    "CosineAnnealingWarmRestarts": lambda S, o: S.CosineAnnealingWarmRestarts(o, 5, 2, 0.001),
    "CyclicLR": lambda S, o: S.CyclicLR(o, 0.01, 0.1, 7, 11),
    "CyclicLR-triangular2": lambda S, o: S.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 6, mode="triangular2"),
    "CyclicLR-exp_range": lambda S, o: S.CyclicLR(o, 0.01, 0.1, 6, mode="exp_range", gamma=0.98),
    "CyclicLR-scale_fn": lambda S, o: S.CyclicLR(o, 0.01, 0.1, 6, scale_fn=Halving(), cycle_momentum=False),
    "OneCycleLR": lambda S, o: S.OneCycleLR(o, 0.3, 70),
    "OneCycleLR-three": lambda S, o: S.OneCycleLR(
        o, [0.3, 0.2], epochs=7, steps_per_epoch=10, three_phase=True, anneal_strategy="linear"
    ),
    "SequentialLR": lambda S, o: S.SequentialLR(
        o, [S.LinearLR(o, 0.1, total_iters=10), S.StepLR(o, 5, 0.8), S.CosineAnnealingLR(o, 20)], [10, 25]
    ),
    "SequentialLR-nested": lambda S, o: S.SequentialLR(
        o,
        [
            S.SequentialLR(o, [S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9)], [3]),
            S.StepLR(o, 4, 0.5),
        ],
        [30],
    ),
    "ChainedScheduler": lambda S, o: S.ChainedScheduler(
        [S.ConstantLR(o, 0.5, 6), S.ExponentialLR(o, 0.96), S.MultiStepLR(o, [3, 30])]
    ),
    "ReduceLROnPlateau": lambda S, o: S.ReduceLROnPlateau(o, factor=0.6, patience=3, cooldown=2),
    "ReduceLROnPlateau-max": lambda S, o: S.ReduceLROnPlateau(
        o, "max", 0.5, 2, threshold=0.05, threshold_mode="abs", min_lr=[0.02, 0.0]
    ),
}


def optimizer(lib: Any, params: list, kind: str = "SGD") -> Any:
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.05}]
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(lib.optim, kind)(groups, lr=0.1, **options)


def measurement(epoch: int) -> float:
    return 1 / (1 + epoch // 9) + 0.1 * math.sin(epoch)


def advance(lib: Any, optimizer: Any, scheduler: Any, epoch: int) -> None:
    optimizer.step()
    plateau = isinstance(scheduler, lib.optim.lr_scheduler.ReduceLROnPlateau)
    scheduler.step(measurement(epoch)) if plateau else scheduler.step()


def rates(optimizer: Any, scheduler: Any) -> list:
    keys = ("lr", "momentum", "betas", "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum")
    groups = [{key: group[key] for key in keys if key in group} for group in optimizer.param_groups]
    return [groups, scheduler.get_last_lr()]


def both(kind: str = "SGD") -> tuple:
    theirs, ours = parameters(1, (2, 2), (3,))
    return optimizer(torch, theirs, kind), optimizer(cg, ours, kind), theirs, ours


# A schedule in a schedule is stepped when it is made, and warns about it, as in PyTorch.
quietly = pytest.mark.filterwarnings("ignore:Detected call of")


@quietly
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_sixty_steps(name: str, kind: str) -> None:
    their, mine, _, _ = both(kind)
    one, other = (
        SCHEDULES[name](cg.optim.lr_scheduler, mine),
        SCHEDULES[name](torch.optim.lr_scheduler, their),
    )
    assert rates(mine, one) == rates(their, other)
    for epoch in range(60):
        advance(cg, mine, one, epoch)
        advance(torch, their, other, epoch)
        assert rates(mine, one) == rates(their, other), epoch


def plain(state: dict) -> dict:
    """A checkpoint as it comes back from a file."""
    return copy.deepcopy(state)


@quietly
@pytest.mark.parametrize("name", SCHEDULES)
def test_checkpoints_travel(name: str) -> None:
    """A run that is stopped here and resumed there, and the reverse, goes on as if nothing had happened."""
    their, mine, theirs, ours = both()
    make = SCHEDULES[name]
    one, other = make(cg.optim.lr_scheduler, mine), make(torch.optim.lr_scheduler, their)
    for epoch in range(25):
        advance(cg, mine, one, epoch)
        advance(torch, their, other, epoch)
    assert one.state_dict().keys() == other.state_dict().keys()
    new_mine, new_their = optimizer(cg, ours), optimizer(torch, theirs)
    new_one = make(cg.optim.lr_scheduler, new_mine)
    new_other = make(torch.optim.lr_scheduler, new_their)
    new_one.load_state_dict(plain(other.state_dict()))
    new_other.load_state_dict(plain(one.state_dict()))
    new_mine.load_state_dict(their.state_dict())
    new_their.load_state_dict(mine.state_dict())
    for epoch in range(25, 60):
        advance(torch, their, other, epoch)
        advance(cg, new_mine, new_one, epoch)
        advance(torch, new_their, new_other, epoch)
        assert rates(new_mine, new_one) == rates(their, other) == rates(new_their, new_other), epoch


CLOSED = ["StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR"]


@pytest.mark.parametrize("name", [*CLOSED, "CosineAnnealingLR", "LambdaLR", "CosineAnnealingWarmRestarts"])
def test_step_to_an_epoch(name: str) -> None:
    their, mine, _, _ = both()
    one, other = (
        SCHEDULES[name](cg.optim.lr_scheduler, mine),
        SCHEDULES[name](torch.optim.lr_scheduler, their),
    )
    mine.step()
    their.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epoch in (3, 17, 4, 59, 30):
            one.step(epoch)
            other.step(epoch)
            assert rates(mine, one) == rates(their, other), epoch


@pytest.mark.parametrize("name", ["StepLR", "CosineAnnealingLR", "LambdaLR", "ReduceLROnPlateau", "LinearLR"])
def test_lr_as_a_tensor(name: str) -> None:
    theirs, ours = parameters(1, (2, 2))
    results = []
    for lib, params in ((torch, theirs), (cg, ours)):
        lr = lib.tensor(0.1)
        optimizer = lib.optim.SGD(params, lr=lr)
        make = SCHEDULES[name]
        scheduler = make(lib.optim.lr_scheduler, optimizer)
        seen = []
        for epoch in range(30):
            advance(lib, optimizer, scheduler, epoch)
            seen.append(float(scheduler.get_last_lr()[0]))
        assert optimizer.param_groups[0]["lr"] is lr
        results.append(seen)
    assert results[0] == pytest.approx(results[1], rel=1e-6)


def test_resuming_at_an_epoch() -> None:
    their, mine, _, _ = both()
    for optimizer_ in (their, mine):
        for group in optimizer_.param_groups:
            group["initial_lr"] = group["lr"]
    one = cg.optim.lr_scheduler.CosineAnnealingLR(mine, 20, last_epoch=5)
    other = torch.optim.lr_scheduler.CosineAnnealingLR(their, 20, last_epoch=5)
    for epoch in range(10):
        advance(cg, mine, one, epoch)
        advance(torch, their, other, epoch)
        assert rates(mine, one) == rates(their, other)


class TestWarnings:
    def test_wrong_order(self) -> None:
        _, mine, _, _ = both()
        scheduler = cg.optim.lr_scheduler.StepLR(mine, 3)
        with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
            scheduler.step()

    def test_right_order_is_quiet(self) -> None:
        _, mine, _, _ = both()
        scheduler = cg.optim.lr_scheduler.StepLR(mine, 3)
        mine.step()
        scheduler.step()

    def test_overridden_step(self) -> None:
        _, mine, _, _ = both()
        scheduler = cg.optim.lr_scheduler.StepLR(mine, 3)
        mine.step = lambda closure=None: None
        with pytest.warns(UserWarning, match="overridden"):
            scheduler.step()

    def test_get_lr_outside_step(self) -> None:
        _, mine, _, _ = both()
        with pytest.warns(UserWarning, match="get_last_lr"):
            cg.optim.lr_scheduler.StepLR(mine, 3).get_lr()

    def test_epoch_is_deprecated(self) -> None:
        _, mine, _, _ = both()
        scheduler = cg.optim.lr_scheduler.StepLR(mine, 3)
        mine.step()
        with pytest.warns(UserWarning, match="deprecated"):
            scheduler.step(4)


BAD: dict[str, Make] = {
    "not-an-optimizer": lambda S, o: S.StepLR(3, 4),
    "no-initial-lr": lambda S, o: S.StepLR(o, 4, last_epoch=3),
    "lambdas": lambda S, o: S.LambdaLR(o, [abs]),
    "not-callable": lambda S, o: S.MultiplicativeLR(o, 3),
    "constant": lambda S, o: S.ConstantLR(o, 1.5),
    "linear-start": lambda S, o: S.LinearLR(o, 0.0),
    "linear-end": lambda S, o: S.LinearLR(o, 0.5, -1.0),
    "sequential-empty": lambda S, o: S.SequentialLR(o, [], []),
    "sequential-milestones": lambda S, o: S.SequentialLR(o, [S.StepLR(o, 1)], [4]),
    "sequential-plateau": lambda S, o: S.SequentialLR(o, [S.ReduceLROnPlateau(o)], []),
    "chained-empty": lambda S, o: S.ChainedScheduler([]),
    "chained-plateau": lambda S, o: S.ChainedScheduler([S.ReduceLROnPlateau(o)]),
    "plateau-factor": lambda S, o: S.ReduceLROnPlateau(o, factor=1.0),
    "plateau-mode": lambda S, o: S.ReduceLROnPlateau(o, "most"),
    "plateau-threshold": lambda S, o: S.ReduceLROnPlateau(o, threshold_mode="both"),
    "plateau-min-lr": lambda S, o: S.ReduceLROnPlateau(o, min_lr=[0.1]),
    "cyclic-mode": lambda S, o: S.CyclicLR(o, 0.1, 0.2, mode="square"),
    "cyclic-lengths": lambda S, o: S.CyclicLR(o, [0.1], 0.2),
    "warm-T0": lambda S, o: S.CosineAnnealingWarmRestarts(o, 0),
    "warm-Tmult": lambda S, o: S.CosineAnnealingWarmRestarts(o, 3, 1.5),
    "one-cycle-length": lambda S, o: S.OneCycleLR(o, 0.1),
    "one-cycle-steps": lambda S, o: S.OneCycleLR(o, 0.1, -4),
    "one-cycle-start": lambda S, o: S.OneCycleLR(o, 0.1, 10, pct_start=2.0),
    "one-cycle-strategy": lambda S, o: S.OneCycleLR(o, 0.1, 10, anneal_strategy="square"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors(name: str) -> None:
    their, mine, _, _ = both()
    with pytest.raises(Exception) as expected:
        BAD[name](torch.optim.lr_scheduler, their)
    with pytest.raises(expected.type):
        BAD[name](cg.optim.lr_scheduler, mine)


def test_one_cycle_ends() -> None:
    _, mine, _, _ = both()
    scheduler = cg.optim.lr_scheduler.OneCycleLR(mine, 0.1, 5)
    mine.step()
    for _ in range(5):
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 6 times"):
        scheduler.step()


def test_cycling_needs_a_momentum() -> None:
    _, ours = parameters(1, (2,))
    with pytest.raises(ValueError, match="must support momentum"):
        cg.optim.lr_scheduler.OneCycleLR(cg.optim.Adagrad(ours), 0.1, 5)


def test_schedulers_can_be_copied_and_pickled() -> None:
    _, mine, _, _ = both()
    scheduler = cg.optim.lr_scheduler.CosineAnnealingLR(mine, 7)
    mine.step()
    scheduler.step()
    for other in (copy.deepcopy(scheduler), pickle.loads(pickle.dumps(scheduler))):
        assert other.get_last_lr() == scheduler.get_last_lr()
        assert other.optimizer is not scheduler.optimizer


def test_old_base_class() -> None:
    class Mine(cg.optim.lr_scheduler._LRScheduler):
        def get_lr(self) -> list:
            return [base / (self.last_epoch + 1) for base in self.base_lrs]

    _, mine, _, _ = both()
    scheduler = Mine(mine)
    mine.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05, 0.025]
