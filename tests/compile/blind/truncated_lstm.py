"""LSTM with carried hidden state, TBPTT."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(40)
    m = nn.LSTM(3, 4, 2, batch_first=True, dropout=0.2)
    hd = nn.Linear(4, 1)
    ps = [*m.parameters(), *hd.parameters()]
    o = torch.optim.Adam(ps, 0.02)
    st = {"det": True}

    def step(x, h):
        o.zero_grad()
        y, h = m(x, h)
        l = (hd(y) - x.cumsum(1)[..., :1]).pow(2).mean()
        l.backward(retain_graph=not st["det"])
        o.step()
        return l, tuple(v.detach() for v in h)

    f = wrap(step)
    out = []
    h = None
    for i in range(22):
        if i % 8 == 0:
            h = None
        T_ = 5 if i < 18 else 3
        if i == 10:
            m.eval()
        if i == 13:
            m.train()
            m.dropout = 0.0
        if i == 16:
            h = tuple(torch.zeros(2, 2, 4) for _ in range(2))
        if i == 20:
            h[0].mul_(2)
        l, h = f(torch.randn(2, T_, 3), h)
        look(l)
        out += [T(l), *map(T, h), T(m.weight_hh_l1), T(m.bias_ih_l0)]
    return out
