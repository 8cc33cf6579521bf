"""Masks, duplicates in index_put, masked_select with changing counts, scatter."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(24)
    w = torch.randn(6, 3, requires_grad=True)
    cnt = torch.zeros(6)
    st = {"acc": True, "thr": 0.0}

    def step(idx, v):
        m = w > st["thr"]
        a = w[idx]
        sel = w[m]
        b = w.masked_fill(~m, -1.0)
        z = torch.zeros(6, 3).index_put((idx,), v, accumulate=True) * w
        s = torch.zeros(6, 3).scatter_add(0, idx.unsqueeze(1).expand(-1, 3), a)
        cnt[idx] += 1
        cnt.index_add_(0, idx, torch.full((len(idx),), 0.25))
        cnt.index_put_((idx[:2],), torch.tensor([5.0, 6.0]), accumulate=st["acc"])
        l = (
            (sel.sum() if sel.numel() else 0.0)
            + b.pow(2).mean()
            + z.sum()
            + s.sin().sum()
            + torch.where(m, w, w.detach()).prod(1).sum()
            + w[m.any(1)].sum() * 0.1
        )
        l.backward()
        w.data.sub_(w.grad * 0.05)
        g = w.grad
        w.grad = None
        w.data[idx[0]] = 0.1
        w.data[m] *= 0.99
        return (
            l,
            a,
            g,
            m.nonzero(),
            torch.bincount(idx, minlength=6),
            torch.unique(idx, return_counts=True)[1],
        )

    f = wrap(step)
    out = []
    for i in range(24):
        if i == 8:
            st["thr"] = 0.3
        if i == 12:
            st["acc"] = False
        if i == 16:
            st["thr"] = 100.0
        if i == 20:
            st["thr"] = -0.2
        n = 5 if i < 18 else 3
        r = f(torch.randint(0, 6, (n,)), torch.randn(n, 3))
        look(r[0])
        out += [*map(T, r), T(cnt), T(w)]
    return out
