"""Containers that change between calls: dictionaries, lists, sets and what is made of them."""

from __future__ import annotations

import argparse
import array
import bisect
import collections
import heapq
import types
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tests.compile.state.common import program, row


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
