"""Modules, hooks and whole training steps, changed when calls have long been made without Python."""

from __future__ import annotations

import collections
import copy
import gc

from tests.compile.state.common import Box, attempted, facts, linear, played, program, row, state_of
from tests.compile.state.proof_python import setter


def net_of(torch):
    return torch.nn.Sequential(linear(torch, 4, 3), torch.nn.Tanh(), linear(torch, 3, 1))


def stepping(torch, wrap, kind="SGD", net=None, clip=None, **options):
    """A net, its optimizer, and a compiled step that gives all that a step leaves."""
    net = net_of(torch) if net is None else net
    optimizer = getattr(torch.optim, kind)(net.parameters(), **{"lr": 0.1, **options})

    def step(x):
        optimizer.zero_grad()
        loss = ((net(x) - 1) ** 2).mean()
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        return loss

    step, x = wrap(step), row(torch).reshape(1, 4).repeat(3, 1) * torch.tensor([[0.1], [0.2], [-0.3]])

    def call():
        loss = attempted(lambda: step(x))
        return loss, state_of(net, optimizer)

    return net, optimizer, call


@program("proof")
def step_of_sgd(torch, wrap):
    _net, optimizer, call = stepping(torch, wrap)
    group = optimizer.param_groups[0]
    return played(
        call,
        lambda: group.update(lr=0.05),
        lambda: group.update(momentum=0.9),
        lambda: group.update(weight_decay=0.1),
        lambda: group.update(nesterov=True),
        lambda: group.update(momentum=0.0, nesterov=False, weight_decay=0),
        lambda: group.update(lr=0.0),
        lambda: group.update(lr=0),
        lambda: group.update(maximize=True, lr=0.1),
        lambda: group.update(momentum=0.5, dampening=0.5),
    )


@program("proof")
def step_of_adamw(torch, wrap):
    _net, optimizer, call = stepping(torch, wrap, "AdamW", clip=1.0)
    group = optimizer.param_groups[0]
    return played(
        call,
        lambda: group.update(lr=0.05),
        lambda: group.update(betas=(0.8, 0.9)),
        lambda: group.update(weight_decay=0.0),
        lambda: group.update(eps=1e-3),
        lambda: group.update(weight_decay=0.3, lr=0.01),
        lambda: group.update(lr=torch.tensor(0.1)),
        lambda: group.update(betas=[0.8, 0.9], lr=0.1),
    )


@program("proof")
def step_of_adam_with_amsgrad_later(torch, wrap):
    _net, optimizer, call = stepping(torch, wrap, "Adam", clip=0.01)
    group = optimizer.param_groups[0]
    return played(
        call,
        lambda: group.update(amsgrad=True),
        lambda: optimizer.state.clear(),
        lambda: group.update(amsgrad=False),
        lambda: group.update(weight_decay=0.1),
    )


@program("proof")
def step_of_rmsprop(torch, wrap):
    _net, optimizer, call = stepping(torch, wrap, "RMSprop", lr=0.01)
    group = optimizer.param_groups[0]
    return played(
        call,
        lambda: group.update(momentum=0.9),
        lambda: group.update(centered=True),
        lambda: group.update(alpha=0.5),
    )


@program("proof")
def optimizer_state_edited(torch, wrap):
    net, optimizer, call = stepping(torch, wrap, "Adam")
    weight = net[0].weight

    def states(change):
        return lambda: [change(state) for state in optimizer.state.values()]

    return played(
        call,
        lambda: optimizer.state[weight]["exp_avg"].zero_(),
        lambda: optimizer.state.pop(weight),
        states(lambda s: s.update(exp_avg=s["exp_avg"].clone())),
        states(lambda s: s.update(step=torch.tensor(50.0) if hasattr(s["step"], "item") else 50)),
        states(lambda s: s.clear()),
        lambda: setattr(optimizer, "state", collections.defaultdict(dict)),
        lambda: optimizer.state.clear(),
    )


@program("proof")
def step_counts_in_state(torch, wrap):
    _net, optimizer, call = stepping(torch, wrap, "Adam")
    shared = []

    def share():
        states = list(optimizer.state.values())
        if hasattr(states[0]["step"], "add_"):
            shared.append(states[0]["step"])
            states[0]["step"].fill_(3)
        states[1]["exp_avg"].mul_(2)

    return played(call, share, share), facts(shared)


