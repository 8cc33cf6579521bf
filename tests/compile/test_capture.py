"""Compiled functions and what is around them: results, arguments, names, looks at values, threads, programs."""

from __future__ import annotations

import threading
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import cleargrad as torch
from cleargrad import nn
from cleargrad.ops.record import CaptureError
from tests.compile.world import World, batch, net, plain_step, programs, runs, same, sgd

Pair = namedtuple("Pair", "first second")


@dataclass
class Out:
    loss: object
    name: str
    extra: object = None


def test_forms_of_results(backend):
    w = torch.tensor([1.0, 2.0])

    def forms(x):
        y = x * w
        return {"a": [y, (y + 1, None)], "b": Pair(y.sum().item(), 3), "c": Out(y.mean(), "n"), "d": "text"}

    compiled = torch.compile(forms, backend=backend)
    for k in range(4):
        x = torch.tensor([float(k), 1.0])
        want, got = forms(x), compiled(x)
        assert (
            got["a"][0].tolist() == want["a"][0].tolist()
            and got["a"][1][0].tolist() == want["a"][1][0].tolist()
        )
        assert got["a"][1][1] is None and type(got["b"]) is Pair and got["b"] == want["b"]
        assert type(got["b"].first) is float
        assert type(got["c"]) is Out and got["c"].loss.item() == want["c"].loss.item() and got["d"] == "text"
    assert runs(compiled) >= 2


def test_number_back(backend):
    def step(model, optimizer):
        inner = plain_step(model, optimizer)
        return lambda x, y: inner(x, y).item()

    world = World(sgd(), step, backend)
    for k in range(5):
        assert type(world.call(*batch(k))) is float
    assert programs(world) == 1 and runs(world.compiled) >= 2


@pytest.mark.parametrize(
    "use",
    [
        lambda loss: loss.item() * 2,
        lambda loss: float(loss),
        lambda loss: 1.0 if loss > 0.5 else 2.0,
        lambda loss: loss.tolist(),
        lambda loss: loss.numpy().copy(),
        lambda loss: f"{loss:.3f}",
        lambda loss: f"{loss.item():.3f}",
        lambda loss: str(loss),
        lambda loss: np.isnan(loss.item()),
        lambda loss: int(loss * 100),
        lambda loss: torch.ones(1)[loss.reshape(1) > 0].sum(),
        lambda loss: loss.reshape(1).nonzero(),
    ],
)
def test_looks_at_values(use):
    calls = []

    def step(x):
        calls.append(1)
        return use((x * x).mean())

    compiled = torch.compile(step)
    xs = [torch.tensor([0.1 * k, 0.5, 1.0]) for k in range(5)]
    got = [compiled(x) for x in xs]
    assert len(calls) == 5 and runs(compiled) >= 3
    for x, out in zip(xs, got):
        want = use((x * x).mean())
        assert np.all(np.asarray(want) == np.asarray(out))
    with pytest.raises(CaptureError, match="fix"):
        torch.compile(step, fullgraph=True)(xs[0])


def test_what_is_left_behind():
    history, numbers = [], []

    def step(x):
        y = x * 2
        history.append(y)
        numbers.append(y.sum().item())
        return y

    compiled = torch.compile(step)
    for k in range(12):
        compiled(torch.full((2,), float(k)))
    assert runs(compiled) >= 10
    assert [float(y[0]) for y in history] == [2.0 * k for k in range(12)]
    assert numbers == [4.0 * k for k in range(12)] and {type(number) for number in numbers} == {float}


def test_printing(capsys):
    def step(x):
        print("hello")
        return x + 1

    compiled = torch.compile(step)
    for _ in range(4):
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert capsys.readouterr().out == "hello\n" * 4 and runs(compiled) == 2


def test_arguments(backend):
    def f(x, scale=1.0, *, flags=(), parts=None):
        out = x * scale
        if "neg" in flags:
            out = -out
        return out + parts["a"][0] if parts else out

    compiled = torch.compile(f, backend=backend)
    for k in range(6):
        x = torch.tensor([1.0, k])
        for kwargs in ({}, {"scale": 2.0}, {"flags": ("neg",)}, {"parts": {"a": [torch.tensor(float(k))]}}):
            assert compiled(x, **kwargs).tolist() == f(x, **kwargs).tolist()
    assert compiled(torch.ones(2, 3)).shape == (2, 3)
    assert compiled(torch.ones(2, 3).T).shape == (3, 2)
    assert compiled(torch.ones(2, dtype=torch.float64)).dtype == torch.float64
    x = torch.ones(2)
    same_twice = torch.compile(lambda a, b: a + 2 * b, backend=backend)
    for _ in range(3):
        assert same_twice(x, x).tolist() == [3.0, 3.0]
        assert same_twice(x, x * 2).tolist() == [5.0, 5.0]


