"""Numbers, containers, arguments and results, changed when calls have long been made without Python."""

from __future__ import annotations

import collections
import copy
import gc
import threading

import numpy as np

from tests.compile.state.common import Box, attempted, facts, linear, played, program, row
from tests.compile.state.proof_python import setter


@program("proof")
def equal_numbers_of_other_types(torch, wrap):
    box = Box(k=1)
    whole, x = torch.arange(4), row(torch)
    f = wrap(lambda: (whole * box.k, x * box.k, box.k))
    return played(f, *(setter(box, "k", v) for v in (1.0, True, 1, np.float32(1), np.int64(1), 1 + 0j)))


@program("proof")
def zeros_and_nan(torch, wrap):
    box, x = Box(k=0.0), row(torch)
    f = wrap(lambda: (x * box.k, box.k))
    nan = float("nan")
    return played(f, *(setter(box, "k", v) for v in (-0.0, 0.0, 0, nan, float("nan"), -0.0, float("inf"))))


@program("proof")
def large_and_small_integers(torch, wrap):
    box, x = Box(k=2**53), torch.arange(4)
    f = wrap(lambda: x * (box.k % 7) + (box.k > 2**53))
    return played(
        f,
        setter(box, "k", 2**53 + 1),
        setter(box, "k", float(2**53)),
        setter(box, "k", -(2**62)),
        setter(box, "k", 2**70),
    )


@program("proof")
def numbers_of_a_subclass(torch, wrap):
    class Sneaky(int):
        def __add__(self, other):
            return 40

        def __index__(self):
            return 1

        def __gt__(self, other):
            return False

    box, x = Box(k=2), row(torch)
    f = wrap(lambda: x[box.k] * (box.k + 1) if box.k > 1 else x)
    return played(f, setter(box, "k", Sneaky(2)), setter(box, "k", 2), setter(box, "k", 1))


@program("proof")
def list_by_index(torch, wrap):
    items, x = [1.0, 2.0, 3.0], row(torch)
    f = wrap(lambda: x * items[1] + items[-1])
    return played(
        f,
        lambda: items.insert(0, 9.0),
        lambda: items.pop(0),
        lambda: items.append(3.0),
        lambda: items.append(4.0),
        items.clear,
        lambda: items.extend([2, 2]),
    )


@program("proof")
def list_length_and_slices(torch, wrap):
    items, x = [1.0, 2.0, 3.0], row(torch)
    f = wrap(lambda: x * len(items) + sum(items[:2]) + (2.0 in items) + items.count(3.0))
    return played(
        f,
        lambda: items.append(7.0),
        lambda: items.pop(),
        lambda: items.__setitem__(1, 2),
        lambda: items.__setitem__(2, 5),
    )


@program("proof")
def nested_containers(torch, wrap):
    tree, x = {"a": [{"b": (1.0, [2.0])}], "c": None}, row(torch)

    def f():
        [first] = tree["a"]
        k, [j] = first["b"]
        return x * k + j if tree["c"] is None else x

    return played(
        wrap(f),
        lambda: tree["a"][0]["b"][1].__setitem__(0, 3.0),
        lambda: tree["a"][0].update(b=(5.0, [2.0])),
        lambda: tree["a"].append({}),
        lambda: tree["a"].pop(),
        lambda: tree.update(c=0),
        lambda: tree.update(a=[{"b": (5.0, [2.0])}], c=None),
    )


@program("proof")
def order_of_a_dictionary(torch, wrap):
    table, x = {"a": 1.0, "b": 2.0}, row(torch)

    def f():
        total = x
        for k in table:
            total = total * 2 + table[k]
        return total, next(iter(table)), next(iter(table.values()))

    return played(
        wrap(f),
        lambda: table.update(a=table.pop("a")),
        lambda: table.update(b=table.pop("b")),
        lambda: table.update(c=1.0),
    )


