"""Python's names, attributes, classes and functions, changed when calls have long been made without Python."""

from __future__ import annotations

import builtins
import collections
import contextvars
import dataclasses
import enum
import functools
import linecache
import math
import operator
import os
import random
import sys
import tempfile
import types

from tests.compile.state.common import Box, linear, played, program, row

SCALE = 2.0
TABLE = {"a": 1.5, "b": 2.5}


def doubled(x):
    return x * 2


def by_helper(x, k=3.0, *, offset=0.5):
    return x * k + offset


def setter(target, name, value):
    return lambda: setattr(target, name, value)


def executed(source, name="<made>", **names):
    """The names that a source gives, its lines where tracebacks look for them."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), names)
    return names


@program("proof")
def global_number(torch, wrap):
    def change(value):
        global SCALE
        SCALE = value

    f, x = wrap(lambda x: doubled(x) * SCALE), row(torch)
    return played(lambda: f(x), *(functools.partial(change, v) for v in (3.0, 2.0, 2, True, 2.0)))


@program("proof")
def global_deleted(torch, wrap):
    names = executed("def f(x):\n    return x * K + 1\n", K=2.0)
    f, x = wrap(names["f"]), row(torch)
    return played(lambda: f(x), lambda: names.pop("K"), lambda: names.update(K=5.0))


@program("proof")
def builtin_shadowed(torch, wrap):
    names = executed("def f(x):\n    return x * max(2.0, 3.0) + len([1, 2])\n")
    f, x = wrap(names["f"]), row(torch)
    return played(
        lambda: f(x), lambda: names.update(max=min), lambda: names.pop("max"), lambda: names.update(len=sum)
    )


@program("proof")
def builtins_of_a_function_replaced(torch, wrap):
    names = executed("def f(x):\n    return x * abs(-2.0)\n")
    f, x = wrap(names["f"]), row(torch)
    old = builtins.abs
    try:
        return played(lambda: f(x), setter(builtins, "abs", lambda v: 7.0), setter(builtins, "abs", old))
    finally:
        builtins.abs = old


@program("proof")
def cell_changed_by_another(torch, wrap):
    scale = 2.0

    def change(value):
        nonlocal scale
        scale = value

    def f(x):
        return x * scale

    f, x = wrap(f), row(torch)
    return played(lambda: f(x), lambda: change(3.0), lambda: change(None), lambda: change(2.0))


@program("proof")
def cell_emptied(torch, wrap):
    def make():
        scale = 2.0

        def f(x):
            return x * scale

        def drop():
            nonlocal scale
            del scale

        def back():
            nonlocal scale
            scale = 4.0

        return f, drop, back

    f, drop, back = make()
    f, x = wrap(f), row(torch)
    return played(lambda: f(x), drop, back)


@program("proof")
def cell_of_a_helper(torch, wrap):
    def make(scale):
        def helper(x):
            return x * scale

        return helper

    helper = make(2.0)
    f, x = wrap(lambda x: helper(x) + 1), row(torch)

    def poke(value):
        helper.__closure__[0].cell_contents = value

    return played(lambda: f(x), lambda: poke(3.0), lambda: poke(torch.ones(4)), lambda: poke(2.0))


@program("proof")
def instance_attribute(torch, wrap):
    class Box:
        pass

    box = Box()
    box.k = 2.0
    f, x = wrap(lambda x: x * box.k), row(torch)
    return played(
        lambda: f(x),
        setter(box, "k", 2),
        setter(box, "k", -0.0),
        setter(box, "k", 0.0),
        lambda: delattr(box, "k"),
    )


@program("proof")
def class_attribute_hidden_later(torch, wrap):
    class Base:
        k = 2.0

    class Derived(Base):
        pass

    box = Derived()
    f, x = wrap(lambda x: x * box.k), row(torch)
    return played(
        lambda: f(x),
        setter(Derived, "k", 3.0),
        setter(box, "k", 4.0),
        lambda: delattr(box, "k"),
        lambda: delattr(Derived, "k"),
        setter(Base, "k", 6.0),
    )


@program("proof")
def property_added_later(torch, wrap):
    class Box:
        def __init__(self):
            self.k = 2.0

    box = Box()
    f, x = wrap(lambda x: x * box.k), row(torch)
    return played(
        lambda: f(x),
        setter(Box, "k", property(lambda self: 9.0)),
        setter(Box, "k", 1.0),
        lambda: delattr(Box, "k"),
    )


@program("proof")
def property_changed(torch, wrap):
    class Box:
        k = 2.0

        @property
        def double(self):
            return self.k * 2

    box = Box()
    f, x = wrap(lambda x: x * box.double), row(torch)
    return played(
        lambda: f(x),
        setter(box, "k", 3.0),
        setter(Box, "double", property(lambda self: self.k)),
        setter(Box, "k", 8.0),
    )


@program("proof")
def getattr_added_later(torch, wrap):
    class Box:
        pass

    box = Box()
    f, x = wrap(lambda x: x * getattr(box, "k", 2.0) + hasattr(box, "j")), row(torch)
    return played(
        lambda: f(x),
        setter(Box, "__getattr__", lambda self, name: 5.0),
        lambda: delattr(Box, "__getattr__"),
        setter(box, "j", None),
    )


@program("proof")
def getattribute_added_later(torch, wrap):
    class Box:
        def __init__(self):
            self.k = 2.0

    box = Box()
    f, x = wrap(lambda x: x * box.k), row(torch)
    return played(
        lambda: f(x),
        setter(Box, "__getattribute__", lambda self, name: 7.0),
        lambda: delattr(Box, "__getattribute__"),
    )


@program("proof")
def class_assigned(torch, wrap):
    class Plus:
        def apply(self, x):
            return x + self.k

    class Times:
        def apply(self, x):
            return x * self.k

    item = Plus()
    item.k = 3.0
    f, x = wrap(lambda x: item.apply(x)), row(torch)
    return played(lambda: f(x), setter(item, "__class__", Times), setter(item, "__class__", Plus))


@program("proof")
def bases_changed(torch, wrap):
    class Plus:
        def apply(self, x):
            return x + 1

    class Times:
        def apply(self, x):
            return x * 5

    class Child(Plus):
        pass

    item = Child()
    f, x = wrap(lambda x: item.apply(x)), row(torch)
    return played(
        lambda: f(x), setter(Child, "__bases__", (Times,)), setter(Times, "apply", lambda self, x: x - 1)
    )


@program("proof")
def slots_changed(torch, wrap):
    class Point:
        __slots__ = ("a", "b")

    point = Point()
    point.a, point.b = 2.0, 1
    f, x = wrap(lambda x: x * point.a + point.b), row(torch)
    return played(
        lambda: f(x),
        setter(point, "b", 1.0),
        setter(point, "b", 2),
        lambda: delattr(point, "a"),
        setter(point, "a", 3.0),
    )


@program("proof")
def descriptor_with_state(torch, wrap):
    class Knob:
        value = 2.0

        def __get__(self, owner, kind=None):
            return self.value

    class Box:
        k = Knob()

    box = Box()
    f, x = wrap(lambda x: x * box.k), row(torch)
    return played(
        lambda: f(x),
        setter(Knob, "value", 3.0),
        lambda: box.__dict__.update(k=10.0),
        setter(Knob, "__set__", lambda self, owner, value: None),
        lambda: box.__dict__.clear(),
    )


@program("proof")
def method_patched(torch, wrap):
    class Base:
        def go(self, x):
            return x * 2

    class Child(Base):
        pass

    item = Child()
    f, x = wrap(lambda x: item.go(x)), row(torch)
    return played(
        lambda: f(x),
        setter(Base, "go", lambda self, x: x * 3),
        setter(Child, "go", lambda self, x: x * 4),
        setter(item, "go", lambda x: x * 5),
        lambda: delattr(item, "go"),
        lambda: delattr(Child, "go"),
    )


@program("proof")
def super_and_mangled_names(torch, wrap):
    class Base:
        __k = 2.0

        def go(self, x):
            return x * self.__k

    class Child(Base):
        __k = 7.0

        def go(self, x):
            return super().go(x) + self.__k

    item = Child()
    f, x = wrap(item.go), row(torch)
    return played(
        lambda: f(x),
        setter(Base, "_Base__k", 3.0),
        setter(Child, "_Child__k", 1.0),
        setter(item, "_Base__k", -1.0),
        setter(Base, "go", lambda self, x: x),
    )


@program("proof")
def static_and_class_methods(torch, wrap):
    class Box:
        k = 2.0

        @staticmethod
        def plus(x):
            return x + 1

        @classmethod
        def times(cls, x):
            return x * cls.k

    class Other(Box):
        k = 5.0

    box = Box()
    f, x = wrap(lambda x: box.plus(box.times(x))), row(torch)
    return played(
        lambda: f(x),
        setter(Box, "k", 3.0),
        setter(Box, "plus", staticmethod(lambda x: x - 1)),
        setter(box, "__class__", Other),
        setter(Box, "times", classmethod(lambda cls, x: x / cls.k)),
    )


@program("proof")
def defaults_of_the_function(torch, wrap):
    def f(x, k=2.0, *, offset=1.0):
        return x * k + offset

    compiled, x = wrap(f), row(torch)
    return played(
        lambda: compiled(x),
        setter(f, "__defaults__", (3.0,)),
        setter(f, "__kwdefaults__", {"offset": 2.0}),
        lambda: f.__kwdefaults__.update(offset=9.0),
        setter(f, "__defaults__", None),
    )


@program("proof")
def defaults_of_a_helper(torch, wrap):
    def helper(x, k=2.0, *, offset=1.0):
        return x * k + offset

    f, x = wrap(lambda x: helper(x)), row(torch)
    return played(
        lambda: f(x),
        setter(helper, "__defaults__", (3.0,)),
        lambda: helper.__kwdefaults__.update(offset=9.0),
        setter(helper, "__kwdefaults__", None),
    )


@program("proof")
def mutable_default(torch, wrap):
    def helper(x, ks=[2.0]):  # noqa: B006  what is attacked
        return x * ks[0]

    f, x = wrap(lambda x: helper(x)), row(torch)
    return played(
        lambda: f(x), lambda: helper.__defaults__[0].insert(0, 4.0), lambda: helper.__defaults__[0].clear()
    )


@program("proof")
def code_replaced(torch, wrap):
    def f(x):
        return x * 2

    def g(x):
        return x * 3

    compiled, x, old = wrap(f), row(torch), f.__code__
    return played(lambda: compiled(x), setter(f, "__code__", g.__code__), setter(f, "__code__", old))


@program("proof")
def code_of_a_helper_replaced(torch, wrap):
    def helper(x):
        return x * 2

    def other(x):
        return x * 3

    f, x, old = wrap(lambda x: helper(x) + 1), row(torch), helper.__code__
    return played(lambda: f(x), setter(helper, "__code__", other.__code__), setter(helper, "__code__", old))


@program("proof")
def helper_rebound(torch, wrap):
    def change(function):
        global doubled
        doubled = function

    old = doubled
    f, x = wrap(lambda x: doubled(x) + 1), row(torch)
    try:
        return played(
            lambda: f(x), lambda: change(lambda x: x * 5), lambda: change(old), lambda: change(torch.relu)
        )
    finally:
        change(old)


@program("proof")
def decorated_helper(torch, wrap):
    def twice(function):
        @functools.wraps(function)
        def inner(*args, **options):
            return function(*args, **options) * 2

        return inner

    @twice
    def helper(x, k=1.0):
        return x + k

    f, x = wrap(lambda x: helper(x, k=3.0)), row(torch)
    inner = helper.__closure__[0].cell_contents
    return played(
        lambda: f(x),
        setter(inner, "__code__", (lambda x, k=1.0: x - k).__code__),
        lambda: setattr(helper.__closure__[0], "cell_contents", lambda x, k: x * k),
    )


@program("proof")
def partials(torch, wrap):
    part = functools.partial(by_helper, k=4.0)
    box = Box(go=part)
    f, x = wrap(lambda x: box.go(x)), row(torch)
    return played(
        lambda: f(x),
        lambda: part.keywords.update(k=5.0),
        setter(box, "go", functools.partial(by_helper, offset=0.0)),
        lambda: part.__setstate__((by_helper, (), {"k": 6.0}, {})),
        setter(box, "go", part),
    )


@program("proof")
def a_compiled_partial(torch, wrap):
    part = functools.partial(by_helper, k=4.0)
    f, x = wrap(part), row(torch)
    return played(lambda: f(x), lambda: part.keywords.update(k=5.0), lambda: part.keywords.clear())


@program("proof")
def two_lambdas_on_a_line(torch, wrap):
    f, g = wrap(lambda x: x * 2.0), wrap(lambda x: x * 3.0)
    h, k = (wrap(lambda x, i=i: x + i) for i in (1, 2))
    x = row(torch)
    return played(lambda: (f(x), g(x), h(x), k(x)))


@program("proof")
def functions_of_one_loop(torch, wrap):
    functions = []
    for scale in (1.0, 2.0, -0.0):

        def f(x, scale=scale):
            return x * scale

        functions.append(f)
    made = [wrap(f) for f in functions]
    x = row(torch)
    return played(
        lambda: [f(x) for f in made], setter(functions[1], "__defaults__", (8.0,)), lambda: made.reverse()
    )


@program("proof")
def closures_of_one_code(torch, wrap):
    def make(scale):
        def f(x):
            return x * scale

        return f

    functions = [make(float(i)) for i in range(3)]
    box = [functions[0]]
    f, x = wrap(lambda x: box[0](x)), row(torch)
    return played(
        lambda: f(x), lambda: box.__setitem__(0, functions[1]), lambda: box.__setitem__(0, functions[0])
    )


@program("proof")
def one_compiled_in_another(torch, wrap):
    box = Box(k=2.0, j=1.0)
    inner = wrap(lambda x: x * box.k)
    outer = wrap(lambda x: inner(x) + box.j)
    x = row(torch)
    return played(
        lambda: outer(x),
        setter(box, "k", 3.0),
        setter(box, "j", 0.0),
        lambda: inner(x),
        setter(box, "k", 2.0),
    ), played(lambda: inner(x))


@program("proof")
def recursion(torch, wrap):
    depth = Box(n=3)

    def f(x, n=None):
        n = depth.n if n is None else n
        return x if n == 0 else f(x, n - 1) * 2

    compiled, x = wrap(f), row(torch)
    return played(lambda: compiled(x), setter(depth, "n", 2), setter(depth, "n", 0), setter(depth, "n", 3))


@program("proof")
def enum_members(torch, wrap):
    class Kind(enum.Enum):
        PLUS = 1
        TIMES = 2

    box = Box(kind=Kind.PLUS)

    def f(x):
        return x + 3 if box.kind is Kind.PLUS else x * box.kind.value

    f, x = wrap(f), row(torch)
    return played(
        lambda: f(x),
        setter(box, "kind", Kind.TIMES),
        setter(Kind.TIMES, "_value_", 9),
        setter(box, "kind", Kind.PLUS),
    )


@program("proof")
def dataclass_fields(torch, wrap):
    @dataclasses.dataclass
    class Options:
        scale: float = 2.0
        inner: dict = dataclasses.field(default_factory=lambda: {"k": 1})

    options = Options()
    f, x = wrap(lambda x: x * options.scale + options.inner["k"]), row(torch)
    return played(
        lambda: f(x),
        setter(options, "scale", 3.0),
        lambda: options.inner.update(k=1.0),
        lambda: options.inner.update(k=7),
        setter(options, "inner", {"k": -1}),
    )


@program("proof")
def frozen_dataclasses_that_are_equal(torch, wrap):
    @dataclasses.dataclass(frozen=True)
    class Options:
        scale: float

    box = [Options(1)]

    def f(x):
        return (x.long() * box[0].scale).sum(), {Options(1): 5.0}[box[0]] * x

    f, x = wrap(f), row(torch)
    return played(
        lambda: f(x),
        lambda: box.__setitem__(0, Options(1.0)),
        lambda: box.__setitem__(0, Options(True)),
        lambda: object.__setattr__(box[0], "scale", 4),
    )


@program("proof")
def named_tuples(torch, wrap):
    Pair = collections.namedtuple("Pair", "a b")
    box = Box(pair=Pair(2.0, 1))
    f, x = wrap(lambda x: x * box.pair.a + box.pair[1]), row(torch)
    return played(
        lambda: f(x),
        setter(box, "pair", Pair(2.0, 1.0)),
        setter(box, "pair", Pair(2.0, 3)),
        setter(Pair, "a", property(lambda self: 10.0)),
        setter(box, "pair", (2.0, 1)),
    )


@program("proof")
def module_attributes(torch, wrap):
    module = types.ModuleType("made")
    module.k = 2.0
    module.go = lambda x: x + 1
    f, x = wrap(lambda x: module.go(x) * module.k), row(torch)
    return played(
        lambda: f(x),
        setter(module, "k", 3.0),
        setter(module, "go", lambda x: x - 1),
        lambda: delattr(module, "k"),
        setter(module, "__getattr__", lambda name: 4.0),
    )


@program("proof")
def a_function_of_the_library_patched(torch, wrap):
    old = torch.nn.functional.relu
    f, x = wrap(lambda x: torch.nn.functional.relu(x) * 2), row(torch, start=-1.0)
    try:
        return played(
            lambda: f(x),
            setter(torch.nn.functional, "relu", lambda x: x),
            setter(torch.nn.functional, "relu", old),
        )
    finally:
        torch.nn.functional.relu = old


@program("proof")
def forward_of_a_library_class_patched(torch, wrap):
    net, x = torch.nn.Sequential(linear(torch, 4, 3), torch.nn.ReLU()), row(torch)
    f, old = wrap(lambda x: net(x)), torch.nn.ReLU.forward
    try:
        return played(
            lambda: f(x),
            setter(torch.nn.ReLU, "forward", lambda self, x: -x),
            setter(torch.nn.ReLU, "forward", old),
        )
    finally:
        torch.nn.ReLU.forward = old


@program("proof")
def call_added_to_a_class(torch, wrap):
    class Box:
        def __call__(self, x):
            return x * 2

    box = Box()
    f, x = wrap(lambda x: box(x)), row(torch)
    return played(
        lambda: f(x),
        setter(box, "__call__", lambda x: x * 100),
        setter(Box, "__call__", lambda self, x: x * 3),
        lambda: delattr(Box, "__call__"),
    )


@program("proof")
def isinstance_and_its_hooks(torch, wrap):
    class Meta(type):
        def __instancecheck__(cls, item):
            return cls.answer

    class Loose(metaclass=Meta):
        answer = False

    class Strict:
        pass

    class Below(Strict):
        pass

    box = Box(item=Below())

    def f(x):
        return x * (2 if isinstance(box.item, Loose) else 3) + (1 if isinstance(box.item, Strict) else 0)

    f, x = wrap(f), row(torch)
    return played(
        lambda: f(x),
        setter(Loose, "answer", True),
        setter(box, "item", 5),
        setter(Loose, "answer", False),
        setter(Meta, "__instancecheck__", lambda cls, item: True),
    )


@program("proof")
def isinstance_behind_new_bases(torch, wrap):
    class One:
        pass

    class Two:
        pass

    class Below(One):
        pass

    item = Below()
    f, x = wrap(lambda x: x * 2 if isinstance(item, Two) else x + 1), row(torch)
    return played(lambda: f(x), setter(Below, "__bases__", (Two,)), setter(Below, "__bases__", (One, Two)))


@program("proof")
def operators_of_numbers(torch, wrap):
    class Odd(float):
        def __mul__(self, other):
            return other + 100

        __rmul__ = __mul__

    box = Box(k=2.0)
    f, x = wrap(lambda x: x * (box.k * 3.0)), row(torch)
    return played(lambda: f(x), setter(box, "k", Odd(2.0)), setter(box, "k", 2.0), setter(box, "k", True))


@program("proof")
def comparison_and_truth_of_objects(torch, wrap):
    class Thing:
        def __init__(self, truth):
            self.truth = truth

        def __bool__(self):
            return self.truth

        def __eq__(self, other):
            return self.truth

        __hash__ = None

        def __len__(self):
            return 3

    thing = Thing(True)
    f, x = wrap(lambda x: x * (2 if thing else 3) + (1 if thing == 5 else 0) + len(thing)), row(torch)
    return played(
        lambda: f(x),
        setter(thing, "truth", False),
        setter(Thing, "__bool__", lambda self: True),
        setter(Thing, "__len__", lambda self: 9),
        lambda: delattr(Thing, "__bool__"),
    )


@program("proof")
def strings_and_formats(torch, wrap):
    box = Box(name="a", n=3)

    def f(x):
        text = f"{box.name}-{box.n:02d}"
        return x * {"a-03": 1.5, "b-03": 2.5, "a-04": 3.5}.get(text, 0.5) + text.startswith("a")

    f, x = wrap(f), row(torch)
    return played(
        lambda: f(x),
        setter(box, "name", "b"),
        setter(box, "name", "a"),
        setter(box, "n", 4),
        setter(box, "n", "x"),
    )


@program("proof")
def mathematics(torch, wrap):
    box = Box(a=2.0)
    f, x = (
        wrap(lambda x: x * math.sqrt(box.a) + math.floor(box.a) + (math.pi if box.a > 1 else 0)),
        row(torch),
    )
    old = math.pi
    try:
        return played(
            lambda: f(x),
            setter(box, "a", 3.5),
            setter(box, "a", -1.0),
            setter(box, "a", 2.0),
            setter(math, "pi", 3),
        )
    finally:
        math.pi = old


@program("proof")
def the_clock_of_the_world(torch, wrap):
    """What no object of Python holds: environment variables, a generator of Python's, a context variable."""
    variable = contextvars.ContextVar("v", default=1.0)
    generator = random.Random(3)

    def f(x):
        return x * float(os.environ.get("CLEARGRAD_TEST_SCALE", "2")) * variable.get()

    f, g, x = wrap(f), wrap(lambda x: x * generator.random()), row(torch)
    try:
        return played(
            lambda: (f(x), g(x)),
            lambda: os.environ.update(CLEARGRAD_TEST_SCALE="3"),
            lambda: variable.set(5.0),
            lambda: generator.seed(3),
            lambda: os.environ.pop("CLEARGRAD_TEST_SCALE"),
        )
    finally:
        os.environ.pop("CLEARGRAD_TEST_SCALE", None)


