"""NumPy aliasing both ways."""

import numpy as np

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(18)
    m = nn.Linear(3, 2)
    o = torch.optim.SGD(m.parameters(), 0.05)
    xa = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
    x = torch.from_numpy(xa)
    wa = m.weight.detach().numpy()
    sc = np.ones(2, np.float32)
    s = torch.from_numpy(sc)
    acc = torch.zeros(2)
    aa = acc.numpy()

    def step(x):
        o.zero_grad()
        y = m(x) * s
        l = y.square().mean()
        l.backward()
        o.step()
        acc.add_(y.detach().sum(0))
        return l, y.detach()

    f = wrap(step)
    out = []
    for i in range(20):
        if i % 3 == 0:
            xa[i % 4] += 0.5
        if i == 7:
            wa[0] = 0.25
        if i > 9:
            sc *= 1.1
        if i == 12:
            aa[:] = -1
        l, y = f(x)
        xa[0, 0] = -i
        if i > 14:
            ya = y.numpy()
            ya += 1
        out += [wa.copy(), aa.copy(), l.detach().numpy().copy(), T(y)]
        look(l)
        sc[0] = 0.5
        out += [T(s), T(x)]
    return out + [wa, aa, xa]
