"""Freeze / unfreeze, late param group, ordering of params changed."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(11)
    a, b, c = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)
    for p in a.parameters():
        p.requires_grad_(False)
    o = torch.optim.Adam(list(b.parameters()) + list(c.parameters()), 0.03)

    def step(x, y):
        l = nn.functional.cross_entropy(c(torch.relu(b(torch.relu(a(x))))), y)
        o.zero_grad()
        l.backward()
        o.step()
        return l

    f = wrap(step)
    out = []
    x = torch.randn(8, 3)
    y = torch.randint(0, 2, (8,))
    for i in range(24):
        if i == 7:
            for p in a.parameters():
                p.requires_grad_(True)
        if i == 9:
            o.add_param_group({"params": list(a.parameters()), "lr": 0.1, "weight_decay": 0.1})
        if i == 13:
            b.weight.requires_grad = False
        if i == 16:
            o.param_groups[0]["params"].reverse()
        if i == 19:
            b.weight.requires_grad = True
            del o.param_groups[0]["params"][0]
        if i == 21:
            o.param_groups.reverse()
        l = f(x, y)
        look(l)
        out += [T(l), T(a.weight), T(b.weight), T(c.bias), T(b.weight.grad)]
    return out
