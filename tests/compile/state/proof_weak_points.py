"""What the making of a proof suggests: what guards might call, and what copies of functions might do otherwise."""

from __future__ import annotations

import collections
import functools
import gc
import logging
import sys
import types
import warnings
import weakref

from tests.compile.state.common import Box, attempted, facts, linear, played, program, row, state_of
from tests.compile.state.proof_python import executed, setter

NAMES = {"a", "b"}
_Private__SCALE = 2.0


class Private:
    def go(self, x):
        return x * __SCALE  # noqa: F821  the compiler calls it _Private__SCALE


@program("proof")
def private_global_names(torch, wrap):
    def change(value):
        global _Private__SCALE
        _Private__SCALE = value

    f, x = wrap(Private().go), row(torch)
    return played(lambda: f(x), lambda: change(3.0), lambda: change(2.0))


@program("proof")
def a_property_that_counts(torch, wrap):
    """The same value, but whoever reads it is counted."""

    class Thing:
        def __init__(self):
            self.k = 2.0

    thing, reads = Thing(), []
    f, x = wrap(lambda x: x * thing.k + thing.k), row(torch)
    counting = property(lambda self: (reads.append(1), 2.0)[1])
    return played(lambda: f(x), setter(Thing, "k", counting), lambda: delattr(Thing, "k")), len(reads)


@program("proof")
def a_getattr_that_counts(torch, wrap):
    class Thing:
        def __getattr__(self, name):
            reads.append(name)
            return 2.0

    thing, reads = Thing(), []
    thing.k = 2.0
    f, x = wrap(lambda x: x * thing.k + thing.k), row(torch)
    return played(lambda: f(x), lambda: delattr(thing, "k"), setter(thing, "k", 2.0)), len(reads)


@program("proof")
def a_module_that_makes_names_up(torch, wrap):
    module, reads = types.ModuleType("made"), []
    module.k = 2.0
    module.__getattr__ = lambda name: (reads.append(name), 2.0)[1]
    f, x = wrap(lambda x: x * module.k + module.k), row(torch)

    class Counting(types.ModuleType):
        @property
        def k(self):
            reads.append("property")
            return 2.0

    return played(
        lambda: f(x),
        lambda: delattr(module, "k"),
        setter(module, "k", 2.0),
        setter(module, "__class__", Counting),
    ), reads


@program("proof")
def a_descriptor_of_a_class(torch, wrap):
    class Knob:
        value = 2.0

        def __get__(self, owner, kind=None):
            reads.append(1)
            return self.value

    class Plain:
        value = 3.0

    class Thing:
        k, plain = Knob(), Plain()

    reads, thing = [], Thing()
    f, x = wrap(lambda x: x * Thing.k), row(torch)
    g = wrap(lambda x: x * thing.plain.value)
    return played(
        lambda: (f(x), g(x)),
        setter(Knob, "value", 5.0),
        setter(Plain, "__get__", lambda self, owner, kind: (reads.append(2), self)[1]),
        lambda: delattr(Plain, "__get__"),
    ), reads


@program("proof")
def truth_of_objects(torch, wrap):
    class Thing:
        pass

    thing = Thing()
    f, x = wrap(lambda x: x * 2 if thing else x), row(torch)
    return played(
        lambda: f(x),
        setter(Thing, "__bool__", lambda self: False),
        lambda: delattr(Thing, "__bool__"),
        setter(Thing, "__len__", lambda self: 0),
    )


@program("proof")
def loops_over_sets(torch, wrap):
    numbers = {1.0, 2.0}

    def f(x):
        for each in numbers:
            x = x + each
        return x * 2 if numbers else x

    f, x = wrap(f), row(torch)
    return played(lambda: f(x), lambda: numbers.add(5.0), numbers.clear, lambda: numbers.add(1.0))


@program("proof")
def truth_of_sets(torch, wrap):
    f, x = wrap(lambda x: x * 2 if NAMES else x), row(torch)
    try:
        return played(lambda: f(x), NAMES.clear, lambda: NAMES.update("ab"))
    finally:
        NAMES.update("ab")


