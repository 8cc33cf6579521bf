"""What is recorded once and copied: updates of parameters, fused ops, gradients, steps of recurrent layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch as pytorch

import cleargrad as torch
from cleargrad import nn, optim
from cleargrad.compile.building import Building
from cleargrad.compile.repeat import Template
from cleargrad.devices.cpu.programs import eager
from cleargrad.graph.passes import eliminate_copies
from cleargrad.nn import functional as F
from cleargrad.ops import recurrent
from cleargrad.ops.record import Recorder, replay
from tests.bits import same_bits
from tests.compile.world import kept_program

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


def made(make, shapes=SHAPES):
    random = np.random.default_rng(0)
    parameters = [torch.tensor(random.standard_normal(s).astype(np.float32)).requires_grad_() for s in shapes]
    optimizer = make(parameters)

    def step(x):
        optimizer.zero_grad()
        loss = sum(((p * (k + 1) - x) ** 2).sum() for k, p in enumerate(parameters))
        loss.backward()
        optimizer.step()
        return loss

    return parameters, optimizer, step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_steps_are_eager_ones(name):
    (p, eager, step), (q, other, bound) = made(OPTIMIZERS[name]), made(OPTIMIZERS[name])
    compiled = torch.compile(bound)
    for k in range(6):
        x = torch.tensor(0.1 * k)
        same_bits(compiled(x), step(x))
        for one, two in zip(p, q, strict=True):
            same_bits(two, one)
            fields, others = eager.state[one], other.state[two]
            assert fields.keys() == others.keys()
            for field, kept in fields.items():
                if isinstance(kept, torch.Tensor):
                    same_bits(others[field], kept, field)


def recorded(step):
    _, program = kept_program(step, torch.tensor(0.5), calls=4)
    return [call.op.name for call in program.graph.calls]


def test_what_parameters_share_is_recorded_once_for_a_kind():
    shapes = [shape for shape in SHAPES if shape]  # without dimensions, a parameter is recorded by itself
    names = recorded(made(OPTIMIZERS["adam"], shapes)[-1])
    assert names.count("lerp") >= len(shapes)
    # what only the new parameter needs is one formula with it
    assert sum("sqrt" in name for name in names) == len(shapes)
    assert names.count("add(mul($0, $1), mul(mul($2, $3), $2))") >= len(shapes)
    # 1 - beta is the same for all
    assert names.count("sub") <= 10


def test_a_rule_of_the_users_is_seen_for_every_parameter():
    class Halving(optim.SGD):
        seen = 0

        @staticmethod
        def _update(p, g, state, group):
            Halving.seen += 1
            p.mul_(0.5)

    shapes = [shape for shape in SHAPES if shape]
    parameters, _, step = made(lambda p: Halving(p, 0.1), shapes)
    before = [p.detach().clone() for p in parameters]
    recorded(step)
    assert Halving.seen == 3 * len(shapes)  # two steps, and one that is recorded
    for p, old in zip(parameters, before, strict=True):
        assert torch.equal(p.detach(), old * 0.5**4)


def test_it_has_no_program_for_a_parameter_without_dimensions():
    """It would be recorded as a row of one element, which a rule can tell from a number."""

    class Scaled(optim.SGD):
        @staticmethod
        def _update(p, g, state, group):
            p.mul_(0.5 if p.dim() == 0 else 0.25)

    (p, _, step), (q, _, bound) = (made(lambda p: Scaled(p, 0.1)) for _ in range(2))
    compiled = torch.compile(bound)
    for k in range(4):
        same_bits(compiled(torch.tensor(0.1 * k)), step(torch.tensor(0.1 * k)))
    for one, two in zip(p, q, strict=True):
        same_bits(two, one)
    assert not compiled.programs


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
        same_bits(two, one)


# Fused ops and gradients -----------------------------------------------------------------------------------


def agrees(function, *arguments):
    """Compiled calls give what eager ones give, results and gradients of the arguments."""
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(4):
        found = []
        for each in (function, compiled):
            given = [x.clone().detach().requires_grad_(x.is_floating_point()) for x in arguments]
            torch.manual_seed(3)
            out = each(*given)
            out.backward()
            found.append([out.detach(), *(x.grad for x in given if x.grad is not None)])
        for ours, expected in zip(*found, strict=True):
            same_bits(ours, expected)


def alike(function, *arguments):
    """Compiled steps with a backward inside give the gradients that eager ones give."""
    leaves = [torch.nn.Parameter(x.clone()) for x in arguments]

    def step(factor):
        for leaf in leaves:
            leaf.grad = None
        (function(*leaves) * factor).backward()
        return sum((leaf.grad * leaf).sum() for leaf in leaves).detach()

    compiled = torch.compile(step, fullgraph=True)
    for k in range(4):
        factor = torch.tensor(1.0 + k)
        torch.manual_seed(3)
        expected = step(factor)
        torch.manual_seed(3)
        same_bits(compiled(factor), expected)


def test_equal_layers_are_looked_at_once(monkeypatch):
    seen = []
    parts_of = Recorder.parts_of
    monkeypatch.setattr(
        Building, "parts_of", staticmethod(lambda op, *rest: seen.append(op.name) or parts_of(op, *rest))
    )
    copies = []
    copied = Template.copied
    monkeypatch.setattr(Template, "copied", lambda *given: copies.append(1) or copied(*given))
    layers = nn.Sequential(*[nn.LayerNorm(6) for _ in range(5)], nn.LayerNorm(6, eps=0.1))
    alike(lambda x: (layers(x) ** 2).sum(), torch.rand(4, 6))
    assert seen.count("native_layer_norm") == 2 and seen.count("rows_gradient") == 2  # one for each eps
    assert len(copies) >= 8


def test_operands_decide_what_is_copied():
    def function(x, y):
        z = x @ x + x @ y + y @ x.T + y.T @ y  # once with itself, in other layouts
        z = F.layer_norm(z, (5,)) + F.layer_norm(z.T, (5,)) + F.layer_norm(z, (5,), eps=0.5)
        z = z * x + x * x + z * 2 + z * 2.0 + z[:, :1] * z[:1] + z[0] * z
        return F.softmax(z, 0).sum() + F.softmax(z, 1)[0].sum() + (F.softmax(z, 1) * z).sum()

    x, y = torch.rand(5, 5), torch.rand(5, 5)
    alike(function, x, y)
    agrees(function, x, y)


def test_draws_are_made_as_often_as_they_are_written():
    alike(
        lambda x: F.dropout(F.dropout(x, 0.5), 0.5).sum() + F.dropout(x, 0.5).square().sum(), torch.rand(8, 9)
    )


def test_gradients_that_are_views_can_be_written():
    leaf = nn.Parameter(torch.rand(2, 3))

    def step(x):
        h = leaf * x
        h.retain_grad()
        (h.T.reshape(-1) * torch.arange(6.0)).sum().backward()
        h.grad.mul_(2).add_(h.detach())
        return h.grad + 1

    compiled = torch.compile(step, fullgraph=True)
    for k in range(4):
        x = torch.rand(2, 3) + k
        same_bits(compiled(x), step(x))


def test_integer_attributes_that_equal_truths_are_told_apart():
    def function(x):
        return x.sum(0, keepdim=True).square().sum() + x.sum(1, keepdim=False).square().sum()

    alike(function, torch.rand(3, 3))


# Recurrent layers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_steps_of_a_recurrent_layer_are_looked_at_once(kind, bidirectional, monkeypatch):
    copies = []
    copied = Template.copied
    monkeypatch.setattr(Template, "copied", lambda *given: copies.append(1) or copied(*given))
    torch.manual_seed(0)
    layer = kind(3, 4, bidirectional=bidirectional)

    def function(x):
        out, last = layer(x)
        last = last[1] if isinstance(last, tuple) else last
        return (out**2).sum() + last.sum()

    alike(function, torch.rand(7, 2, 3))
    assert len(copies) >= 6


def layer_of(kind, sizes, reverse, projected=False):
    """A layer's parts, its gradient as it was written down, its operands and its attributes."""
    rows, batch, gates = sum(sizes), sizes[0], {"lstm": 4, "gru": 3}.get(kind, 1)
    width = 2 if projected and kind == "lstm" else 3
    x, weight = torch.randn(rows, 3 * gates).double(), torch.randn(3 * gates, width).double()
    h, c = torch.randn(batch, width).double(), torch.randn(batch, 3).double()
    attrs = {"sizes": sizes, "reverse": reverse}
    if kind == "lstm":
        operands = (x, h, c, weight, torch.randn(2, 3).double() if projected else None)
        return recurrent.lstm_parts, recurrent.lstm_vjp, operands, attrs, (0, 3, 4), 3
    if kind == "gru":
        operands = (x, h, weight, None if projected else torch.randn(9).double())
        return recurrent.gru_parts, recurrent.gru_vjp, operands, attrs, (0, 2, 3), 2
    return recurrent.rnn_parts, recurrent.rnn_vjp, (x, h, weight), attrs | {"relu": kind == "relu"}, (0,), 2


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(2,), (2, 2, 2), (4, 2, 2, 1)])
@pytest.mark.parametrize("kind", ["lstm", "lstm, projected", "gru", "gru, no bias", "tanh", "relu"])
def test_gradients_of_recurrent_layers_are_those_of_their_parts(kind, sizes, reverse):
    """They were derived by hand, to keep less and to multiply once for all steps."""
    torch.manual_seed(1)
    name, *more = kind.split(", ")
    parts, vjp, operands, attrs, kept, count = layer_of(name, sizes, reverse, bool(more))
    with torch.no_grad():
        results = parts(*operands, **attrs)
        for given in [(1,) * count, *np.eye(count, dtype=int).tolist()]:  # outputs that nobody used have none
            grads = [torch.randn_like(y) if use else None for y, use in zip(results, given, strict=False)]
            found = vjp(grads, *operands, *[results[k] for k in kept], **attrs)
            expected = recurrent.pulled_through(parts, grads, operands, **attrs)
            for ours, theirs in zip(found, expected, strict=True):
                if ours is not None:  # parts give None where nothing depends on an operand
                    theirs = torch.zeros_like(ours) if theirs is None else theirs
                    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
                else:
                    assert theirs is None


