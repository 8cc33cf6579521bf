"""How calls are recorded: when, with what eyes, and by which kernels."""

from __future__ import annotations

import cProfile
import gc
import pstats
import sys
import threading

import numpy as np
import pytest

import cleargrad as torch
from cleargrad import nn
from cleargrad.compile import capture
from cleargrad.compile.tracer import Tracer, all_tensors

SCALE = 2.0


def test_another_size_is_recorded_when_it_comes_first():
    @torch.compile
    def double(x):
        return x * SCALE

    for _ in range(2):
        double(torch.ones(3))
    assert len(double.entries) == 1
    for size in range(4, 12):
        assert double(torch.ones(size)).tolist() == [2.0] * size
    # those of which there may be many wait until they come again
    assert len(double.entries) == capture.FEW
    for size in range(4, 12):
        assert double(torch.ones(size)).tolist() == [2.0] * size
    assert len(double.entries) == 9


def test_a_name_that_is_read_deep_in_a_hook_is_still_seen():
    """Nobody watches inside of ops, but what the user is called for on the way back is watched."""
    global SCALE
    w = torch.ones(3, requires_grad=True)

    def scaled(grad):
        return grad * SCALE

    w.register_hook(scaled)

    @torch.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad.clone()

    x = torch.ones(3)
    for _ in range(3):
        assert step(x).tolist() == [2.0] * 3
    try:
        SCALE = 3.0
        assert step(x).tolist() == [3.0] * 3
    finally:
        SCALE = 2.0


def test_a_name_in_a_backward_of_the_users_is_still_seen():
    global SCALE

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * SCALE

    w = torch.ones(3, requires_grad=True)

    @torch.compile
    def step(x):
        w.grad = None
        Scaled.apply(w * x).sum().backward()
        return w.grad.clone()

    x = torch.ones(3)
    for _ in range(3):
        assert step(x).tolist() == [2.0] * 3
    try:
        SCALE = 5.0
        assert step(x).tolist() == [5.0] * 3
    finally:
        SCALE = 2.0


def test_recording_leaves_the_interpreter_as_it_was():
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


def test_a_profiler_goes_on_behind_a_recorded_call():
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


def test_tensors_are_found_without_a_hold_on_what_other_threads_make():
    class Special(torch.Tensor):
        pass

    kept = [torch.ones(1), nn.Parameter(torch.ones(2)), torch.ones(3).as_subclass(Special)]
    failures = []
    stop = threading.Event()

    def make_tuples():
        try:
            while not stop.is_set():
                tuple(number for number in range(60))
        except SystemError as failure:
            failures.append(failure)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other = threading.Thread(target=make_tuples)
    other.start()
    try:
        for _ in range(50):
            found = {id(tensor) for tensor in all_tensors()}
            assert all(id(tensor) in found for tensor in kept)
    finally:
        sys.setswitchinterval(before)
        stop.set()
        other.join()
    assert not failures


def test_a_recording_leaves_no_garbage():
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

    for _ in range(3):
        step(torch.ones(4, 8), torch.tensor([0, 1, 2, 3]))
    gc.collect()
    gc.disable()
    try:
        step(torch.ones(2, 8), torch.tensor([0, 1]))
        assert len(step.entries) == 2
        assert gc.collect() < 50
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers_run_by_kernels_while_their_parts_are_recorded(kind):
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
    with Tracer() as tracer:
        found = step(x)
    assert tracer.reason is None
    names = {call.op.name for call in tracer.graph.calls}
    assert "tanh" in names and not any("layer" in name for name in names)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    for p, grad in zip(model.parameters(), grads, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), grad.numpy(), rtol=1e-4, atol=1e-5)
    compiled = torch.compile(step)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
        for p, grad in zip(model.parameters(), grads, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), grad.numpy(), rtol=1e-4, atol=1e-5)
    assert compiled.entries


def test_wrong_shapes_are_refused_in_our_words_while_recording():
    @torch.compile
    def add(x, y):
        return x + y

    for _ in range(3):
        with pytest.raises(RuntimeError, match="sizes must match"):
            add(torch.ones(2), torch.ones(3))