@program("proof")
def text_of_objects(torch, wrap):
    class Thing:
        text = "a"

        def __str__(self):
            return self.text

    thing, table, x = Thing(), {"a": 2.0, "b": 3.0}, row(torch)
    f = wrap(lambda x: x * table[f"{thing}"])
    return played(lambda: f(x), setter(thing, "text", "b"), setter(Thing, "__str__", lambda self: "a"))


@program("proof")
def stars_of_objects(torch, wrap):
    class Many:
        values = (2.0, 3.0)

        def __iter__(self):
            return iter(self.values)

        def keys(self):
            return ["k"]

        def __getitem__(self, name):
            return self.values[0]

    many, x = Many(), row(torch)

    def helper(x, k=1.0, j=1.0):
        return x * k + j

    def f(x):
        return helper(x, *many), helper(x, **many), [*many, 1.0][1] * x, {**many}["k"] * x

    f = wrap(f)
    return played(lambda: f(x), setter(many, "values", (5.0, 6.0)), setter(Many, "keys", lambda self: ["j"]))


@program("proof")
def parts_of_objects(torch, wrap):
    class Pair:
        def __init__(self, *values):
            self.values = values

        def __iter__(self):
            return iter(self.values)

    pairs, x = [Pair(1.0, 2.0), Pair(3.0, 4.0)], row(torch)

    def f(x):
        for a, b in pairs:
            x = x * a + b
        return x

    def g(x):
        return sum([x * a + b for a, b in pairs])

    def h(x):
        (a, b), k = pairs
        return x * a + b if k else x

    f, g, h = wrap(f), wrap(g), wrap(h)
    return played(lambda: (f(x), g(x), h(x)), setter(pairs[0], "values", (5.0, 6.0)), lambda: pairs.reverse())


@program("proof")
def nested_parts(torch, wrap):
    pairs, x = [(1.0, [2.0, (3.0,)]), (4.0, [5.0, (6.0,)])], row(torch)

    def f(x):
        for i, (a, [b, (c,)]) in enumerate(pairs):
            x = x * a + b * c + i
        return x

    f = wrap(f)
    return played(
        lambda: f(x),
        lambda: pairs[1][1].__setitem__(0, 9.0),
        lambda: pairs.append((1.0, [1.0, (1.0, 2.0)])),
        lambda: pairs.pop(),
    )


@program("proof")
def comparisons_in_a_chain(torch, wrap):
    class Level:
        def __init__(self, level):
            self.level = level

        def __lt__(self, other):
            return self.level < other

        def __gt__(self, other):
            return self.level > other

    low, high, x = Level(1), Level(5), row(torch)
    box = Box(k=3)
    f = wrap(lambda x: x * 2 if low < box.k < high else x)
    g = wrap(lambda x: x * 2 if 1 < box.k < 5 else x)
    return played(lambda: (f(x), g(x)), setter(low, "level", 4), setter(box, "k", 7), setter(box, "k", 3.0))


@program("proof")
def identity_of_equals(torch, wrap):
    name, items, box = "twice", [1.0], Box()
    box.name, box.items, box.number = name, items, 1000.5
    number = box.number

    def f(x):
        return x * (2 if box.name is name else 3) + (1 if box.items is items else 5) + (box.number is number)

    def g(x):
        return x * 2 if box.items is items else x

    def h(x):
        return x * 2 if box.name is not name else x

    f, g, h, x = wrap(f), wrap(g), wrap(h), row(torch)
    return played(
        lambda: (f(x), g(x), h(x)),
        setter(box, "name", "".join(["tw", "ice"])),
        setter(box, "items", [1.0]),
        setter(box, "number", float("1000.5")),
        setter(box, "items", items),
    )


@program("proof")
def wrappers_that_claim_a_module(torch, wrap):
    box = Box(k=2.0)
    relu = torch.nn.functional.relu

    @functools.wraps(relu)
    def mine(x):
        return relu(x) * box.k

    f, x = wrap(lambda x: mine(x)), row(torch)
    return played(lambda: f(x), setter(box, "k", 3.0), setter(box, "k", 2.0))


