""".data writes and swaps."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(17)
    m = nn.Linear(4, 4)
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, weight_decay=0.01)

    def step(x):
        o.zero_grad()
        l = torch.logsumexp(m(x), 1).mean()
        l.backward()
        o.step()
        m.bias.data.clamp_(-0.2, 0.2)
        return l

    f = wrap(step)
    out = []
    x = torch.randn(5, 4)
    keep = m.weight.data
    for i in range(24):
        if i == 6:
            m.weight.data[0] = 1.0
        if i == 8:
            m.weight.data = m.weight.data.t()
        if i == 11:
            keep.fill_(9.0)
        if i == 13:
            m.weight.data = torch.randn(8, 4)[::2]
        if i == 16:
            m.bias.data = m.weight.data[1]
        if i == 19:
            m.weight.data, m.weight.grad.data = torch.eye(4), torch.zeros(4, 4)
        if i == 21:
            x.data = torch.randn(3, 4)
        l = f(x)
        look(l)
        out += [
            T(l),
            T(m.weight),
            T(m.bias),
            m.weight.stride(),
            m.weight.data_ptr() == keep.data_ptr(),
            m.weight._version,
            T(keep),
        ]
    return out
