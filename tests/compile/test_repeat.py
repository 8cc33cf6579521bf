"""Updates that are recorded for one parameter and copied for the others: the same numbers as eager steps."""

from __future__ import annotations

import numpy as np
import pytest

import cleargrad as torch
from cleargrad import optim
from cleargrad.compile.tracer import Tracer

SHAPES = [(3, 4), (7,), (), (2, 3, 2), (1,), (4, 3), (7,)]
OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, 0.1),
    "amsgrad": lambda p: optim.AdamW(p, 0.1, amsgrad=True),
    "rmsprop": lambda p: optim.RMSprop(p, 0.01, centered=True, momentum=0.5),
    "nadam": lambda p: optim.NAdam(p, 0.01),
    "radam": lambda p: optim.RAdam(p, 0.01),
    "adagrad": lambda p: optim.Adagrad(p, 0.1),
    "asgd": lambda p: optim.ASGD(p, 0.1),
    "rprop": lambda p: optim.Rprop(p, 0.01),
    "adamax": lambda p: optim.Adamax(p, 0.01),
    "adadelta": lambda p: optim.Adadelta(p),
    "adafactor": lambda p: optim.Adafactor(p),
    "groups": lambda p: optim.AdamW([{"params": p[:3]}, {"params": p[3:], "lr": 0.02, "weight_decay": 0}]),
}


def made(make):
    random = np.random.default_rng(0)
    parameters = [torch.tensor(random.standard_normal(s).astype(np.float32)).requires_grad_() for s in SHAPES]
    optimizer = make(parameters)

    def step(x):
        optimizer.zero_grad()
        loss = sum(((p * (k + 1) - x) ** 2).sum() for k, p in enumerate(parameters))
        loss.backward()
        optimizer.step()
        return loss

    return parameters, optimizer, step


@pytest.mark.filterwarnings("ignore:.*cannot be recorded")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_steps_are_eager_ones(name):
    (p, eager, step), (q, other, bound) = made(OPTIMIZERS[name]), made(OPTIMIZERS[name])
    compiled = torch.compile(bound)
    for k in range(6):
        x = torch.tensor(0.1 * k)
        assert float(compiled(x)) == pytest.approx(float(step(x)), rel=1e-5)
        for one, two in zip(p, q, strict=True):
            np.testing.assert_allclose(two.detach().numpy(), one.detach().numpy(), rtol=2e-5, atol=2e-6)
            fields, others = eager.state[one], other.state[two]
            assert fields.keys() == others.keys()
            for field, kept in fields.items():
                if isinstance(kept, torch.Tensor):
                    np.testing.assert_allclose(others[field].numpy(), kept.numpy(), rtol=2e-5, atol=2e-6)


def recorded(optimizer, step):
    step(torch.tensor(0.5))
    with Tracer() as tracer:
        step(torch.tensor(0.5))
    assert tracer.reason is None
    return [call.op.name for call in tracer.graph.calls]


def test_what_parameters_share_is_recorded_once_for_a_kind():
    _, optimizer, step = made(OPTIMIZERS["adam"])
    names = recorded(optimizer, step)
    assert names.count("lerp") == len(SHAPES)
    assert names.count("sqrt") == len(SHAPES)
    # -lr is the same for all; a 0-d parameter has a pattern of its own
    assert names.count("neg") == 2


def test_a_rule_of_the_users_is_seen_for_every_parameter():
    class Halving(optim.SGD):
        seen = 0

        @staticmethod
        def _update(p, g, state, group):
            Halving.seen += 1
            p.mul_(0.5)

    parameters, optimizer, step = made(lambda p: Halving(p, 0.1))
    before = [p.detach().clone() for p in parameters]
    recorded(optimizer, step)
    assert Halving.seen == 2 * len(SHAPES)
    for p, old in zip(parameters, before, strict=True):
        assert torch.equal(p.detach(), old * 0.25)


def test_parameters_that_are_views_of_one_memory():
    def make():
        flat = torch.arange(12.0)
        parts = [flat[:6].view(2, 3), flat[6:].view(2, 3)]
        parameters = [part.requires_grad_() for part in parts]
        optimizer = optim.Adam(parameters, 0.1)

        def step(x):
            optimizer.zero_grad()
            sum((p * x).pow(2).sum() for p in parameters).backward()
            optimizer.step()

        return flat, step

    (one, step), (two, bound) = make(), make()
    compiled = torch.compile(bound)
    for _ in range(5):
        step(torch.tensor(0.3))
        compiled(torch.tensor(0.3))
        np.testing.assert_allclose(two.numpy(), one.numpy(), rtol=1e-5)
