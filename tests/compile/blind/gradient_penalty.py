"""Gradient penalty with create_graph; weight changes to 0 (skips), then penalty kind changes."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(5)
    d = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1))
    o = torch.optim.RMSprop(d.parameters(), 0.01)
    cfg = {"lam": 10.0, "k": 2}

    def step(r, fk):
        o.zero_grad()
        l = d(fk).mean() - d(r).mean()
        gp = None
        if cfg["lam"]:
            e = torch.rand(r.shape[0], 1)
            z = (e * r + (1 - e) * fk).requires_grad_()
            (g,) = torch.autograd.grad(d(z).sum(), z, create_graph=True)
            gp = ((g.norm(2, 1) - 1) ** cfg["k"]).abs().mean()
            l = l + cfg["lam"] * gp
        l.backward()
        o.step()
        return l, gp

    f = wrap(step)
    out = []
    for i in range(20):
        if i == 6:
            cfg["lam"] = 1
        if i == 9:
            cfg["lam"] = 0.0
        if i == 12:
            cfg["lam"] = 0.5
        if i == 15:
            cfg["k"] = 1
        l, gp = f(torch.randn(5, 3), torch.randn(5, 3) + 1)
        look(l)
        out += [T(l), T(gp)] + [T(p) for p in d.parameters()]
    return out + [torch.rand(3)]
