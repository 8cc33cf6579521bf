"""Traces: when programs are made, and what Python does meanwhile."""

from __future__ import annotations

import cProfile
import gc
import pstats
import sys

import numpy as np
import pytest

import cleargrad as torch
from cleargrad import nn
from cleargrad.compile import again, beside, waiting
from tests.bits import same_bits
from tests.compile.world import kept_program, runs

SCALE = 2.0


def test_a_trace_that_ended_twice_has_a_program():
    @torch.compile
    def double(x):
        return x * SCALE

    for _ in range(2):
        double(torch.ones(3))
    assert len(double.programs) == 1 and double.tree.alone == 2 and runs(double) == 0
    for size in range(4, 12):
        assert double(torch.ones(size)).tolist() == [2.0] * size
    assert len(double.programs) == 1 and double.tree.alone == 10
    for size in range(3, 12):
        assert double(torch.ones(size)).tolist() == [2.0] * size
    assert len(double.programs) == 9 and runs(double) == 1


def test_programs_are_made_for_what_is_left_alive():
    @torch.compile
    def two(x, both):
        y, z = x + 1, x * 2
        return (y, z) if both else y

    for k in range(4):
        x = torch.full((3,), float(k))
        assert two(x, False).tolist() == (x + 1).tolist()
        y, z = two(x, True)
        assert y.tolist() == (x + 1).tolist() and z.tolist() == (x * 2).tolist()
    assert [ending.runs for ending in two.programs] == [2, 2]
    assert [len(ending.program.plan.outputs) for ending in two.programs] == [1, 2]


def test_a_look_ends_a_trace():
    @torch.compile
    def signed(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    for k in range(8):
        x = torch.full((3,), (-1.0) ** k)
        assert signed(x).tolist() == ([3.0] * 3 if k % 2 == 0 else [-3.0] * 3)
    assert len(signed.programs) == 3 and [ending.runs for ending in signed.programs] == [6, 2, 2]


def in_a_hook(w):
    def scaled(grad):
        return grad * SCALE

    w.register_hook(scaled)
    return lambda x: (w * x).sum()


def in_a_backward_of_the_users(w):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * SCALE

    return lambda x: Scaled.apply(w * x).sum()


@pytest.mark.parametrize("place", [in_a_hook, in_a_backward_of_the_users])
def test_a_name_that_is_read_while_gradients_flow(place):
    global SCALE
    w = torch.ones(3, requires_grad=True)
    loss = place(w)

    @torch.compile
    def step(x):
        w.grad = None
        loss(x).backward()
        return w.grad.clone()

    x = torch.ones(3)
    for _ in range(3):
        assert step(x).tolist() == [2.0] * 3
    assert runs(step)
    try:
        SCALE = 3.0
        assert step(x).tolist() == [3.0] * 3
    finally:
        SCALE = 2.0


def test_the_interpreter_stays_as_it_was():
    calls = []

    def profile(frame, event, argument):
        calls.append(event)

    @torch.compile
    def fails(x):
        (x + 1).sum()
        raise ValueError("on purpose")

    assert gc.isenabled()
    sys.setprofile(profile)
    try:
        for _ in range(3):
            with pytest.raises(ValueError, match="on purpose"):
                fails(torch.ones(2))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert gc.isenabled() and calls


def test_a_profiler_goes_on_behind_a_compiled_call():
    @torch.compile
    def double(x):
        return x + x

    def afterwards():
        return None

    profiler = cProfile.Profile()
    profiler.enable()
    try:
        for _ in range(3):
            double(torch.ones(2))
            afterwards()
    finally:
        profiler.disable()
    assert sys.getprofile() is None
    found = {name: calls for (_, _, name), (calls, *_) in pstats.Stats(profiler).stats.items()}  # type: ignore[attr-defined]
    assert found["afterwards"] == 3


def test_making_a_program_leaves_no_garbage():
    """What a program was made of is gone when it is made: Python would take long to find it."""
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 4))
    optimizer = torch.optim.AdamW(model.parameters())

    @torch.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        step(torch.ones(4, 8), torch.tensor([0, 1, 2, 3]))
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            step(torch.ones(2, 8), torch.tensor([0, 1]))
        assert len(step.programs) == 2
        assert gc.collect() < 50
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_steps_of_recurrent_layers_are_parts_of_the_program(kind):
    torch.manual_seed(0)
    model = kind(5, 6, 2, batch_first=True)

    def step(x):
        for p in model.parameters():
            p.grad = None
        out, _ = model(x)
        (out**2).sum().backward()
        return out.detach()

    x = torch.randn(3, 4, 5)
    expected = step(x)
    grads = [p.grad.clone() for p in model.parameters()]
    found, program = kept_program(step, x, calls=4)
    names = {call.op.name for call in program.graph.calls}
    assert "tanh" in names and not any("layer" in name for name in names)
    same_bits(found, expected)
    for p, grad in zip(model.parameters(), grads, strict=True):
        same_bits(p.grad, grad)
    compiled = torch.compile(step)
    for _ in range(4):
        same_bits(compiled(x), expected)
        for p, grad in zip(model.parameters(), grads, strict=True):
            same_bits(p.grad, grad)
    assert runs(compiled)