def test_writes_to_arguments_and_aliases(backend):
    w = torch.zeros(4)

    def f(x):
        x.add_(1)
        w[1:3] += x[:2]
        return x, x[1:], w, w.view(2, 2), x.clone()

    compiled = torch.compile(f, backend=backend)
    for k in range(4):
        x = torch.tensor([1.0, 2.0, 3.0])
        version = x._version
        out = compiled(x)
        assert x.tolist() == [2.0, 3.0, 4.0] and x._version > version
        assert out[0] is x and out[2] is w
        assert out[1].data_ptr() == x.data_ptr() + 4 and out[3].data_ptr() == w.data_ptr()
        assert w.tolist() == [0.0, 2.0 * (k + 1), 3.0 * (k + 1), 0.0]
        out[3][0, 0] = 0.0
        assert out[4].tolist() == x.tolist() and out[4].data_ptr() != x.data_ptr()


def test_names_from_outside(backend):
    scale, config = 2.0, {"shift": 1.0}

    class Settings:
        power = 1

    settings = Settings()

    def f(x):
        return (x * scale + config["shift"]) ** settings.power

    compiled = torch.compile(f, backend=backend)
    x = torch.tensor([1.0, 2.0])
    for _ in range(3):
        assert compiled(x).tolist() == f(x).tolist()
    scale = 3.0
    assert compiled(x).tolist() == f(x).tolist()
    config["shift"] = 5.0
    assert compiled(x).tolist() == f(x).tolist()
    settings.power = 2
    assert compiled(x).tolist() == f(x).tolist()
    Settings.power = 3
    del settings.power
    assert compiled(x).tolist() == f(x).tolist()
    assert compiled(x).tolist() == f(x).tolist()


def test_counting_in_python():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count

    compiled = torch.compile(f)
    got = [compiled(torch.ones(1)).item() for _ in range(6)]
    assert got == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_arrays_of_the_user(backend):
    values = np.ones(3, np.float32)

    def f(x):
        return x + torch.from_numpy(values)

    compiled = torch.compile(f, backend=backend)
    for k in range(4):
        values[:] = k
        assert compiled(torch.zeros(3)).tolist() == [float(k)] * 3


def test_fresh_tensors_are_fresh(backend):
    def f(x):
        total = torch.zeros(3)
        total += x
        total[0] = 7
        return total, torch.arange(3) + torch.ones(3, dtype=torch.int64)

    compiled = torch.compile(f, backend=backend)
    for k in range(4):
        a, b = compiled(torch.full((3,), float(k)))
        assert a.tolist() == [7.0, k, k] and b.tolist() == [1, 2, 3]
        a.zero_(), b.zero_()


# Around ----------------------------------------------------------------------------------------------------


def test_exceptions_leave_eager_state(backend):
    def step(model, optimizer):
        def run(x, y, fail):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            if fail:
                raise ZeroDivisionError
            optimizer.step()
            return loss

        return run

    world = World(sgd(), step, backend)
    for k in range(8):
        if k % 2:
            for _, run, _ in world.sides:
                with pytest.raises(ZeroDivisionError):
                    run(*batch(k), True)
            world.check()
        else:
            world.call(*batch(k), False)
    with pytest.raises(RuntimeError, match=r"matmul|mat1|mm|linear"):
        world.compiled(torch.ones(5, 7), torch.ones(5, 3), False)


def test_methods_and_nesting(backend):
    class Trainer:
        def __init__(self):
            torch.manual_seed(0)
            self.model = net()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        @torch.compile(backend=backend)
        def loss(self, x, y):
            return nn.functional.mse_loss(self.model(x), y)

        @torch.compile(backend=backend)
        def step(self, x, y):
            self.optimizer.zero_grad()
            loss = self.loss(x, y)
            loss.backward()
            self.optimizer.step()
            return loss

    a, b = Trainer(), Trainer()
    plain = plain_step(b.model, b.optimizer)
    for k in range(5):
        same(a.step(*batch(k)), plain(*batch(k)))
    assert Trainer.step.__name__ == "step" and len(Trainer.step.programs) == 1
    assert not Trainer.loss.programs


def test_threads(backend):
    w = torch.zeros(64)

    @torch.compile(backend=backend)
    def f(x):
        return (x * 2).sum() + w.sum()

    failures = []

    def work(number):
        x = torch.full((64,), float(number))
        for _ in range(50):
            if f(x).item() != 128.0 * number:
                failures.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures


def test_modes_are_part_of_the_key(backend):
    model = net()
    compiled = torch.compile(lambda x: model(x).sum(), backend=backend)
    x = batch(0)[0]
    for _ in range(3):
        with torch.no_grad():
            assert not compiled(x).requires_grad
        assert compiled(x).requires_grad
        with torch.inference_mode():
            assert compiled(x).is_inference()


def test_memory_is_not_kept():
    import gc
    import weakref

    model, optimizer = sgd()()
    compiled = torch.compile(plain_step(model, optimizer))
    for k in range(4):
        x, y = batch(k)
        compiled(x, y)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_gradients_that_are_held_stay_as_they_are(backend):
    w = torch.ones(1000, requires_grad=True)

    @torch.compile(backend=backend)
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    for k in range(6):
        step(torch.full((1000,), float(k)))
        assert w.grad[0] == k
    for hold in (lambda: w.grad, lambda: w.grad.numpy(), lambda: w.grad[3:], lambda: w.grad.detach()):
        kept = hold()
        before = np.array(kept)
        step(torch.full((1000,), 7.0))
        assert (np.array(kept) == before).all() and w.grad[0] == 7
        step(torch.full((1000,), 8.0))


