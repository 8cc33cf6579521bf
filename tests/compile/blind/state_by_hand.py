"""Optimizer.state edited by hand."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(12)
    m = nn.Linear(4, 3)
    o = torch.optim.Adam(m.parameters(), 0.05)
    q = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], 0.1, momentum=0.9)
    w = q.param_groups[0]["params"][0]

    def step(x):
        o.zero_grad()
        q.zero_grad()
        l = (m(x) * w).pow(2).sum()
        l.backward()
        o.step()
        q.step()
        return l

    f = wrap(step)
    out = []
    for i in range(24):
        if i == 6:
            o.state[m.weight]["exp_avg"].zero_()
        if i == 8:
            o.state[m.weight]["step"] = torch.tensor(100.0)
        if i == 10:
            o.state.pop(m.bias)
        if i == 12:
            q.state[w]["momentum_buffer"] = torch.full((3,), 0.5)
        if i == 14:
            q.state[w]["momentum_buffer"] = None
        if i == 16:
            o.state[m.weight]["exp_avg_sq"] = o.state[m.weight]["exp_avg_sq"].t().contiguous().t()
        if i == 18:
            o.state[m.bias]["step"] += 5
            q.state[w]["momentum_buffer"].mul_(-1)
        if i == 20:
            q.state.clear()
        l = f(torch.randn(5, 4) * 0.2)
        look(l)
        out += [
            T(l),
            T(w),
            *map(T, m.parameters()),
            T(o.state[m.weight]["step"]),
            T(o.state[m.bias]["exp_avg"]),
            T(q.state[w]["momentum_buffer"]),
        ]
    return out
