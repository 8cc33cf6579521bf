"""Numbers out of tensors, and what Python decides by them."""

from __future__ import annotations

import collections
import json
import math

from tests.compile.state.common import linear, program, row


@program("numbers")
def item_added(torch, wrap):
    f = wrap(lambda x: x + x.sum().item())
    return [f(row(torch, start=float(i % 4))) for i in range(7)]


@program("numbers")
def item_as_json(torch, wrap):
    def f(x):
        loss = (x * x).mean()
        return json.dumps({"loss": round(loss.item(), 3), "n": x.numel(), "big": loss.item() > 5})

    f = wrap(f)
    return [f(row(torch, start=float(i % 4))) for i in range(7)]


@program("numbers")
def full_of_an_item(torch, wrap):
    f = wrap(lambda x: torch.full((2,), x.mean().item()) * torch.tensor(x[0].item()))
    return [f(row(torch, start=float(i))) for i in range(7)]


@program("numbers")
def type_of_an_item(torch, wrap):
    def f(x):
        value = x.sum().item()
        return isinstance(value, float), type(value).__name__, repr(value), hash(value) == hash(float(value))

    f = wrap(f)
    inputs = [row(torch), row(torch), torch.tensor([1, 2]), torch.tensor([True, True]), row(torch, 2)]
    return [f(x) for x in inputs * 2], type(wrap(lambda x: x.any().item())(torch.tensor([True]))).__name__


@program("numbers")
def formatted(torch, wrap):
    f = wrap(lambda x: f"{x.max().item():.2f} {int(x.sum().item()):03d} {float(x[0]):>8.3f} {len(x)}")
    return [f(row(torch, 2 + i % 3, start=float(i % 5))) for i in range(8)]


@program("numbers")
def integer_of_a_tensor_as_a_shape(torch, wrap):
    def f(x, n):
        return torch.zeros(int(n)) + x[: int(n)].sum(), list(range(int(n)))

    f = wrap(f)
    return [f(row(torch), torch.tensor(n)) for n in (2, 2, 2, 3, 1, 4, 2)]


@program("numbers")
def branches_by_value(torch, wrap):
    def f(x):
        if x.sum() > 5:
            return x * 2
        if bool(x[0] < 0):
            return -x
        return x if (x > 1).any() else x + 100

    f = wrap(f)
    return [f(row(torch, start=s)) for s in (1.0, 1.0, 1.0, -0.25, -2.0, 0.0, -1.0, 5.0, -2.0)]


@program("numbers")
def loop_while_a_value_is_large(torch, wrap):
    def f(x):
        n = 0
        while x.norm() > 1:
            x = x * 0.5
            n += 1
        return x, n

    f = wrap(f)
    return [f(row(torch, start=s)) for s in (1.0, 1.0, 1.0, 10.0, 0.0, 100.0, 1.0)]


@program("numbers")
def lists_of_numbers(torch, wrap):
    def f(x):
        values = x.tolist()
        return sorted(values, reverse=True), torch.tensor(values[::-1]) + max(values), [v > 1 for v in values]

    f = wrap(f)
    return [f(row(torch, start=s).sin()) for s in (1.0, 1.0, 1.0, 2.0, 3.0, 4.0)]


@program("numbers")
def best_so_far(torch, wrap):
    best = math.inf
    history = []

    def f(x):
        nonlocal best
        loss = (x**2).mean()
        if loss.item() < best:
            best = loss.item()
            history.append(best)
            return loss * 0
        return loss

    f = wrap(f)
    return [f(row(torch, start=s)) for s in (3.0, 3.0, 2.0, 2.5, 1.0, 4.0, 0.0, 0.5)], history


@program("numbers")
def early_stopping(torch, wrap):
    net, patience = linear(torch, 4, 1), {"best": math.inf, "bad": 0}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03)

    def step(x):
        optimizer.zero_grad()
        loss = ((net(x) - 1) ** 2).mean()
        if loss.item() >= patience["best"] - 1e-2:
            patience["bad"] += 1
            if patience["bad"] >= 2:
                return "stop"
        else:
            patience.update(best=loss.item(), bad=0)
        loss.backward()
        optimizer.step()
        return loss.item()

    step = wrap(step)
    return [step(row(torch, start=0.1)) for _ in range(12)], patience, net.weight


