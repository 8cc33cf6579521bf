"""What compiled steps do to `.grad`: clearing, accumulation inside and across calls, clipping, penalties."""

from __future__ import annotations

import pytest

import cleargrad as torch
from cleargrad import nn
from tests.compile.world import World, batch, programs, runs, sgd, with_optimizer


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("when", ["start", "end", "never"])
def test_zero_grad(backend, set_to_none, when):
    def step(model, optimizer):
        def run(x, y):
            if when == "start":
                optimizer.zero_grad(set_to_none)
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            if when == "end":
                model.zero_grad(set_to_none)
            return loss.detach()

        return run

    world = World(sgd(), step, backend)
    for k in range(8):
        if k == 5:
            for made, *_ in world.sides:
                made[1].zero_grad()
        world.call(*batch(k), eager=k == 3)
    assert runs(world.compiled) >= 2


def test_a_loss_that_can_be_walked_again(backend):
    def step(model, optimizer):
        def run(x, y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward(retain_graph=True)
            optimizer.step()
            return loss

        return run

    world = World(lambda: with_optimizer(nn.Linear(6, 3), torch.optim.SGD, lr=0.1), step, backend)
    for k in range(5):
        world.call(*batch(k))
    assert programs(world) == 1


def test_a_leaf_of_the_calls_own(backend):
    @torch.compile(backend=backend)
    def step(x):
        leaf = (x * 2).requires_grad_()
        return leaf, leaf * 3

    for k in range(4):
        leaf, out = step(torch.full((2,), float(k)))
        assert leaf.is_leaf and out.requires_grad and out.tolist() == [6.0 * k] * 2
        out.sum().backward()
        assert leaf.grad.tolist() == [3.0, 3.0]
    assert runs(step) == 2


def test_accumulation_inside(backend):
    def step(model, optimizer):
        def run(x, y):
            optimizer.zero_grad()
            total = torch.zeros(())
            for part, wanted in zip(x.split(2), y.split(2)):
                loss = nn.functional.mse_loss(model(part), wanted) / 2
                loss.backward()
                total += loss.detach()
            optimizer.step()
            return total

        return run

    world = World(sgd(momentum=0.9), step, backend)
    for k in range(5):
        world.call(*batch(k, rows=4))
    assert programs(world) == 1


def test_accumulation_across_calls(backend):
    """A step that only accumulates and one that also updates share the gradients."""

    def step(model, optimizer):
        def run(x, y, last):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
            return loss.item()

        return run

    world = World(sgd(momentum=0.9), step, backend)
    for k in range(24):
        world.call(*batch(k), k % 4 == 3, eager=k in (13, 15))
    assert runs(world.compiled) >= 8


def test_gradient_keeps_its_identity(backend):
    w = torch.ones(3, requires_grad=True)

    @torch.compile(backend=backend)
    def accumulate(x):
        (w * x).sum().backward()

    for _ in range(3):
        accumulate(torch.arange(3.0))
    before = w.grad
    version = w.grad._version
    accumulate(torch.arange(3.0))
    assert w.grad is before and w.grad._version > version
    assert w.grad.tolist() == [0.0, 4.0, 8.0]


def test_gradients_of_arguments(backend):
    @torch.compile(backend=backend)
    def attack(x):
        (x**2).sum().backward()
        return x.grad

    for k in range(4):
        x = torch.full((3,), float(k + 1), requires_grad=True)
        out = attack(x)
        assert out is x.grad and out.tolist() == [2.0 * (k + 1)] * 3


def test_shared_gradients_have_memory_of_their_own(backend):
    a, b = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True)

    @torch.compile(backend=backend)
    def step(x):
        a.grad = b.grad = None
        ((a + b) * x).sum().backward()

    for _ in range(4):
        step(torch.arange(3.0))
    a.grad.mul_(10)
    assert b.grad.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("how", ["norm", "value", "inf"])
def test_clipping(backend, how):
    def step(model, optimizer):
        def run(x, y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            if how == "value":
                nn.utils.clip_grad_value_(model.parameters(), 0.01)
                norm = loss
            else:
                norm = nn.utils.clip_grad_norm_(
                    model.parameters(), 0.1, 2.0 if how == "norm" else float("inf")
                )
            optimizer.step()
            return loss, norm

        return run

    world = World(sgd(), step, backend)
    for k in range(5):
        world.call(*batch(k))
    assert programs(world) == 1


def test_autograd_grad_and_penalty(backend):
    def step(model, optimizer):
        def run(x, y):
            optimizer.zero_grad()
            x = x.clone().requires_grad_()
            out = model(x)
            (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            loss = nn.functional.mse_loss(out, y) + 0.1 * slope.square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return run

    world = World(sgd(), step, backend)
    for k in range(8):
        world.call(*batch(k))
    assert runs(world.compiled) >= 2
