"""State_dict kept (aliasing), load_state_dict in the middle for model, optimizer and scheduler."""

import copy

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(13)
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    o = torch.optim.AdamW(m.parameters(), 0.02, amsgrad=True)
    s = torch.optim.lr_scheduler.ExponentialLR(o, 0.9)

    def step(x):
        o.zero_grad()
        l = nn.functional.huber_loss(m(x), x.prod(1, keepdim=True))
        l.backward()
        o.step()
        return l

    f = wrap(step)
    out = []
    sv = None
    for i in range(24):
        if i == 5:
            sv = copy.deepcopy((m.state_dict(), o.state_dict(), s.state_dict()))
            al = m.state_dict()
        if i == 12:
            m.load_state_dict(sv[0])
            o.load_state_dict(sv[1])
            s.load_state_dict(sv[2])
        if i == 17:
            m.load_state_dict({k: v * 0.5 for k, v in al.items()}, assign=(True))
        if i == 20:
            o.load_state_dict(dict(o.state_dict(), state={}))
        l = f(torch.randn(4, 3))
        look(l)
        s.step()
        out += [T(l), s.get_last_lr()[0], *map(T, m.parameters())]
        if i >= 5:
            out += [T(v) for v in al.values()]
    return out