@program("numbers")
def errors_by_value(torch, wrap):
    log = []

    def f(x):
        try:
            if x.min().item() < 0:
                raise ValueError(f"negative {x.min().item():.1f}")
            y = x.sqrt()
        except ValueError as error:
            log.append(str(error))
            y = x.abs()
        else:
            log.append("fine")
        finally:
            log.append(len(log))
        return y

    f = wrap(f)
    return [f(row(torch, start=s)) for s in (1.0, 1.0, 1.0, -1.0, 2.0, -3.0, 1.0)], log


@program("numbers")
def dict_keyed_by_an_item(torch, wrap):
    seen, names = collections.Counter(), {0: "zero", 1: "one", 2: "two"}

    def f(x):
        label = x.argmax().item()
        seen[label] += 1
        return names.get(label, "many"), x * seen[label]

    f = wrap(f)
    rows = torch.eye(4)
    return [f(rows[i]) for i in (0, 0, 0, 1, 3, 2, 0, 1)], sorted(seen.items())


@program("numbers")
def tensors_sorted_by_value(torch, wrap):
    def f(xs):
        ordered = sorted(xs, key=lambda t: t.sum().item())
        return ordered[0] - ordered[-1], [xs.index(t) if t is xs[0] else -1 for t in ordered]

    f, out = wrap(f), []
    for a, b, c in ((1, 2, 3), (1, 2, 3), (1, 2, 3), (3, 1, 2), (2, 3, 1), (2, 2, 1)):
        out.append(f([row(torch, start=float(s)) for s in (a, b, c)]))
    return out


@program("numbers")
def matched_values(torch, wrap):
    def f(x):
        match x.to(torch.int64).tolist():
            case [0, *rest]:
                return "zero", x + len(rest)
            case [a, b] if a == b:
                return "pair", x * a
            case [a, _]:
                return "two", x - a
            case _:
                return "other", x

    f = wrap(f)
    inputs = ([1, 2], [1, 2], [1, 2], [3, 3], [0, 5], [0, 5, 6], [1, 2, 3], [1, 2], [4, 4])
    return [f(torch.tensor(v, dtype=torch.float32)) for v in inputs]


@program("numbers")
def norm_clipped_by_hand(torch, wrap):
    net = linear(torch, 4, 2)

    def step(x):
        net.zero_grad()
        (net(x) ** 2).sum().backward()
        norm = math.sqrt(sum(p.grad.pow(2).sum().item() for p in net.parameters()))
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad * (1.0 / norm if norm > 1.0 else 1.0)
        return norm > 1.0, round(norm, 3)

    step = wrap(step)
    return [step(row(torch, start=0.5 if i % 3 else 0.0)) for i in range(12)], net.weight


@program("numbers")
def loss_scale_halved_on_overflow(torch, wrap):
    scaler = {"scale": 8.0, "good": 0}

    def f(x):
        y = x * scaler["scale"]
        if not torch.isfinite(y).all():
            scaler["scale"], scaler["good"] = scaler["scale"] / 2, 0
            return None
        scaler["good"] += 1
        if scaler["good"] % 3 == 0:
            scaler["scale"] *= 4
        return y

    f, bad = wrap(f), torch.tensor([1.0, math.inf])
    return [f(bad if i in (4, 5) else row(torch, 2)) for i in range(9)], scaler


@program("numbers")
def indices_from_values(torch, wrap):
    table = ["a", "b", "c", "d"]

    def f(x):
        chosen = [table[i] for i in x.topk(2).indices.tolist()]
        rows = torch.nonzero(x > 1).flatten()
        return chosen, x[rows], x[x > 1.2], len(rows)

    f, out = wrap(f), []
    for i in range(7):
        out.append(f(torch.roll(row(torch), i) * (1 if i < 4 else 0.7)))
        if i == 3:
            table.reverse()
    return out