def trained(library, layer, array, lengths):
    """Results and gradients of a layer."""
    x = library.tensor(array, requires_grad=True)
    out, last = layer(library.nn.utils.rnn.pack_padded_sequence(x, lengths))
    states = last if isinstance(last, tuple) else (last,)
    ((out.data * out.data).sum() + sum((state * state).sum() for state in states)).backward()
    found = [value.detach().numpy().copy() for value in (out.data, *states, x.grad)]
    grads = [p.grad.numpy().copy() for p in layer.parameters()]
    layer.zero_grad()
    return found + grads


@pytest.mark.parametrize(("hidden", "dtype"), [(5, "float32"), (64, "float64"), (131, "float32")])
@pytest.mark.parametrize("lengths", [(7,), (7, 7, 6, 2, 1), (7,) * 33])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_those_of_torch_and_keep_their_bits(kind, lengths, hidden, dtype):
    """Alone, as a program after some calls, and waiting."""
    pytorch.manual_seed(0)
    options = {"bidirectional": True} | ({"proj_size": 3} if kind == "LSTM" and hidden == 5 else {})
    theirs = getattr(pytorch.nn, kind)(4, hidden, **options).to(getattr(pytorch, dtype))
    ours = getattr(nn, kind)(4, hidden, **options).to(getattr(torch, dtype))
    ours.load_state_dict({name: torch.tensor(x.numpy()) for name, x in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((7, len(lengths), 4)).astype(dtype)
    with torch.eager():
        found = trained(torch, ours, x, lengths)
        again = [trained(torch, ours, x, lengths) for _ in range(eager.OFTEN if hidden == 5 else 1)]
    with torch.waiting():
        again += [trained(torch, ours, x, lengths) for _ in range(3)]
    for other in again:
        for value, first in zip(other, found, strict=True):
            same_bits(value, first)
    limit = {"rtol": 1e-4, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-11}
    for value, wanted in zip(found, trained(pytorch, theirs, x, lengths), strict=True):
        np.testing.assert_allclose(value, wanted, **limit)


def test_what_is_split_where_it_was_joined_is_its_parts():
    parts = [torch.rand(2, 3), torch.rand(1, 3)]
    with Recorder() as recorder:
        given = [recorder.input(part) for part in parts]
        whole = torch.cat([part * 2 for part in given])
        same, other = whole.split([2, 1]), whole.split([1, 2])
        graph = recorder.finish([x + 1 for x in (*same, *other)])
    arrays = [part.numpy() for part in parts]
    shorter = eliminate_copies(graph)
    used = [call.operands[0].index for call in shorter.calls if call.op.name == "add"]
    doubled = [call.results[0].index for call in shorter.calls if call.op.name == "mul"]
    assert used[:2] == doubled and not set(used[2:]) & set(doubled)
    for ours, expected in zip(replay(shorter, arrays), replay(graph, arrays), strict=True):
        np.testing.assert_array_equal(ours, expected)
