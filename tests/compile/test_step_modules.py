"""Compiled steps of modules: buffers, random numbers, hooks, surgery, checkpoints and mixed precision."""

from __future__ import annotations

import numpy as np
import pytest

import cleargrad as torch
from cleargrad import nn
from tests.bits import same_bits
from tests.compile.world import World, batch, net, plain_step, programs, runs, sgd, with_optimizer


def test_batch_norm(backend):
    def make():
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        return with_optimizer(model, torch.optim.SGD, lr=0.1)

    world = World(make, plain_step, backend)
    for k in range(6):
        world.call(*batch(k), eager=k == 4)
    for made, *_ in world.sides:
        made[0].eval()
    for k in range(4):
        world.call(*batch(k))
    for made, *_ in world.sides:
        made[0].train()
    world.call(*batch(9))
    assert programs(world) == 2


def test_dropout(backend):
    def make():
        model = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
        return with_optimizer(model, torch.optim.SGD, lr=0.1)

    world = World(make, plain_step, backend)
    losses = [float(world.call(*batch(0), eager=k == 4)) for k in range(7)]
    assert len(set(losses)) == 7 and programs(world) == 1


def test_rate_of_dropout_is_a_fact(backend):
    model = nn.Dropout(0.5)
    compiled = torch.compile(lambda x: model(x).sum(), backend=backend)
    x = torch.ones(1000)
    for p in (0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.5):
        model.p = p
        assert (compiled(x).item() == 1000.0) == (p == 0.0)


def test_random_numbers_inside(backend):
    def step():
        return lambda x: (x + torch.randn(5, 6) * torch.rand(6), torch.randperm(4), x.bernoulli(0.3))

    world = World(lambda: (), step, backend)
    for k in range(5):
        world.call(batch(k)[0])


def test_tied_weights(backend):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.out = nn.Linear(4, 7, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, x):
            return self.out(self.embed(x))

    def step(model, optimizer):
        return plain_step(model, optimizer, nn.functional.cross_entropy)

    world = World(lambda: with_optimizer(Tied(), torch.optim.Adam, lr=0.01), step, backend)
    rng = np.random.default_rng(0)
    for _ in range(5):
        world.call(torch.tensor(rng.integers(0, 7, 9)), torch.tensor(rng.integers(0, 7, 9)))
    assert programs(world) == 1


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_modules_and_new_state(backend):
    def make():
        return nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3))

    def step(model):
        return lambda x, y: nn.functional.mse_loss(model(x), y)

    world = World(make, step, backend)
    for k in range(4):
        world.call(*batch(k))


def test_checkpoint(backend):
    from cleargrad.utils.checkpoint import checkpoint

    def make():
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))
        return with_optimizer(model, torch.optim.SGD, lr=0.1)

    def step(model, optimizer):
        def run(x, y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(checkpoint(model, x, use_reentrant=False), y)
            loss.backward()
            optimizer.step()
            return loss

        return run

    world = World(make, step, backend)
    for k in range(5):
        world.call(*batch(k))
    assert programs(world) == 1


def test_hooks(backend):
    def make():
        model, optimizer = sgd()()
        model[0].weight.register_hook(lambda g: g * 2)
        model[1].register_forward_hook(lambda module, args, out: out + 0.1)
        model[2].register_full_backward_hook(lambda module, given, out: (given[0] * 0.5,))
        return model, optimizer

    world = World(make, plain_step, backend)
    for k in range(5):
        world.call(*batch(k))
    ran = runs(world.compiled)
    assert ran >= 4
    handles = [
        made[0][1].register_forward_hook(lambda module, args, out: out * 2) for made, *_ in world.sides
    ]
    for k in range(3):
        world.call(*batch(k))
    for handle in handles:
        handle.remove()
    world.call(*batch(0))
    assert runs(world.compiled) > ran


def test_surgery(backend):
    world = World(sgd(), plain_step, backend)
    for k in range(3):
        world.call(*batch(k))
    for made, *_ in world.sides:
        made[0][1] = nn.ReLU()
    for k in range(3):
        world.call(*batch(k))
    for made, *_ in world.sides:
        made[0][0].requires_grad_(False)
    for k in range(3):
        world.call(*batch(k))
    for made, *_ in world.sides:
        made[0].load_state_dict({name: value * 0.5 for name, value in made[0].state_dict().items()})
    world.call(*batch(0))
    for made, *_ in world.sides:
        for p in made[0].parameters():
            p.data = p.data * 1.5
    world.call(*batch(0))
    assert runs(world.compiled) >= 2


def test_checkpoint_of_an_optimizer_is_loaded(backend):
    world = World(lambda: with_optimizer(net(), torch.optim.Adam, lr=0.01), plain_step, backend)
    for k in range(4):
        world.call(*batch(k))
    import copy

    for made, *_ in world.sides:
        made[1].load_state_dict(copy.deepcopy(made[1].state_dict()))
    for k in range(4):
        world.call(*batch(k))


# Mixed precision -------------------------------------------------------------------------------------------


def scaled_step(clip, narrow):
    def step(model, optimizer, scaler):
        def run(x, y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
                loss = nn.functional.mse_loss(model(x).float(), y)
            scaler.scale(loss).backward()
            if clip:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            return loss

        return run

    return step


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("kind, narrow", [("SGD", False), ("SGD", True), ("Adam", False)])
def test_grad_scaler(backend, clip, kind, narrow):
    def make():
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
        return *with_optimizer(net(), getattr(torch.optim, kind), lr=0.01), scaler

    world = World(make, scaled_step(clip, narrow), backend)
    for k in range(10):
        x, y = batch(k)
        if k in (4, 5, 7):
            x[0, 0] = float("inf")
        world.call(x, y)
        skipped = [made[2].step_was_skipped(made[1]) for made, *_ in world.sides]
        assert skipped == [k in (4, 5, 7)] * 2
    assert runs(world.compiled) >= 5


def test_autocast_around(backend):
    world = World(lambda: net(), lambda model: lambda x: model(x).float().sum(), backend)
    for k in range(4):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = world.sides[0][1](batch(k)[0]), world.sides[1][1](batch(k)[0])
        same_bits(out[1], out[0])
        for made, *_ in world.sides:
            with torch.no_grad():
                made[0][0].weight.mul_(1.5)
    for k in range(3):
        world.call(batch(k)[0])
