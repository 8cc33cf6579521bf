"""Compiled steps with every optimizer: options are read at every call, state goes on where it was."""

from __future__ import annotations

import pytest

import cleargrad as torch
from cleargrad import nn
from tests.compile.world import World, batch, net, plain_step, programs, runs, sgd, with_optimizer

OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.01}),
    ("NAdam", {"lr": 0.01}),
    ("RAdam", {"lr": 0.01, "betas": (0.9, 0.9)}),
    ("Adamax", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}),
    ("Adadelta", {"lr": 1.0}),
    ("Rprop", {"lr": 0.01}),
    ("ASGD", {"lr": 0.1, "t0": 3, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.1}),
]


@pytest.mark.parametrize("name, options", OPTIMIZERS, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_every_optimizer(backend, name, options):
    world = World(lambda: with_optimizer(net(), getattr(torch.optim, name), **options), plain_step, backend)
    for k in range(8):
        world.call(*batch(k), eager=k == 4)
    assert programs(world) == 1


def test_muon(backend):
    def make():
        model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 3, bias=False))
        return with_optimizer(model, torch.optim.Muon, lr=0.01)

    world = World(make, plain_step, backend)
    for k in range(5):
        world.call(*batch(k))
    assert programs(world) == 1


def test_learning_rate_is_read_at_every_call(backend):
    world = World(sgd(momentum=0.9), plain_step, backend)
    schedulers = [
        torch.optim.lr_scheduler.OneCycleLR(made[1], 0.5, total_steps=12) for made, *_ in world.sides
    ]
    for k in range(10):
        world.call(*batch(k))
        for scheduler in schedulers:
            scheduler.step()
    assert programs(world) == 1


def test_options_by_hand(backend):
    world = World(lambda: with_optimizer(net(), torch.optim.Adam, lr=0.01), plain_step, backend)
    for k in range(12):
        for made, *_ in world.sides:
            group = made[1].param_groups[0]
            group["lr"] = 0.0 if k == 5 else 0.01 / (k + 1)
            group["betas"] = (0.9 - 0.02 * k, 0.99)
            group["weight_decay"] = 0.0 if k < 7 else 0.05
        world.call(*batch(k))
    assert programs(world) == 2  # with and without decay


def test_learning_rate_as_a_tensor(backend):
    world = World(lambda: with_optimizer(net(), torch.optim.SGD, lr=torch.tensor(0.1)), plain_step, backend)
    for k in range(6):
        world.call(*batch(k))
        for made, *_ in world.sides:
            made[1].param_groups[0]["lr"].mul_(0.5)
    assert programs(world) == 1


def test_scheduler_inside(backend):
    def step(model, optimizer):
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        inner = plain_step(model, optimizer)

        def both(x, y):
            loss = inner(x, y)
            scheduler.step()
            return loss

        return both

    world = World(sgd(), step, backend)
    for k in range(6):
        world.call(*batch(k))
    assert programs(world) == 1 and runs(world.compiled) >= 2


def test_two_optimizers_and_groups(backend):
    def make():
        model = net()
        one = torch.optim.SGD(
            [{"params": [model[0].weight]}, {"params": [model[0].bias], "lr": 0.5, "momentum": 0.5}], lr=0.1
        )
        return model, one, torch.optim.Adam(model[2].parameters(), lr=0.01)

    def step(model, one, two):
        def run(x, y):
            one.zero_grad()
            two.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            one.step()
            two.step()
            return loss

        return run

    world = World(make, step, backend)
    for k in range(6):
        world.call(*batch(k), eager=k == 3)
    assert programs(world) == 2  # one up to the step of each


def test_an_optimizer_of_the_users_own(backend):
    class Own(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad, alpha=-group["lr"])

    world = World(lambda: with_optimizer(net(), Own, lr=0.1), plain_step, backend)
    for k in range(6):
        if k == 4:
            for made, *_ in world.sides:
                made[1].param_groups[0]["lr"] = 0.01
        world.call(*batch(k))
    assert programs(world) == 2


def test_options_in_a_list_that_is_changed() -> None:
    """Nobody assigns the option anew, and the next step takes the new number all the same."""
    found = []
    for compiled in (False, True):
        betas = [0.9, 0.999]
        p = torch.nn.Parameter(torch.ones(4))
        optimizer = torch.optim.Adam([p], lr=0.1)
        optimizer.param_groups[0]["betas"] = betas

        def step(x, p=p, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (p * x).sum()
            loss.backward()
            optimizer.step()

        step = torch.compile(step) if compiled else step
        for k in range(12):
            betas[0] = 0.5 if k >= 7 else 0.9
            step(torch.arange(4.0) * (k + 1))
        found.append(p.tolist())
    assert found[0] == found[1]