@program("proof")
def a_file_read_at_every_call(torch, wrap):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "number")

        def write(text):
            with open(path, "w") as file:
                file.write(text)

        def f(x):
            with open(path) as file:
                return x * float(file.read())

        write("2")
        f, x = wrap(f), row(torch)
        return played(lambda: f(x), lambda: write("3"), lambda: os.remove(path), lambda: write("2"))


@program("proof")
def caches_count(torch, wrap):
    calls = []

    @functools.lru_cache
    def scale(n):
        calls.append(n)
        return n * 1.5

    box = Box(n=2)
    f, x = wrap(lambda x: x * scale(box.n)), row(torch)
    return played(lambda: f(x), setter(box, "n", 3), scale.cache_clear), calls, tuple(scale.cache_info())


@program("proof")
def cached_property(torch, wrap):
    class Box:
        k = 2.0

        @functools.cached_property
        def slow(self):
            return self.k * 3

    box = Box()
    f, x = wrap(lambda x: x * box.slow), row(torch)
    return played(
        lambda: f(x), setter(box, "k", 5.0), lambda: box.__dict__.pop("slow"), setter(box, "slow", 1.0)
    )


@program("proof")
def single_dispatch(torch, wrap):
    @functools.singledispatch
    def scale(value):
        return 2.0

    box = Box(item=1)
    f, x = wrap(lambda x: x * scale(box.item)), row(torch)
    return played(
        lambda: f(x),
        lambda: scale.register(int, lambda value: 7.0),
        setter(box, "item", "a"),
        setter(box, "item", True),
    )


