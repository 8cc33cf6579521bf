"""Small programs whose Python state changes between the calls of a compiled function.

Each is written once for any library with PyTorch's API: it gets the library and `wrap`, which compiles a function
or leaves it alone, and returns all that can be seen of the calls. Both ways must give the same, at every call.
"""

from __future__ import annotations

import argparse
import array
import bisect
import collections
import contextlib
import contextvars
import copy
import functools
import gc
import heapq
import io
import itertools
import json
import logging
import math
import operator
import os
import pickle
import random
import tempfile
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

PROGRAMS: list[tuple[str, str, Callable]] = []


def program(kind: str) -> Callable:
    """Registers a program under its class of attack."""

    def register(function: Callable) -> Callable:
        PROGRAMS.append((function.__name__, kind, function))
        return function

    return register


def row(torch, n: int = 4, start: float = 1.0):
    """start, start + 0.5, start + 1, ..."""
    return torch.arange(n, dtype=torch.float32) * 0.5 + start


def linear(torch, n: int, m: int):
    """A linear layer whose numbers need no random generator and are far from saturating anything."""
    layer = torch.nn.Linear(n, m)
    weights = [0.4 * math.sin(1.3 * i + 1) for i in range(n * m)]
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights).reshape(m, n))
        layer.bias.copy_(torch.arange(m, dtype=torch.float32) * 0.05 + 0.1)
    return layer


# containers


@program("containers")
def dict_with_a_variable_key(torch, wrap):
    scales, current = {"a": 1.0, "b": 2.0, "c": -3.0}, {"key": "a"}
    f = wrap(lambda x: x * scales[current["key"]])
    out = []
    for i, key in enumerate("aaabbcacb"):
        current["key"] = key
        if i == 6:
            scales["a"] = 10.0
        out.append(f(row(torch)))
    return out


@program("containers")
def dict_get_with_a_default(torch, wrap):
    options = {}
    f = wrap(lambda x: x + options.get("shift", 0.5) if options.get("on", True) else x)
    out = [f(row(torch)) for _ in range(3)]
    options["shift"] = 2.0
    out += [f(row(torch)) for _ in range(2)]
    options["on"] = False
    out.append(f(row(torch)))
    options.clear()
    return out + [f(row(torch))]


@program("containers")
def dict_membership(torch, wrap):
    flags = {"double": None}

    def f(x):
        if "double" in flags:
            x = x * 2
        if "negate" not in flags:
            x = -x
        return x

    f = wrap(f)
    out = [f(row(torch)) for _ in range(3)]
    flags["negate"] = 1
    out += [f(row(torch)) for _ in range(2)]
    del flags["double"]
    out.append(f(row(torch)))
    flags.pop("negate")
    return out + [f(row(torch))]


@program("containers")
def dict_order_of_items(torch, wrap):
    """The same items in another order: not the same sum of products."""
    steps = {"add": 1.0, "mul": 3.0}

    def f(x):
        for name, value in steps.items():
            x = x + value if name == "add" else x * value
        return x

    f = wrap(f)
    out = [f(row(torch)) for _ in range(4)]
    steps["add"] = steps.pop("add")
    out += [f(row(torch)) for _ in range(2)]
    steps["mul"] = steps.pop("mul")
    return out + [f(row(torch))]


@program("containers")
def keyword_arguments_that_change(torch, wrap):
    def f(x, **kw):
        for key in sorted(kw):
            x = x * kw[key] if key.startswith("m") else x + kw[key]
        return x, len(kw), list(kw)

    f = wrap(f)
    calls = [{}, {"m": 2.0}, {"m": 2.0}, {"m": 3.0}, {"a": 1.0, "m": 3.0}, {"m": 3.0, "a": 1.0}, {}, {"b": 4}]
    return [f(row(torch), **kw) for kw in calls]


@program("containers")
def dict_changed_through_an_alias(torch, wrap):
    config = {"inner": {"scale": 1.0}}
    alias = config["inner"]
    f = wrap(lambda x: x * config["inner"]["scale"])
    out = []
    for i in range(8):
        out.append(f(row(torch)))
        alias["scale"] += i
        if i == 4:
            config["inner"] = dict(alias)  # from now on the alias is another dict
    return out


@program("containers")
def defaultdict_grown_by_reading(torch, wrap):
    counts = collections.defaultdict(lambda: 1.5)

    def f(x, key):
        return x * counts[key] + len(counts)

    f = wrap(f)
    out = [f(row(torch), key) for key in ("a", "a", "b", "a", "c", "b", "a")]
    counts["a"] = 7.0
    return out, f(row(torch), "a"), sorted(counts.items())


@program("containers")
def ordered_dict_with_moved_ends(torch, wrap):
    layers = collections.OrderedDict(first=2.0, second=1.0, third=-1.0)

    def f(x):
        for i, value in enumerate(layers.values()):
            x = x * value + i
        return x

    f = wrap(f)
    out = []
    for i in range(8):
        out.append(f(row(torch)))
        if i > 2:
            layers.move_to_end(next(iter(layers)), last=i != 5)
    return out, list(layers)


@program("containers")
def chain_map_with_new_layers(torch, wrap):
    defaults, local = {"scale": 1.0, "shift": 0.25}, {}
    settings = collections.ChainMap(local, defaults)
    f = wrap(lambda x: x * settings["scale"] + settings["shift"])
    out = [f(row(torch)) for _ in range(3)]
    local["scale"] = 2.0
    out.append(f(row(torch)))
    defaults["shift"] = -1.0
    out.append(f(row(torch)))
    settings.maps.insert(0, {"shift": 9.0})
    out.append(f(row(torch)))
    del local["scale"]
    return out + [f(row(torch))]


