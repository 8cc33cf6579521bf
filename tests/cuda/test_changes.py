"""Between steps that wait, parameters and state change: no program takes what was there before."""

from __future__ import annotations

import pytest

import cleargrad as cg
from cleargrad.compile import beside
from cleargrad.compile.script import waiting
from tests.compile.test_same import CHANGES, trained


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_noticed(name, clip, gpu):
    assert trained("cuda", name, True, clip) == trained("cuda", name, False, clip)


def gradients(wait: bool) -> list[bytes]:
    """Gradients of a few steps that somebody keeps, whole or in part, while training goes on."""
    with cg.device("cuda"):
        model = cg.nn.Linear(3, 2)
        for p in model.parameters():
            p.data.fill_(0.5)
        optimizer = cg.optim.SGD(model.parameters(), lr=0.1)
        x = cg.arange(12.0).reshape(4, 3)
        kept = []
        switch = waiting() if wait else None
        try:
            for step in range(16):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                beside.wait()
                if step in (9, 12):
                    kept.append(model.weight.grad)
                if step in (10, 13):
                    kept.append(model.bias.grad[1:])
            return [x.cpu().numpy().tobytes() for x in kept]
        finally:
            if switch is not None:
                switch.__exit__(None)


def test_gradients_that_are_kept_stay_what_they_were(gpu):
    kept = gradients(True)
    assert kept == gradients(False) and len(set(kept)) == len(kept)


def test_gradients_that_nobody_keeps_lie_in_one_place(gpu):
    with cg.device("cuda"):
        p = cg.ones(3).requires_grad_()
        switch = waiting()
        try:
            places = []
            for _ in range(12):
                p.grad = None
                (p * 2).sum().backward()
                switch.waiter.flush()
                beside.wait()
                places.append(p.grad.data_ptr())
            assert len(set(places[-4:])) == 1
        finally:
            switch.__exit__(None)
