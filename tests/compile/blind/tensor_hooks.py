"""Tensor hooks added and removed midway, hook counters."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(1)
    w = torch.randn(4, 3, requires_grad=True)
    x = torch.randn(6, 4)
    calls = []
    st = {"s": 2.0, "h": None, "mid": False}

    def hk(g):
        calls.append(tuple(g.shape))
        return g * st["s"]

    def step(x):
        h = x @ w
        if st["mid"]:
            h.register_hook(lambda g: calls.append("mid") or (g.sign() if st["s"] > 1 else None))
        l = h.tanh().pow(2).mean()
        l.backward()
        with torch.no_grad():
            w.sub_(w.grad, alpha=0.3)
        g = w.grad
        w.grad = None
        return l, g

    f = wrap(step)
    out = []
    for i in range(22):
        if i == 5:
            st["h"] = w.register_hook(hk)
        if i == 9:
            st["s"] = -1.0
        if i == 11:
            st["h"].remove()
        if i == 12:
            st["mid"] = True
        if i == 15:
            st["s"] = 3.0
        if i == 18:
            st["mid"] = False
            w.register_hook(lambda g: None)
        l, g = f(x)
        look(l)
        out += [T(l), g, T(w)]
    return out + [str(calls)]