@program("containers")
def list_entry_rewritten(torch, wrap):
    xs = [1.0, 2.0, 3.0]
    f = wrap(lambda x, i: x * xs[i] + xs[-1])
    out = []
    for step in range(9):
        out.append(f(row(torch), step % 3))
        xs[step % 2] += 1.0
        if step == 6:
            xs.append(-5.0)
    return out


@program("containers")
def list_slice_and_length(torch, wrap):
    xs = [1.0, 2.0, 3.0, 4.0]
    f = wrap(lambda x: x + sum(xs[1:3]) * len(xs))
    out = [f(row(torch)) for _ in range(3)]
    xs.insert(0, 0.5)
    out += [f(row(torch)) for _ in range(2)]
    xs[1:3] = [9.0]
    out.append(f(row(torch)))
    xs.reverse()
    out.append(f(row(torch)))
    xs.clear()
    return out + [f(row(torch))]


@program("containers")
def list_summed_through_map(torch, wrap):
    xs = ["1", "2.5"]
    f = wrap(lambda x: x * sum(map(float, xs)))
    out = []
    for text in ("3", "-1", "0.5", "7", "1e1", "2"):
        out.append(f(row(torch)))
        xs.append(text)
        xs[0] = text
    return out + [f(row(torch))]


@program("containers")
def list_comprehension_with_a_condition(torch, wrap):
    xs = [1, -2, 3]
    f = wrap(lambda x: torch.stack([x * v for v in xs if v > 0]).sum(0))
    out = [f(row(torch)) for _ in range(4)]
    xs[1] = 2
    out.append(f(row(torch)))
    xs += [4, -7]
    out.append(f(row(torch)))
    xs[0] = -1
    return out + [f(row(torch))]


@program("containers")
def list_sorted_and_zipped(torch, wrap):
    names, values = ["b", "a", "c"], [1.0, 2.0, 3.0]

    def f(x):
        for k, (_, v) in enumerate(sorted(zip(names, values))):
            x = x * v - k
        return x

    f = wrap(f)
    out = [f(row(torch)) for _ in range(3)]
    names[0], names[2] = "z", "0"
    out += [f(row(torch)) for _ in range(2)]
    values.append(10.0)  # zip still stops at the shorter
    out.append(f(row(torch)))
    names.append("m")
    return out + [f(row(torch))]


@program("containers")
def set_membership(torch, wrap):
    active = {"relu"}

    def f(x):
        if "relu" in active:
            x = torch.relu(x)
        if {"relu", "double"} <= active:
            x = x * 2
        return x - len(active)

    f = wrap(f)
    x, out = row(torch, start=-1.0), []
    changes = ["", "", "double", "", "other", "relu", "double", "relu"]
    for name in changes:
        if name:
            active ^= {name}
        out.append(f(x))
    return out


@program("containers")
def deque_of_fixed_length(torch, wrap):
    window = collections.deque([1.0], maxlen=3)

    def f(x):
        window.append(x.sum().item())
        return x / len(window) + window[0]

    f = wrap(f)
    out = [f(row(torch, start=float(i))) for i in range(7)]
    window.rotate(1)
    return out, f(row(torch)), list(window)


@program("containers")
def tuple_of_lists(torch, wrap):
    """The tuple never changes, the lists within it do."""
    pair = ([1.0], [2.0, 3.0])

    def f(x, pair=pair):
        return x * pair[0][0] + len(pair[1]) + pair[1][-1]

    f = wrap(f)
    out = [f(row(torch)) for _ in range(3)]
    pair[0][0] = 5.0
    out += [f(row(torch)) for _ in range(2)]
    pair[1].append(-1.0)
    out.append(f(row(torch)))
    pair[1].pop(0)
    return out + [f(row(torch)), f(row(torch), ([0.0], [1.0]))]


@program("containers")
def nested_dicts_and_lists(torch, wrap):
    model = {"layers": [{"w": [1.0, 2.0]}, {"w": [3.0]}]}

    def f(x):
        for layer in model["layers"]:
            for w in layer["w"]:
                x = x * w + 1
        return x

    f = wrap(f)
    out = [f(row(torch)) for _ in range(3)]
    model["layers"][1]["w"][0] = -1.0
    out += [f(row(torch)) for _ in range(2)]
    model["layers"][0]["w"].append(0.5)
    out.append(f(row(torch)))
    model["layers"].append({"w": []})
    out.append(f(row(torch)))
    model["layers"][2]["w"] = model["layers"][0]["w"]
    return out + [f(row(torch))]


@program("containers")
def parsed_arguments(torch, wrap):
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=2.0)
    parser.add_argument("--flip", action="store_true")
    args = parser.parse_args([])
    f = wrap(lambda x: (-x if args.flip else x) * vars(args)["scale"])
    out = [f(row(torch)) for _ in range(3)]
    args.scale = 3.0
    out.append(f(row(torch)))
    vars(args).update(flip=True)
    out.append(f(row(torch)))
    parser.parse_args(["--scale", "7"], namespace=args)
    return out + [f(row(torch)), f(row(torch))]


@program("containers")
def simple_namespace(torch, wrap):
    state = types.SimpleNamespace(a=1.0, inner=types.SimpleNamespace(b=2.0))
    f = wrap(lambda x: x * state.a + state.inner.b)
    out = []
    for i in range(8):
        out.append(f(row(torch)))
        if i == 2:
            state.a = 5.0
        if i == 4:
            state.inner.b = -2.0
        if i == 6:
            state.inner = types.SimpleNamespace(b=100.0)
    return out


