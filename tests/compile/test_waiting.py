"""Calls wait for the program of their trace; values that are asked for are computed, and the rest waits on."""

from __future__ import annotations

import numpy as np
import pytest

import cleargrad as torch
from cleargrad import nn
from cleargrad.compile import beside, computing, traces
from cleargrad.compile.acts import Called
from cleargrad.doctor import Session
from tests.bits import same_bits
from tests.compile.world import BACKENDS, World, batch, net, plain_step, programs, runs, sgd, with_optimizer


def known(make, step, backend="inductor"):
    """A world whose step has programs for five rows."""
    world = World(make, step, backend)
    for k in range(4):
        world.call(*batch(k))
    assert runs(world.compiled)
    return world


def noisy():
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    return with_optimizer(model, torch.optim.AdamW, lr=0.01)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [sgd(momentum=0.9), noisy])
def test_programs_make_all_calls_of_known_traces(make, backend, monkeypatch):
    world = known(make, plain_step, backend)
    for k in range(4):
        for rows in (7, 4):
            world.call(*batch(k, rows))
    assert programs(world) == 3

    def one_by_one(run):
        raise AssertionError("calls were made one by one")

    monkeypatch.setattr(computing, "one_by_one", one_by_one)
    for rows in (7, 4, 5, 7):
        world.call(*batch(rows, rows))


def test_numbers_and_accumulated_gradients():
    def step_of(model, optimizer):
        def step(x, y):
            total = 0.0
            for part, wanted in zip(x.chunk(2), y.chunk(2)):
                loss = nn.functional.mse_loss(model(part), wanted)
                loss.backward()
                total = total + loss.detach()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            return {"loss": total.item(), "norm": norm}

        return step

    world = known(sgd(), step_of)
    for k in range(4):
        for rows in (6, 8):
            world.call(*batch(k, rows))
    assert runs(world.compiled) >= 6


def steps_that_ask(model, optimizer, ask):
    """A step that asks for something when there are six rows, in the middle of all that it writes."""

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        out = model(x)
        noise = torch.rand(3)
        row = out.detach()[0]
        row.mul_(2)
        loss = nn.functional.mse_loss(out + noise, y)
        loss.backward()
        optimizer.step()
        if len(x) == 6:
            ask(model, loss, row)
        model(x).mean().backward()
        optimizer.step()
        return loss.detach() + row.sum() + noise.sum()

    return step


def slow():
    return with_optimizer(net(), torch.optim.SGD, lr=0.01, momentum=0.9)


def as_number(model, loss, row):
    assert abs(float(loss)) < 100


def as_array(model, loss, row):
    assert np.isfinite(row.numpy()).all()


def as_branch(model, loss, row):
    if model[0].weight.grad.abs().sum() > 0:
        model[0].weight.data.mul_(0.5)


def as_text(model, loss, row):
    assert "tensor" in str(model[0].bias)


@pytest.mark.parametrize("ask", [as_number, as_array, as_branch, as_text])
def test_values_that_are_asked_for_exist(ask):
    world = known(slow, lambda model, optimizer: steps_that_ask(model, optimizer, ask))
    ran = runs(world.compiled)
    for k, rows in enumerate((6, 6, 5, 6, 6)):
        world.call(*batch(k, rows))
    assert runs(world.compiled) >= ran + 6


def test_numbers_that_are_kept_by_the_user():
    def step_of(model, optimizer):
        seen = []

        def step(x, y):
            loss = plain_step(model, optimizer)(x, y)
            if len(x) == 6:
                seen.append(loss.item())
            return loss

        step.seen = seen
        return step

    world = known(sgd(), step_of)
    for k in range(5):
        world.call(*batch(k, 6))
        one, other = (bound.seen for *_, bound in world.sides)
        assert one == other and all(type(each) is float for each in other)
    assert len(other) == 5 and runs(world.compiled) >= 3


