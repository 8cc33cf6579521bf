"""Monkeypatching: functional, math, builtins, defaults, code; args and kwargs forms; NameError."""

import builtins
import functools
import math

from tests.compile.blind.telling import T, look

SC = 1.0


def helper(x):
    return x * 2


def run(torch, wrap):
    global SC, helper
    SC = 1.0
    torch.manual_seed(67)
    F = torch.nn.functional
    orig = F.relu
    om = math.sqrt
    oh = helper

    def inner(x, k=1.0, *, q=2.0):
        return x * k + q

    part = functools.partial(inner, k=3.0)

    def step(x, *a, **k):
        return (
            F.relu(x) * math.sqrt(4.0)
            + helper(x) * SC
            + inner(x)
            + part(x)
            + sum(a)
            + sum(k.values())
            + len(k) * (abs(-1))
        )

    f = wrap(step)
    out = []
    x = torch.randn(4)
    try:
        for i in range(52):
            if i == 6:
                F.relu = torch.tanh
            if i == 9:
                F.relu = orig
                math.sqrt = lambda v: 10.0
            if i == 12:
                math.sqrt = om
                helper = lambda x: x - 5
            if i == 15:
                inner.__defaults__ = (4.0,)
            if i == 18:
                inner.__kwdefaults__ = {"q": 0.5}
            if i == 21:
                inner.__code__ = (lambda x, k=1.0, *, q=2.0: x / k - q).__code__
            if i == 24:
                del SC
            if i == 27:
                SC = 2
            if i == 30:
                builtins.abs = lambda v: 100
            if i == 33:
                del builtins.abs
                builtins.abs = _abs
            if i == 36:
                part.keywords["k"] = -1.0
            if i == 45:
                step.__defaults__ = None
                F.relu = lambda x: orig(x, inplace=False) + 1
            kw = {"b": 1.0, "a": x} if i % 2 and i > 38 else {}
            try:
                r = f(x, *([1.0] * (i // 20)), **kw)
                out.append(T(r))
                look(r)
            except NameError as e:
                out.append(type(e).__name__)
    finally:
        F.relu = orig
        math.sqrt = om
        builtins.abs = _abs
        helper = oh
        SC = 1.0
    return out


_abs = abs