@program("containers")
def dataclass_with_a_list(torch, wrap):
    @dataclass
    class Config:
        scale: float = 1.0
        shifts: list = field(default_factory=lambda: [0.5])

    config = Config()
    f = wrap(lambda x, c: x * c.scale + sum(c.shifts))
    out = [f(row(torch), config) for _ in range(3)]
    config.shifts.append(2.0)
    out.append(f(row(torch), config))
    config.scale = 4.0
    out.append(f(row(torch), config))
    config.shifts[0] = -9.0
    return out + [f(row(torch), config), f(row(torch), Config()), f(row(torch), config)]


@program("containers")
def named_tuple_replaced(torch, wrap):
    class Setting(NamedTuple):
        scale: float
        shift: float

    holder = [Setting(1.0, 2.0)]
    f = wrap(lambda x: x * holder[0].scale + holder[0].shift)
    out = []
    for i in range(8):
        out.append(f(row(torch)))
        if i >= 3:
            holder[0] = holder[0]._replace(scale=float(i), shift=-holder[0].shift)
    return out


@program("containers")
def array_of_doubles(torch, wrap):
    xs = array.array("d", [1.0, 2.0])
    f = wrap(lambda x: x * xs[0] + sum(xs) + len(xs))
    out = []
    for i in range(7):
        out.append(f(row(torch)))
        xs[0] = i * 0.5
        if i == 4:
            xs.append(3.0)
    return out


@program("containers")
def numpy_array_read_as_numbers(torch, wrap):
    weights = np.array([1.0, 2.0, 3.0])
    f = wrap(lambda x: x * float(weights[0]) + weights.mean().item() * (1 if weights.max() > 5 else -1))
    out = []
    for i in range(7):
        out.append(f(row(torch)))
        weights[i % 3] += i
    return out


@program("containers")
def bytes_and_memoryview(torch, wrap):
    buffer = bytearray([1, 2, 3, 4])
    view = memoryview(buffer)
    f = wrap(lambda x: x * view[1] + sum(buffer))
    out = []
    for i in range(7):
        out.append(f(row(torch)))
        (buffer if i % 2 else view)[i % 4] = i + 10
    return out


@program("containers")
def equal_list_swapped_in(torch, wrap):
    """The list is replaced by an equal one, then the old one changes (nothing), then the new one does."""
    holder = types.SimpleNamespace(xs=[1.0, 2.0])
    old = holder.xs
    f = wrap(lambda x: x * holder.xs[0] + holder.xs[1])
    out = [f(row(torch)) for _ in range(4)]
    holder.xs = list(old)
    out.append(f(row(torch)))
    old[0] = 100.0
    out.append(f(row(torch)))
    holder.xs[0] = 7.0
    out.append(f(row(torch)))
    holder.xs = old
    return out + [f(row(torch))]


@program("containers")
def dict_view_kept(torch, wrap):
    table = {"a": 1.0}
    values, keys = table.values(), table.keys()
    f = wrap(lambda x: x * sum(values) + len(keys))
    out = []
    for i in range(7):
        out.append(f(row(torch)))
        table[f"k{i % 4}"] = float(i)
    return out


@program("containers")
def list_of_tensors_rewritten(torch, wrap):
    xs = [row(torch), row(torch, start=2.0)]
    f = wrap(lambda x: x * xs[0] + xs[-1])
    out = [f(row(torch)) for _ in range(3)]
    xs[0] = torch.ones(4)
    out.append(f(row(torch)))
    xs[1].mul_(2)
    out.append(f(row(torch)))
    xs.append(torch.tensor(5.0))
    out.append(f(row(torch)))
    xs[0], xs[-1] = xs[-1], xs[0]
    return out + [f(row(torch))]


@program("containers")
def counter_and_heap(torch, wrap):
    seen, heap = collections.Counter(), [5.0]

    def f(x, word):
        seen[word] += 1
        heapq.heappush(heap, float(len(word)))
        top, count = seen.most_common(1)[0]
        return x * count + len(top) + heap[0]

    f = wrap(f)
    words = ["aaa", "aaa", "b", "b", "b", "cccc", "b", "aaa", "aaa"]
    return [f(row(torch), word) for word in words], heap, sorted(seen.items())


@program("containers")
def dict_subclass_with_missing(torch, wrap):
    class Table(dict):
        asked = 0

        def __missing__(self, key):
            Table.asked += 1
            return float(len(key)) + Table.asked

    table = Table(a=2.0)
    f = wrap(lambda x, key: x * table[key])
    out = [f(row(torch), key) for key in ("a", "a", "bb", "bb", "a", "bb", "ccc")]
    table["bb"] = 0.0
    return out, f(row(torch), "bb"), Table.asked


@program("containers")
def true_one_and_one_point_nought(torch, wrap):
    """1, 1.0 and True are equal and give three dtypes; 0.0 and -0.0 are equal and give two signs."""
    holder = [1]

    def f(x):
        y = x * holder[0]
        return y, y.dtype == torch.int64, y.is_floating_point(), torch.tensor([holder[0]]).dtype == torch.bool

    f = wrap(f)
    out = []
    for value in (1, 1, 1, 1.0, 1.0, True, True, 1):
        holder[0] = value
        out.append(f(torch.tensor([1, 2])))
    g = wrap(lambda x: torch.copysign(x, torch.tensor(holder[0])))
    for value in (0.0, 0.0, 0.0, -0.0, -0.0, 0.0):
        holder[0] = value
        out.append(g(row(torch)))
    return out