@program("proof")
def dictionaries_with_attributes(torch, wrap):
    class Config(dict):
        __getattr__ = dict.get

    class Stack(list):
        k = 2.0

    config, stack, x = Config(lr=2.0), Stack([1.0]), row(torch)
    f, g = wrap(lambda x: x * config.lr), row
    g = wrap(lambda x: x * stack.k)
    return played(
        lambda: (f(x), g(x)), lambda: config.update(lr=3.0), setter(stack, "k", 5.0), setter(Stack, "k", 6.0)
    )


@program("proof")
def bounds_that_are_equal(torch, wrap):
    box = Box(part=slice(0, 2), steps=range(0, 4, 2), phase=complex(1.0, 0.0))
    f, x = wrap(lambda x: x[box.part] * box.steps.stop), row(torch)
    g = wrap(lambda x: x * box.phase)
    return played(
        lambda: (f(x), g(x)),
        setter(box, "part", slice(False, 2)),
        setter(box, "steps", range(0, 3, 2)),
        setter(box, "phase", complex(1.0, -0.0)),
    ), played(lambda: f(x), setter(box, "part", slice(0.0, 2)), setter(box, "part", slice(0, 2)))


@program("proof")
def methods_of_tensors_patched(torch, wrap):
    tanh, mul, x = torch.Tensor.tanh, torch.Tensor.__mul__, row(torch)
    f = wrap(lambda x: x.tanh() * 2)
    try:
        return played(
            lambda: f(x),
            setter(torch.Tensor, "tanh", lambda self: self + 1),
            setter(torch.Tensor, "tanh", tanh),
            setter(torch.Tensor, "__mul__", lambda self, other: self - other),
            setter(torch.Tensor, "__mul__", mul),
        )
    finally:
        torch.Tensor.tanh, torch.Tensor.__mul__ = tanh, mul


@program("proof")
def inner_functions_of_the_library_patched(torch, wrap):
    functional = torch.nn.functional
    old, x = functional.linear, row(torch)
    layer = linear(torch, 4, 3)
    f = wrap(lambda x: layer(x).detach())
    try:
        return played(
            lambda: f(x),
            setter(functional, "linear", lambda x, w, b: old(x, w, b) * 2),
            setter(functional, "linear", old),
        )
    finally:
        functional.linear = old


@program("proof")
def containers_that_hold_themselves(torch, wrap):
    items, table = [1.0], {"k": 2.0}
    items.append(items)
    table["self"] = table
    f, x = wrap(lambda x: x * items[0] + table["k"]), row(torch)
    return played(lambda: f(x), lambda: items.__setitem__(0, 3.0), lambda: table.update(k=5.0))


@program("proof")
def parameters_go_once(torch, wrap):
    net, x = linear(torch, 4, 3), row(torch)

    def f(x):
        parameters = net.parameters()
        first = len(list(parameters))
        return x * first + len(list(parameters))

    def g(x):
        return x * next(net.parameters()).shape[0]

    f, g = wrap(f), wrap(g)
    return played(
        lambda: (f(x), g(x)), lambda: net.register_parameter("more", torch.nn.Parameter(torch.ones(1)))
    )


@program("proof")
def clipping_of_what_is_made(torch, wrap):
    w, x = torch.nn.Parameter(row(torch)), row(torch)
    w.grad = torch.ones(4) * 3

    def f(x):
        total = torch.nn.utils.clip_grad_norm_([w, x * 2], 1.0)
        return total, x * 2

    f = wrap(f)
    return played(
        lambda: (f(x), w.grad), lambda: setattr(w, "grad", torch.ones(4)), lambda: setattr(w, "grad", None)
    )


@program("proof")
def generators_that_outlive_the_call(torch, wrap):
    box, kept = Box(k=2.0), []

    def f(x):
        kept.append(x * box.k for _ in range(2))
        return (each * box.k for each in [x, x + 1])

    f, x = wrap(f), row(torch)
    return played(lambda: list(f(x)), setter(box, "k", 3.0)), [facts(list(each)) for each in kept]


