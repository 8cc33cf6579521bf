"""Lr and other options as tensors / numpy numbers / ints."""

import numpy as np

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(60)
    w = torch.randn(4, requires_grad=True)
    lr = torch.tensor(0.1)
    o = torch.optim.Adam([w], lr=lr)
    q = torch.optim.SGD([w], lr=0.1)

    def step(x):
        o.zero_grad()
        l = (w * x).sin().sum()
        l.backward()
        o.step()
        q.step()
        return l

    f = wrap(step)
    out = []
    for i in range(24):
        if i == 6:
            lr.mul_(0.5)
        if i == 8:
            lr.fill_(0.01)
        if i == 10:
            o.param_groups[0]["lr"] = 0.05
        if i == 12:
            q.param_groups[0]["lr"] = np.float64(0.2)
        if i == 14:
            q.param_groups[0]["lr"] = 1
        if i == 16:
            q.param_groups[0]["lr"] = True
        if i == 17:
            q.param_groups[0]["lr"] = torch.tensor(0.3)
        if i == 19:
            q.param_groups[0]["lr"].add_(0.1)
        if i == 21:
            o.param_groups[0]["lr"] = lr
            q.param_groups[0]["lr"] = -0.0 if False else 0.0
        l = f(torch.randn(4))
        look(l)
        out += [T(l), T(w), T(lr), float(q.param_groups[0]["lr"])]
    return out