@program("containers")
def bisected_boundaries(torch, wrap):
    bounds = [1.0, 3.0]
    f = wrap(lambda x, v: x * (bisect.bisect(bounds, v) + 1))
    out = [f(row(torch), 2.0) for _ in range(4)]
    bisect.insort(bounds, 0.5)
    out.append(f(row(torch), 2.0))
    bounds.pop()
    return out + [f(row(torch), 0.1), f(row(torch), 5.0), f(row(torch), 2.0)]


# side effects


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

    logger = logging.getLogger("state_programs.logging_to_a_list")
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


# iterators


@program("iterators")
def next_of_a_list_iterator(torch, wrap):
    it = iter([1.0, 2.0, 3.0, 4.0])
    f = wrap(lambda x: x * next(it, -1.0))
    return [f(row(torch)) for _ in range(7)]


@program("iterators")
def count_and_cycle(torch, wrap):
    count, cycle = itertools.count(3), itertools.cycle([1.0, -1.0, 0.5])
    f = wrap(lambda x: x * next(cycle) + next(count))
    out = [f(row(torch)) for _ in range(4)]
    next(count)  # also used from outside
    next(cycle)
    return out, [f(row(torch)) for _ in range(4)], next(count)


@program("iterators")
def generator_of_tensors(torch, wrap):
    state = {"step": 1.0}

    def batches():
        x = torch.zeros(4)
        while True:
            x = x + state["step"]
            yield x

    stream = batches()
    f = wrap(lambda: next(stream) * 2)
    out = [f() for _ in range(4)]
    state["step"] = 10.0
    return out, [f() for _ in range(3)], next(stream)


@program("iterators")
def exhausted_iterator_raises(torch, wrap):
    log, it = [], iter([1.0, 2.0, 3.0, 4.0])

    def f(x):
        log.append("in")
        y = x * next(it)
        log.append("out")
        return y

    f = wrap(f)
    out = []
    for _ in range(6):
        try:
            out.append(f(row(torch)))
        except StopIteration:
            out.append("stop")
    return out, log


@program("iterators")
def random_instance(torch, wrap):
    rng = random.Random(7)
    f = wrap(lambda x: x * rng.random() + rng.randint(0, 9))
    out = [f(row(torch)) for _ in range(5)]
    rng.seed(7)
    return out, [f(row(torch)) for _ in range(3)], rng.random()


@program("iterators")
def random_choice_of_path(torch, wrap):
    rng = random.Random(3)

    def f(x):
        kind = rng.choice(["sin", "double", "neg"])
        return kind, {"sin": torch.sin, "double": lambda t: t * 2, "neg": torch.neg}[kind](x)

    f = wrap(f)
    return [f(row(torch)) for _ in range(10)]


@program("iterators")
def global_random_module(torch, wrap):
    random.seed(11)
    f = wrap(lambda x: -x if random.random() < 0.5 else x + random.gauss(0, 1))
    out = [f(row(torch)) for _ in range(8)]
    random.seed(11)
    return out, f(row(torch)), random.random()


@program("iterators")
def numpy_generator(torch, wrap):
    rng = np.random.default_rng(5)
    f = wrap(lambda x: x * float(rng.normal()) + torch.tensor(rng.random(4), dtype=torch.float32))
    out = [f(row(torch)) for _ in range(6)]
    rng.random()
    return out, f(row(torch)), rng.random()


@program("iterators")
def numpy_permutation_of_rows(torch, wrap):
    rng, data = np.random.default_rng(1), torch.arange(12.0).reshape(6, 2)
    f = wrap(lambda: data[torch.from_numpy(rng.permutation(6))[:2]])
    return [f() for _ in range(7)], int(rng.integers(1000))


@program("iterators")
def enumerate_kept(torch, wrap):
    words = ["a", "bb", "ccc"]
    it = enumerate(words, 1)

    def f(x):
        i, word = next(it)
        return x * i + len(word), word

    f = wrap(f)
    out = [f(row(torch)) for _ in range(3)]
    words += ["dddd", "e", "ff"]  # the iterator sees them
    return out + [f(row(torch)) for _ in range(3)]


