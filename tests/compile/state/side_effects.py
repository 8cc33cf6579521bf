"""Effects of a call other than its result: counters, logs, hooks and what is printed."""

from __future__ import annotations

import collections
import contextlib
import io
import logging
import math
import warnings

from tests.compile.state.common import linear, program, row


@program("side effects")
def attribute_counter(torch, wrap):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = linear(torch, 4, 2)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return self.layer(x) * self.calls

    net = Net()
    run = wrap(net)
    out = [(run(row(torch)), net.calls) for _ in range(7)]
    net.calls = 100
    return out, run(row(torch)), net.calls


@program("side effects")
def log_of_shapes(torch, wrap):
    log = []

    def f(x):
        log.append(tuple(x.shape))
        y = x * 2
        log.append("doubled")
        return y

    f = wrap(f)
    out = [f(row(torch, n)) for n in (4, 4, 4, 3, 4, 3, 2, 4)]
    return out, log


@program("side effects")
def losses_detached(torch, wrap):
    net, losses = linear(torch, 4, 1), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(x):
        optimizer.zero_grad()
        loss = ((net(x) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    step = wrap(step)
    nothing = [step(row(torch)) for _ in range(8)]
    return losses, len({id(loss) for loss in losses}), nothing, net.weight


@program("side effects")
def losses_as_numbers(torch, wrap):
    net, losses = linear(torch, 4, 1), []
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)

    def step(x):
        optimizer.zero_grad()
        loss = ((net(x) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        return sum(losses) / len(losses)

    step = wrap(step)
    return [step(row(torch)) for _ in range(8)], losses


@program("side effects")
def dict_counters(torch, wrap):
    stats = {"n": 0, "total": 0.0}

    def f(x):
        stats["n"] += 1
        stats["total"] += x.sum().item()
        return x / stats["n"]

    f = wrap(f)
    out = [f(row(torch, start=float(i))) for i in range(6)]
    stats.update(n=10, total=0.0)
    return out, f(row(torch)), dict(stats)


@program("side effects")
def mutable_default_argument(torch, wrap):
    def f(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return x + sum(seen), seen

    f = wrap(f)
    out = [f(row(torch))[0] for _ in range(7)]
    own = [50]
    return out, f(row(torch), own), own, f(row(torch))[1] is f(row(torch))[1], len(f(row(torch))[1])


@program("side effects")
def logging_to_a_list(torch, wrap):
    records = []

    class ListHandler(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    logger = logging.getLogger("state.logging_to_a_list")
    logger.propagate, logger.handlers = False, [ListHandler()]
    logger.setLevel(logging.INFO)

    def f(x, i):
        y = x * 2
        logger.info("call %d sum %.2f", i, y.sum().item())
        logger.debug("deep %d", i)
        return y

    f = wrap(f)
    out = []
    for i in range(8):
        logger.setLevel(logging.DEBUG if 4 <= i < 6 else logging.INFO)
        out.append(f(row(torch), i))
    return out, records


@program("side effects")
def written_to_a_stream(torch, wrap):
    stream = io.StringIO()

    def f(x):
        stream.write(f"{x.mean().item():.3f};")
        return x + stream.tell()

    f = wrap(f)
    out = [f(row(torch, start=float(i % 3))) for i in range(7)]
    stream.seek(0)
    stream.truncate()
    return out, f(row(torch)), stream.getvalue()


@program("side effects")
def printed(torch, wrap):
    def f(x, i):
        print("before", i)
        y = (x * i).sum()
        print(f"after {y.item():.1f}")
        return y

    f = wrap(f)
    texts = []
    for i in range(7):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            f(row(torch), i % 3)
        texts.append(text.getvalue())
    return texts


@program("side effects")
def module_hooks_counting(torch, wrap):
    net, counts = linear(torch, 4, 2), collections.Counter()
    net.register_forward_pre_hook(lambda module, args: counts.update(["pre"]))
    net.register_full_backward_hook(lambda module, before, after: counts.update(["back"]))

    def f(x):
        y = net(x)
        y.sum().backward()
        return y.detach()

    f = wrap(f)
    x = row(torch).requires_grad_()
    out = [f(x) for _ in range(5)]
    handle = net.register_forward_hook(lambda module, args, result: result * 2)
    out += [f(x), f(x)]
    handle.remove()
    return out, f(x), sorted(counts.items()), net.weight.grad


@program("side effects")
def tensor_hooks_counting(torch, wrap):
    seen, scale = [], [1.0]

    def f(x):
        x = x.detach().requires_grad_()
        y = x * 3
        y.register_hook(lambda g: seen.append(g.sum().item()) or g * scale[0])
        y.sum().backward()
        return x.grad

    f = wrap(f)
    out = []
    for i in range(7):
        scale[0] = 1.0 if i < 4 else float(i)
        out.append(f(row(torch)))
    return out, seen


CALLS = 0


@program("side effects")
def global_counter(torch, wrap):
    global CALLS
    CALLS = 0

    def f(x):
        global CALLS
        CALLS += 1
        return x * CALLS

    f = wrap(f)
    out = [(f(row(torch)), CALLS) for _ in range(6)]
    CALLS = -5
    return out, f(row(torch)), CALLS


@program("side effects")
def nonlocal_counter(torch, wrap):
    count, total = 0, torch.zeros(4)

    def f(x):
        nonlocal count, total
        count += 1
        total = total + x
        return total / count

    f = wrap(f)
    out = [f(row(torch, start=float(i))) for i in range(6)]
    count, total = 0, torch.ones(4)
    return out, f(row(torch)), count, total


@program("side effects")
def generator_sent_values(torch, wrap):
    def averager():
        total, n, mean = 0.0, 0, 0.0
        while True:
            total += yield mean
            n += 1
            mean = total / n

    mean = averager()
    next(mean)
    f = wrap(lambda x: x - mean.send(x.max().item()))
    return [f(row(torch, start=float(i % 4))) for i in range(8)], mean.send(0.0)


@program("side effects")
def extended_and_set_by_default(torch, wrap):
    log, groups = [], {}

    def f(x, name):
        log.extend([name, len(log)])
        groups.setdefault(name, []).append(x.sum().item())
        return x * len(groups[name]) + len(groups)

    f = wrap(f)
    out = [f(row(torch), name) for name in ("a", "a", "a", "b", "a", "c", "b")]
    return out, log, groups


@program("side effects")
def keys_deleted(torch, wrap):
    todo = {f"k{i}": float(i) for i in range(6)}

    def f(x):
        key = next(iter(todo), None)
        if key is None:
            return None
        value = todo[key]
        del todo[key]
        return x * value

    f = wrap(f)
    out = [f(row(torch)) for _ in range(7)]
    todo["new"] = 8.0
    return out, f(row(torch)), len(todo)


@program("side effects")
def class_attribute_counter(torch, wrap):
    class Base:
        made = 0

        def __init__(self, x):
            type(self).made += 1
            self.x = x * self.made

    class Derived(Base):
        pass

    f = wrap(lambda x, kind: kind(x).x)
    out = [f(row(torch), Derived if i % 3 == 2 else Base) for i in range(8)]
    return out, Base.made, Derived.made, "made" in vars(Derived)


@program("side effects")
def warnings_given(torch, wrap):
    def f(x, limit):
        if x.max().item() > limit:
            warnings.warn(f"above {limit}", UserWarning, stacklevel=1)
        return x.clamp(max=limit)

    f = wrap(f)
    out, messages = [], []
    for limit in (5.0, 5.0, 5.0, 2.0, 2.0, 5.0, 1.5):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out.append(f(row(torch), limit))
        messages.append([str(w.message) for w in caught if "above" in str(w.message)])
    return out, messages


@program("side effects")
def work_list_popped(torch, wrap):
    work, done = [4.0, 3.0, 2.0, 1.0], set()

    def f(x):
        if not work:
            return x
        value = work.pop()
        done.add(value)
        if value == 3.0:
            work.extend([7.0, 8.0])
        return x * value

    f = wrap(f)
    return [f(row(torch)) for _ in range(8)], work, sorted(done)


@program("side effects")
def global_tensor_written_in_place(torch, wrap):
    total, alias_of = torch.zeros(4), []
    alias_of.append(total[1:3])

    def f(x):
        total.add_(x)
        return total.sum()

    f = wrap(f)
    out = []
    for i in range(8):
        out.append(f(row(torch)))
        if i == 3:
            total.zero_()
        if i == 5:
            alias_of[0].fill_(10.0)
    return out, total, alias_of


@program("side effects")
def callbacks_that_change(torch, wrap):
    log, callbacks = [], []

    def f(x):
        for callback in callbacks:
            x = callback(x)
        return x

    def double(x):
        log.append("double")
        return x * 2

    def once(x):
        log.append("once")
        callbacks.remove(once)
        return x + 100

    f = wrap(f)
    out = [f(row(torch)) for _ in range(2)]
    callbacks.append(double)
    out += [f(row(torch)) for _ in range(3)]
    callbacks.insert(0, once)
    out += [f(row(torch)) for _ in range(2)]
    callbacks.append(double)
    return out + [f(row(torch))], log


@program("side effects")
def order_of_effects(torch, wrap):
    """The log is filled between writes: it must see the tensor as it was at that moment."""
    log = []

    def f(x):
        log.append(x[0].item())
        x.add_(1)
        log.append(x[0].item())
        kept = x.clone()
        x.mul_(2)
        log.append((x[0].item(), kept[0].item()))
        return kept

    f, x = wrap(f), row(torch)
    out = [f(x) for _ in range(7)]
    return out, x, log


@program("side effects")
def best_model_kept(torch, wrap):
    net, best = linear(torch, 4, 1), {"loss": math.inf, "state": None, "at": -1}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(x, i):
        optimizer.zero_grad()
        loss = ((net(x) - 1) ** 2).mean()
        if loss.item() < best["loss"]:
            best.update(loss=loss.item(), at=i, state={k: v.clone() for k, v in net.state_dict().items()})
        loss.backward()
        optimizer.step()

    step = wrap(step)
    for i in range(8):
        step(row(torch, start=1.0 if i % 3 else 0.2), i)
    return best, net.weight