def test_wrong_shapes_are_refused_in_our_words():
    @torch.compile
    def add(x, y):
        return x + y

    for _ in range(3):
        with pytest.raises(RuntimeError, match="sizes must match"):
            add(torch.ones(2), torch.ones(3))


def grads_of(wrap, change):
    """Gradients of a leaf, by call, where an intermediate value may become a leaf of its own."""
    w = torch.ones(3, requires_grad=True)

    def step(cut):
        w.grad = None
        y = w * 2
        if cut:
            change(y)
        (y * 3).sum().backward()
        return None if w.grad is None else w.grad.tolist(), y.is_leaf

    step = wrap(step)
    return [step(k in (4, 6)) for k in range(8)]


def test_a_graph_that_is_changed_by_hand_is_walked():
    def leave(y):
        y.detach_().requires_grad_()

    assert grads_of(torch.compile, leave) == grads_of(lambda step: step, leave)


@pytest.mark.parametrize("scales", [(0.5, 0.5, 0.5, -0.5, 0.5, -0.5, 0.25), (0.1, 0.2, 0.3, 0.4, 0.0, 0.5)])
def test_numbers_that_nodes_save_are_those_of_their_run(scales, monkeypatch):
    walks = []
    monkeypatch.setattr(waiting.Waiter, "walk", counting(walks, waiting.Waiter.walk))

    def train(wrap):
        w = torch.ones(3, requires_grad=True)

        def step(x, scale):
            w.grad = None
            (scale * (w * x).sum() / (2 * scale + 3.0)).backward()
            return w.grad.tolist()

        step = wrap(step)
        return [step(torch.arange(3.0) + k, scale) for k, scale in enumerate(scales)]

    assert train(torch.compile) == train(lambda step: step)
    assert len(walks) <= 3  # with the first numbers, and when one and then both were others


def test_passes_that_add_to_gradients_are_known(monkeypatch):
    walks = []
    monkeypatch.setattr(waiting.Waiter, "walk", counting(walks, waiting.Waiter.walk))

    def train(step, times):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        version = []
        for k in range(times):
            step(model, torch.full((4, 3), k / 8), parts=3 if k != 5 else 2)
            version.append(model.weight.grad._version)
            model.weight.grad = model.bias.grad = None
        return model, version

    def parts(model, x, parts):
        for k in range(parts):
            model(x * (k + 1)).square().sum().backward()
        if parts == 2:
            model.weight.grad = model.weight.grad.clone()  # another memory, in its place
            model(x).square().sum().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad

    expected, versions = train(parts, 8)
    assert not walks
    found, found_versions = train(torch.compile(parts), 8)
    assert len(walks) == 3 + 1 and versions == found_versions
    for one, other in zip(expected.parameters(), found.parameters(), strict=True):
        same_bits(one, other)


def counting(calls, method):
    def counted(*args):
        calls.append(args)
        return method(*args)

    return counted


def test_a_split_into_one_part_is_still_a_tuple():
    assert [len(torch.compile(lambda x: (x * 2).chunk(1))(torch.ones(3))) for _ in range(3)] == [1, 1, 1]
    assert torch.compile(lambda x: [row.shape for row in x * 2])(torch.ones(1, 3)) == [(3,)]