@program("proof")
def looks_at_itself(torch, wrap):
    names = executed(
        "def f(x):\n"
        "    local = 2\n"
        "    return x * len(locals()) + len(globals()) + globals().get('K', 1) + sys.getrecursionlimit() * 0\n",
        sys=sys,
    )
    f, x = wrap(names["f"]), row(torch)
    return played(lambda: f(x), lambda: names.update(K=5), lambda: names.update(J=1), lambda: names.pop("K"))


@program("proof")
def attributes_of_functions(torch, wrap):
    def helper(x):
        return x * helper.k

    helper.k = 2.0
    f, x = wrap(lambda x: helper(x) + len(helper.__name__)), row(torch)
    return played(
        lambda: f(x), setter(helper, "k", 3.0), setter(helper, "__name__", "h"), lambda: delattr(helper, "k")
    )


@program("proof")
def source_on_disk_changed(torch, wrap):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "made.py")

        def load(text):
            with open(path, "w") as file:
                file.write(text)
            names = {}
            exec(compile(text, path, "exec"), names)
            return names["f"]

        old = load("def f(x):\n    return x * 2\n")
        new = load("def f(x):\n    return x * 3\n")  # the file has other lines than `old`
        linecache.checkcache(path)
        f, g, x = wrap(old), wrap(new), row(torch)
        return played(
            lambda: (f(x), g(x)), lambda: load("def f(x):\n    return x * 9\n"), linecache.checkcache
        )


