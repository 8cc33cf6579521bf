"""Generators, closures with nonlocal, dataclass config with property, global state."""

import dataclasses
import functools
import itertools

from tests.compile.blind.telling import T, look

G = 1.0


def run(torch, wrap):
    global G
    G = 1.0
    torch.manual_seed(30)

    @dataclasses.dataclass
    class C:
        a: float = 1.0
        b: list = dataclasses.field(default_factory=lambda: [1.0, 2.0])

        @property
        def ab(s):
            return s.a * len(s.b) + sum(s.b)

    c = C()
    n = 0
    it = itertools.cycle([1.0, 2.0, 3.0])

    def gen():
        k = 0
        while True:
            k += 1
            yield torch.tensor(float(k)) * (yield_scale[0])

    yield_scale = [1.0]
    gg = gen()

    def clos(x):
        nonlocal n
        n += 1
        return x * n

    def step(x):
        s = next(it)
        y = clos(x) * s + next(gg) + c.ab * G
        return y, functools.reduce(lambda p, q: p + q * c.b[-1], y.unbind()), [v * G for v in y if c.a > 0]

    def pure(x):
        return (x * c.ab + G).sin() * c.b[0], len(c.b)

    f = wrap(step)
    p = wrap(pure)
    out = []
    for i in range(24):
        if i == 7:
            G = 2.0
        if i == 10:
            c.b.append(4.0)
        if i == 13:
            c.b[0] = -1.0
        if i == 15:
            yield_scale[0] = 0.5
            C.ab = property(lambda s: 100.0)
        if i == 18:
            c.a = -1.0
        if i == 20:
            del C.ab
            C.ab = 3
        x = torch.arange(3.0) + i
        r = f(x)
        q = p(x)
        look(r[1])
        out += [T(r[0]), T(r[1]), [T(v) for v in r[2]], T(q[0]), q[1], n]
    return out
