"""Layouts and overlapping memory of inputs."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(19)
    base = torch.randn(64)
    acc = torch.zeros(4, 4)

    def step(x, y):
        z = x * 2 + y
        acc.add_(z)
        y.mul_(0.5)
        w = x + y
        x.add_(y) if x.stride()[0] else None
        return z, w, (x - y).sum(1), x.reshape(-1)[:5]

    f = wrap(step)
    out = []

    def pairs(i):
        b = base
        return [
            (b[:16].view(4, 4), b[16:32].view(4, 4)),
            (b[:16].view(4, 4).t(), b[16:32].view(4, 4)),
            (b[:16].view(4, 4), b[:16].view(4, 4)),
            (b[:16].view(4, 4), b[:16].view(4, 4).t().clone()),
            (b[0:1].expand(16).view(4, 4), b[16:32].view(4, 4)),
            (b[::2][:16].view(4, 4), b[1::2][:16].view(4, 4)),
            (b[:16].view(4, 4), b[:4]),
            (b.as_strided((4, 4), (1, 4), 3), b[32:48].view(4, 4)),
            (b[:16].view(4, 4).flip(0), b[:16].view(4, 4)),
        ][i]

    for i in range(27 + 9):
        k = i % 9 if i < 9 else (i // 3) % 9
        x, y = pairs(k)
        try:
            r = f(x, y)
            out += [*map(T, r), x is y]
            look(r[0])
        except RuntimeError:
            out.append("RuntimeError")
        out += [T(base), T(acc)]
    for i in range(8):  # same object twice
        q = base[:16].view(4, 4)
        r = f(q, q) if i % 2 else f(q, base[16:32].view(4, 4))
        out += [*map(T, r), T(base)]
    return out
