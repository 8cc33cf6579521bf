"""Deepcopy of model midway; optimizer refers to the old; copy and copy.copy."""

import copy

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(15)
    b = {"m": nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.3), nn.Linear(3, 1))}
    b["o"] = torch.optim.Adam(b["m"].parameters(), 0.05)

    def step(x):
        b["o"].zero_grad()
        l = b["m"](x).pow(2).mean()
        l.backward()
        b["o"].step()
        return l

    f = wrap(step)
    out = []
    old = b["m"]
    for i in range(24):
        if i == 7:
            b["m"] = copy.deepcopy(b["m"])
        if i == 11:
            b["o"] = torch.optim.Adam(b["m"].parameters(), 0.02)
        if i == 14:
            b["m"] = copy.copy(b["m"])
            b["m"].add_module("3", nn.Tanh())
        if i == 17:
            b["m"], b["o"] = copy.deepcopy((b["m"], b["o"]))
        if i == 20:
            b["m"].eval()
            old.train()
        l = f(torch.ones(2, 3) * i / 8)
        look(l)
        out += [
            T(l),
            *map(T, b["m"].parameters()),
            *map(T, old.parameters()),
            T(old[0].weight.grad),
            T(b["m"][0].weight.grad),
        ]
    return out