@program("proof")
def cells_of_a_notebook(torch, wrap):
    """Two functions of one made-up file name: the lines kept for it are the last ones."""
    old = executed("def f(x):\n    return x * 2\n", "<cell>")["f"]
    new = executed("def f(x):\n    return x + 2\n", "<cell>")["f"]
    f, g, x = wrap(old), wrap(new), row(torch)
    return played(lambda: (f(x), g(x)), lambda: linecache.cache.pop("<cell>"))


@program("proof")
def lines_of_another_function(torch, wrap):
    """The lines at a function's place are those of another one, which differs in a constant."""
    source = "def f(x, k=2.0):\n    return x * k + 1\n"
    old = executed(source, "<same>")["f"]
    executed(source.replace("+ 1", "+ 5"), "<same>")
    f, x = wrap(old), row(torch)
    return played(lambda: f(x), lambda: executed(source.replace("2.0", "7.0"), "<same>"))


@program("proof")
def a_function_without_lines(torch, wrap):
    names = {"K": 2.0}
    exec("def f(x):\n    return x * K\n", names)
    f, x = wrap(names["f"]), row(torch)
    return played(lambda: f(x), lambda: names.update(K=3.0))


@program("proof")
def operators_as_functions(torch, wrap):
    box = Box(op=operator.add, get=operator.attrgetter("k"), k=2.0)
    f, x = wrap(lambda x: box.op(x, box.get(box))), row(torch)
    return played(
        lambda: f(x), setter(box, "op", operator.mul), setter(box, "k", 5.0), setter(box, "get", lambda b: 1)
    )


