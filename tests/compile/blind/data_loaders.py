"""DataLoader, samplers, random_split, last smaller batch."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    D = torch.utils.data
    torch.manual_seed(63)
    X = torch.randn(17, 3)
    Y = (X.sum(1) > 0).long()
    m = nn.Linear(3, 2)
    o = torch.optim.SGD(m.parameters(), 0.3)

    class DS(D.Dataset):
        scale = 1.0

        def __len__(s):
            return 17

        def __getitem__(s, i):
            return X[i] * DS.scale, {"y": Y[i], "i": i}

    tr, va = D.random_split(DS(), [12, 5], generator=torch.Generator().manual_seed(1))
    g = torch.Generator().manual_seed(2)
    dl = D.DataLoader(tr, 5, shuffle=True, generator=g)
    dv = D.DataLoader(va, 4, sampler=D.WeightedRandomSampler(torch.rand(5), 6))
    ep = [0]

    def step(x, y):
        o.zero_grad()
        l = nn.functional.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l

    def ev(x, y):
        with torch.no_grad():
            return (m(x).argmax(1) == y).sum()

    f = wrap(step)
    h = wrap(ev)
    out = []
    for e in range(8):
        tot = 0
        for x, d in dl:
            l = f(x, d["y"])
            tot += l.item() * len(x)
            out += [T(l), T(d["i"])]
            look(l)
        m.eval()
        c = sum(h(x, d["y"]) for x, d in dv)
        m.train()
        out += [tot, T(c), T(m.weight)]
        if e == 3:
            DS.scale = 2.0
        if e == 5:
            g.manual_seed(2)
    return out
