"""What surrounds a call that has long been made without Python: modes, observers, and what modules are put into."""

from __future__ import annotations

import contextlib

from tests.compile.state.common import Box, attempted, linear, played, program, row, state_of
from tests.compile.state.proof_modules import net_of, stepping
from tests.compile.state.proof_python import setter


def within(call, mode):
    """The call, inside of what mode[0] gives."""

    def inner():
        with mode[0]():
            return call()

    return inner


@program("proof")
def hooks_on_what_is_saved(torch, wrap):
    _, _, call = stepping(torch, wrap)
    seen, mode = [], [contextlib.nullcontext]

    def hooks():
        return torch.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(1), t)[1], lambda t: t)

    return played(
        within(call, mode),
        lambda: mode.__setitem__(0, hooks),
        lambda: mode.__setitem__(0, contextlib.nullcontext),
    ), len(seen)


@program("proof")
def anomalies_are_looked_for(torch, wrap):
    _, _, call = stepping(torch, wrap)
    mode = [contextlib.nullcontext]
    return played(
        within(call, mode),
        lambda: mode.__setitem__(0, torch.autograd.detect_anomaly),
        lambda: mode.__setitem__(0, contextlib.nullcontext),
    )


@program("proof")
def modes_of_all_kinds(torch, wrap):
    _, _, call = stepping(torch, wrap)
    mode = [contextlib.nullcontext]
    kinds = [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: torch.set_grad_enabled(True),
        lambda: torch.autograd.set_multithreading_enabled(False),
        lambda: torch.random.fork_rng(),
        contextlib.nullcontext,
    ]
    return played(within(call, mode), *(lambda kind=kind: mode.__setitem__(0, kind) for kind in kinds))


@program("proof")
def steps_that_are_recorded(torch, wrap):
    _, optimizer, call = stepping(torch, wrap, momentum=0.9)
    return played(
        call,
        lambda: optimizer.defaults.update(differentiable=True),
        lambda: optimizer.defaults.update(differentiable=False),
        lambda: optimizer.defaults.clear(),
    )


@program("proof")
def parametrized_weights(torch, wrap):
    net, _, call = stepping(torch, wrap)

    class Twice(torch.nn.Module):
        def forward(self, w):
            return w * 2

    parametrize = torch.nn.utils.parametrize
    return played(
        call,
        lambda: parametrize.register_parametrization(net[0], "weight", Twice()),
        lambda: parametrize.remove_parametrizations(net[0], "weight"),
    )


@program("proof")
def weights_that_are_normed(torch, wrap):
    layer, x = linear(torch, 4, 3), row(torch)
    f = wrap(lambda x: layer(x).sum().detach() * 1)
    return played(
        lambda: f(x),
        lambda: torch.nn.utils.parametrizations.weight_norm(layer),
        lambda: setattr(layer, "bias", None),
    )


@program("proof")
def losses_patched_inside(torch, wrap):
    functional = torch.nn.functional
    olds = {
        name: getattr(functional, name)
        for name in ("log_softmax", "nll_loss", "softmax", "mse_loss", "linear")
    }
    layer = linear(torch, 8, 4)
    x, y = torch.arange(24.0).reshape(1, 3, 8).sin(), torch.tensor([0, 1, 2])

    def f(x):
        return (functional.cross_entropy(layer(x)[0], y) * 1).detach() * 2 + functional.mse_loss(x, x * 2)

    f = wrap(f)
    changes = [
        setter(functional, name, lambda *a, old=old, **k: old(*a, **k) * 1.5) for name, old in olds.items()
    ]
    try:
        return played(lambda: f(x), *changes, *(setter(functional, name, old) for name, old in olds.items()))
    finally:
        for name, old in olds.items():
            setattr(functional, name, old)


@program("proof")
def functions_of_modules_replaced_in_place(torch, wrap):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = torch.nn.functional.relu
            self.layer = linear(torch, 4, 4)
            self.gains = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(4)) for _ in range(2)])

        def forward(self, x):
            x = self.act(self.layer(x))
            for gain in self.gains:
                x = x * gain
            return x.sum().detach() * 1

    block, x = Block(), row(torch)
    f = wrap(lambda x: block(x))
    return played(
        lambda: f(x),
        setter(block, "act", torch.tanh),
        setter(block, "act", lambda x: x * 3),
        lambda: block.gains.append(torch.nn.Parameter(torch.ones(4) * 2)),
        lambda: block.gains.__setitem__(0, torch.nn.Parameter(torch.ones(4) * 5)),
    )


@program("proof")
def recurrent_layers(torch, wrap):
    torch.manual_seed(0)
    layer, x = torch.nn.LSTM(4, 3), torch.arange(24.0).reshape(3, 2, 4).sin()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x)[0].pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    return played(
        lambda: (attempted(lambda: step(x)), state_of(layer)),
        setter(layer, "batch_first", True),
        setter(layer, "bidirectional", False),
        lambda: setattr(layer, "weight_hh_l0", torch.nn.Parameter(torch.ones(12, 3) * 0.1)),
        lambda: layer.requires_grad_(False),
    )


@program("proof")
def embeddings_and_norms(torch, wrap):
    torch.manual_seed(0)
    table, norm = torch.nn.Embedding(6, 4, padding_idx=0), torch.nn.LayerNorm(4)
    optimizer = torch.optim.Adam([*table.parameters(), *norm.parameters()], lr=0.1)
    x = torch.tensor([0, 1, 2])

    def step(x):
        optimizer.zero_grad()
        loss = norm(table(x)).pow(3).sum()
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    return played(
        lambda: (attempted(lambda: step(x)), state_of(table), state_of(norm)),
        setter(table, "padding_idx", 1),
        setter(table, "padding_idx", None),
        setter(norm, "eps", 0.5),
        setter(norm, "normalized_shape", (3,)),
        setter(norm, "normalized_shape", (4,)),
        setter(table, "max_norm", 0.5),
    )


@program("proof")
def convolutions(torch, wrap):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten()
    )
    x = torch.arange(32.0).reshape(2, 1, 4, 4).sin()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    return played(
        lambda: (attempted(lambda: step(x)), state_of(net)),
        setter(net[0], "padding", (0, 0)),
        setter(net[0], "stride", (2, 2)),
        setter(net[2], "kernel_size", 1),
        setter(net[1], "inplace", True),
        setter(net[3], "start_dim", 2),
    )


@program("proof")
def boxes_in_boxes(torch, wrap):
    root = Box(inner=Box(inner=Box(k=2.0, layers=[linear(torch, 4, 4)])))
    f, x = wrap(lambda x: root.inner.inner.layers[0](x).sum().detach() * root.inner.inner.k), row(torch)
    return played(
        lambda: f(x),
        lambda: setattr(root.inner.inner, "k", 3.0),
        lambda: setattr(root.inner, "inner", Box(k=4.0, layers=root.inner.inner.layers)),
        lambda: root.inner.inner.layers.insert(0, torch.nn.Identity()),
        lambda: setattr(root, "inner", root.inner.inner),
    )


@program("proof")
def one_net_in_another(torch, wrap):
    outer, inner, x = torch.nn.Sequential(net_of(torch)), net_of(torch), row(torch)
    f = wrap(lambda x: outer(x).sum().detach() * 2)
    return played(
        lambda: f(x),
        lambda: outer.__setitem__(0, inner),
        lambda: inner.__setitem__(1, torch.nn.Identity()),
        lambda: inner.append(outer[0][0]) if False else inner.eval(),
        lambda: setattr(inner[0], "weight", torch.nn.Parameter(torch.ones(3, 4))),
    )