@program("proof")
def branches_asserts_and_early_returns(torch, wrap):
    box = Box(mode=None, limit=3, ok=True)

    def f(x):
        assert box.ok, "not ok"
        if box.mode is None:
            return x
        if box.mode == "twice":
            return x * 2
        k = 0
        while k < box.limit:
            k += 1
            if k == 7:
                break
        else:
            x = x - 1
        return x + k

    f, x = wrap(f), row(torch)
    return played(
        lambda: f(x),
        setter(box, "mode", "twice"),
        setter(box, "mode", "".join(["tw", "ice"])),
        setter(box, "mode", 3),
        setter(box, "limit", 9),
        setter(box, "ok", []),
        setter(box, "ok", [0]),
    )


@program("proof")
def comprehensions_and_generators(torch, wrap):
    box = Box(items=[1.0, 2.0, 3.0], names={"a": 1, "b": 2})

    def pairs():
        yield from enumerate(box.items)

    def f(x):
        total = sum(i * item for i, item in pairs())
        total += sum([v for k, v in box.names.items() if k != "c"])
        return x * total + len({k for k, _ in zip(box.names, box.items)})

    f, x = wrap(f), row(torch)
    return played(
        lambda: f(x),
        lambda: box.items.append(4.0),
        lambda: box.names.update(c=9),
        lambda: box.names.update(d=9.0),
        lambda: box.items.__setitem__(0, 1),
        lambda: box.items.reverse(),
        setter(box, "items", (1.0, 2.0, 3.0)),
    )


