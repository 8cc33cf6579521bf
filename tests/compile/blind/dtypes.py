"""Dtypes change."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(20)
    w = torch.randn(3, requires_grad=True)
    st = {"s": 2}

    def step(x):
        h = x * st["s"] + x / 3
        g = h.to(torch.float32) * w
        l = g.sum()
        l.backward()
        return l, h, x.sum(), x.mean(dtype=torch.float64), h.cumsum(0), (x == 2), x.type(torch.int32) // 2

    f = wrap(step)
    out = []
    base = torch.tensor([[1.5, 2, -3], [2.25, -0.5, 7]])
    D = [
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int8,
        torch.bool,
        torch.float32,
    ]
    for i in range(8 * 5):
        if i == 16:
            st["s"] = 2.0
        if i == 24:
            st["s"] = True
        if i == 33:
            st["s"] = 1
        r = f(base.to(D[i // 5]))
        look(r[0])
        out += [*map(T, r), T(w.grad)]
        if i % 7 == 0:
            w.grad = None
    m = torch.nn.Linear(3, 2)
    g = wrap(lambda x: m(x).relu().sum())
    for i in range(15):
        if i == 5:
            m.double()
        if i == 10:
            m.to(torch.bfloat16)
        r = g(base.to(m.weight.dtype))
        look(r)
        r.backward()
        out += [T(r), T(m.weight.grad)]
        m.zero_grad()
    return out