def test_results_that_are_also_kept_by_the_user():
    kept = {"numbers": [], "last": None}
    weight = torch.ones(3, requires_grad=True)

    def numbers(x):
        number = (x * 2).sum().item()
        kept["numbers"].append(number)
        return [number]

    def last(x):
        out = weight * x.sum()
        kept["last"] = out
        return {"out": out}

    for function in (numbers, last):
        compiled = torch.compile(function)
        for k in range(8):
            compiled(torch.full((3,), float(k)))
        assert runs(compiled) >= 4
    assert kept["numbers"] == [6.0 * k for k in range(8)] and kept["last"].tolist() == [21.0] * 3


class Stop(Exception):
    pass


def test_an_exception_leaves_what_an_eager_call_leaves():
    def stop(model, loss, row):
        raise Stop

    world = known(slow, lambda model, optimizer: steps_that_ask(model, optimizer, stop))
    state = torch.get_rng_state()
    for _, run, _ in world.sides:
        torch.set_rng_state(state)
        with pytest.raises(Stop):
            run(*batch(3, 6))
    world.check()
    world.call(*batch(4, 5))


@pytest.mark.parametrize("returns", ["loss", "loss.detach()"])
def test_a_program_that_cannot_be_made_loses_nothing(returns, monkeypatch):
    monkeypatch.delenv("CLEARGRAD_VERIFY")

    def step_of(model, optimizer):
        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x) + torch.rand(3), y)
            if returns == "loss":
                return loss
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    world = known(slow, step_of)

    def make(graph):
        raise ArithmeticError("no room")

    made = programs(world)
    world.compiled.make = world.compiled.waiters.waiter.make = make
    for k in range(4):
        world.call(*batch(k, 6))
    world.call(*batch(4, 5))
    assert programs(world) == made


@pytest.mark.parametrize("kind", [torch.optim.Adam, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)])
def test_an_optimizer_that_has_made_no_step_yet(kind):
    def make():
        model, other = net(), nn.Linear(3, 3)
        return model, other, kind(model.parameters(), 0.1), kind(other.parameters(), 0.1)

    def step_of(model, other, first, second):
        def step(x, y):
            first.zero_grad()
            out = model(x)
            if len(x) == 6:
                out = other(out)
            nn.functional.mse_loss(out, y).backward()
            first.step()
            if len(x) == 6:
                second.step()
            return out.detach()

        return step

    world = known(make, step_of)
    for k in range(5):
        world.call(*batch(k, 6))
    assert runs(world.compiled) >= 3


def test_places_that_do_not_exist_are_named_as_ever():
    def step_of(model):
        return lambda places: model(places).sum()

    world = World(lambda: nn.Embedding(4, 3), step_of, "inductor")
    for _ in range(3):
        world.call(torch.tensor([0, 1, 2]))
    for _, run, _ in world.sides:
        with pytest.raises(IndexError, match="out of range"):
            run(torch.tensor([0, 4]))


def test_a_watched_run_computes_the_same():
    """A watch looks at values, so that programs are shorter, and still nothing rounds otherwise."""

    def weights(watched):
        torch.manual_seed(0)
        model, optimizer = noisy()
        step = torch.compile(plain_step(model, optimizer))
        session = Session(engine="cleargrad")
        if watched:
            session.attach()
        for k, rows in enumerate([5] * 4 + [7] * 3 + [4, 5, 7]):
            step(*batch(k, rows))
        session.detach()
        assert runs(step) and not session.findings
        return [*model.parameters(), *model.buffers()], torch.rand(3).tolist()

    (watched, *numbers), (plain, *others) = weights(True), weights(False)
    assert numbers == others
    for one, other in zip(watched, plain, strict=True):
        same_bits(one, other)