@program("proof")
def states_loaded(torch, wrap):
    net, optimizer, call = stepping(torch, wrap, "Adam")
    kept = {}

    def save():
        kept.update(net=copy.deepcopy(net.state_dict()), optimizer=copy.deepcopy(optimizer.state_dict()))

    return played(
        call,
        save,
        lambda: net.load_state_dict(kept["net"]),
        lambda: optimizer.load_state_dict(kept["optimizer"]),
        lambda: net.load_state_dict(kept["net"], assign=True),
        lambda: optimizer.load_state_dict({**kept["optimizer"], "state": {}}),
    )


@program("proof")
def groups_of_an_optimizer(torch, wrap):
    net = net_of(torch)
    extra = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD(net[0].parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = ((net(x) * extra - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step, x = wrap(step), row(torch)

    def call():
        return attempted(lambda: step(x)), state_of(net), extra, extra.grad

    groups = optimizer.param_groups
    return played(
        call,
        lambda: optimizer.add_param_group({"params": [extra], "lr": 0.02}),
        lambda: groups[1]["params"].append(net[2].weight),
        lambda: groups[0]["params"].pop(),
        lambda: groups[0].update(params=[net[2].bias]),
        lambda: groups.pop(0),
        lambda: setattr(optimizer, "param_groups", []),
    )


@program("proof")
def learning_rate_of_a_scheduler(torch, wrap):
    _net, optimizer, call = stepping(torch, wrap, "SGD", momentum=0.9)
    out = played(call)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for _ in range(9):
        out.append(attempted(call))
        scheduler.step()
    return out, optimizer.param_groups[0]["lr"], scheduler.last_epoch


@program("proof")
def gradients_handled_by_the_caller(torch, wrap):
    net = net_of(torch)
    x, kept = row(torch), []

    def accumulate(x):
        loss = net(x).sum()
        loss.backward()
        return loss

    accumulate = wrap(accumulate)

    def call():
        loss = accumulate(x)
        return loss, state_of(net), [k is p.grad for k, p in zip(kept, net.parameters())]

    def keep():
        kept[:] = [p.grad for p in net.parameters()]

    def each(change):
        return lambda: [change(p) for p in net.parameters()]

    return played(
        call,
        keep,
        each(lambda p: setattr(p, "grad", None)),
        lambda: [k.zero_() for k in kept],
        each(lambda p: setattr(p, "grad", torch.zeros_like(p))),
        keep,
        lambda: [k.mul_(3) for k in kept],
        lambda: setattr(net[0].weight, "grad", None),
        lambda: setattr(net[0].weight, "grad", net[0].weight.detach()),
        lambda: setattr(net[0].weight, "grad", torch.zeros(4, 3).t()),
        each(lambda p: setattr(p, "grad", None)),
    ), facts(kept)


@program("proof")
def gradients_kept_before_zero_grad(torch, wrap):
    net, _optimizer, call = stepping(torch, wrap, "SGD", momentum=0.9)
    kept = []

    def with_kept():
        before = [p.grad for p in net.parameters()]
        result = call()
        kept.append([facts(g) for g in before if g is not None])
        return result, [b is p.grad for b, p in zip(before, net.parameters())]

    return played(
        with_kept, lambda: net[0].weight.grad.fill_(7.0), lambda: setattr(net[2].bias, "grad", None)
    ), kept


@program("proof")
def zero_grad_to_zeros(torch, wrap):
    net = net_of(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    box = Box(to_none=False)

    def step(x):
        optimizer.zero_grad(set_to_none=box.to_none)
        loss = net(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    step, x = wrap(step), row(torch)

    def call():
        before = [p.grad for p in net.parameters()]
        return step(x), state_of(net), [b is p.grad for b, p in zip(before, net.parameters())]

    return played(
        call,
        setter(box, "to_none", True),
        lambda: net[0].weight.grad.add_(1),
        setter(box, "to_none", 0),
        setter(box, "to_none", None),
    )


@program("proof")
def a_returned_loss_is_written(torch, wrap):
    net, _optimizer, _call = stepping(torch, wrap)
    step = wrap(lambda x: (net(x) ** 2).mean())
    losses, x = [], row(torch)

    def plain():
        losses.append(step(x))
        with torch.no_grad():
            losses[-1].mul_(100)
        return losses[-1], losses[0], losses[-1] is losses[0]

    return played(plain), facts(losses), played(lambda: attempted(losses[-1].backward))


@program("proof")
def modes_of_modules(torch, wrap):
    net = torch.nn.Sequential(
        linear(torch, 4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5), linear(torch, 3, 1)
    )
    _, _optimizer, call = stepping(torch, wrap, net=net)
    torch.manual_seed(1)
    norm = net[1]
    return played(
        call,
        net.eval,
        net.train,
        norm.eval,
        setter(norm, "training", True),
        setter(norm, "momentum", 0.5),
        setter(norm, "momentum", None),
        setter(norm, "eps", 0.1),
        setter(net[2], "p", 0.1),
        lambda: norm.running_mean.fill_(3.0),
        norm.reset_running_stats,
        setter(norm, "track_running_stats", False),
        lambda: setattr(norm, "running_mean", None),
    )


@program("proof")
def hooks_of_modules(torch, wrap):
    net, x, seen = net_of(torch), row(torch), []
    f, handles = wrap(lambda x: net(x)), []

    def call():
        result = f(x)
        net.zero_grad()
        result.sum().backward()
        return result, state_of(net), len(seen)

    def add(method, hook):
        return lambda: handles.append(getattr(net[0], method)(hook))

    def drop():
        handles.pop().remove()

    return played(
        call,
        add("register_forward_hook", lambda m, a, r: r * 2),
        drop,
        add("register_forward_pre_hook", lambda m, a: (a[0] + 1,)),
        drop,
        add("register_full_backward_hook", lambda m, i, o: seen.append(1)),
        drop,
        add("register_full_backward_pre_hook", lambda m, o: (o[0] * 3,)),
        drop,
        add("register_forward_hook", lambda m, a, r: seen.append(r.detach())),
        drop,
        lambda: net[1]._forward_hooks.update({99: lambda m, a, r: r - 1}),
        lambda: net[1]._forward_hooks.clear(),
    ), facts(seen)


@program("proof")
def hooks_of_all_modules(torch, wrap):
    net, x, handles = net_of(torch), row(torch), []
    f = wrap(lambda x: net(x))
    module = torch.nn.modules.module

    def drop():
        handles.pop().remove()

    try:
        return played(
            lambda: f(x),
            lambda: handles.append(module.register_module_forward_hook(lambda m, a, r: r * 2)),
            drop,
            lambda: handles.append(module.register_module_forward_pre_hook(lambda m, a: (a[0] * 2,))),
            drop,
        )
    finally:
        for handle in handles:
            handle.remove()


@program("proof")
def hooks_of_tensors(torch, wrap):
    net, _optimizer, call = stepping(torch, wrap)
    weight, handles, seen = net[0].weight, [], []

    def drop():
        handles.pop().remove()

    return played(
        call,
        lambda: handles.append(weight.register_hook(lambda g: g * 2)),
        drop,
        lambda: handles.append(
            weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
        ),
        drop,
        lambda: handles.append(weight.register_hook(lambda g: seen.append(g.sum().item()))),
        drop,
    ), seen


@program("proof")
def hooks_of_arguments(torch, wrap):
    x, w, seen = row(torch).requires_grad_(True), row(torch, start=2.0), []

    def f(x):
        loss = (x * w).sum()
        loss.backward()
        return loss

    f, handles = wrap(f), []

    def call():
        result = f(x)
        return result, x.grad

    return played(
        call,
        lambda: handles.append(x.register_hook(lambda g: g * 10)),
        lambda: handles.pop().remove(),
        lambda: setattr(x, "grad", None),
        lambda: handles.append(x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))),
    ), facts(seen)


@program("proof")
def hooks_of_optimizers(torch, wrap):
    _net, optimizer, call = stepping(torch, wrap, momentum=0.9)
    handles, seen = [], []

    def drop():
        handles.pop().remove()

    return played(
        call,
        lambda: handles.append(optimizer.register_step_post_hook(lambda *a: seen.append(1))),
        drop,
        lambda: handles.append(optimizer.register_step_pre_hook(lambda o, a, k: seen.append(len(a)))),
        drop,
        setter(optimizer, "step", lambda: seen.append("mine")),
        lambda: delattr(optimizer, "step"),
        setter(optimizer, "zero_grad", lambda: None),
    ), seen


@program("proof")
def parameters_replaced(torch, wrap):
    net, x = net_of(torch), row(torch)
    f = wrap(lambda x: net(x))

    def call():
        result = f(x)
        return result, [p.requires_grad for p in net.parameters()], len(list(net.parameters()))

    first = net[0]
    new = torch.nn.Parameter(torch.ones(3, 4) * 0.1)
    return played(
        call,
        lambda: setattr(first, "weight", new),
        lambda: first._parameters.update(weight=torch.nn.Parameter(torch.ones(3, 4) * 0.2)),
        lambda: first.register_parameter("bias", None),
        lambda: net._modules.update({"0": linear(torch, 4, 3)}),
        lambda: first.__dict__.update(weight=torch.ones(3, 4)),
        lambda: net.__setitem__(1, torch.nn.ReLU()),
        lambda: net._modules.update({"1": first}),
        lambda: net._modules.update({"1": torch.nn.Identity()}),
        lambda: net.append(torch.nn.Tanh()),
        lambda: net.__delitem__(1),
        lambda: net[0].__dict__.update(weight=torch.ones(3, 4)),
        lambda: net[0].__dict__.pop("weight"),
    )


@program("proof")
def buffers_replaced(torch, wrap):
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.tensor([2.0]))
            self.offset = torch.tensor([1.0])

        def forward(self, x):
            return x * self.scale + self.offset

    module, x = Scaled(), row(torch)
    f = wrap(module)
    return played(
        lambda: f(x),
        lambda: module.scale.fill_(3.0),
        lambda: setattr(module, "scale", torch.tensor([4.0, 5.0, 6.0, 7.0])),
        lambda: module._buffers.update(scale=torch.tensor([1.0])),
        lambda: setattr(module, "offset", 2.0),
        lambda: delattr(module, "scale"),
        lambda: setattr(module, "scale", torch.nn.Parameter(torch.tensor([9.0]))),
        lambda: module.double(),
    )


@program("proof")
def lists_of_modules(torch, wrap):
    class Stack(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([linear(torch, 4, 4) for _ in range(2)])
            self.named = torch.nn.ModuleDict({"a": torch.nn.Tanh(), "b": torch.nn.ReLU()})
            self.which = "a"

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = self.named[self.which](layer(x)) + i
            return x * len(self.layers)

    module, x = Stack(), row(torch)
    f = wrap(lambda x: module(x))
    return played(
        lambda: f(x),
        lambda: module.layers.append(linear(torch, 4, 4)),
        setter(module, "which", "b"),
        lambda: module.named.update({"b": torch.nn.Sigmoid()}),
        lambda: module.layers.insert(0, torch.nn.Identity()),
        lambda: setattr(module, "layers", module.layers[:1]),
        lambda: module.named.pop("b"),
        setter(module, "forward", lambda x: x - 1),
        lambda: delattr(module, "forward"),
        setter(module, "which", "a"),
    )


@program("proof")
def tied_weights(torch, wrap):
    net = torch.nn.Sequential(linear(torch, 4, 4), torch.nn.Tanh(), linear(torch, 4, 4))
    _, _optimizer, call = stepping(torch, wrap, net=net, momentum=0.5)
    own = net[2].weight
    return played(
        call,
        lambda: setattr(net[2], "weight", net[0].weight),
        lambda: setattr(net[2], "weight", own),
        lambda: setattr(own, "data", net[0].weight.data),
        lambda: setattr(own, "data", net[0].weight.data.clone()),
        lambda: net._modules.update({"2": net[0]}),
    )


@program("proof")
def gradients_switched(torch, wrap):
    net, _optimizer, call = stepping(torch, wrap, momentum=0.9, weight_decay=0.1)
    return played(
        call,
        lambda: net[0].weight.requires_grad_(False),
        lambda: net[0].bias.requires_grad_(False),
        lambda: net[2].requires_grad_(False),
        lambda: net.requires_grad_(True),
        lambda: setattr(net[0].weight, "requires_grad", False),
        lambda: setattr(net[0].weight, "grad", torch.ones(3, 4)),
    )


@program("proof")
def data_of_parameters_replaced(torch, wrap):
    net, _optimizer, call = stepping(torch, wrap, "Adam")
    weight = net[0].weight

    def flatten():
        flat = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
        start = 0
        for p in net.parameters():
            p.data = flat[start : start + p.numel()].view(p.shape)
            start += p.numel()

    def overlapping():
        base = torch.arange(20.0) * 0.05
        net[0].weight.data = base[:12].view(3, 4)
        net[0].bias.data = base[10:13]

    return played(
        call,
        lambda: setattr(weight, "data", weight.data.clone()),
        flatten,
        overlapping,
        lambda: setattr(weight, "data", torch.ones(5, 4)),
        lambda: setattr(weight, "data", torch.ones(3, 4)),
        lambda: setattr(weight, "data", torch.ones(3, 4, dtype=torch.float64)),
    )


@program("proof")
def two_optimizers(torch, wrap):
    net = net_of(torch)
    one = torch.optim.SGD(net[0].parameters(), lr=0.1, momentum=0.9)
    two = torch.optim.Adam(net[2].parameters(), lr=0.01)
    box = Box(which=[one, two])

    def step(x):
        for optimizer in box.which:
            optimizer.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        for optimizer in box.which:
            optimizer.step()
        return loss

    step, x = wrap(step), row(torch)
    return played(
        lambda: (step(x), state_of(net, one), state_of(net, two)),
        lambda: box.which.reverse(),
        lambda: box.which.pop(),
        setter(box, "which", (two, one)),
        lambda: one.param_groups[0].update(lr=0.01),
    )


@program("proof")
def two_steps_of_one_model(torch, wrap):
    net, _one, first = stepping(torch, wrap, "SGD", momentum=0.9)
    _, _two, second = stepping(torch, wrap, "Adam", net=net)
    look = wrap(lambda x: net(x).sum())
    x = row(torch)
    return (
        played(first),
        played(second),
        played(lambda: (first(), look(x), second())),
        played(lambda: (look(x), first()), lambda: net[0].weight.data.mul_(2), net.zero_grad),
    )


@program("proof")
def compiled_modules(torch, wrap):
    net, x = net_of(torch), row(torch)
    compiled = wrap(net)
    mode = [torch.enable_grad]

    def call():
        with mode[0]():
            result = compiled(x)
        if result.requires_grad:
            net.zero_grad()
            result.sum().backward()
        return result, state_of(net)

    return played(
        call,
        lambda: mode.__setitem__(0, torch.no_grad),
        lambda: net[0].weight.data.mul_(2),
        lambda: mode.__setitem__(0, torch.enable_grad),
        lambda: net.requires_grad_(False),
        net.eval,
        setter(net, "forward", lambda x: x * 2),
    )


@program("proof")
def another_model_in_its_place(torch, wrap):
    box, x = Box(net=net_of(torch)), row(torch)
    f = wrap(lambda x: box.net(x))

    def another(scale):
        box.net = None
        gc.collect()
        box.net = net_of(torch)
        with torch.no_grad():
            for p in box.net.parameters():
                p.mul_(scale)

    return played(
        lambda: f(x),
        *(lambda k=k: another(k) for k in (2.0, 3.0)),
        lambda: setattr(box, "net", copy.deepcopy(box.net)),
        lambda: box.net[0].weight.data.zero_(),
    )


@program("proof")
def another_optimizer_in_its_place(torch, wrap):
    net, box, x = net_of(torch), Box(), row(torch)

    def another(kind, **options):
        box.optimizer = None
        gc.collect()
        box.optimizer = getattr(torch.optim, kind)(net.parameters(), **options)

    def step(x):
        box.optimizer.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        box.optimizer.step()
        return loss

    another("SGD", lr=0.1, momentum=0.9)
    step = wrap(step)
    return played(
        lambda: (step(x), state_of(net, box.optimizer)),
        lambda: another("SGD", lr=0.1, momentum=0.9),
        lambda: another("SGD", lr=0.1),
        lambda: another("AdamW", lr=0.1),
    )


@program("proof")
def clipping_that_changes(torch, wrap):
    net, box = net_of(torch), Box(most=0.5, norm=2.0, kind="norm")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad(set_to_none=True)
        loss = net(x).pow(2).sum()
        loss.backward()
        if box.kind == "norm":
            total = torch.nn.utils.clip_grad_norm_(net.parameters(), box.most, norm_type=box.norm)
        else:
            total = torch.nn.utils.clip_grad_value_(net.parameters(), box.most)
        optimizer.step()
        return loss, total

    step, x = wrap(step), row(torch)
    return played(
        lambda: (step(x), state_of(net)),
        setter(box, "most", 0.01),
        setter(box, "norm", float("inf")),
        setter(box, "norm", 1),
        setter(box, "kind", "value"),
        setter(box, "most", 100),
    )


@program("proof")
def accumulation_over_parts(torch, wrap):
    net, box, x = net_of(torch), Box(parts=2), torch.arange(16.0).reshape(4, 4) * 0.1
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        total = 0.0
        for part in x.chunk(box.parts):
            loss = net(part).pow(2).mean() / box.parts
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return {"loss": total, "parts": box.parts}

    step = wrap(step)
    return played(
        lambda: (step(x), state_of(net)),
        setter(box, "parts", 4),
        setter(box, "parts", 1),
        setter(box, "parts", 2.0),
    )


@program("proof")
def two_losses_and_a_kept_graph(torch, wrap):
    net, x, box = net_of(torch), row(torch), Box(keep=True)

    def step(x):
        net.zero_grad()
        hidden = net(x)
        one, two = hidden.sum(), hidden.pow(2).sum()
        one.backward(retain_graph=box.keep)
        two.backward()
        return one, two, [p.grad for p in net.parameters()]

    step = wrap(step)
    kept = []

    def call():
        result = step(x)
        kept.append(result[2][0])
        return result, [g is p.grad for g, p in zip(result[2], net.parameters())], kept[0] is kept[-1]

    return played(
        call, lambda: kept[-1].zero_(), setter(box, "keep", False), setter(box, "keep", True)
    ), facts(kept)


@program("proof")
def gradients_by_call(torch, wrap):
    w, x = row(torch).requires_grad_(True), row(torch)

    def f(x):
        loss = (x * w).sin().sum()
        (g,) = torch.autograd.grad(loss, [w])
        return loss, g

    f = wrap(f)
    return played(
        lambda: (f(x), w.grad),
        lambda: w.requires_grad_(False),
        lambda: w.requires_grad_(True),
        lambda: w.data.mul_(2),
    )


@program("proof")
def step_that_writes_by_hand(torch, wrap):
    net, box, x = net_of(torch), Box(lr=0.1), row(torch)

    def step(x):
        loss = net(x).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= box.lr * p.grad
                p.grad = None
        return loss

    step = wrap(step)
    held = net[0].weight
    return played(
        lambda: (step(x), state_of(net), held._version, net[0].weight is held),
        setter(box, "lr", 0.05),
        lambda: setattr(held, "grad", torch.ones(3, 4)),
        lambda: held.requires_grad_(False),
        lambda: held.requires_grad_(True),
    )


@program("proof")
def running_average_of_weights(torch, wrap):
    net, x = net_of(torch), row(torch)
    mean = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    box = Box(decay=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for m, p in zip(mean.parameters(), net.parameters()):
                m.mul_(box.decay).add_(p, alpha=1 - box.decay)
        return loss

    step = wrap(step)
    return played(
        lambda: (step(x), state_of(net), state_of(mean)),
        setter(box, "decay", 0.5),
        lambda: mean[0].weight.data.zero_(),
        lambda: setattr(mean[2], "bias", net[2].bias),
    )


@program("proof")
def getattr_of_a_module_class(torch, wrap):
    class Net(torch.nn.Module):
        scale = 2.0

        def __init__(self):
            super().__init__()
            self.inner = linear(torch, 4, 2)
            self.names = ["inner"]

        def forward(self, x):
            for name in self.names:
                x = getattr(self, name)(x)
            return x * self.scale if self.training else x

    net, x = Net(), row(torch)
    f = wrap(net)
    return played(
        lambda: f(x),
        setter(Net, "scale", 3.0),
        setter(net, "scale", torch.tensor([2.0, 3.0])),
        lambda: net.names.clear(),
        lambda: net.names.append("inner"),
        setter(Net, "inner", torch.nn.Identity()),
        lambda: delattr(Net, "inner"),
        net.eval,
        lambda: net._modules.pop("inner"),
        setter(Net, "__getattr__", lambda self, name: torch.nn.Identity()),
    )


@program("proof")
def attention_and_norms(torch, wrap):
    torch.manual_seed(2)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.01)
    x = torch.arange(48.0).reshape(2, 3, 8).sin()

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    return played(
        lambda: (step(x), [p.sum() for p in layer.parameters()]),
        lambda: layer.norm1.__dict__.update(eps=0.5),
        layer.eval,
        layer.train,
        lambda: layer.norm1.weight.data.fill_(2.0),
    )
