"""Retain_graph, two backwards with shared trunk, retain_grad, error when not retained."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(4)
    trunk = nn.Linear(3, 4)
    h1 = nn.Linear(4, 1)
    h2 = nn.Linear(4, 1)
    ps = [*trunk.parameters(), *h1.parameters(), *h2.parameters()]
    o = torch.optim.Adam(ps, 0.05)
    st = {"retain": True, "twice": False}

    def step(x):
        o.zero_grad(set_to_none=False)
        z = trunk(x).sigmoid()
        z.retain_grad()
        a = h1(z).pow(2).mean()
        b = (h2(z) - 1).abs().mean()
        a.backward(retain_graph=st["retain"])
        g1 = z.grad.clone()
        e = "none"
        try:
            b.backward()
        except RuntimeError as ex:
            e = type(ex).__name__
        if st["twice"]:
            try:
                b.backward()
            except RuntimeError as ex:
                e += "!" + type(ex).__name__
        o.step()
        return a, b, g1, z.grad, e

    f = wrap(step)
    out = []
    for i in range(20):
        x = torch.randn(6, 3)
        st["retain"] = i not in (7, 8, 14)
        st["twice"] = i in (10, 11, 12)
        r = f(x)
        look(r[0])
        out += [*map(T, r[:4]), r[4]] + [T(p) for p in ps]
    return out