def test_compiled_functions_among_calls_that_wait():
    """They have programs of their own: what was called before comes first, and nobody may look inside."""
    step = torch.compile(lambda x: (x * 2).exp() + 1, fullgraph=True)
    look = torch.compile(lambda x: x * x.sum().item(), fullgraph=True)
    with torch.waiting():
        found = [step(torch.full((3,), k / 4) + 1) * 3 for k in range(5)]
        with pytest.raises(RuntimeError, match="fullgraph"):
            look(torch.ones(3))
        found = [each.tolist() for each in found]
    assert runs(step) == 3
    assert found == [(((torch.full((3,), k / 4) + 1) * 2).exp() + 1).mul(3).tolist() for k in range(5)]


def test_windows_that_reach_outside_fail_at_their_line():
    with torch.waiting():
        x = torch.ones(4, 4) * 2
        with pytest.raises(RuntimeError, match="outside the storage of 16 elements"):
            x.as_strided((5, 99), (99, 1))
        around = x[1:2].as_strided((2, 4), (4, 1))  # further than the view, but inside of its memory
    assert around.tolist() == [[2.0] * 4] * 2


def test_memory_that_is_not_there_is_named(monkeypatch):
    with torch.waiting():
        with pytest.raises(RuntimeError, match="repeat: not enough memory"):
            torch.ones(8).repeat(2**56)
        x = torch.ones(3).asinh()  # the guilty line
        monkeypatch.setattr(Called, "run", without_memory)
        with pytest.raises(RuntimeError, match=r"asinh: not enough memory(.|\n)*the guilty line"):
            x.tolist()


def without_memory(*_):
    raise MemoryError("Unable to allocate 2.00 GiB for an array")


def test_programs_of_many_sizes_are_let_go(monkeypatch):
    """The one that was needed longest ago goes first, and comes again when it is needed again."""
    monkeypatch.setattr(traces, "PROGRAMS", 3)
    step = torch.compile(lambda x: x.exp() * 2)
    for rows in (1, 2, 3, 1, 4, 5, 2):
        x = torch.ones(rows)
        for _ in range(4):
            same_bits(step(x), x.exp() * 2)
        assert len(step.programs) <= 3
    assert sorted(ending.runs for ending in step.programs) == [2, 2, 2]
    for _ in range(2):
        step(torch.ones(5))
    assert sorted(ending.runs for ending in step.programs) == [2, 2, 4]


def looked_at(times):
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    return [(x * (k + 0.5)).tolist() for k in range(times)], x


def test_calls_that_are_looked_at_one_by_one_are_made_at_once(nothing_is_recalled):
    expected, _ = looked_at(400)
    with torch.waiting() as switch:
        found, x = looked_at(400)
        assert found == expected
        spared = switch.waiter.spared
        assert spared > 0
        y = x.sum()
        assert "_data" in dir(y) and not hasattr(y, "_wait")
        assert switch.waiter.spared == spared - 1
        y.backward()
        assert x.grad.tolist() == [[1.0] * 3] * 2