@program("proof")
def keys_that_are_equal(torch, wrap):
    box, table, x = Box(key=1), {1: 2.0, "1": 3.0}, row(torch)
    f = wrap(lambda: x * table[box.key] + (box.key in table) + type(box.key)(1))
    return played(
        f,
        *(setter(box, "key", v) for v in (True, 1.0, "1", 2)),
        lambda: table.update({2: 8.0}),
        lambda: table.pop(2),
    )


@program("proof")
def keys_that_come_and_go(torch, wrap):
    table, x = {"a": 1.0}, row(torch)
    f = wrap(lambda: x * table.get("b", 2.0) + table.get("a") if "c" not in table else x)
    return played(
        f,
        lambda: table.update(b=5.0),
        lambda: table.pop("b"),
        lambda: table.update(c=0),
        lambda: table.pop("c"),
        table.clear,
    )


@program("proof")
def dictionaries_with_a_will(torch, wrap):
    class Missing(dict):
        k = 5.0

        def __missing__(self, key):
            return self.k

    missing, default, x = Missing(), collections.defaultdict(lambda: 2.0), row(torch)
    f, g = wrap(lambda: x * missing["a"]), wrap(lambda: x * default["a"])
    chain = collections.ChainMap({}, {"a": 1.0})
    h = wrap(lambda: x * chain["a"])
    return played(
        lambda: (f(), g(), h()),
        setter(missing, "k", 6.0),
        lambda: missing.update(a=1.0),
        default.clear,
        lambda: chain.maps[0].update(a=7.0),
        lambda: chain.maps.reverse(),
    ), dict(default)


@program("proof")
def sets_queues_and_bytes(torch, wrap):
    names, queue, raw, x = {"a", "b"}, collections.deque([1.0, 2.0], maxlen=3), bytearray(b"ab"), row(torch)
    f = wrap(lambda: x * ("a" in names) + queue[0] + len(queue) + raw[0] + len(names))
    return played(
        f,
        lambda: names.add("c"),
        lambda: queue.append(4.0),
        lambda: queue.append(5.0),
        lambda: raw.__setitem__(0, 9),
        lambda: names.discard("a"),
    )


@program("proof")
def tuples_of_mutables(torch, wrap):
    pair, x = ([1.0], {"k": 2.0}), row(torch)
    f = wrap(lambda: x * pair[0][0] + pair[1]["k"])
    return played(
        f, lambda: pair[0].__setitem__(0, 3.0), lambda: pair[1].update(k=4.0), lambda: pair[0].insert(0, 5.0)
    )


@program("proof")
def containers_of_tensors(torch, wrap):
    weights = [row(torch, start=float(i)) for i in range(3)]
    table, x = {"w": weights[0]}, row(torch)
    f = wrap(lambda: sum((x * w for w in weights), table["w"]))
    return played(
        f,
        lambda: weights.__setitem__(1, weights[0]),
        lambda: weights.append(row(torch)),
        lambda: weights[0].add_(1),
        lambda: table.update(w=torch.ones(1)),
        lambda: weights.clear(),
    )


@program("proof")
def containers_of_a_subclass(torch, wrap):
    class Shouting(list):
        def __getitem__(self, i):
            return 9.0

        def __len__(self):
            return 12

    box, x = Box(items=[1.0, 2.0]), row(torch)
    f = wrap(lambda: x * box.items[0] + len(box.items))
    return played(
        f,
        setter(box, "items", Shouting([1.0, 2.0])),
        setter(box, "items", (1.0, 2.0)),
        setter(box, "items", [1.0, 2.0]),
    )


@program("proof")
def numpy_values(torch, wrap):
    numbers, box, x = np.array([1.0, 2.0]), Box(k=np.float64(2.0)), row(torch)
    f, g = wrap(lambda: x * float(numbers[1]) + numbers.shape[0]), wrap(lambda: x * box.k)
    return played(
        lambda: (f(), g()),
        lambda: numbers.__setitem__(1, 5.0),
        setter(box, "k", np.float64(3.0)),
        setter(box, "k", 3.0),
    )


