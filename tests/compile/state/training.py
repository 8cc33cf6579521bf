"""The state of training: optimizers, gradients, modes, modules and the random generator."""

from __future__ import annotations

import collections
import contextlib
import copy
import pickle
import random
import threading

from tests.compile.state.common import linear, program, row


def training(torch, optimizer_name="SGD", **options):
    """A small net, its optimizer and one plain step of it."""
    net = torch.nn.Sequential(linear(torch, 4, 3), torch.nn.Tanh(), linear(torch, 3, 1))
    optimizer = getattr(torch.optim, optimizer_name)(net.parameters(), **options)

    def step(x):
        optimizer.zero_grad()
        loss = ((net(x) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return net, optimizer, step


@program("training")
def learning_rate_by_hand(torch, wrap):
    net, optimizer, step = training(torch, lr=0.1, momentum=0.9)
    step, out = wrap(step), []
    for i in range(9):
        if i > 3:
            optimizer.param_groups[0]["lr"] = 0.1 / i
        if i == 6:
            optimizer.param_groups[0].update(weight_decay=0.1, momentum=0.5, nesterov=True)
        out.append(step(row(torch)).item())
    return out, list(net.parameters())


@program("training")
def scheduler_inside(torch, wrap):
    net, optimizer, plain = training(torch, "Adam", lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    rates = []

    def step(x):
        loss = plain(x)
        scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
        return loss.item()

    step = wrap(step)
    out = [step(row(torch)) for _ in range(6)]
    scheduler.gamma = 1.5
    return out, [step(row(torch)) for _ in range(4)], rates, scheduler.last_epoch, list(net.parameters())


@program("training")
def scheduler_on_a_plateau(torch, wrap):
    net, optimizer, plain = training(torch, lr=0.4)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1)

    def step(x):
        loss = plain(x)
        scheduler.step(loss.item())
        return loss.item(), optimizer.param_groups[0]["lr"]

    step = wrap(step)
    return [step(row(torch, start=float(i % 3))) for i in range(10)], net[0].weight


@program("training")
def parameter_group_added(torch, wrap):
    net, extra = linear(torch, 4, 2), torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)

    def step(x):
        optimizer.zero_grad()
        loss = ((net(x) * extra) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.item(), extra.detach().clone(), len(optimizer.param_groups)

    step = wrap(step)
    out = [step(row(torch) * 0.1) for _ in range(4)]
    optimizer.add_param_group({"params": [extra], "lr": 0.02})
    out += [step(row(torch) * 0.1) for _ in range(3)]
    optimizer.param_groups.pop(0)
    return out, [step(row(torch) * 0.1) for _ in range(2)], net.weight, extra


@program("training")
def gradients_switched_off_and_on(torch, wrap):
    net, _, step = training(torch, lr=0.1)
    step, out = wrap(step), []
    for i in range(10):
        if i == 3:
            net[0].requires_grad_(False)
        if i == 5:
            net[0].bias.requires_grad_(True)
        if i == 7:
            net.requires_grad_(True)
        out.append((step(row(torch)).item(), net[0].weight.grad is None, net[0].weight.detach().clone()))
    return out, list(net.parameters())


@program("training")
def frozen_midway_with_weight_decay(torch, wrap):
    """A frozen weight keeps its last gradient, or none: the optimizer tells them apart."""
    net, optimizer, _ = training(torch, lr=0.1, momentum=0.9, weight_decay=0.1)

    def step(x, to_none):
        optimizer.zero_grad(set_to_none=to_none)
        loss = ((net(x) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item(), [p.grad is None for p in net.parameters()]

    step = wrap(step)
    out = [step(row(torch), True) for _ in range(3)]
    net[0].weight.requires_grad_(False)
    out += [step(row(torch), False) for _ in range(2)]
    out += [step(row(torch), True) for _ in range(2)]
    net[0].weight.requires_grad_(True)
    return out, step(row(torch), False), list(net.parameters())


@program("training")
def train_and_eval(torch, wrap):
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.0), linear(torch, 2, 2))
    run, out = wrap(lambda x: net(x) * (2 if net.training else 1)), []
    for i in range(10):
        if i == 3:
            net.eval()
        if i == 5:
            net.train()
        if i == 7:
            net[0].eval()
        if i == 9:
            net[0].momentum = 0.9
            net[0].train()
        out.append((run(row(torch, 6, start=float(i)).reshape(3, 2)), net[0].running_mean.clone()))
    return out, net[0].num_batches_tracked.item()


@program("training")
def parameter_replaced(torch, wrap):
    net, optimizer, step = training(torch, lr=0.1)
    step = wrap(step)
    out = [step(row(torch)).item() for _ in range(4)]
    old = net[2].weight
    net[2].weight = torch.nn.Parameter(torch.ones(1, 3))  # the optimizer still holds the old one
    out += [step(row(torch)).item() for _ in range(3)]
    optimizer.param_groups[0]["params"][2] = net[2].weight
    return out, [step(row(torch)).item() for _ in range(2)], old, list(net.parameters())


@program("training")
def data_of_a_parameter_replaced(torch, wrap):
    net, _, step = training(torch, lr=0.1)
    step, out = wrap(step), []
    for i in range(8):
        out.append(step(row(torch)).item())
        if i == 3:
            net[0].weight.data = torch.ones(3, 4) * 0.1
        if i == 5:
            net[0].bias.data.zero_()
        if i == 6:
            with torch.no_grad():
                net[2].weight[0, 1] = 0.0
    return out, list(net.parameters())


@program("training")
def gradients_by_hand(torch, wrap):
    net = linear(torch, 4, 2)

    def back(x):
        before = net.weight.grad is None
        (net(x) ** 2).sum().backward()
        return before, net.weight.grad.clone()

    back, out = wrap(back), []
    for i in range(9):
        if i == 3:
            net.weight.grad = None
        if i == 5:
            net.weight.grad.zero_()
        if i == 7:
            net.weight.grad = torch.ones(2, 4)
        kept = net.weight.grad
        out.append((back(row(torch)), kept is net.weight.grad))
    return out, net.bias.grad


@program("training")
def gradients_accumulated(torch, wrap):
    net, state = linear(torch, 4, 1), {"i": 0, "every": 2}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(x):
        loss = ((net(x) - 1) ** 2).mean() / state["every"]
        loss.backward()
        state["i"] += 1
        if state["i"] % state["every"] == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item(), net.weight.grad is None

    step = wrap(step)
    out = [step(row(torch)) for _ in range(7)]
    state["every"] = 3
    return out, [step(row(torch)) for _ in range(4)], net.weight, state["i"]


@program("training")
def clipped_from_midway(torch, wrap):
    net, optimizer, _ = training(torch, lr=0.02)
    limits = {"norm": None, "value": None}

    def step(x):
        optimizer.zero_grad()
        loss = ((net(x) - 1) ** 2).mean()
        loss.backward()
        norm = None
        if limits["norm"] is not None:
            norm = torch.nn.utils.clip_grad_norm_(net.parameters(), limits["norm"]).item()
        if limits["value"]:
            torch.nn.utils.clip_grad_value_(net.parameters(), limits["value"])
        optimizer.step()
        return loss.item(), norm

    step, out = wrap(step), []
    for i in range(9):
        limits.update(norm=None if i < 3 else 0.5 / i, value=0.01 if i > 6 else None)
        out.append(step(row(torch)))
    return out, list(net.parameters())


@program("training")
def averaged_weights_in_a_dict(torch, wrap):
    net, _, plain = training(torch, lr=0.1)
    average, decay = {}, [0.5]

    def step(x):
        loss = plain(x)
        with torch.no_grad():
            for name, p in net.named_parameters():
                if name in average:
                    average[name].mul_(decay[0]).add_(p, alpha=1 - decay[0])
                else:
                    average[name] = p.detach().clone()
        return loss.item()

    step, out = wrap(step), []
    for i in range(8):
        decay[0] = 0.5 if i < 5 else 0.9
        if i == 6:
            del average["0.bias"]
        out.append(step(row(torch)))
    return out, average, list(average)


@program("training")
def hooks_added_and_removed(torch, wrap):
    net, _, step = training(torch, lr=0.1)
    step, log = wrap(step), []
    out = [step(row(torch)).item() for _ in range(3)]
    forward = net[1].register_forward_hook(lambda m, args, result: log.append(result.sum().item()))
    out += [step(row(torch)).item() for _ in range(2)]
    grad = net[0].weight.register_hook(lambda g: log.append("grad") or g * 0)
    out += [step(row(torch)).item() for _ in range(2)]
    forward.remove()
    out.append(step(row(torch)).item())
    grad.remove()
    return out, step(row(torch)).item(), log, list(net.parameters())


@program("training")
def optimizer_hooks(torch, wrap):
    net, optimizer, step = training(torch, lr=0.1)
    log = []

    def before(optimizer, args, kwargs):
        log.append(("before", optimizer.param_groups[0]["lr"]))
        optimizer.param_groups[0]["lr"] *= 0.5

    handle = optimizer.register_step_pre_hook(before)
    step = wrap(step)
    out = [step(row(torch)).item() for _ in range(5)]
    handle.remove()
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: log.append("after"))
    return out, [step(row(torch)).item() for _ in range(3)], log, net[0].weight


@program("training")
def momentum_reset(torch, wrap):
    net, optimizer, step = training(torch, lr=0.1, momentum=0.9)
    step, out = wrap(step), []
    for i in range(9):
        if i == 4:
            optimizer.state.clear()
        if i == 6:
            for state in optimizer.state.values():
                state["momentum_buffer"].zero_()
        if i == 7:
            optimizer.state[net[0].weight]["momentum_buffer"] = torch.ones(3, 4)
        out.append(step(row(torch)).item())
    return out, list(net.parameters()), len(optimizer.state)


@program("training")
def steps_of_adam_set_back(torch, wrap):
    net, optimizer, step = training(torch, "AdamW", lr=0.05, weight_decay=0.1)
    step, out = wrap(step), []
    for i in range(9):
        if i == 4:
            for state in optimizer.state.values():
                state["step"].fill_(0)
        if i == 6:
            optimizer.param_groups[0].update(betas=(0.5, 0.9), eps=1e-2)
        out.append(step(row(torch)).item())
    return out, [state["step"].item() for state in optimizer.state.values()], list(net.parameters())


@program("training")
def states_loaded_midway(torch, wrap):
    net, optimizer, step = training(torch, "Adam", lr=0.05)
    step, out, saved = wrap(step), [], {}
    for i in range(10):
        if i == 2:
            saved = copy.deepcopy({"net": net.state_dict(), "optimizer": optimizer.state_dict()})
        if i == 5:
            net.load_state_dict(saved["net"])
        if i == 7:
            optimizer.load_state_dict(saved["optimizer"])
        out.append(step(row(torch)).item())
    return out, [state["step"].item() for state in optimizer.state.values()], list(net.parameters())


@program("training")
def weights_tied_midway(torch, wrap):
    first, second = linear(torch, 4, 4), linear(torch, 4, 4)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.02)

    def step(x):
        optimizer.zero_grad()
        loss = (second(torch.tanh(first(x))) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.item(), first.weight is second.weight

    step = wrap(step)
    out = [step(row(torch)) for _ in range(4)]
    untied, second.weight = second.weight, first.weight
    out += [step(row(torch)) for _ in range(3)]
    second.weight = untied
    return out, step(row(torch)), first.weight, second.weight


@program("training")
def dropout_probability_changed(torch, wrap):
    """With p of 0 and of 1 the result needs no random numbers."""
    net = torch.nn.Sequential(torch.nn.Dropout(0.0), linear(torch, 4, 2))
    f, out = wrap(lambda x: net(x) + torch.nn.functional.dropout(x[:2], p=net[0].p)), []
    for i in range(8):
        net[0].p = 0.0 if i < 3 or i == 6 else 1.0
        net.train(i != 5)
        out.append(f(row(torch)))
    return out


@program("training")
def buffers_registered_midway(torch, wrap):
    class Net(torch.nn.Module):
        def forward(self, x):
            for name, buffer in self.named_buffers():
                buffer.add_(1)
                x = x * buffer if name == "scale" else x + buffer
            return x

    net = Net()
    run = wrap(net)
    out = [run(row(torch)) for _ in range(2)]
    net.register_buffer("scale", torch.ones(4))
    out += [run(row(torch)) for _ in range(3)]
    net.register_buffer("shift", torch.zeros(1), persistent=False)
    out += [run(row(torch)) for _ in range(2)]
    del net.scale
    return out, run(row(torch)), list(net.state_dict())


@program("training")
def layers_swapped(torch, wrap):
    net = torch.nn.Sequential(linear(torch, 4, 4), torch.nn.ReLU())
    run, x = wrap(net), row(torch, start=-2.0)
    out = [run(x) for _ in range(3)]
    net[1] = torch.nn.Tanh()
    out.append(run(x))
    net.append(linear(torch, 4, 2))
    out.append(run(x))
    net[0] = torch.nn.Identity()
    out.append(run(x))
    del net[1]
    return out, run(x), len(net), len(list(net.parameters()))


@program("training")
def module_list_and_dict_changed(torch, wrap):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList([linear(torch, 4, 4)])
            self.heads = torch.nn.ModuleDict({"a": linear(torch, 4, 1)})

        def forward(self, x, head):
            for block in self.blocks:
                x = torch.tanh(block(x))
            return self.heads[head](x) if head in self.heads else x

    net = Net()
    run = wrap(net)
    out = [run(row(torch), "a") for _ in range(3)] + [run(row(torch), "b")]
    net.heads["b"] = linear(torch, 4, 2)
    out.append(run(row(torch), "b"))
    net.blocks.insert(0, torch.nn.Identity())
    net.blocks.extend([linear(torch, 4, 4)])
    out.append(run(row(torch), "a"))
    net.heads.pop("a")
    return out, run(row(torch), "a")


@program("training")
def closure_of_lbfgs(torch, wrap):
    w, evaluations, target = torch.zeros(3, requires_grad=True), [], [1.0]
    optimizer = torch.optim.LBFGS([w], lr=0.5, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = ((w - target[0]) ** 4).sum() + (w**2).sum()
        loss.backward()
        evaluations.append(loss.item())
        return loss

    step, out = wrap(lambda: optimizer.step(closure).item()), []
    for i in range(6):
        target[0] = 1.0 if i < 3 else -2.0
        out.append(step())
    return out, w, len(evaluations)


@program("training")
def optimizer_by_hand(torch, wrap):
    net, velocity, settings = linear(torch, 4, 2), {}, {"lr": 0.05, "mu": 0.0}

    def step(x):
        for p in net.parameters():
            p.grad = None
        loss = (net(x) ** 2).sum()
        loss.backward()
        for p in net.parameters():
            v = velocity.get(p)
            velocity[p] = p.grad if v is None else settings["mu"] * v + p.grad
            p.data -= settings["lr"] * velocity[p]
        return loss.item()

    step, out = wrap(step), []
    for i in range(9):
        settings["mu"] = 0.0 if i < 4 else 0.5
        if i == 7:
            velocity.clear()
        out.append(step(row(torch) * 0.3))
    return out, list(net.parameters()), len(velocity)


@program("training")
def gradient_mode_switched(torch, wrap):
    w, out = row(torch).requires_grad_(), []
    f = wrap(lambda x: ((w * x).sum(), torch.is_grad_enabled()))
    modes = [True, True, True, False, True, False, True]
    for mode in modes:
        with torch.set_grad_enabled(mode):
            y, enabled = f(row(torch))
        out.append((y, enabled, y.requires_grad))
    with torch.inference_mode():
        out.append(f(row(torch))[0].requires_grad)
    return out, f(row(torch))[0].requires_grad


@program("training")
def gradient_mode_left_by_the_function(torch, wrap):
    w = row(torch).requires_grad_()

    def f(x, off):
        with torch.no_grad():
            a = w * x
        if off:
            torch.set_grad_enabled(False)
        return a, w + x

    f, out = wrap(f), []
    for off in (False, False, False, True, False, True, False):
        try:
            a, b = f(row(torch), off)
            out.append((a.requires_grad, b.requires_grad, torch.is_grad_enabled()))
        finally:
            torch.set_grad_enabled(True)
    return out


@program("training")
def autocast_switched(torch, wrap):
    """Small whole numbers: exact in bfloat16 also."""
    a, out = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), []
    f = wrap(lambda x: x @ a)
    for i in range(8):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=i in (3, 4, 6)):
            y = f(a)
        out.append((y.float(), y.dtype == torch.bfloat16, y.dtype == torch.float32))
    return out