def test_many_numbers():
    compiled = torch.compile(lambda x, k: x * k, backend="aot_eager")
    for k in range(20):
        for _ in range(3):
            assert compiled(torch.ones(1), k).item() == k
            assert compiled(torch.ones(1), k + 0.5).item() == k + 0.5
    assert runs(compiled) >= 50


def test_arguments_of_compile():
    with pytest.raises(RuntimeError, match="mode"):
        torch.compile(lambda x: x, mode="fastest")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(lambda x: x, mode="default", options={})
    with pytest.raises(RuntimeError, match="backend"):
        torch.compile(lambda x: x, backend="nothing")

    def f(x):
        return x

    assert torch.compile(f, disable=True) is f
    assert torch.compile(mode="max-autotune")(f).__name__ == "f"


def test_arguments_that_always_differ():
    compiled = torch.compile(lambda x, k: x * k, backend="aot_eager")
    for k in range(80):
        assert compiled(torch.ones(1), k).item() == k
    for k in range(80):
        assert compiled(torch.ones(1), k / 8).item() == k / 8
    assert runs(compiled) >= 70  # floats are inputs from the second on


def test_wish_for_gradients_is_a_fact(backend):
    w = torch.ones(2)
    compiled = torch.compile(lambda x: x * w, backend=backend)
    x = torch.ones(2)
    for wanted in (False, False, False, True, True, True, False):
        w.requires_grad_(wanted)
        assert compiled(x).requires_grad == wanted


def test_moving_average_inside(backend):
    def make():
        model, optimizer = sgd()()
        import copy

        return model, optimizer, copy.deepcopy(model)

    def step(model, optimizer, average):
        inner = plain_step(model, optimizer)

        def run(x, y):
            loss = inner(x, y)
            with torch.no_grad():
                for p, q in zip(model.parameters(), average.parameters()):
                    q.lerp_(p, 0.1)
            return loss

        return run

    world = World(make, step, backend)
    for k in range(5):
        world.call(*batch(k))
    assert programs(world) == 2 and runs(world.compiled) >= 4


def test_adversarial_pair(backend):
    """Two models, of which one is frozen for a part of the step."""

    def make():
        one, two = net(), nn.Linear(3, 1)
        return (
            one,
            two,
            torch.optim.Adam(one.parameters(), lr=0.01),
            torch.optim.Adam(two.parameters(), lr=0.01),
        )

    def step(maker, judge, first, second):
        def run(x, y):
            second.zero_grad()
            fake = maker(x)
            loss = judge(fake.detach()).mean() - judge(y).mean()
            loss.backward()
            second.step()
            judge.requires_grad_(False)
            first.zero_grad()
            cost = -judge(maker(x)).mean()
            cost.backward()
            first.step()
            judge.requires_grad_(True)
            return loss, cost

        return run

    world = World(make, step, backend)
    for k in range(5):
        world.call(*batch(k))
    assert programs(world) >= 2 and runs(world.compiled) >= 4


def test_buffers_that_are_replaced(backend):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen = self.seen + 1
            return x * self.seen

    model = Counting()
    compiled = torch.compile(model, backend=backend)
    got = [compiled(torch.ones(1)).item() for _ in range(9)]
    assert got == [float(k + 1) for k in range(9)] and runs(compiled._compiled) >= 6


def test_dice_of_python():
    import random

    def f(x):
        return x if random.random() < 0.5 else -x

    compiled = torch.compile(f)
    got = {compiled(torch.ones(1)).item() for _ in range(40)}
    assert got == {1.0, -1.0}


def test_strangers_that_share_memory(backend):
    memory = np.zeros(6, np.float32)
    one, two = torch.from_numpy(memory[:4]), torch.from_numpy(memory[2:])

    def f(x):
        one.add_(x)
        return two.sum()

    compiled = torch.compile(f, backend=backend)
    got = [compiled(torch.ones(4)).item() for _ in range(5)]
    assert got == [2.0, 4.0, 6.0, 8.0, 10.0]


def test_arguments_that_are_known_by_other_names():
    w = torch.ones(3)

    def f(x):
        w.mul_(2)
        return x.sum()

    compiled = torch.compile(f)
    got = [compiled(w.detach()).item() for _ in range(4)]
    assert got == [6.0, 12.0, 24.0, 48.0]
    assert compiled(torch.ones(3)).item() == 3.0 and w.sum() == 96


@torch.compile
def top_level(x):
    return x + 1


def test_copies_of_compiled_functions():
    import copy
    import pickle

    assert copy.deepcopy(top_level) is top_level and pickle.loads(pickle.dumps(top_level)) is top_level
