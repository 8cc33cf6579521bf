"""Autocast entered and left at different iterations."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(38)
    m = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))
    o = torch.optim.AdamW(m.parameters(), 0.01)
    st = {"on": True, "dt": torch.bfloat16}

    def step(x, y):
        o.zero_grad()
        with torch.autocast("cpu", dtype=st["dt"], enabled=st["on"]):
            h = m(x)
            with torch.autocast("cpu", enabled=False):
                l = nn.functional.cross_entropy(h.float(), y)
        l.backward()
        o.step()
        return l, h

    def plain(x):
        return m(x), x @ x.t(), torch.softmax(x @ x.t(), -1), x.exp() + 1

    f = wrap(step)
    p = wrap(plain)
    out = []
    for i in range(28):
        if i == 7:
            st["on"] = False
        if i == 12:
            st["on"] = True
        if i == 16:
            st["dt"] = torch.float16
        if i == 21:
            st["dt"] = torch.bfloat16
        x = torch.randn(5, 4)
        l, h = f(x, torch.randint(0, 3, (5,)))
        look(l)
        out += [T(l), T(h), T(m[0].weight)]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=(i // 5) % 2 == 1):
            r = p(x)
        out += [T(v) for v in r] + [str(r[0].dtype), torch.is_autocast_enabled("cpu") if False else ""]
    return out