def test_views_of_written_memory_look_into_the_memory_of_their_call():
    @torch.compile
    def row(t):
        t.mul_(2)
        return t.detach()[0]

    assert [row(torch.full((2, 2), float(k)))[0].item() for k in range(5)] == [0.0, 2.0, 4.0, 6.0, 8.0]

    @torch.compile
    def windows(t):
        seen = t.unfold(0, 1, 1)
        t.zero_()
        return seen + 1

    assert all(windows(torch.ones(2, 3)).unique().tolist() == [1.0] for _ in range(4))


def test_views_of_results_that_do_not_lie_in_rows():
    @torch.compile
    def seen(x):
        y = torch.where(x.permute(2, 0, 1) > 0, x.permute(2, 0, 1), 0.25)
        return y, y.unsqueeze(-1), y[1]

    for k in range(5):
        x = torch.arange(12.0).reshape(3, 2, 2) - k
        y, wide, row = seen(x)
        expected = torch.where(x.permute(2, 0, 1) > 0, x.permute(2, 0, 1), 0.25)
        assert (
            torch.equal(y, expected)
            and torch.equal(wide, expected.unsqueeze(-1))
            and torch.equal(row, expected[1])
        )
        assert y.stride() == expected.stride()


def test_memory_that_was_handed_out_is_written_at_once():
    w = torch.ones(3, requires_grad=True)

    @torch.compile
    def step():
        seen = w.unsqueeze(0)[0].detach().numpy()
        with torch.no_grad():
            w.mul_(2)
        return seen

    arrays = [step() for _ in range(5)]
    assert all(array.tolist() == [32.0] * 3 for array in arrays)


def interrupted(*args):
    raise KeyboardInterrupt


def test_an_interrupted_call_is_taken_back(monkeypatch):
    with torch.waiting():
        x = torch.ones(3)
        y = x * 2
        with monkeypatch.context() as patch:
            patch.setattr(waiting, "link", interrupted)
            with pytest.raises(KeyboardInterrupt):
                x + torch.zeros(3)
        assert (y * 3).tolist() == [6.0] * 3 and y.tolist() == [2.0] * 3


def test_an_interrupted_call_that_comes_again_is_taken_back(monkeypatch):
    def sums(x):
        y = x * 2
        return y, y + torch.zeros(3)

    def looked_at(y, z):
        return (y * 3).tolist(), z.tolist()

    with torch.waiting():
        assert looked_at(*sums(torch.ones(3))) == ([6.0] * 3, [2.0] * 3)
        x = torch.ones(3)
        y = x * 2
        with monkeypatch.context() as patch:
            patch.setitem(again.NAMES, "new", interrupted)
            again.writing.cache_clear()
            with pytest.raises(KeyboardInterrupt):
                y + torch.zeros(3)
        again.writing.cache_clear()
        assert looked_at(y, y + 1) == ([6.0] * 3, [3.0] * 3)


def test_an_error_by_value_names_the_line_of_its_call():
    table = torch.ones(3, 2)
    with torch.waiting():
        before = table * 2
        picked = torch.nn.functional.embedding(torch.tensor([5]), table)
        with pytest.raises(IndexError, match=r"picked = torch\.nn\.functional\.embedding"):
            picked.sum().item()
        assert before.tolist() == [[2.0, 2.0]] * 3


def test_a_model_that_is_gone_leaves_no_memory():
    import weakref

    with torch.waiting():
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        memory = weakref.ref(model.weight._data)
        beside.wait()
        del model, optimizer
        gc.collect()
        torch.ones(2) + 1
        assert memory() is None


def test_a_part_of_an_array_is_read_when_it_is_used():
    """The slice from which the tensor was made is gone; the array behind it is the user's."""
    whole = np.ones(4, np.float32)
    with torch.waiting():
        x = torch.from_numpy(whole[:2])
        doubled = x * 2
        whole[:] = 5.0
        assert doubled.tolist() == [2.0, 2.0] and (x * 2).tolist() == [10.0, 10.0]


def test_a_long_run_learns_no_more_and_holds_no_more():
    from cleargrad.core.tensor import lent

    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    with torch.waiting() as switch:
        sizes = []
        for step in range(300):
            optimizer.zero_grad()
            loss = model(torch.ones(2 + step % 3, 4)).square().sum()
            loss.backward()
            optimizer.step()
            loss.detach().numpy()
            sizes.append((switch.waiter.tree.size, len(switch.waiter.tree.endings), len(lent)))
    assert sizes[-1] == sizes[99]
