"""In-place ops on views, slices, transposes with and without autograd."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(16)
    w = torch.randn(4, 4, requires_grad=True)
    buf = torch.zeros(4, 6)
    st = {"k": 0}

    def step(x):
        h = x @ w
        v = h[1:3]
        t = h.t()
        t[0].mul_(2.0)
        v.add_(1.0) if st["k"] < 8 else v.sub_(h[0:2].detach())
        h.diagonal().zero_() if st["k"] % 2 else h.select(1, 2).fill_(0.5)
        buf[:, 1:5].add_(h.detach())
        buf.t()[2:4].mul_(0.9)
        buf[::2, ::3] = st["k"]
        buf.view(-1)[3:9].copy_(buf.view(-1)[10:16])
        buf[0, :], buf[1, :] = buf[1, :].clone(), buf[0, :]
        l = (h * h).sum() + v.sum() * 0.1 + h.unfold(0, 2, 1).mean()
        l.backward()
        with torch.no_grad():
            w.t()[1:].sub_(w.grad.t()[1:] * 0.01)
            w[0].neg_()
        w.grad.zero_()
        return l, h, v

    f = wrap(step)
    out = []
    for i in range(18):
        st["k"] = i
        l, h, v = f(torch.randn(4, 4))
        look(l)
        with torch.no_grad():
            if i > 10:
                v.mul_(3)
        out += [T(l), T(h), T(v), T(buf), T(w), v._base is h]
    return out
