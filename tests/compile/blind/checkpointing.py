"""Checkpoint, both kinds, with dropout and side effects in the recomputed part."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    ck = torch.utils.checkpoint
    torch.manual_seed(44)
    m = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Tanh())
    h = nn.Linear(8, 1)
    o = torch.optim.Adam([*m.parameters(), *h.parameters()], 0.02)
    st = {"re": False, "on": True, "rng": True}
    n = []

    def seg(x):
        n.append(torch.is_grad_enabled())
        return m(x)

    def step(x):
        o.zero_grad()
        z = (
            ck.checkpoint(seg, x, use_reentrant=st["re"], preserve_rng_state=st["rng"])
            if st["on"]
            else seg(x)
        )
        l = h(z).pow(2).mean()
        l.backward()
        o.step()
        return l

    f = wrap(step)
    out = []
    for i in range(24):
        if i == 6:
            st["re"] = True
        if i == 11:
            st["on"] = False
        if i == 14:
            st["on"] = True
        if i == 17:
            st["re"] = False
            st["rng"] = False
        if i == 21:
            m.eval()
        x = torch.randn(4, 3, requires_grad=True)
        l = f(x)
        look(l)
        out += [T(l), T(x.grad), T(m[0].weight), len(n)]
    return out + [str(n), torch.rand(2)]