@program("proof")
def memory_of_numpy(torch, wrap):
    numbers = np.arange(4, dtype=np.float32)
    shared, x = torch.from_numpy(numbers), row(torch)
    f = wrap(lambda: x * shared + 1)
    return played(
        f, lambda: numbers.__setitem__(2, 9.0), lambda: numbers.fill(0.5), lambda: shared.add_(1)
    ), numbers.tolist()


@program("proof")
def arguments_of_all_kinds(torch, wrap):
    f, x = wrap(lambda a, b=2.0: a * b + 1), row(torch)
    two = torch.arange(8.0).reshape(4, 2)
    arguments = [
        (x,),
        (two,),
        (two.t(),),
        (two[:, 0],),
        (x.double(),),
        (x.long(),),
        (x, x),
        (x[:0],),
        (x[0],),
        (x, True),
        (x, 1),
        (x.clone().requires_grad_(True),),
        (x.clone().requires_grad_(True) * 1,),
        (3.0,),
        (x[:2].expand(3, 2),),
        (torch.nn.Parameter(x.clone()),),
        (x > 1,),
    ]
    box = []
    return played(
        lambda: f(*box[0]), *(lambda a=a: box.__setitem__(slice(0, 1), [a]) for a in arguments), first=1
    ), [attempted(lambda a=a: f(*a)) for a in arguments]


@program("proof")
def the_same_tensor_twice(torch, wrap):
    def f(a, b):
        c = a * 2
        a.add_(1)
        return c + b

    f, x, y = wrap(f), row(torch), row(torch, start=5.0)
    box = [x, y]
    return (
        played(
            lambda: f(*box),
            lambda: box.__setitem__(1, x),
            lambda: box.__setitem__(1, x[:]),
            lambda: box.__setitem__(1, y),
            lambda: box.__setitem__(0, y),
        ),
        x,
        y,
    )


@program("proof")
def arguments_that_overlap(torch, wrap):
    base, apart = torch.arange(12.0), torch.arange(4.0)

    def f(a, b):
        a.mul_(0.5)
        return a + b

    f, box = wrap(f), [base[:4], apart]
    return (
        played(
            lambda: f(*box),
            lambda: box.__setitem__(1, base[4:8]),
            lambda: box.__setitem__(1, base[2:6]),
            lambda: box.__setitem__(1, base[0:8:2]),
            lambda: box.__setitem__(0, base[4:8]),
        ),
        base,
        apart,
    )


@program("proof")
def an_argument_that_is_a_global(torch, wrap):
    weight = row(torch)

    def f(a):
        same = a is weight
        return a * weight + (10.0 if same else 0.0)

    f, box = wrap(f), [row(torch)]
    return played(
        lambda: f(box[0]),
        lambda: box.__setitem__(0, weight),
        lambda: box.__setitem__(0, weight[:]),
        lambda: box.__setitem__(0, weight.detach()),
    )