@program("training")
def default_dtype_switched(torch, wrap):
    f, out = wrap(lambda: torch.ones(2) * 0.1 + torch.tensor(0.2)), []
    try:
        for i in range(8):
            torch.set_default_dtype(torch.float64 if i in (3, 4, 6) else torch.float32)
            y = f()
            out.append((y, y.dtype == torch.float64))
    finally:
        torch.set_default_dtype(torch.float32)
    return out


@program("training")
def own_function_with_state(torch, wrap):
    state = {"scale": 1.0, "forward": 0, "backward": 0}

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            state["forward"] += 1
            ctx.scale = state["scale"]
            ctx.save_for_backward(x)
            return x * state["scale"]

        @staticmethod
        def backward(ctx, g):
            state["backward"] += 1
            (x,) = ctx.saved_tensors
            return g * ctx.scale + x * state["scale"]

    def f(x):
        x = x.detach().requires_grad_()
        y = Scaled.apply(x).sum()
        y.backward()
        return y.detach(), x.grad

    f, out = wrap(f), []
    for i in range(7):
        state["scale"] = 1.0 if i < 3 else float(i)
        out.append(f(row(torch)))
    return out, state


@program("training")
def state_changed_between_forward_and_backward(torch, wrap):
    """Only the forward pass is compiled; the backward pass comes later, with other state."""
    w, scale = row(torch).requires_grad_(), [1.0]

    class Late(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * scale[0]

    f, out = wrap(lambda x: Late.apply(w * x).sum()), []
    for i in range(7):
        scale[0] = 1.0
        loss = f(row(torch))
        scale[0] = float(i)
        w.grad = None
        loss.backward()
        out.append((loss.detach(), w.grad.clone()))
    return out


@program("training")
def graph_retained(torch, wrap):
    w = row(torch).requires_grad_()

    def f(x, again):
        y = (w * x) ** 2
        y.sum().backward(retain_graph=again)
        if again:
            y[0].backward()
        return w.grad.clone()

    f, out = wrap(f), []
    for again in (False, False, False, True, True, False, True):
        if len(out) == 5:
            w.grad = None
        out.append(f(row(torch), again))
    return out


@program("training")
def second_backward_raises(torch, wrap):
    w = row(torch).requires_grad_()
    f, out = wrap(lambda x: (w * w * x).sum()), []
    for i in range(6):
        loss = f(row(torch))
        loss.backward(retain_graph=i % 2 == 0)
        try:
            loss.backward()
            out.append("twice")
        except RuntimeError:
            out.append("once")
    return out, w.grad


@program("training")
def two_losses_two_optimizers(torch, wrap):
    body, head = linear(torch, 4, 3), linear(torch, 3, 1)
    first = torch.optim.SGD(body.parameters(), lr=0.05)
    second = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.5)
    weights = {"a": 1.0, "b": 0.5}

    def step(x, i):
        first.zero_grad()
        second.zero_grad()
        hidden = torch.tanh(body(x))
        a, b = ((head(hidden) - 1) ** 2).mean(), hidden.abs().mean()
        (weights["a"] * a).backward(retain_graph=True)
        (weights["b"] * b).backward()
        first.step()
        if i % 3 != 2:
            second.step()
        return a.item(), b.item()

    step, out = wrap(step), []
    for i in range(9):
        out.append(step(row(torch), i))
        weights["b"] *= -1 if i > 4 else 1
    return out, body.weight, head.weight


