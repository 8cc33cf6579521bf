"""Grad accumulation with a changing window, clip_grad_norm_, inf and error_if_nonfinite."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(6)
    m = nn.Linear(4, 2)
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.5, nesterov=True)
    st = {"win": 2, "n": 0, "strict": False, "norm": 2.0}

    def step(x, y):
        l = nn.functional.mse_loss(m(x), y) / st["win"]
        l.backward()
        st["n"] += 1
        tn = None
        if st["n"] % st["win"] == 0:
            tn = nn.utils.clip_grad_norm_(
                m.parameters(), 0.5, norm_type=st["norm"], error_if_nonfinite=st["strict"]
            )
            o.step()
            o.zero_grad()
        return l, tn

    f = wrap(step)
    out = []
    for i in range(30):
        x = torch.randn(3, 4)
        y = torch.randn(3, 2)
        if i == 8:
            st["win"] = 3
        if i == 14:
            st["win"] = 1
        if i == 19:
            st["norm"] = float("inf")
        if i == 22:
            st["strict"] = True
        if i in (21, 24):
            x[0, 0] = float("inf")
        try:
            l, tn = f(x, y)
            look(l)
            out += [T(l), T(tn)]
        except RuntimeError as e:
            out.append(type(e).__name__)
            o.zero_grad()
        if i == 21:
            with torch.no_grad():
                for p in m.parameters():
                    p.nan_to_num_(0.1)
            o.state.clear()
        out += [T(p) for p in m.parameters()]
    return out