@program("proof")
def an_argument_that_aliases_a_parameter(torch, wrap):
    layer = linear(torch, 4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss, x * 1

    step, box = wrap(step), [torch.ones(4, 4)]
    return played(
        lambda: step(box[0]),
        lambda: box.__setitem__(0, layer.weight.detach()),
        lambda: box.__setitem__(0, layer.weight),
        lambda: box.__setitem__(0, layer.weight.data.t()),
        lambda: box.__setitem__(0, torch.ones(4, 4)),
    ), list(layer.parameters())


@program("proof")
def arguments_by_name_and_order(torch, wrap):
    def f(a, b=2.0, *rest, c=1.0, **more):
        return a * b + c + sum(rest) + sum(more.values())

    f, x, y = wrap(f), row(torch), row(torch, start=3.0)
    calls = [
        lambda: f(x, y),
        lambda: f(b=x, a=y),
        lambda: f(y, b=x, c=3.0),
        lambda: f(x, y, 1.0, x),
        lambda: f(x, d=y, e=1.0),
        lambda: f(x, e=1.0, d=y),
        lambda: f(x, y, b=y),
        lambda: f(),
    ]
    return [played(call) for call in calls], [attempted(call) for call in calls[::-1]]


@program("proof")
def arguments_in_containers(torch, wrap):
    def f(batch, options):
        x, y = batch["x"], batch["y"]
        return [x * options[0], (y + options[1], x)]

    f, x, y = wrap(f), row(torch), row(torch, start=2.0)
    batch, options = {"x": x, "y": y}, [2.0, 1]
    same = []

    def call():
        result = f(batch, options)
        same.append([result[1][1] is x, result[1][1] is y, result[1][1] is batch["x"]])
        return result

    return played(
        call,
        lambda: batch.update(x=y),
        lambda: options.__setitem__(0, 3.0),
        lambda: batch.update(x=x, z=1),
        lambda: options.append(5),
        lambda: batch.pop("y"),
        lambda: batch.update(y=y),
    ), same


@program("proof")
def fresh_containers_of_the_caller(torch, wrap):
    def f(batch, k):
        return {"sum": sum(batch) * k, "all": batch, "n": len(batch)}

    f, x, same = wrap(f), row(torch), []
    box = [[x, x + 1]]

    def call():
        batch = list(box[0])
        result = f(batch, 2)
        same.append((result["all"] is batch, result["all"][0] is x))
        return result

    return played(
        call,
        lambda: box.__setitem__(0, [x]),
        lambda: box.__setitem__(0, (x, x)),
        lambda: box.__setitem__(0, []),
    ), same


@program("proof")
def results_that_are_not_new(torch, wrap):
    weight, table = row(torch), {"w": None}
    table["w"] = weight

    def f(x):
        return x, weight, table, weight[1:], (x * 2).detach()

    f, x, y, same = wrap(f), row(torch), row(torch), []

    def call(a=x):
        result = f(a)
        result[3].mul_(1.5)
        result[4].add_(100)
        same.append([r is s for r in result[:3] for s in (a, weight, table)])
        return result[0], result[1], result[3], result[4]

    return (
        played(call, lambda: table.update(w=1), lambda: weight.fill_(2.0)),
        played(lambda: call(y)),
        same,
        weight,
    )


@program("proof")
def results_written_by_the_caller(torch, wrap):
    w = row(torch).requires_grad_(True)
    kept = []

    def f(x):
        return x * 2 + 1, [x * w, {"k": x.sum()}]

    f, x = wrap(f), row(torch)

    def call():
        a, inner = f(x)
        kept.append((a, inner))
        a.mul_(10)
        inner[1]["k"].zero_()
        inner[1]["new"] = 1
        inner.append(len(kept))
        inner[0].sum().backward()
        return a, inner[1], w.grad

    return (
        played(call),
        [facts(part) for part in kept],
        len({id(a) for a, _ in kept}),
        len({id(b) for _, b in kept}),
    )


@program("proof")
def results_kept_for_a_backward(torch, wrap):
    w = row(torch).requires_grad_(True)
    f, x, kept = wrap(lambda x: (x * w).sin().sum()), row(torch), []

    def call():
        kept.append(f(x))
        return kept[-1]

    out = played(call)
    grads = []
    for loss in kept:
        loss.backward()
        grads.append(w.grad.clone())
    out += [attempted(kept[0].backward)]
    return out, grads


@program("proof")
def a_written_weight_before_the_backward(torch, wrap):
    w = row(torch).requires_grad_(True)
    f, x = wrap(lambda x: (x * w * w).sum()), row(torch)

    def late():
        loss = f(x)
        with torch.no_grad():
            w.mul_(0.9)
        loss.backward()
        return loss, w.grad

    return played(lambda: f(x)), played(late), played(lambda: f(x))


@program("proof")
def bad_input_in_between(torch, wrap):
    layer = linear(torch, 4, 2)
    f = wrap(lambda x: layer(x).tanh())
    good = [row(torch)]
    return played(
        lambda: f(good[0]),
        lambda: good.__setitem__(0, row(torch, 5)),
        lambda: good.__setitem__(0, row(torch)),
        lambda: good.__setitem__(0, None),
        lambda: good.__setitem__(0, row(torch).double()),
        lambda: good.__setitem__(0, row(torch).reshape(1, 4)),
        lambda: good.__setitem__(0, "text"),
        lambda: good.__setitem__(0, row(torch)),
    )


@program("proof")
def indices_out_of_range_in_between(torch, wrap):
    table = torch.nn.Embedding(5, 4)
    with torch.no_grad():
        table.weight.copy_(torch.arange(20.0).reshape(5, 4) * 0.1)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(table(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    box = [torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2])]

    def call():
        result = attempted(lambda: step(*box))
        return result, table.weight, len(optimizer.state)

    return played(
        call,
        lambda: box.__setitem__(0, torch.tensor([0, 9, 2])),
        lambda: box.__setitem__(0, torch.tensor([0, 1, 2])),
        lambda: box.__setitem__(1, torch.tensor([0, 4, 2])),
        lambda: box.__setitem__(1, torch.tensor([0, -100, 2])),
        lambda: box.__setitem__(1, torch.tensor([-100, -100, -100])),
        lambda: box.__setitem__(1, torch.tensor([0, 1, 3])),
    )


@program("proof")
def dtypes_as_values(torch, wrap):
    box, x = Box(dtype=torch.float32, device="cpu"), row(torch)
    f = wrap(lambda: (x.to(box.dtype) * 2, torch.ones(2, dtype=box.dtype), torch.zeros(2, device=box.device)))
    return played(
        f,
        setter(box, "dtype", torch.float64),
        setter(box, "dtype", torch.int64),
        setter(box, "device", torch.device("cpu")),
        setter(box, "dtype", None),
    )


@program("proof")
def default_dtype(torch, wrap):
    f, x = wrap(lambda: (torch.ones(3) * 2, x * torch.tensor([1.5]), torch.arange(3) / 2)), row(torch)
    try:
        return played(
            f, lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)
        )
    finally:
        torch.set_default_dtype(torch.float32)