@program("training")
def detached_in_place(torch, wrap):
    w, state = torch.ones(4, requires_grad=True), {"h": torch.zeros(4), "detach": True}

    def f(x):
        h = torch.tanh(state["h"] * w + x)
        loss = h.sum()
        loss.backward(retain_graph=not state["detach"])
        if state["detach"]:
            h.detach_()
        state["h"] = h
        return loss.item(), h.requires_grad

    f, out = wrap(f), []
    for i in range(8):
        state["detach"] = i not in (3, 4)
        if i == 6:
            state["h"] = torch.ones(4)
        out.append(f(row(torch) * 0.1))
    return out, w.grad


@program("training")
def views_kept_and_written_later(torch, wrap):
    net = linear(torch, 4, 2)
    f, views, out = wrap(lambda x: (net(x), net.weight.data[0], x[1:])), [], []
    for i in range(8):
        x = row(torch)
        y, weights, tail = f(x)
        views.append((weights, tail))
        out.append((y, x))
        views[i // 2][0].add_(0.5)  # a view of an earlier call: the weight changes
        views[i // 2][1].fill_(float(i))
    return out, views


@program("training")
def compiled_within_compiled(torch, wrap):
    scale, log = [1.0], []

    def inner(x):
        log.append("inner")
        return x * scale[0]

    inner = wrap(inner)

    def outer(x):
        log.append("outer")
        return inner(x) + inner(x + 1)

    outer, out = wrap(outer), []
    for i in range(7):
        out.append(outer(row(torch)))
        if i == 3:
            scale[0] = 3.0
        if i == 5:
            out.append(inner(row(torch)))
    return out, log


@program("training")
def recursion(torch, wrap):
    depths = []

    def f(x, n):
        depths.append(n)
        if n == 0 or x.sum().item() > 100:
            return x
        return f(x * 2, n - 1) + n

    f = wrap(f)  # the recursive call goes through the compiled one also
    return [f(row(torch), n) for n in (2, 2, 2, 3, 0, 6, 2)], depths


@program("training")
def one_method_two_instances(torch, wrap):
    class Model:
        def __init__(self, scale):
            self.scale, self.calls = scale, 0

        def run(self, x):
            self.calls += 1
            return x * self.scale + self.calls

    Model.run = wrap(Model.run)
    a, b, out = Model(1.0), Model(-2.0), []
    for i in range(9):
        model = (a, a, a, b, a, b, b, a, b)[i]
        out.append(Model.run(model, row(torch)))
        if i == 5:
            a.scale, b.scale = b.scale, a.scale
    return out, a.calls, b.calls


@program("training")
def one_step_two_models(torch, wrap):
    a, b = linear(torch, 4, 1), torch.nn.Sequential(linear(torch, 4, 1), torch.nn.Tanh())
    makers = {id(m): torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (a, b)}

    def step(model, x):
        optimizer = makers[id(model)]
        optimizer.zero_grad()
        loss = ((model(x) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    step = wrap(step)
    return [step(m, row(torch)) for m in (a, a, a, b, b, a, b, a, a)], a.weight, b[0].weight


@program("training")
def error_midway(torch, wrap):
    """What came before the error is done, what comes after is not."""
    net, optimizer, _ = training(torch, lr=0.1, momentum=0.9)
    log, fail = [], {"at": None}

    def step(x):
        log.append("start")
        optimizer.zero_grad()
        loss = ((net(x) - 1) ** 2).mean()
        if fail["at"] == "forward":
            raise ValueError("forward")
        loss.backward()
        log.append("backward")
        if fail["at"] == "backward":
            raise ValueError("backward")
        optimizer.step()
        log.append("end")
        return loss.item()

    step, out = wrap(step), []
    for at in (None, None, None, "forward", None, "backward", "backward", None):
        fail["at"] = at
        try:
            out.append(step(row(torch)))
        except ValueError as error:
            out.append((str(error), net[0].weight.grad is None, net[0].weight.detach().clone()))
    return out, log, list(net.parameters())


@program("training")
def error_after_a_write(torch, wrap):
    total, log = torch.zeros(4), []

    def f(x, y):
        total.add_(1)
        x.mul_(2)
        log.append(x.sum().item())
        z = x + y  # fails when the shapes do not fit
        total.add_(z)
        log.append("done")
        return z

    f, out = wrap(f), []
    for n in (4, 4, 4, 3, 4, 5, 4):
        x = row(torch)
        try:
            out.append(f(x, row(torch, n)))
        except RuntimeError:
            out.append(("error", x, total.clone()))
    return out, total, log


@program("training")
def error_in_a_hook(torch, wrap):
    w, seen = row(torch).requires_grad_(), []

    def f(x, limit):
        y = w * x

        def check(g):
            seen.append(g.sum().item())
            if g.sum().item() > limit:
                raise ValueError("too large")

        y.register_hook(check)
        (y * x).sum().backward()
        return w.grad.clone()

    f, out = wrap(f), []
    for limit in (100.0, 100.0, 100.0, 1.0, 100.0, 1.0, 100.0):
        try:
            out.append(f(row(torch), limit))
        except ValueError as error:
            out.append(str(error))
    return out, seen, w.grad


@program("training")
def own_context_managers(torch, wrap):
    log, stack = [], [1.0]

    @contextlib.contextmanager
    def scale(value):
        stack.append(value)
        log.append(("enter", value))
        try:
            yield stack[-1]
        finally:
            stack.pop()
            log.append(("exit", len(stack)))

    def f(x):
        with scale(stack[-1] * 2) as inner:
            y = x * inner
            if inner > 20:
                raise OverflowError
        return y + stack[-1]

    f, out = wrap(f), []
    for value in (None, None, None, 3.0, 50.0, None, 5.0):
        with scale(value) if value else contextlib.nullcontext(), contextlib.suppress(OverflowError):
            out.append(f(row(torch)))
    return out, log, stack


@program("training")
def threads_in_turn(torch, wrap):
    net, _, plain = training(torch, lr=0.1)
    log, out = [], []

    def step(x):
        log.append(threading.current_thread().name)
        return plain(x).item()

    step = wrap(step)
    for i in range(8):
        thread = threading.Thread(target=lambda: out.append(step(row(torch))), name=f"t{i % 3}")
        thread.start()
        thread.join()
    return out, step(row(torch)), [name.startswith("t") for name in log], log[:8], list(net.parameters())


@program("training")
def model_copied_between_calls(torch, wrap):
    net, _, _ = training(torch, lr=0.1)
    holder = {"net": net}
    f, out = wrap(lambda x: holder["net"](x)), []
    for i in range(8):
        out.append(f(row(torch)))
        if i == 2:
            holder["net"] = copy.deepcopy(net)
        if i == 4:
            with torch.no_grad():
                net[0].weight.zero_()  # not the one in use
        if i == 5:
            with torch.no_grad():
                holder["net"][0].weight.mul_(2)
        if i == 6:
            holder["net"] = pickle.loads(pickle.dumps(net))
    return out


@program("training")
def optimizer_replaced(torch, wrap):
    net, optimizer, _ = training(torch, lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = ((net(x) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item(), type(optimizer).__name__

    step = wrap(step)
    out = [step(row(torch)) for _ in range(3)]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    out += [step(row(torch)) for _ in range(3)]
    optimizer = torch.optim.Adam(net[2].parameters(), lr=0.05)
    return out, [step(row(torch)) for _ in range(3)], list(net.parameters())


@program("training")
def dtype_and_shape_of_the_model_changed(torch, wrap):
    net = torch.nn.Sequential(linear(torch, 4, 2))
    f, out = wrap(lambda x: net(x.to(net[0].weight.dtype))), []
    for i in range(8):
        if i == 3:
            net.double()
        if i == 5:
            net.float()
        if i == 6:
            net[0] = linear(torch, 4, 3)
        y = f(row(torch))
        out.append((y, y.dtype == torch.float64))
    return out


@program("training")
def momentum_of_a_target_network(torch, wrap):
    online, target, state = linear(torch, 4, 2), linear(torch, 4, 2), {"tau": 0.1, "i": 0}

    def step(x):
        state["i"] += 1
        with torch.no_grad():
            online.weight += 0.1
            for p, q in zip(target.parameters(), online.parameters()):
                p.lerp_(q, state["tau"])
            if state["i"] % 4 == 0:
                target.load_state_dict(online.state_dict())
        return target(x).detach()

    step, out = wrap(step), []
    for i in range(9):
        state["tau"] = 0.1 if i < 5 else 0.9
        out.append(step(row(torch)))
    return out, target.weight, target.weight.requires_grad


@program("training")
def replay_memory_sampled(torch, wrap):
    memory, rng = collections.deque(maxlen=4), random.Random(2)
    w = torch.zeros(4, requires_grad=True)

    def step(x):
        memory.append((x, x.sum().item()))
        if len(memory) < 3:
            return None
        picked = rng.sample(list(memory), 2)
        xs, ys = torch.stack([p[0] for p in picked]), torch.tensor([p[1] for p in picked])
        loss = ((xs @ w - ys) ** 2).mean()
        w.grad = None
        loss.backward()
        with torch.no_grad():
            w.sub_(0.01 * w.grad)
        return loss.item()

    step = wrap(step)
    out = [step(row(torch, start=float(i % 5) * 0.3)) for i in range(10)]
    return out, w, len(memory)


@program("training")
def seeded_random_numbers(torch, wrap):
    """Draws inside and outside share one generator: only equalities are returned."""
    f, seen = wrap(lambda x: x + torch.rand(4)), []
    for i in range(8):
        if i % 4 == 0:
            torch.manual_seed(5)
        if i == 6:
            torch.rand(4)
        seen.append(f(row(torch)))
    torch.manual_seed(5)
    plain = [row(torch) + torch.rand(4) for _ in range(4)]
    return [[bool((a == b).all()) for b in plain] for a in seen]


@program("training")
def random_state_saved_and_restored(torch, wrap):
    torch.manual_seed(1)
    f = wrap(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(8)
    first = [f(x) for _ in range(3)]
    state = torch.get_rng_state()
    second = [f(x) for _ in range(3)]
    torch.set_rng_state(state)
    third = [f(x) for _ in range(3)]
    torch.set_rng_state(state)
    plain = torch.nn.functional.dropout(x, 0.5)
    same = [bool((a == b).all()) for a, b in zip(second, third)]
    return same, bool((plain == second[0]).all()), len({tuple(t.tolist()) for t in first + second}) > 2
