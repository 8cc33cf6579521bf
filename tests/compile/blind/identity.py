"""Identity of returned tensors, out=, aliases of outputs."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(36)
    w = torch.nn.Parameter(torch.randn(3))
    st = {"mode": 0}
    dst = torch.zeros(3)
    last = {}

    def step(x, y):
        l = (w * x).sum()
        l.backward()
        g = w.grad
        w.grad = None
        a = x if st["mode"] < 8 else x.view(3)
        torch.add(x, y, out=dst)
        z = dst * 2
        d = z.detach()
        t = z.contiguous()
        u = z.to(torch.float32)
        last["z"] = z
        return x, w, l, l, g, a, dst, z, d, t, u, z.view(1, 3), (x, [y, {"k": z}]), z.reshape(3)

    f = wrap(step)
    out = []
    kept = []
    for i in range(20):
        st["mode"] = i
        x, y = torch.randn(3), torch.randn(3)
        if i in (10, 15):
            y = x
        r = f(x, y)
        look(r[2])
        X, W, l1, l2, g, a, ds, z, d, t, u, v, (x2, (y2, k)), rs = r
        kept.append(r)
        out.append(
            [
                X is x,
                W is w,
                l1 is l2,
                a is x,
                ds is dst,
                d is z,
                t is z,
                u is z,
                x2 is x,
                y2 is y,
                k["k"] is z,
                rs is z,
                v._base is z,
                last["z"] is z,
                w.grad is None,
            ]
        )
        with torch.no_grad():
            d.add_(1)
            v.mul_(2)
            X.zero_() if i % 6 == 5 else None
        out += [T(z), T(rs), T(g), T(l1), T(dst), T(y)]
    return out + [[T(q) for q in k[:12]] for k in kept]