@program("proof")
def modes_around_the_call(torch, wrap):
    w, x = row(torch).requires_grad_(True), row(torch)
    f = wrap(lambda: (x * w).tanh())
    mode = [lambda: torch.enable_grad()]

    def call():
        with mode[0]():
            return f()

    return played(
        call,
        lambda: mode.__setitem__(0, torch.no_grad),
        lambda: mode.__setitem__(0, torch.enable_grad),
        lambda: mode.__setitem__(0, torch.inference_mode),
        lambda: mode.__setitem__(0, lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
        lambda: mode.__setitem__(0, lambda: torch.set_grad_enabled(False)),
        lambda: mode.__setitem__(0, torch.enable_grad),
    )


@program("proof")
def modes_inside(torch, wrap):
    layer, x, box = linear(torch, 4, 3), row(torch), Box(on=False, cast=False)

    def f():
        with torch.set_grad_enabled(box.on), torch.autocast("cpu", dtype=torch.bfloat16, enabled=box.cast):
            y = layer(x)
        return y, torch.is_grad_enabled(), y.requires_grad

    return played(
        wrap(f),
        setter(box, "on", True),
        setter(box, "cast", True),
        setter(box, "on", False),
        setter(box, "cast", False),
    )


@program("proof")
def random_numbers_inside(torch, wrap):
    drop, x = torch.nn.Dropout(0.5), row(torch, 16)
    f = wrap(lambda: (drop(x), torch.rand(3) * 2, x + torch.randn(16)))
    torch.manual_seed(3)
    return played(
        f,
        lambda: torch.manual_seed(3),
        setter(drop, "p", 0.25),
        setter(drop, "p", 0.0),
        lambda: torch.rand(5),
        drop.eval,
        drop.train,
        setter(drop, "p", 1.0),
    ), torch.rand(2)


@program("proof")
def random_generator_restored(torch, wrap):
    x = row(torch, 8)
    f = wrap(lambda: torch.nn.functional.dropout(x, 0.5) * 2)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    return played(f, lambda: torch.set_rng_state(state), lambda: torch.manual_seed(7)), torch.rand(3)


@program("proof")
def views_of_what_is_written(torch, wrap):
    weight = torch.zeros(4, 4)
    view, x = weight[1], row(torch)

    def f(x):
        weight[1].add_(x)
        return weight.sum(), view * 2

    f = wrap(f)
    return (
        played(lambda: f(x), lambda: view.zero_(), lambda: weight.resize_(4, 4) if False else weight.mul_(2)),
        view,
        weight,
    )


@program("proof")
def versions_of_what_is_written(torch, wrap):
    total, x = torch.zeros(4), row(torch)

    def f(x):
        total.add_(x)
        total.mul_(0.5)
        return total.sum()

    f, seen = wrap(f), []

    def call():
        result = f(x)
        seen.append((total._version, x._version))
        return result

    return played(call, lambda: total.zero_()), seen


@program("proof")
def shapes_that_decide(torch, wrap):
    def f(x):
        n, *rest = x.shape
        if n > 4:
            return x[:4] * len(rest)
        return x.reshape(-1) * x.numel() / x.shape[-1] + x.dim()

    f, box = wrap(f), [row(torch)]
    shapes = [
        torch.arange(6.0),
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0).reshape(3, 2).t(),
        torch.tensor(2.0),
        row(torch),
    ]
    return played(lambda: f(box[0]), *(lambda s=s: box.__setitem__(0, s) for s in shapes))