@program("iterators")
def loader_within_the_function(torch, wrap):
    data = torch.utils.data.TensorDataset(torch.arange(10.0).reshape(5, 2), torch.arange(5.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    scale = [1.0]

    def epoch():
        total, n = torch.zeros(2), 0
        for x, y in loader:
            total = total + (x * y[:, None]).sum(0) * scale[0]
            n += 1
        return total, n

    epoch, out = wrap(epoch), []
    for i in range(6):
        scale[0] = 1.0 + (i > 2) * i
        if i == 4:
            data.tensors[0].add_(1)
        out.append(epoch())
    return out


@program("iterators")
def loader_iterator_kept(torch, wrap):
    class Squares(torch.utils.data.Dataset):
        asked = []

        def __len__(self):
            return 6

        def __getitem__(self, i):
            self.asked.append(i)
            return torch.tensor([float(i * i)])

    batches = iter(torch.utils.data.DataLoader(Squares(), batch_size=1))
    f = wrap(lambda x: x + next(batches)[0])
    return [f(row(torch)) for _ in range(6)], Squares.asked


@program("iterators")
def lines_read(torch, wrap):
    text = io.StringIO("1\n2\n\n4\n5\n6\n")
    f = wrap(lambda x: x * float(text.readline().strip() or -1))
    out = [f(row(torch)) for _ in range(5)]
    text.seek(2)
    return out, [f(row(torch)) for _ in range(5)], text.tell()


@program("iterators")
def zip_and_islice_kept(torch, wrap):
    pairs = zip(itertools.count(), itertools.cycle("ab"))

    def f(x):
        taken = list(itertools.islice(pairs, 2))
        for i, letter in taken:
            x = x + i if letter == "a" else x * 2
        return x

    f = wrap(f)
    out = [f(row(torch)) for _ in range(4)]
    next(pairs)
    return out, [f(row(torch)) for _ in range(3)]


@program("iterators")
def user_iterator_with_state(torch, wrap):
    class Schedule:
        def __init__(self):
            self.value = 1.0

        def __iter__(self):
            return self

        def __next__(self):
            self.value *= 0.5
            if self.value < 0.05:
                raise StopIteration
            return self.value

    schedule = Schedule()

    def f(x):
        for value in schedule:
            return x * value
        return x

    f = wrap(f)
    out = [f(row(torch)) for _ in range(6)]
    schedule.value = 1.0
    return out, f(row(torch)), schedule.value


@program("iterators")
def torch_generator_shared(torch, wrap):
    """Random numbers from a generator which is also drawn from and seeded outside; only relations are returned."""
    generator = torch.Generator()
    generator.manual_seed(3)
    f = wrap(lambda x: x + torch.rand(4, generator=generator))
    first = [f(row(torch)) for _ in range(6)]
    generator.manual_seed(3)
    again = [f(row(torch)) for _ in range(6)]
    generator.manual_seed(3)
    torch.rand(4, generator=generator)
    shifted = f(row(torch))
    same = [bool((a == b).all()) for a, b in zip(first, again)]
    return same, bool((shifted == first[1]).all()), bool((first[0] == first[1]).any())


# attributes and rebinding


@program("attributes")
def attributes_by_name(torch, wrap):
    class Box:
        pass

    box = Box()
    box.alpha = 2.0

    def f(x, name):
        if hasattr(box, name):
            return x * getattr(box, name)
        return x + getattr(box, name, 100.0)

    f = wrap(f)
    out = [f(row(torch), "alpha") for _ in range(3)] + [f(row(torch), "beta")]
    box.beta = 3.0
    out += [f(row(torch), "beta"), f(row(torch), "beta")]
    del box.alpha
    out.append(f(row(torch), "alpha"))
    Box.alpha = -1.0
    return out + [f(row(torch), "alpha")]


@program("attributes")
def attributes_set_inside(torch, wrap):
    class Box:
        pass

    box = Box()

    def f(x, name):
        old = getattr(box, name, 0.0)
        setattr(box, name, old + 1.5)
        return x * old

    f = wrap(f)
    out = [f(row(torch), name) for name in "aabababba"]
    return out, vars(box)


@program("attributes")
def slots(torch, wrap):
    class Point:
        __slots__ = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = a, b

    point = Point(1.0, 2.0)

    def f(x):
        point.b += 1
        return x * point.a + point.b

    f, out = wrap(f), []
    for i in range(8):
        out.append(f(row(torch)))
        if i == 4:
            point.a = 9.0
    del point.a
    try:
        f(row(torch))
    except AttributeError:
        out.append("gone")
    return out, point.b


@program("attributes")
def class_and_instance_attributes(torch, wrap):
    class Base:
        scale = 1.0

    class Derived(Base):
        pass

    item = Derived()
    f = wrap(lambda x: x * item.scale)
    out = [f(row(torch)) for _ in range(3)]
    Base.scale = 2.0
    out.append(f(row(torch)))
    Derived.scale = 3.0
    out.append(f(row(torch)))
    item.scale = 4.0
    out.append(f(row(torch)))
    del item.scale
    out.append(f(row(torch)))
    del Derived.scale
    return out + [f(row(torch))]


@program("attributes")
def class_of_an_instance_changed(torch, wrap):
    class Plus:
        def apply(self, x):
            return x + 1

    class Times:
        def apply(self, x):
            return x * 5

    class Child(Plus):
        pass

    item, child = Plus(), Child()
    f = wrap(lambda x: child.apply(item.apply(x)))
    out = [f(row(torch)) for _ in range(4)]
    item.__class__ = Times
    out.append(f(row(torch)))
    Child.__bases__ = (Times,)
    return out + [f(row(torch)), f(row(torch))]


@program("attributes")
def attributes_made_up(torch, wrap):
    class Lazy:
        def __init__(self):
            self.store, self.asked = {"w": 2.0}, []

        def __getattr__(self, name):
            self.asked.append(name)
            return self.store.get(name, 0.5)

    lazy = Lazy()
    f = wrap(lambda x: x * lazy.w + lazy.other)
    out = [f(row(torch)) for _ in range(4)]
    lazy.store["w"] = -3.0
    out.append(f(row(torch)))
    lazy.other = 100.0  # now found the plain way
    return out + [f(row(torch)), f(row(torch))], lazy.asked


@program("attributes")
def properties(torch, wrap):
    class Meter:
        def __init__(self):
            self.raw, self.reads, self.writes = 1.0, 0, 0

        @property
        def value(self):
            self.reads += 1
            return self.raw * 2

        @value.setter
        def value(self, new):
            self.writes += 1
            self.raw = new

    meter = Meter()

    def f(x):
        meter.value = meter.value + 1
        return x * meter.value

    f = wrap(f)
    out = [f(row(torch)) for _ in range(4)]
    meter.raw = 0.0
    out.append(f(row(torch)))
    Meter.value = 7.0
    return out, f(row(torch)), meter.reads, meter.writes


@program("attributes")
def descriptors(torch, wrap):
    class Doubling:
        def __get__(self, instance, owner):
            instance.gets += 1
            return instance.base * 2 + instance.gets

    class Thing:
        gets, base = 0, 1.0
        value = Doubling()

    thing = Thing()
    f = wrap(lambda x: x + thing.value)
    out = [f(row(torch)) for _ in range(4)]
    thing.base = 10.0
    out += [f(row(torch)), f(row(torch))]
    thing.__dict__["value"] = -1.0  # hides the descriptor, which has no setter
    return out, f(row(torch)), thing.gets


@program("attributes")
def instance_dict_updated(torch, wrap):
    class Box:
        scale = 1.0

    box = Box()
    f = wrap(lambda x: x * box.scale)
    out = [f(row(torch)) for _ in range(3)]
    box.__dict__.update(scale=2.0)
    out.append(f(row(torch)))
    vars(box)["scale"] = 3.0
    out.append(f(row(torch)))
    box.__dict__ = {"scale": 4.0}
    out.append(f(row(torch)))
    box.__dict__.clear()
    return out + [f(row(torch))]


@program("attributes")
def configuration_of_a_module(torch, wrap):
    class Net(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config, self.layer = config, linear(torch, 4, 4)

        def forward(self, x):
            y = self.layer(x) * self.config.scale
            return y + x if self.config.residual else y

    config = types.SimpleNamespace(scale=1.0, residual=False)
    net = Net(config)
    run, out = wrap(net), []
    for i in range(8):
        if i == 3:
            config.scale = 0.5
        if i == 5:
            config.residual = True
        if i == 7:
            net.config = types.SimpleNamespace(scale=3.0, residual=False)
        out.append(run(row(torch)))
    return out


@program("attributes")
def methods_replaced(torch, wrap):
    class Model:
        def act(self, x):
            return torch.relu(x)

        def __call__(self, x):
            return self.act(x) + 1

    model, x = Model(), row(torch, start=-1.0)
    f = wrap(lambda x: model(x))
    out = [f(x) for _ in range(3)]
    model.act = torch.tanh
    out.append(f(x))
    Model.act = lambda self, x: x * 9
    out.append(f(x))
    del model.act
    out.append(f(x))
    Model.__call__ = lambda self, x: self.act(x) - 1
    return out + [f(x)]


SCALE = 1.0


def scaled(x):
    return x * SCALE


@program("attributes")
def globals_rebound(torch, wrap):
    global SCALE, scaled
    original, SCALE = scaled, 1.0
    try:
        f = wrap(lambda x: scaled(x) + SCALE)
        out = [f(row(torch)) for _ in range(3)]
        SCALE = 2.0
        out.append(f(row(torch)))
        scaled = torch.neg
        out.append(f(row(torch)))
        globals()["SCALE"] = 5.0
        out.append(f(row(torch)))
        SCALE = row(torch)
        return out + [f(row(torch))]
    finally:
        SCALE, scaled = 1.0, original


@program("attributes")
def builtin_hidden_by_a_global(torch, wrap):
    """`max` is looked up among the globals first."""
    f = wrap(lambda x: x * max(2.0, 3.0))
    out = [f(row(torch)) for _ in range(4)]
    globals()["max"] = min
    try:
        out.append(f(row(torch)))
    finally:
        del globals()["max"]
    return out + [f(row(torch)), f(row(torch))]


@program("attributes")
def closures_rebound(torch, wrap):
    scale, act = 1.0, torch.relu

    def inner(x):
        return act(x) * scale

    f = wrap(lambda x: inner(x) + 1)
    x = row(torch, start=-1.0)
    out = [f(x) for _ in range(3)]
    scale = 2.0
    out.append(f(x))
    act = torch.sigmoid
    out.append(f(x))
    inner.__closure__[inner.__code__.co_freevars.index("scale")].cell_contents = 7.0
    out.append(f(x))

    def inner(x):
        return x - scale

    return out + [f(x)]


@program("attributes")
def partial_arguments(torch, wrap):
    numbers = [2.0]
    part = functools.partial(lambda xs, x, shift: x * xs[0] + shift, numbers, shift=1.0)
    f = wrap(lambda x: part(x))
    out = [f(row(torch)) for _ in range(3)]
    numbers[0] = 3.0
    out.append(f(row(torch)))
    part.keywords["shift"] = -1.0
    out.append(f(row(torch)))
    part = functools.partial(torch.mul, torch.tensor(4.0))
    return out + [f(row(torch)), f(row(torch))]


@program("attributes")
def defaults_changed(torch, wrap):
    def helper(x, scale=2.0, *, shift=1.0):
        return x * scale + shift

    f = wrap(lambda x: helper(x))
    out = [f(row(torch)) for _ in range(3)]
    helper.__defaults__ = (5.0,)
    out.append(f(row(torch)))
    helper.__kwdefaults__["shift"] = 0.0
    out.append(f(row(torch)))
    helper.__kwdefaults__ = {"shift": 10.0}
    return out + [f(row(torch)), f(row(torch))]


@program("attributes")
def code_of_a_function_changed(torch, wrap):
    def helper(x):
        return x + 1

    def other(x):
        return x * 10

    f = wrap(lambda x: helper(x) - 1)
    out = [f(row(torch)) for _ in range(4)]
    helper.__code__ = other.__code__
    return out + [f(row(torch)) for _ in range(3)]


@program("attributes")
def function_attributes(torch, wrap):
    def helper(x):
        helper.calls += 1
        return x * helper.scale

    helper.calls, helper.scale = 0, 1.0
    f, out = wrap(lambda x: helper(x)), []
    for i in range(7):
        out.append(f(row(torch)))
        if i == 3:
            helper.scale = 6.0
    return out, helper.calls


@program("attributes")
def lambdas_in_a_table(torch, wrap):
    table = {"act": lambda x: x + 1, "loss": lambda x: x.sum()}
    f = wrap(lambda x: table["loss"](table["act"](x)))
    out = [f(row(torch)) for _ in range(3)]
    table["act"] = lambda x: x * 3
    out.append(f(row(torch)))
    table["loss"] = torch.mean
    out.append(f(row(torch)))
    table["act"] = operator.neg
    return out + [f(row(torch)), f(row(torch))]


@program("attributes")
def decorator_with_state(torch, wrap):
    def counted(function):
        @functools.wraps(function)
        def inner(*args):
            inner.calls += 1
            return function(*args) * (2 if inner.calls % 3 == 0 else 1)

        inner.calls = 0
        return inner

    @counted
    def helper(x):
        return x + 1

    f = wrap(lambda x: helper(x))
    return [f(row(torch)) for _ in range(8)], helper.calls


@program("attributes")
def cached_function(torch, wrap):
    asked, base = [], [1.0]

    @functools.lru_cache(maxsize=2)
    def factor(n):
        asked.append(n)
        return base[0] * n

    f = wrap(lambda x, n: x * factor(n))
    out = [f(row(torch), n) for n in (2, 2, 2, 3, 2, 4)]
    base[0] = 10.0
    out += [f(row(torch), 2), f(row(torch), 3)]
    factor.cache_clear()
    return out, f(row(torch), 2), asked, factor.cache_info().misses


@program("attributes")
def dispatch_registered_later(torch, wrap):
    @functools.singledispatch
    def shift(value):
        return 0.0

    shift.register(int, lambda value: 1.0 * value)
    f = wrap(lambda x, value: x + shift(value))
    out = [f(row(torch), value) for value in (3, 3, "ab", 3, "ab")]
    shift.register(str, lambda value: 10.0 * len(value))
    out += [f(row(torch), "ab"), f(row(torch), True)]
    shift.register(bool, lambda value: -1.0)
    return out, f(row(torch), True), f(row(torch), 3)


@program("attributes")
def operators_of_a_user_class(torch, wrap):
    class Gain:
        def __init__(self, g):
            self.g, self.used = g, 0

        def __rmul__(self, x):
            self.used += 1
            return x * float(self.g)

        def __bool__(self):
            return self.g > 2

        def __len__(self):
            return int(self.g)

    gain = Gain(1.0)
    f = wrap(lambda x: (gain.__rmul__(x) if gain else -x) + len(gain))
    out = []
    for g in (1.0, 1.0, 3.0, 3.0, 4.0, 1.0, 5.0):
        gain.g = g
        out.append(f(row(torch)))
    return out, gain.used


# numbers out of tensors


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


# the environment


@program("environment")
def environment_variables(torch, wrap):
    name = "STATE_PROGRAMS_SCALE"
    f = wrap(lambda x: x * float(os.environ.get(name, "1")) + (name in os.environ))
    os.environ.pop(name, None)
    out = [f(row(torch)) for _ in range(3)]
    try:
        for value in ("2", "2", "3.5"):
            os.environ[name] = value
            out.append(f(row(torch)))
    finally:
        os.environ.pop(name, None)
    return out + [f(row(torch))]


@program("environment")
def context_variables(torch, wrap):
    scale = contextvars.ContextVar("scale", default=1.0)
    f = wrap(lambda x: x * scale.get())
    out = [f(row(torch)) for _ in range(3)]
    token = scale.set(2.0)
    out.append(f(row(torch)))
    context = contextvars.copy_context()
    scale.set(5.0)
    out += [context.run(f, row(torch)), f(row(torch))]
    scale.reset(token)
    return out + [f(row(torch))]


@program("environment")
def thread_local_values(torch, wrap):
    local, out = threading.local(), []
    local.scale = 1.0
    f = wrap(lambda x: x * getattr(local, "scale", -1.0))

    def elsewhere(scale):
        out.append(f(row(torch)))
        local.scale = scale
        out.append(f(row(torch)))

    for i in range(4):
        out.append(f(row(torch)))
        thread = threading.Thread(target=elsewhere, args=(10.0 + i,))
        thread.start()
        thread.join()
        local.scale += 1
    return out


@program("environment")
def events_and_locks(torch, wrap):
    stop, lock = threading.Event(), threading.Lock()

    def f(x):
        with lock:
            busy = lock.locked()
        return (x if stop.is_set() else -x) + busy, lock.locked()

    f, out = wrap(f), []
    for i in range(8):
        if i in (3, 6):
            stop.set()
        if i == 5:
            stop.clear()
        out.append(f(row(torch)))
    return out


@program("environment")
def clock_that_ticks(torch, wrap):
    class Clock:
        now = 0.0

        def time(self):
            self.now += 0.25
            return self.now

    clock, spent = Clock(), []

    def f(x):
        start = clock.time()
        y = x * 2
        spent.append(clock.time() - start)
        return y + start

    f = wrap(f)
    out = [f(row(torch)) for _ in range(6)]
    clock.now = 100.0
    return out, f(row(torch)), spent


@program("environment")
def files_read(torch, wrap):
    def f(x, path):
        with open(path) as file:
            return x * json.load(file)["scale"]

    f, out = wrap(f), []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        for scale in (1.0, 1.0, 1.0, 2.0, 2.0, 7.5):
            with open(path, "w") as file:
                json.dump({"scale": scale}, file)
            out.append(f(row(torch), path))
        os.remove(path)
        try:
            f(row(torch), path)
        except FileNotFoundError:
            out.append("gone")
    return out


@program("environment")
def files_appended(torch, wrap):
    def f(x, path):
        with open(path, "a") as file:
            file.write(f"{x.sum().item():.1f}\n")
        return x + os.path.getsize(path)

    f = wrap(f)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.txt")
        out = [f(row(torch, start=float(i % 3)), path) for i in range(7)]
        with open(path) as file:
            return out, file.read().splitlines()


@program("environment")
def checkpoint_saved_and_loaded_within(torch, wrap):
    net, buffer = linear(torch, 4, 1), io.BytesIO()

    def f(x, save):
        if save:
            buffer.seek(0)
            torch.save(net.state_dict(), buffer)
        else:
            buffer.seek(0)
            net.load_state_dict(torch.load(buffer))
        return net(x).detach()

    f, out = wrap(f), []
    for save in (True, False, True, False, False, True, False):
        out.append(f(row(torch), save))
        with torch.no_grad():
            net.weight.add_(1.0)
    return out


# tensors made from data that changes


@program("made from data")
def tensor_of_a_list(torch, wrap):
    xs = [1.0, 2.0, 3.0, 4.0]
    f, out = wrap(lambda x: x * torch.tensor(xs)), []
    for i in range(7):
        out.append(f(row(torch)))
        xs[i % 4] = -float(i)
    return out


@program("made from data")
def tensor_of_a_list_that_grows(torch, wrap):
    losses = []

    def f(x):
        losses.append(x.mean().item())
        kept = torch.tensor(losses)
        return kept.mean(), kept

    f = wrap(f)
    return [f(row(torch, start=float(i * i))) for i in range(7)]


@program("made from data")
def tensor_of_an_array_is_a_copy(torch, wrap):
    data = np.ones(4, dtype=np.float32)
    f, out = wrap(lambda: torch.tensor(data) * 2), []
    for i in range(7):
        out.append(f())
        data += i
    return out, data.tolist()


@program("made from data")
def as_tensor_shares_memory(torch, wrap):
    """The array changes after the call: the tensor shows it, as does its view."""
    data = np.ones(4, dtype=np.float32)

    def f():
        t = torch.as_tensor(data)
        return t, t[1:], t * 2

    f, out = wrap(f), []
    for i in range(7):
        t, tail, doubled = f()
        data[i % 4] += 10
        out.append((t.clone(), tail.clone(), doubled))
    return out


@program("made from data")
def from_numpy_written_inside(torch, wrap):
    data = np.zeros(4, dtype=np.float32)

    def f(x):
        t = torch.from_numpy(data)
        t += x
        data[0] = -1.0
        return t.sum()

    f = wrap(f)
    out = [(f(row(torch)), data.tolist()) for _ in range(5)]
    data = np.full(4, 100.0, dtype=np.float32)
    return out, [(f(row(torch)), data.tolist()) for _ in range(2)]


@program("made from data")
def numpy_view_of_a_tensor(torch, wrap):
    x = torch.zeros(4)
    shown = x.numpy()

    def f():
        before = float(shown.sum())
        x.add_(1)
        return before, float(shown.sum()), x * 2

    f, out = wrap(f), []
    for i in range(7):
        out.append(f())
        if i > 2:
            shown[i % 4] = 50.0
    return out, shown.tolist()


@program("made from data")
def range_of_a_changing_length(torch, wrap):
    state = {"n": 3}
    f, out = wrap(lambda: torch.arange(state["n"]) * 2 + torch.ones(state["n"]).sum()), []
    for n in (3, 3, 3, 5, 2, 3, 0, 8):
        state["n"] = n
        out.append(f())
    return out


@program("made from data")
def buffer_shared(torch, wrap):
    buffer = bytearray([1, 2, 3, 4])

    def f():
        t = torch.frombuffer(buffer, dtype=torch.uint8)
        return t, t.sum()

    f, out = wrap(f), []
    for i in range(7):
        t, total = f()
        buffer[i % 4] = 20 + i
        out.append((t.clone(), total))
    return out


@program("made from data")
def made_of_nested_lists(torch, wrap):
    matrix = [[1, 2], [3, 4]]
    f, out = wrap(lambda x: torch.tensor(matrix, dtype=torch.float32) @ x[:2]), []
    for i in range(7):
        out.append(f(row(torch)))
        matrix[i % 2][0] += 1
        if i == 4:
            matrix.append([0, 1])
    return out


@program("made from data")
def vocabulary_that_grows(torch, wrap):
    vocabulary, table = {}, torch.arange(16.0).reshape(8, 2)

    def f(words):
        ids = [vocabulary.setdefault(word, len(vocabulary)) for word in words.split()]
        return table[torch.tensor(ids)].sum(0)

    f = wrap(f)
    texts = ["a b", "a b", "b a", "c a", "a b", "d e f", "a c", "a a"]
    return [f(text) for text in texts], vocabulary


@program("made from data")
def mask_from_a_list_of_lengths(torch, wrap):
    lengths = [1, 3]

    def f(x):
        mask = torch.zeros(2, 4, dtype=torch.bool)
        for i, n in enumerate(lengths):
            mask[i, :n] = True
        return x.expand(2, 4).masked_fill(~mask, -1.0)

    f, out = wrap(f), []
    for change in ([1, 3], [1, 3], [1, 3], [4, 0], [2, 2], [1, 3]):
        lengths[:] = change
        out.append(f(row(torch)))
    return out


@program("made from data")
def constant_tensor_rebuilt_and_kept(torch, wrap):
    """A tensor of constants made inside belongs to the caller, who writes to it."""
    f, kept = wrap(lambda: (torch.tensor([1.0, 2.0]), torch.zeros(2), torch.arange(3), torch.eye(2))), []
    for i in range(7):
        made = f()
        for t in made:
            t.add_(i)
        kept.append(made)
    return kept


# results


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


# training state


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
