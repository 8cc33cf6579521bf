"""Buffers in place, registered late, replaced; module.double()."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(49)

    class Norm(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("mu", torch.zeros(3))
            s.register_buffer("n", torch.tensor(0))
            s.w = nn.Parameter(torch.ones(3))
            s.extra = None
            s.mom = 0.1

        def forward(s, x):
            if s.training:
                s.n += 1
                s.mu.mul_(1 - s.mom).add_(x.mean(0).detach() * s.mom)
                if s.n % 4 == 0:
                    s.mu = s.mu * 0.5
            y = (x - s.mu) * s.w
            return y if s.extra is None else y + s.extra

    m = Norm()
    o = torch.optim.SGD(m.parameters(), 0.05)

    def step(x):
        o.zero_grad()
        l = m(x).pow(2).mean()
        l.backward()
        o.step()
        return l

    f = wrap(step)
    out = []
    for i in range(28):
        x = torch.randn(5, 3)
        if i == 6:
            m.mu.fill_(2.0)
        if i == 9:
            del m.extra
            m.register_buffer("extra", torch.tensor([1.0, 0, -1]), persistent=False)
        if i == 12:
            m.extra[0] = 5
        if i == 14:
            m.extra = None
        if i == 16:
            m.mu = torch.zeros(3, dtype=torch.float32)[None].expand(5, 3)[0].clone()
            m.mom = 0.5
        if i == 19:
            m.double()
        if i >= 19:
            x = x.double()
        if i == 23:
            m.eval()
            m.n.fill_(100)
        if i == 25:
            m.train()
            m._buffers["mu"] = torch.ones(3).double()
        l = f(x)
        look(l)
        out += [T(l), T(m.mu), T(m.n), T(m.w), list(m.state_dict())]
    return out
