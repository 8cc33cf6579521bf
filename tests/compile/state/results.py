"""Results: which objects they are, what they share, and how long they live."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.compile.state.common import linear, program, row


@program("results")
def containers_are_new(torch, wrap):
    def f(x):
        return {"y": x * 2, "list": [x.sum(), 1], "names": ["a"]}

    f, kept = wrap(f), []
    for i in range(6):
        result = f(row(torch))
        result["names"].append(str(i))
        result["list"][1] = i
        result[f"k{i}"] = i
        kept.append(result)
    return kept, len({id(r) for r in kept}), len({id(r["names"]) for r in kept})


@program("results")
def same_tensor_twice(torch, wrap):
    def f(x):
        y = x + 1
        return y, y, [y], y[:2]

    f, out = wrap(f), []
    for _ in range(6):
        a, b, (c,), view = f(row(torch))
        a.mul_(10)
        out.append((a is b, a is c, b, view))
    return out


@program("results")
def argument_returned(torch, wrap):
    f, out, x = wrap(lambda x, y: (x, y.view(-1), x.add_(1), y)), [], row(torch)
    for i in range(7):
        y = row(torch, start=float(i))
        a, b, c, d = f(x, y)
        b[0] = 99.0
        out.append((a is x, c is x, d is y, y, x.clone()))
    return out


@program("results")
def views_of_arguments(torch, wrap):
    def f(x):
        return x[0], x.T, x.reshape(4), x[:, 1], x.t().reshape(4)

    f, out = wrap(f), []
    for i in range(6):
        x = row(torch).reshape(2, 2)
        views = f(x)
        x[0, 1] = 100.0 + i  # seen through the views, not through the copy
        views[1][0, 0] = -7.0
        out.append((views, x))
    return out


@program("results")
def argument_written_in_place(torch, wrap):
    def f(x, y):
        x *= 2
        y[1:] = x[1:]
        y[0] += 1
        return y

    f, out = wrap(f), []
    for i in range(7):
        x, y = row(torch, start=float(i)), torch.zeros(4)
        if i == 5:
            y = x  # now both are one tensor
        out.append((f(x, y) is y, x, y))
    return out


@program("results")
def overlapping_arguments(torch, wrap):
    def f(a, b):
        a.add_(1)
        return a * b

    f, out = wrap(f), []
    for i in range(8):
        base = row(torch, 6)
        if i < 3:
            a, b = base[:3], row(torch, 3)
        elif i < 6:
            a, b = base[:3], base[i - 3 : i]
        else:
            a = b = base[:3]
        out.append((f(a, b), base))
    return out


@program("results")
def parameter_returned(torch, wrap):
    net = linear(torch, 4, 2)
    f, out = wrap(lambda x: (net.weight, net.bias.data, net(x))), []
    for i in range(7):
        w, b, y = f(row(torch))
        out.append((w is net.weight, y.requires_grad, w.is_leaf, y))
        b.add_(1.0)
        if i == 4:
            net.weight = torch.nn.Parameter(torch.ones(2, 4))
    return out


@program("results")
def results_kept(torch, wrap):
    """No later call may write into an earlier result."""
    net = linear(torch, 4, 3)

    def f(x):
        y = torch.relu(net(x))
        return y, y.sum(), torch.stack([y, y * 2])[:, 1:]

    f = wrap(f)
    return [f(row(torch, start=float(i))) for i in range(8)]


@program("results")
def result_fed_back(torch, wrap):
    f, h, kept = wrap(lambda h, x: torch.tanh(h * 0.5 + x)), torch.zeros(4), []
    for i in range(9):
        h = f(h, row(torch, start=float(i % 3)))
        kept.append(h)
    return kept


@program("results")
def results_written_by_the_caller(torch, wrap):
    f, kept = wrap(lambda x: (x * 2, (x * 2).sum())), []
    for i in range(7):
        y, s = f(row(torch))
        y.zero_()
        s += i
        kept.append((y, s))
    return kept, f(row(torch))


@program("results")
def dataclass_results(torch, wrap):
    @dataclass
    class Output:
        logits: object
        extra: dict = field(default_factory=dict)

    def f(x, n):
        return Output(x * n, {"n": n, "max": x.max()})

    f = wrap(f)
    kept = [f(row(torch), n) for n in (1, 1, 1, 2, 3, 1)]
    kept[0].extra["n"] = "changed"
    return [(o.logits, o.extra, type(o) is Output) for o in kept], len({id(o) for o in kept})


@program("results")
def results_of_many_types(torch, wrap):
    class Pair(NamedTuple):
        a: object
        b: object

    def f(x, kind):
        if kind == "none":
            return None
        if kind == "text":
            return f"{x.shape[0]}"
        if kind == "pair":
            return Pair(x + 1, None)
        if kind == "nothing":
            return ()
        return {1: x, "two": (x, [x, ...]), None: True}

    f, out = wrap(f), []
    for kind in ("none", "text", "pair", "none", "dict", "dict", "pair", "nothing", "text", "none"):
        result = f(row(torch), kind)
        out.append((type(result).__name__, repr(result) if kind in ("none", "text") else len(result)))
    return out


@program("results")
def generators_returned(torch, wrap):
    """The body runs only when the generator is asked, after the state has changed."""
    scale, log = [1.0], []

    def f(x):
        for i in range(3):
            log.append(i)
            yield x * scale[0] + i

    f, out = wrap(f), []
    for i in range(6):
        scale[0] = 1.0 + i
        values = f(row(torch))
        before = len(log)
        scale[0] *= 10
        out.append((before, next(values), next(values)))
    return out, log


@program("results")
def functions_returned(torch, wrap):
    def f(x):
        y = x * 2

        def later(n):
            nonlocal y
            y = y + n
            return y

        return later

    f = wrap(f)
    made = [f(row(torch, start=float(i))) for i in range(6)]
    return [(later(1.0), later(2.0)) for later in made], made[0](0.0)


@program("results")
def results_held_weakly(torch, wrap):
    inside = []

    def f(x):
        hidden = x * 3
        inside.append(weakref.ref(hidden))
        return hidden + 1

    f, out = wrap(f), []
    for _ in range(7):
        y = f(row(torch))
        ref = weakref.ref(y)
        alive = ref() is y
        del y
        gc.collect()
        out.append((alive, ref() is None, inside[-1]() is None))
    return out


@program("results")
def arguments_not_kept_alive(torch, wrap):
    f, refs = wrap(lambda x: x * 2), []
    for _ in range(7):
        x = row(torch)
        refs.append(weakref.ref(x))
        f(x)
        del x
    gc.collect()
    return [ref() is None for ref in refs]


@program("results")
def results_pickled(torch, wrap):
    f, out = wrap(lambda x: {"y": x * 2, "s": x.sum().item(), "view": x[1:]}), []
    for i in range(6):
        result = f(row(torch, start=float(i)))
        again = pickle.loads(pickle.dumps(result))
        again["y"].add_(1)
        out.append((result, again, copy.deepcopy(result)["view"]))
    return out


@program("results")
def attributes_of_tensors(torch, wrap):
    def f(x):
        y = x * len(getattr(x, "tag", ""))
        y.tag = getattr(x, "tag", "none") + "!"
        x.seen = getattr(x, "seen", 0) + 1
        return y

    f, x, out = wrap(f), row(torch), []
    for i in range(8):
        if i == 3:
            x.tag = "abc"
        if i == 5:
            x.tag = "longer"
        if i == 7:
            del x.tag
        y = f(x)
        out.append((y, y.tag, x.seen, hasattr(x, "tag")))
    return out


@program("results")
def layout_and_dtype_of_results(torch, wrap):
    def f(x):
        y = x.T * 2
        return (
            y,
            y.stride(),
            y.is_contiguous(),
            y.dtype == x.dtype,
            y.requires_grad,
            y.is_leaf,
            tuple(y.shape),
        )

    f = wrap(f)
    a = row(torch, 6).reshape(2, 3)
    inputs = [a, a, a, a.T, a.double(), a.clone().requires_grad_(), a[:, ::2], a.long(), a]
    return [f(x) for x in inputs]


@program("results")
def versions_and_gradients_of_results(torch, wrap):
    """The graph of an earlier call is used after later calls, in the wrong order."""
    w = row(torch).requires_grad_()
    f = wrap(lambda x: (w * x).sin().sum())
    losses = [f(row(torch, start=float(i))) for i in range(7)]
    grads = []
    for i in (3, 0, 6):
        (g,) = torch.autograd.grad(losses[i], w)
        grads.append(g)
    torch.stack([losses[1], losses[5]]).sum().backward()
    return losses, grads, w.grad, [loss.grad_fn is not None for loss in losses]