@program("proof")
def history_that_decides(torch, wrap):
    w = row(torch)

    def f(x):
        if w.requires_grad:
            return x * w * 2
        return x * w if w.grad is None else x * w.grad + w._version

    f, x = wrap(f), row(torch)
    return played(
        lambda: f(x),
        lambda: w.add_(1),
        lambda: setattr(w, "grad", torch.ones(4)),
        lambda: w.mul_(2),
        lambda: w.requires_grad_(True),
        lambda: w.requires_grad_(False),
        lambda: setattr(w, "grad", None),
    )


@program("proof")
def contiguity_that_decides(torch, wrap):
    def f(x):
        return (
            x * 2 if x.is_contiguous() else x + 1,
            x.stride()[0],
            x.storage_offset(),
            x.is_leaf,
            x.data_ptr() == 0,
        )

    f, a = wrap(f), torch.arange(9.0).reshape(3, 3)
    box = [a]
    return played(
        lambda: f(box[0]),
        lambda: box.__setitem__(0, a.t()),
        lambda: box.__setitem__(0, a[1:]),
        lambda: box.__setitem__(0, torch.ones(3, 3)),
    )


@program("proof")
def data_that_decides(torch, wrap):
    """A look at a value, and what is done about it."""
    threshold, x = torch.tensor(3.0), row(torch)

    def f(x):
        return x * 2 if x.sum() > threshold else x - 1

    f = wrap(f)
    return played(lambda: f(x), lambda: threshold.fill_(100.0), lambda: x.fill_(50.0), lambda: x.fill_(-50.0))


@program("proof")
def numbers_of_tensors_in_closures(torch, wrap):
    k = torch.tensor(2.0)
    f, x = wrap(lambda x: x * k.item() + int(k)), row(torch)
    return played(lambda: f(x), lambda: k.fill_(3.0), lambda: k.fill_(2.0))


