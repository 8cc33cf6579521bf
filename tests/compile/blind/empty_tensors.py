"""0-d, empty, zero-size batches, last small batch."""

from tests.compile.blind.telling import T, err, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(21)
    m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    o = torch.optim.Adam(m.parameters(), 0.01)

    def step(x, y, s):
        o.zero_grad()
        l = nn.functional.cross_entropy(m(x), y) * s
        l.backward()
        o.step()
        return l, m(x).detach().sum(0), x.mean(), x.numel()

    f = wrap(step)
    out = []
    X = torch.randn(10, 3)
    Y = torch.randint(0, 2, (10,))
    for ep in range(8):
        s = torch.tensor(1.0) if ep % 2 else torch.ones(())
        for j in range(0, 10, 4):
            r = f(X[j : j + 4], Y[j : j + 4], s)
            look(r[0])
            out += [*map(T, r[:3]), r[3], T(m[0].weight)]
        if ep in (3, 4, 6):
            sv = [T(p) for p in m.parameters()]
            r = f(X[:0], Y[:0], s)
            look(r[0])
            out += [*map(T, r[:3]), T(m[0].weight)]
            [p.data.copy_(v) for p, v in zip(m.parameters(), sv)]
            o.state.clear()

    def red(x):
        return [
            err(lambda: g(x)) for g in (torch.sum, torch.prod, torch.all, torch.any, torch.mean, torch.var)
        ] + [x.cumsum(-1), torch.cat([x, x[..., :0]], -1), x.unsqueeze(-1) @ torch.ones(1, 0)]

    g = wrap(red)
    for i in range(18):
        r = g(torch.empty(0, 3)[:, : i % 3] if i > 8 else torch.ones(2, i // 4))
        look(r[0])
        out += [T(v) for v in r]
    return out
