"""A step in two worlds from one seed, one eager and one compiled: results and state must be the same to the bit."""

from __future__ import annotations

import numpy as np

import cleargrad as torch
from cleargrad import nn
from cleargrad.compile.watched import watching
from tests.bits import same_bits

BACKENDS = ["aot_eager", "inductor"]


class World:
    """A model, its optimizers and a step, made twice from one seed: once for eager, once for compiled calls."""

    def __init__(self, make, step, backend, **options):
        self.sides = []
        for compiled in (False, True):
            torch.manual_seed(0)
            made = make()
            made = made if isinstance(made, tuple) else (made,)
            bound = step(*made)
            self.sides.append(
                (made, torch.compile(bound, backend=backend, **options) if compiled else bound, bound)
            )

    def call(self, *inputs, eager=False, **named):
        """One call on both sides; the results and all state must agree."""
        results = []
        state = torch.get_rng_state()
        for _, run, bound in self.sides:
            torch.set_rng_state(state)
            results.append((bound if eager else run)(*inputs, **named))
            results[-1] = (results[-1], torch.get_rng_state())
        (a, ra), (b, rb) = results
        same(a, b)
        assert torch.equal(ra, rb)
        self.check()
        return b

    def check(self):
        (left, *_), (right, *_) = self.sides
        for one, other in zip(left, right, strict=True):
            if isinstance(one, nn.Module):
                for (name, p), (_, q) in zip(one.named_parameters(), other.named_parameters(), strict=True):
                    same_bits(q, p, name)
                    assert (p.grad is None) == (q.grad is None), name
                    if p.grad is not None:
                        same_bits(q.grad, p.grad, name + ".grad")
                for (name, p), (_, q) in zip(one.named_buffers(), other.named_buffers(), strict=True):
                    same_bits(q, p, name)
            elif isinstance(one, torch.optim.Optimizer):
                same(one.state_dict()["state"], other.state_dict()["state"])
            elif isinstance(one, torch.amp.GradScaler):
                assert one.state_dict() == other.state_dict()

    @property
    def compiled(self):
        return self.sides[1][1]


def same(a, b):
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor) and a.requires_grad == b.requires_grad
        same_bits(b, a)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for name in a:
            same(a[name], b[name])
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, float):
        assert type(b) is float
        same_bits(b, a)
    else:
        assert a == b


def net():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def batch(k, rows=5):
    rng = np.random.default_rng(k)
    x, y = rng.standard_normal((rows, 6)), rng.standard_normal((rows, 3))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def sgd(**options):
    return lambda: with_optimizer(net(), torch.optim.SGD, lr=0.1, **options)


def with_optimizer(model, kind, **options):
    return model, kind(model.parameters(), **options)


def plain_step(model, optimizer, loss_of=nn.functional.mse_loss):
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def programs(world):
    return len(world.compiled.programs)


def runs(compiled):
    """How often the programs of a compiled function ran."""
    return sum(ending.runs for ending in compiled.programs)


def kept_program(step, *inputs, calls=3):
    """What a compiled step gives in the end, and its program with all that was needed to make it."""
    with watching():
        compiled = torch.compile(step)
        for _ in range(calls):
            found = compiled(*inputs)
    return found, compiled.programs[-1].program
