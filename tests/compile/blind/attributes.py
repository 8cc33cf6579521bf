"""__getattr__, descriptors, slots, monkeypatch, __class__ assignment."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(31)

    class D:
        def __init__(s):
            s.v = 2.0

        def __get__(s, o, t):
            return s.v

    class S:
        __slots__ = ("k",)
        d = D()

        def __init__(s):
            s.k = 1.0

    class A:
        def __init__(s):
            s._h = {"z": 1.0}

        def __getattr__(s, n):
            if n.startswith("_"):
                raise AttributeError(n)
            return s._h[n]

    class M1(nn.Module):
        def __init__(s):
            super().__init__()
            s.w = nn.Parameter(torch.ones(3))
            s.flag = 1

        def forward(s, x):
            return x * s.w

    class M2(M1):
        def forward(s, x):
            return super().forward(x) * 10

    s_, a, m = S(), A(), M1()
    dd = S.__dict__["d"]

    def step(x):
        return m(x) * s_.k + s_.d * a.z + getattr(a, "q", 0.0) if "q" in a._h else m(x) * s_.k + s_.d * a.z

    def step2(x):
        return m(x).sum() * s_.k

    f = wrap(step)
    g = wrap(step2)
    out = []
    x = torch.randn(3)
    for i in range(36):
        if i == 6:
            s_.k = 2.0
        if i == 8:
            dd.v = 5.0
        if i == 10:
            a._h["z"] = 3.0
        if i == 12:
            a.z = 9.0
        if i == 14:
            m.__class__ = M2
        if i == 17:
            M1.forward = lambda s, x: x - s.w
        if i == 19:
            a._h["q"] = 1.0
        if i == 21:
            m.forward = lambda x: x * 0.5
        if i == 23:
            del m.forward
            m.__class__ = M1
        if i == 25:
            m.w = nn.Parameter(torch.full((3,), 4.0))
        if i == 27:
            del M1.forward
            M1.forward = lambda s, x: x.exp() * s.w
        if i == 30:
            M1.__call__ = lambda s, x: s.w * 2
        if i == 33:
            del M1.__call__
            S.k = 7.0 if False else S.k
            S.d = 11.0
        r = f(x)
        q = g(x)
        look(q)
        out += [T(r), T(q), r.requires_grad]
    return out