@program("proof")
def stars(torch, wrap):
    box = Box(args=(2.0,), options={"offset": 1.0})
    f, x = wrap(lambda x: by_helper(x, *box.args, **box.options)), row(torch)
    return played(
        lambda: f(x),
        setter(box, "args", ()),
        lambda: box.options.update(k=5.0),
        setter(box, "args", [4.0]),
        lambda: box.options.pop("k"),
        lambda: box.options.clear(),
    )


@program("proof")
def patterns(torch, wrap):
    box = Box(command=("scale", 2.0))
    source = (
        "def f(x):\n"
        "    match box.command:\n"
        "        case ('scale', k):\n"
        "            return x * k\n"
        "        case ['shift', *rest] if rest:\n"
        "            return x + sum(rest)\n"
        "        case {'k': k}:\n"
        "            return x - k\n"
        "        case _:\n"
        "            return x\n"
    )
    f, x = wrap(executed(source, "<match>", box=box)["f"]), row(torch)
    return played(
        lambda: f(x),
        *(setter(box, "command", v) for v in (("scale", 2), ["shift", 1, 2], {"k": 1}, ["shift"], None)),
    )


@program("proof")
def imports_inside(torch, wrap):
    module = types.ModuleType("cleargrad_made_for_a_test")
    module.k = 2.0
    other = types.ModuleType("cleargrad_made_for_a_test")
    other.k = 6.0
    sys.modules[module.__name__] = module

    def f(x):
        from cleargrad_made_for_a_test import k

        return x * k

    f, x = wrap(f), row(torch)
    try:
        return played(
            lambda: f(x),
            setter(module, "k", 3.0),
            lambda: sys.modules.update({module.__name__: other}),
            lambda: sys.modules.pop(module.__name__),
        )
    finally:
        sys.modules.pop(module.__name__, None)


@program("proof")
def context_managers_of_ones_own(torch, wrap):
    class Mode:
        depth = 0
        k = 2.0

        def __enter__(self):
            return self.k

        def __exit__(self, *error):
            return True

    mode = Mode()

    def f(x):
        with mode as k:
            return x * k
        return x

    f, x = wrap(f), row(torch)
    return played(
        lambda: f(x),
        setter(mode, "k", 3.0),
        setter(mode, "k", None),
        setter(Mode, "__exit__", lambda self, *error: False),
        setter(Mode, "__enter__", lambda self: 1.0),
    )