@program("proof")
def callables_with_a_will(torch, wrap):
    class Scale:
        k = 2.0

        def __call__(self, x):
            return x * self.k

        def __hash__(self):
            raise RuntimeError

        def __eq__(self, other):
            raise RuntimeError

    scale, x = Scale(), row(torch)
    f = wrap(lambda x: scale(x) + 1)
    return played(lambda: f(x), setter(scale, "k", 3.0), setter(Scale, "__call__", lambda self, x: x))


@program("proof")
def sums_of_objects(torch, wrap):
    class Money:
        def __init__(self, amount):
            self.amount = amount

        def __radd__(self, other):
            return other + self.amount

        def __lt__(self, other):
            return self.amount < other.amount

    table = {"a": Money(1.0), "b": Money(2.0)}
    f, x = wrap(lambda x: x * sum(table.values())), row(torch)
    g = wrap(lambda x: x * (2 if max(each for each in table.values()) is table["a"] else 3))
    h = wrap(lambda x: x * sorted(table.items(), key=lambda pair: pair[1].amount)[0][1].amount)
    return played(
        lambda: (f(x), g(x), h(x)), setter(table["a"], "amount", 5.0), lambda: table.update(b=Money(9.0))
    )


@program("proof")
def lists_that_compare_objects(torch, wrap):
    class Same:
        def __init__(self, other):
            self.other = other

        def __eq__(self, other):
            return self.other == other

        __hash__ = None

    items, x = [Same(1), Same(2)], row(torch)
    f, g = wrap(lambda x: x * items.index(2)), row
    g = wrap(lambda x: x * items.count(1))
    h = wrap(lambda x: x * 2 if 2 in items else x)
    return played(lambda: (f(x), g(x), h(x)), setter(items[0], "other", 2), setter(items[1], "other", 1))


@program("proof")
def where_a_line_of_a_log_comes_from(torch, wrap):
    records, logger = [], logging.getLogger("cleargrad.test.proofs")

    class Keep(logging.Handler):
        def emit(self, record):
            records.append((record.funcName, record.lineno - first, record.getMessage()))

    handler, first = Keep(), sys._getframe().f_lineno
    logger.addHandler(handler)

    def helper(x):
        logger.warning("two", stacklevel=2)
        return x + 1

    def f(x):
        logger.warning("one")
        return helper(x) * 2

    f, x = wrap(f), row(torch)
    try:
        return played(lambda: f(x)), records
    finally:
        logger.removeHandler(handler)


