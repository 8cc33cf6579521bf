"""Train/eval with BatchNorm, Dropout; momentum None; edits of tracked counters."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(26)
    bn = nn.BatchNorm1d(4)
    dr = nn.Dropout(0.4)
    m = nn.Sequential(nn.Linear(3, 4), bn, dr, nn.Linear(4, 1))
    o = torch.optim.SGD(m.parameters(), 0.1)

    def step(x):
        l = m(x).pow(2).mean()
        if l.requires_grad and m.training:
            o.zero_grad()
            l.backward()
            o.step()
        return l

    f = wrap(step)
    out = []
    for i in range(32):
        if i in (5, 15):
            m.eval()
        if i in (8, 17):
            m.train()
        if i == 10:
            bn.momentum = None
        if i == 12:
            dr.p = 0.1
        if i == 14:
            bn.num_batches_tracked.zero_()
        if i == 19:
            bn.eval()
        if i == 21:
            bn.train()
            bn.running_mean = torch.ones(4)
        if i == 23:
            bn.track_running_stats = False
        if i == 25:
            bn.track_running_stats = True
            bn.momentum = 0.5
            bn.eps = 0.1
        if i == 27:
            bn.weight = None
            bn.bias = None
        if i == 29:
            bn.reset_running_stats()
        l = f(torch.randn(6, 3))
        look(l)
        out += [T(l), T(bn.running_mean), T(bn.running_var), T(bn.num_batches_tracked), T(m[0].weight)]
    return out
