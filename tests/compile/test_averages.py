"""Averages of weights while calls wait: writes that come again take the short way, and give the same bits."""

import numpy as np
import pytest

import cleargrad as torch
from cleargrad import nn
from cleargrad.compile import waiting as waiting_module


def scaled_sum(kept, p, d):
    kept.mul_(d).add_(p, alpha=1 - d)


def between(kept, p, d):
    kept.lerp_(p, 1 - d)


def copied(kept, p, d):
    kept.copy_(kept * d + p * (1 - d))


def trained(average, waits, steps=8, decay=lambda step: 0.9, dtype=torch.float32, look=lambda kept: None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    kept = [p.detach().clone() for p in model.parameters()]
    seen = []
    with torch.waiting() if waits else torch.eager():
        for step in range(steps):
            x = torch.randn(4, 5, dtype=dtype)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                for mean, p in zip(kept, model.parameters(), strict=True):
                    average(mean, p, decay(step))
            seen.append(look(kept))
    return [each.tolist() for each in kept], [each._version for each in kept], seen


@pytest.mark.parametrize("average", [scaled_sum, between, copied])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_averages_have_the_bits_of_single_calls(average, dtype):
    assert trained(average, True, dtype=dtype)[0] == trained(average, False, dtype=dtype)[0]


@pytest.mark.parametrize("average", [scaled_sum, between])
def test_a_decay_that_changes_and_looks_in_between(average):
    given = {"decay": lambda step: 0.5 + step / 20, "look": lambda kept: kept[0].sum().item(), "steps": 12}
    assert trained(average, True, **given)[::2] == trained(average, False, **given)[::2]


def test_versions_count_every_write():
    _, versions, _ = trained(scaled_sum, True)
    assert versions == [16] * 4


def short_ways(monkeypatch):
    """How often the short way was taken, and how often not."""
    found = []
    plain = waiting_module.Waiter.change_again

    def counted(self, op, operands):
        found.append(plain(self, op, operands))
        return found[-1]

    monkeypatch.setattr(waiting_module.Waiter, "change_again", counted)
    return found


@pytest.mark.parametrize(("average", "writes"), [(scaled_sum, 2), (between, 1)])
def test_writes_that_come_again_take_the_short_way(average, writes, monkeypatch):
    found = short_ways(monkeypatch)
    trained(average, True, steps=6)
    assert len(found) == 6 * 4 * writes  # one write each, the scaled sum too
    assert all(found[-2 * 4 * writes :])


def written(waits, target, others=()):
    """What tensors hold that look into memory that is written again and again."""
    seen = []
    with torch.waiting() if waits else torch.eager(), torch.no_grad():
        for step in range(5):
            memory = target(step)
            more = [other(memory) for other in others]
            memory.mul_(0.5)
            memory.add_(torch.ones(4), alpha=0.25)
            seen.append([memory.tolist(), *[np.asarray(each).tolist() for each in more]])
    return seen


@pytest.mark.parametrize(
    "others",
    [
        (lambda m: m[1:3],),
        (lambda m: m.detach(),),
        (lambda m: m.numpy(),),
        (lambda m: m.view(2, 2), lambda m: m.clone()),
    ],
)
def test_whoever_looks_into_the_memory_sees_the_write(others):
    def target(step):
        return torch.arange(4.0) + step

    assert written(True, target, others) == written(False, target, others)


def test_memory_that_begins_to_be_seen_by_others_leaves_the_short_way():
    def seen(waits):
        memory, found = torch.arange(4.0), []
        with torch.waiting() if waits else torch.eager(), torch.no_grad():
            for step in range(8):
                memory.mul_(0.5)
                if step == 4:
                    array = memory.numpy()
                    part = memory[:2]
                if step > 4:
                    found.append((array.tolist(), part.tolist()))
        return found

    assert seen(True) == seen(False)


def test_refused_writes_are_refused_at_the_short_way_too():
    with torch.waiting(), torch.no_grad():
        for _ in range(4):
            torch.ones(3).mul_(2.0).sum().item()
        with pytest.raises(RuntimeError, match="single memory location"):
            torch.ones(1).expand(3).mul_(2.0)
        with torch.inference_mode():
            made = torch.ones(3)
        with pytest.raises(RuntimeError, match="inference tensor"):
            made.mul_(2.0)


def test_parameters_with_a_walk_of_their_own():
    class Named(nn.Linear):
        def named_parameters(self, *args, **kwargs):
            yield "weight", self.weight

    class Hidden(nn.Linear):
        def named_modules(self, *args, **kwargs):
            return iter(())

    assert len(list(Named(2, 2).parameters())) == 1
    assert len(list(nn.Sequential(Hidden(2, 2), nn.Linear(2, 2)).parameters())) == 2
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.Linear(2, 3))
    assert [id(p) for p in model.parameters()] == [id(p) for _, p in model.named_parameters()]
    assert [id(p) for p in model.parameters(recurse=False)] == []