@program("proof")
def warnings_are_given_once(torch, wrap):
    names = executed(
        "def helper(x):\n"
        "    warnings.warn('two', stacklevel=2)\n"
        "    return x\n"
        "def f(x):\n"
        "    warnings.warn('one')\n"
        "    return helper(x) * 2\n",
        "<warning>",
        warnings=warnings,
        __name__="made",
    )
    f, x = wrap(names["f"]), row(torch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        out = played(lambda: f(x))
    return out, [(str(each.message), each.filename, each.lineno) for each in caught]


@program("proof")
def who_calls(torch, wrap):
    def caller():
        frame = sys._getframe(1)
        return frame.f_code.co_name, frame.f_globals["__name__"], frame.f_lineno - frame.f_code.co_firstlineno

    seen = []

    def helper(x):
        seen.append(caller())
        return x + len(seen) * 0

    def f(x):
        y = helper(x)
        seen.append(caller())
        return y

    f, x = wrap(f), row(torch)
    return played(lambda: f(x)), seen


@program("proof")
def hooks_on_a_returned_loss(torch, wrap):
    net, x, seen = linear(torch, 4, 1), row(torch), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    step, losses = wrap(step), []

    def call():
        losses.append(step(x))
        return losses[-1], len(seen), attempted(losses[-1].backward)

    return (
        played(
            call,
            lambda: losses[-1].register_hook(lambda g: seen.append(1)),
            lambda: losses[-1].retain_grad(),
            lambda: setattr(losses[-1], "note", 1),
        ),
        [hasattr(loss, "note") for loss in losses],
        len(seen),
    )


@program("proof")
def numbers_kept_by_tensors(torch, wrap):
    w, x = row(torch), row(torch)
    w.k = 2.0
    f = wrap(lambda x: x * w.k + w)
    return played(lambda: f(x), setter(w, "k", 3.0), lambda: delattr(w, "k"))


@program("proof")
def results_in_given_memory(torch, wrap):
    out, x = torch.zeros(4), row(torch)

    def f(x):
        result = torch.add(x, 1.0, out=out)
        return result, result is out

    f = wrap(f)
    return played(lambda: (f(x), out), lambda: out.zero_(), lambda: x.add_(1)), out


@program("proof")
def results_that_are_objects(torch, wrap):
    class Thing:
        pass

    thing, items, pair = Thing(), [1.0, "a"], (1.0, [2.0])
    box = Box(thing=thing)
    f, x = wrap(lambda x: (x * 2, items, pair, [items])), row(torch)
    g = wrap(lambda x: (x * 2, box.thing))

    def call():
        result, other = f(x), g(x)
        return result[0], result[1] is items, result[2] is pair, result[3][0] is items, other[1] is box.thing

    return played(call, lambda: items.append(3), setter(box, "thing", Thing()), lambda: pair[1].append(1))


@program("proof")
def arguments_given_back(torch, wrap):
    f, x = wrap(lambda batch, k: {"batch": batch, "sum": batch["x"] * k, "inner": batch["list"]}), row(torch)

    def call():
        batch = {"x": x, "list": [1, 2]}
        result = f(batch, 2)
        same = result["batch"] is batch, result["inner"] is batch["list"], result["batch"]["x"] is x
        result["inner"].append(3)
        return same, batch, result["sum"]

    return played(call)


@program("proof")
def a_class_that_dies(torch, wrap):
    holder, x = [], row(torch)
    f = wrap(lambda x: x * holder[0].k)

    def another(value):
        holder.clear()
        gc.collect()

        class Thing:
            k = value

        holder.append(Thing())

    another(2.0)
    return played(lambda: f(x), *(functools.partial(another, v) for v in (3.0, 4.0, 2.0)))


@program("proof")
def names_in_other_dictionaries(torch, wrap):
    class Names(dict):
        def __missing__(self, name):
            return self.value if name == "K" else exec

        def __getitem__(self, name):
            return self.value if name == "K" else dict.__getitem__(self, name)

    names = Names(K=1.0)
    names.value = 2.0
    source = "def f(x):\n    return x * K\n"
    exec(compile(source, "<names>", "exec"), names)
    f, x = wrap(names["f"]), row(torch)
    return played(lambda: f(x), setter(names, "value", 3.0), lambda: names.update(K=9.0))


@program("proof")
def weak_references(torch, wrap):
    class Thing:
        k = 2.0

    holder = [Thing()]
    reference, x = weakref.ref(holder[0]), row(torch)
    f = wrap(lambda x: x * (3.0 if reference() is None else 2.0))
    return played(lambda: f(x), lambda: (holder.clear(), gc.collect()))


@program("proof")
def lazy_iterators_of_objects(torch, wrap):
    class Many:
        values = [1.0, 2.0]

        def __iter__(self):
            return iter(self.values)

        def __len__(self):
            return len(self.values)

    many, net, x = Many(), linear(torch, 4, 3), row(torch)

    def f(x):
        return x * sum([k for p, k in zip(net.parameters(), many)])

    def g(x):
        return x * sum([k * i for i, k in enumerate(many)]) + len(many)

    f, g = wrap(f), wrap(g)
    return played(lambda: (f(x), g(x)), setter(many, "values", [5.0, 6.0]), lambda: many.values.append(1.0))


@program("proof")
def counters_of_a_default(torch, wrap):
    counts = collections.Counter("aab")
    order = collections.OrderedDict(a=1.0, b=2.0)
    f, x = wrap(lambda x: x * counts["a"] + counts["z"]), row(torch)
    g = wrap(lambda x: x * order["a"] + next(iter(order.values())))
    h = wrap(lambda x: x * order["a"] + len(order))
    return played(
        lambda: (f(x), g(x), h(x)),
        lambda: counts.update("a"),
        lambda: order.move_to_end("a"),
        lambda: order.update(a=5.0),
    )


@program("proof")
def a_subclass_of_a_layer(torch, wrap):
    class Mine(torch.nn.Linear):
        scale = 2.0

        def forward(self, x):
            return super().forward(x) * self.scale

    class Other(torch.nn.Linear):
        def forward(self, x):
            return torch.nn.functional.linear(x, self.weight * 2, self.bias)

    torch.manual_seed(0)
    mine, other, x = Mine(4, 2), Other(4, 2), row(torch)
    f, g = wrap(lambda x: mine(x).detach()), row
    g = wrap(lambda x: other(x).detach())
    return played(
        lambda: (f(x), g(x)),
        setter(Mine, "scale", 3.0),
        setter(other, "__class__", torch.nn.Linear),
        setter(other, "__class__", Mine),
        lambda: other.weight.data.mul_(2),
    )


@program("proof")
def rules_of_optimizers_patched(torch, wrap):
    net, x = linear(torch, 4, 1), row(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    class Mine(torch.optim.SGD):
        def step(self, closure=None):
            return None

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    return played(
        lambda: (step(x), state_of(net)),
        setter(optimizer, "__class__", Mine),
        setter(optimizer, "__class__", torch.optim.SGD),
        lambda: optimizer.param_groups.append(dict(optimizer.param_groups[0], params=[], lr=0.5)),
        lambda: optimizer.param_groups[0].update(extra=1),
    )


@program("proof")
def arguments_of_the_wrong_number(torch, wrap):
    def helper(x, k, *, j=1.0):
        return x * k + j

    box = Box(args=(2.0,), options={"j": 2.0})
    f, x = wrap(lambda x: helper(x, *box.args, **box.options)), row(torch)
    return played(
        lambda: f(x),
        setter(box, "args", ()),
        setter(box, "args", (2.0,)),
        lambda: box.options.update(zz=1),
        lambda: box.options.pop("zz"),
    )


@program("proof")
def histories_of_arguments(torch, wrap):
    f, x = wrap(lambda x, y: (x * y).detach()), row(torch)
    box = [x, row(torch)]
    return played(
        lambda: f(*box),
        lambda: box.__setitem__(0, row(torch).requires_grad_(True)),
        lambda: box.__setitem__(0, row(torch).requires_grad_(True) * 1),
        lambda: box.__setitem__(0, x),
        lambda: x.requires_grad_(True),
        lambda: x.requires_grad_(False),
        lambda: box.__setitem__(1, x),
        lambda: x.resize_(2),
    )


@program("writes")
def views_of_leaves_are_written(torch, wrap):
    """A view of a leaf waits where a gradient may lead through it; its memory is there all the same."""
    writes = [
        lambda v, x: v.mul_(2),
        lambda v, x: v.copy_(x),
        lambda v, x: v.__setitem__(slice(1, None), 7.0),
        lambda v, x: v.data.add_(x, alpha=2),
    ]

    def looks(write):
        w, x = torch.nn.Parameter(torch.arange(8.0).reshape(2, 4)), row(torch)

        def f(x):
            write(w[0].detach(), x)
            return w.tolist(), (w * x).detach(), w.detach().sum()

        f = wrap(f)
        return played(lambda: f(x)), w, w._version

    def of_a_base():
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        x[0] = 0.5
        return x.tolist()

    of_a_base = wrap(of_a_base)
    return [looks(write) for write in writes], played(of_a_base)


@program("writes")
def a_graph_that_keeps_nothing_is_walked_twice(torch, wrap):
    bias, x, eye = torch.zeros(3, requires_grad=True), torch.ones(2, 3), torch.eye(3)

    def f(x):
        hidden = torch.nn.functional.linear(x, eye, bias)
        for _ in range(2):
            hidden.sigmoid().sum().backward()
        return hidden.detach() * 2

    f = wrap(f)
    return played(lambda: (f(x), bias.grad))
