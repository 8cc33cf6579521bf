"""Attributes, globals, closures and methods that are set anew between calls."""

from __future__ import annotations

import functools
import operator
import types

from tests.compile.state.common import linear, program, row


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