def test_calls_wait_again_where_they_belong_together():
    with torch.waiting() as switch:
        waiter = switch.waiter
        looked_at(40)
        assert waiter.spared
        model, x = nn.Linear(3, 2), torch.ones(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        losses = []
        for _ in range(6):
            loss = model(x).square().sum()
            loss.backward()
            assert not waiter.spared
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            assert not waiter.spared and not waiter.short
        assert max(losses) == losses[0]


def test_long_and_large_traces_go_on_waiting():
    with torch.waiting() as switch:
        small, large = torch.ones(3, 3), torch.ones(300, 300)
        for _ in range(40):
            ((((small + 1) * 2) - 3).exp() / 2).tolist()
            (large * 2 + 1)[0, 0].item()
        assert not switch.waiter.short and not switch.waiter.spared


def test_modes_hold_for_calls_that_are_made_at_once():
    with torch.waiting() as switch:
        _, x = looked_at(40)
        assert switch.waiter.spared
        with torch.no_grad():
            assert not (x * 2).requires_grad and not x[0].requires_grad and not x.sum().requires_grad
        assert (x * 2).requires_grad
        looked_at(40)
        assert switch.waiter.spared
        with torch.autocast("cpu", torch.bfloat16):
            assert (x @ x.T).dtype == torch.bfloat16
        with torch.inference_mode():
            assert (x * 2).is_inference()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_default_dtype_takes_part(backend):
    """Quotients of integers are of the default dtype: what was called under one is computed under it."""
    quotient = torch.compile(lambda x: torch.arange(3) / x, backend=backend)
    kinds = [torch.float32] * 6 + [torch.float64] * 6 + [torch.float32, torch.float64] * 3
    try:
        with torch.waiting():
            for kind in kinds:
                before = torch.arange(3) / 7
                was = torch.get_default_dtype()
                torch.set_default_dtype(kind)
                after = torch.arange(3) / 7
                assert (before.dtype, after.dtype) == (was, kind)
                assert (before.numpy().dtype, after.numpy().dtype) == (was.numpy, kind.numpy)
                result = quotient(torch.tensor(7))
                assert result.dtype == kind and result.tolist() == after.tolist()
    finally:
        torch.set_default_dtype(torch.float32)


def test_places_of_a_view_whose_elements_overlap():
    """Two rows of windows are written, and nothing else: the window between them is not written back."""

    def run():
        memory = torch.arange(8.0).reshape(4, 2)
        for _ in range(6):
            windows = memory.unfold(0, 2, 1)
            windows[[0, -1]] = windows[[-1, 0]] + 1
        return memory

    expected = run()
    with torch.waiting():
        same_bits(run(), expected)
    compiled = torch.compile(run)
    for _ in range(4):
        same_bits(compiled(), expected)


def test_a_call_with_fewer_operands_where_one_with_more_is_known():
    """What is written for a known step is written for all of its operands."""

    def run(places):
        leaf = torch.arange(12.0).reshape(3, 4).requires_grad_()
        result = (leaf * 2)[places]
        (result * result).sum().backward()
        return leaf.grad

    pair, single = (torch.tensor([0, 1]), torch.tensor([2, 3])), torch.tensor([0, 1])
    orders = [pair, single, pair, pair, single, single, pair]
    expected = [run(places) for places in orders]
    with torch.waiting():
        for places, gradient in zip(orders, expected, strict=True):
            same_bits(run(places), gradient)


def gradients():
    """Gradients of many layouts, parts of them, and their strides as they are foretold."""
    x, y = (torch.arange(12.0).reshape(3, 4).requires_grad_() for _ in range(2))
    leaf = torch.arange(12.0).reshape(4, 3).t().requires_grad_()
    found = list(torch.autograd.grad(x.sum(), x))  # one number, shown many times
    found += torch.autograd.grad((x.sum(1) * 2).sum(), x)
    found += torch.autograd.grad((torch.cat([x, y], 1) * torch.arange(8.0)).sum(), [x, y])
    found += torch.autograd.grad((x.t() @ torch.ones(3, 2)).square().sum(), x)
    found += torch.autograd.grad((leaf * x).sum(), [leaf, x])
    ((leaf @ leaf.t()).sum() + (x.t() @ y).square().sum()).backward()
    found += [leaf.grad, x.grad, y.grad]
    found += [part for each in found for part in (each[1:], each.t()[-1], each[:, 1])]
    return found, [each.stride() for each in found]


@pytest.mark.eager
def test_gradients_are_laid_out_as_those_of_single_calls():
    expected, strides = gradients()
    assert (0, 0) in strides
    with torch.waiting() as switch:
        for _ in range(5):
            found, foretold = gradients()
            assert foretold == strides
            for one, other in zip(found, expected, strict=True):
                same_bits(one, other)
            assert [each.stride() for each in found] == strides
            beside.wait()
        assert any(end.runs for end in switch.waiter.tree.endings)
