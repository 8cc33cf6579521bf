"""Compiled modules in ordinary programs: gradients flow through them as through eager ones."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import cleargrad as torch
from cleargrad import nn
from tests.bits import same_bits
from tests.compile.world import batch, net, runs, same


def twins(make):
    torch.manual_seed(0)
    one = make()
    other = copy.deepcopy(one)
    return one, other


def compare(one, other, what=""):
    for (name, p), (_, q) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        same_bits(q, p, name)
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            same_bits(q.grad, p.grad, name + ".grad")
    for (name, p), (_, q) in zip(one.named_buffers(), other.named_buffers(), strict=True):
        same_bits(q, p, name)


def count(compiled):
    return len(compiled._compiled.programs)


def test_training_loop(backend):
    def make():
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3))

    model, other = twins(make)
    compiled = torch.compile(other, backend=backend)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, compiled)]
    for k in range(6):
        x, y = batch(k)
        losses = []
        for m, optimizer in zip((model, compiled), optimizers):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(m(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss)
        same(*losses)
        compare(model, other)
    assert count(compiled) == 1
    model.eval(), compiled.eval()
    assert not other.training and not compiled.training
    with torch.no_grad():
        for k in range(3):
            same(model(batch(k)[0]), compiled(batch(k)[0]))


def test_inputs_get_gradients(backend):
    model, other = twins(net)
    compiled = torch.compile(other, backend=backend)
    for k in range(4):
        grads = []
        for m in (model, compiled):
            x = batch(k)[0].requires_grad_()
            h = (x * 2).sin()
            out = m(h) + h.sum()
            out.square().sum().backward()
            grads.append(x.grad)
        same_bits(*grads)
        compare(model, other)


def test_leaves_as_inputs(backend):
    model, other = twins(net)
    compiled = torch.compile(other, backend=backend)
    for k in range(4):
        grads = []
        for m in (model, compiled):
            x = batch(k)[0].requires_grad_()
            m(x).square().sum().backward()
            grads.append(x.grad)
        same_bits(*grads)


def test_a_function_of_tensors(backend):
    def f(x, y):
        return x.sin() * y, (x * y).sum(), y.detach() + 1

    compiled = torch.compile(f, backend=backend)
    for k in range(4):
        ends = []
        for g in (f, compiled):
            x, y = (t.requires_grad_() for t in batch(k))
            x = x[:, :3]
            a, b, c = g(x * 1, y)
            assert a.requires_grad and b.requires_grad and not c.requires_grad
            (a.sum() * b).backward()
            ends.append((a, b, c, y.grad))
        same(*ends)


def test_parts_of_the_results_are_used(backend):
    w = torch.ones(3, requires_grad=True)
    compiled = torch.compile(lambda x: (x * w, x + w), backend=backend)
    for _ in range(4):
        w.grad = None
        compiled(torch.arange(3.0))[1].sum().backward()
        assert w.grad.tolist() == [1.0, 1.0, 1.0]


def test_backward_twice_and_retained(backend):
    model = net()
    compiled = torch.compile(model, backend=backend)
    x = batch(0)[0]
    for _ in range(3):
        out = compiled(x).sum()
    out.backward(retain_graph=True)
    first = model[0].weight.grad.clone()
    out.backward()
    same_bits(model[0].weight.grad, first * 2)
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_changed_parameters_are_noticed(backend):
    model = net()
    compiled = torch.compile(model, backend=backend)
    x = batch(0)[0]
    for _ in range(3):
        out = compiled(x).sum()
    with torch.no_grad():
        model[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match="inplace"):
        out.backward()


def test_dropout_and_hooks_on_parameters(backend):
    model, other = twins(lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.4), nn.Linear(8, 3)))
    seen = []
    for m in (model, other):
        m[0].weight.register_hook(lambda g: g * 2)
        m[2].bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    compiled = torch.compile(other, backend=backend)
    for k in range(4):
        for m in (model, compiled):
            torch.manual_seed(k)
            m(batch(k)[0]).sum().backward()
        compare(model, other)
    assert len(seen) == 8


def test_recurrent_and_attention(backend):
    def make():
        return nn.ModuleList(
            [nn.LSTM(4, 5, batch_first=True), nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)]
        )

    for number in range(2):
        model, other = twins(make)
        compiled = torch.compile(other[number], backend=backend)
        for k in range(3):
            x = torch.tensor(np.random.default_rng(k).standard_normal((2, 3, 4)), dtype=torch.float32)
            outs = []
            for m in (model[number], compiled):
                out = m(x)
                out = out[0] if isinstance(out, tuple) else out
                out.square().mean().backward()
                outs.append(out)
            same(*outs)
            compare(model, other)


def test_face_of_the_module(backend):
    model = net()
    model.extra = 3
    compiled = torch.compile(model, backend=backend)
    assert isinstance(compiled, nn.Module) and type(compiled).__name__ == "OptimizedModule"
    assert compiled.extra == 3 and compiled[0] is model[0] and len(compiled) == 3
    assert next(name for name, _ in compiled.named_parameters()) == "_orig_mod.0.weight"
    assert next(iter(compiled.state_dict())) == "_orig_mod.0.weight"
    compiled.load_state_dict(compiled.state_dict())
    compiled.extra = 5
    assert model.extra == 5
    assert next(iter(compiled.parameters())) is model[0].weight
    twin = copy.deepcopy(compiled)
    x = batch(0)[0]
    same(twin(x), model(x))
    same(pickle.loads(pickle.dumps(compiled))(x), model(x))
    assert torch.compile(compiled) is compiled


def test_compiled_in_place(backend):
    model = net()
    x = batch(0)[0]
    want = model(x)
    model.compile(backend=backend)
    for _ in range(3):
        same(model(x), want)
    assert next(iter(model.state_dict())) == "0.weight"
    same(copy.deepcopy(model)(x), want)
    model.register_forward_hook(lambda module, args, out: out * 2)
    same(model(x), want * 2)


def test_double_backward(backend):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    compiled = torch.compile(lambda x: (x * w * w * w).sum(), backend=backend)
    for k in range(4):
        w.grad = None
        (grad,) = torch.autograd.grad(compiled(torch.full((2,), float(k))), w, create_graph=True)
        grad.sum().backward()
        assert w.grad.tolist() == [6.0 * k, 12.0 * k]
    assert runs(compiled) == 2


def test_a_compiled_model_in_a_compiled_step(backend):
    model, other = twins(net)
    compiled = torch.compile(other, backend=backend)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, compiled)]

    def make(m, optimizer):
        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(m(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            optimizer.step()
            return loss.item()

        return step

    eager = make(model, optimizers[0])
    step = torch.compile(make(compiled, optimizers[1]), backend=backend, fullgraph=True)
    for k in range(5):
        same(eager(*batch(k)), step(*batch(k)))
        compare(model, other)
    assert len(step.programs) == 1


def test_hooks_of_the_wrapper():
    """They belong to the wrapper, not to the module, and see every call."""
    model = torch.nn.Linear(2, 2)
    compiled = torch.compile(model)
    seen = []
    handle = compiled.register_forward_hook(lambda module, args, result: seen.append(module is compiled))
    x = torch.ones(1, 2)
    for _ in range(4):
        compiled(x)
    model(x)
    handle.remove()
    compiled(x)
    assert seen == [True] * 4
