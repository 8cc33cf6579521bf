"""GradScaler with inf."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(8)
    m = nn.Linear(4, 1)
    o = torch.optim.Adam(m.parameters(), 0.01)
    s = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=4)

    def step(x, y):
        o.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            l = (m(x) - y).float().pow(2).mean()
        s.scale(l).backward()
        s.unscale_(o)
        n = nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        s.step(o)
        s.update()
        return l, n

    f = wrap(step)
    out = []
    for i in range(26):
        x = torch.randn(5, 4)
        y = x[:, :1]
        if i in (6, 7, 15):
            x[1, 2] = float("inf")
        if i == 18:
            s.update(1024.0)
        if i == 21:
            s.load_state_dict(dict(s.state_dict(), growth_interval=2))
        l, n = f(x, y)
        look(l)
        out += [T(l), T(n), s.get_scale() if i % 3 == 0 else 0, T(m.weight)]
    return out + [str(s.state_dict())]