@program("proof")
def subclass_instances(torch, wrap):
    class Named(torch.nn.Parameter):
        pass

    box, x = Box(w=torch.nn.Parameter(row(torch))), row(torch)

    def f(x):
        return x * box.w + isinstance(box.w, Named), type(box.w).__name__

    f = wrap(f)
    return played(
        lambda: f(x),
        setter(box, "w", Named(row(torch))),
        setter(box, "w", row(torch)),
        setter(box, "w", torch.nn.Parameter(row(torch))),
    )


@program("proof")
def ids_used_again(torch, wrap):
    class Box:
        def __init__(self, k):
            self.k = k

    holder, x = [Box(2.0)], row(torch)
    f = wrap(lambda: x * holder[0].k)

    def another(k):
        holder.clear()
        gc.collect()
        holder.append(Box(k))

    return played(f, *(lambda k=k: another(k) for k in (3.0, 4.0, 2.0)))


@program("proof")
def tensors_that_die(torch, wrap):
    holder, x = [row(torch)], row(torch)
    f = wrap(lambda: x * holder[0])

    def another(start):
        holder.clear()
        gc.collect()
        holder.append(row(torch, start=start))

    return played(f, *(lambda k=k: another(k) for k in (3.0, 4.0, 2.0)), lambda: holder[0].data.fill_(1.0))


@program("proof")
def data_replaced(torch, wrap):
    w, x = torch.nn.Parameter(row(torch)), row(torch)
    f = wrap(lambda x: (x * w).sum())

    def call():
        w.grad = None
        loss = f(x)
        loss.backward()
        return loss, w.grad

    return played(
        call,
        lambda: setattr(w, "data", row(torch, start=4.0)),
        lambda: setattr(w, "data", torch.arange(8.0)[::2]),
        lambda: setattr(w, "data", torch.ones(1)),
        lambda: setattr(w, "data", torch.ones(4, dtype=torch.float64)),
        lambda: setattr(w, "data", x),
        lambda: setattr(w, "data", x[:]),
    )


@program("proof")
def threads_at_once(torch, wrap):
    box = Box(k=2.0)
    f, x = wrap(lambda x: (x * box.k).tanh()), row(torch)
    results = {}

    def work(name):
        local = row(torch, start=float(name))
        results[name] = [facts(f(local)) for _ in range(12)]

    def all_at_once():
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    out = played(lambda: f(x), all_at_once, setter(box, "k", 5.0), all_at_once)
    return out, [results[n] for n in range(3)]


@program("proof")
def modes_of_threads(torch, wrap):
    """Whether gradients are recorded is a thread's own."""
    w, out = row(torch).requires_grad_(True), []
    f, x = wrap(lambda x: x * w), row(torch)

    def work():
        with torch.no_grad():
            out.append(facts(f(x)))

    def aside():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    return played(lambda: f(x), aside, aside), out


@program("proof")
def number_of_threads(torch, wrap):
    f, x = wrap(lambda x: (x @ x).sum(0) * torch.get_num_threads()), torch.arange(64.0).reshape(8, 8) * 0.01
    before = torch.get_num_threads()
    try:
        return played(lambda: f(x), lambda: torch.set_num_threads(1), lambda: torch.set_num_threads(2))
    finally:
        torch.set_num_threads(before)


@program("proof")
def copies_of_an_object(torch, wrap):
    class Thing:
        def __init__(self):
            self.w, self.k = row(torch), 2.0

        def go(self, x):
            return x * self.w * self.k

    one = Thing()
    two = copy.deepcopy(one)
    two.k = 3.0
    f, g, x = wrap(one.go), wrap(two.go), row(torch)
    return played(
        lambda: (f(x), g(x)),
        lambda: one.w.add_(1),
        setter(two, "w", one.w),
        lambda: two.__dict__.update(one.__dict__),
    )
