"""Version counters, errors for modified saved tensors and leaves written in place."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(62)
    w = torch.randn(3, requires_grad=True)
    st = {"bad": 0}
    log = []

    def step(x):
        h = w * x
        e = h.exp()
        s = e * e
        if st["bad"] == 1:
            e.add_(1)
        if st["bad"] == 2:
            x.mul_(2)
        if st["bad"] == 3:
            w.add_(1)
        if st["bad"] == 4:
            e.detach().add_(1)
        if st["bad"] == 5:
            e.data.add_(1)
        if st["bad"] == 6:
            h.relu_()
        if st["bad"] == 7:
            w.detach().numpy()[0] += 1
        if st["bad"] == 8:
            w[0] = 1
        if st["bad"] == 9:
            s[0] = 1
            s = s.view(3)
        l = s.sum()
        l.backward()
        return l, (h._version, e._version, s._version, x._version, w._version)

    f = wrap(step)
    out = []
    for i in range(40):
        st["bad"] = 0 if i < 6 else ((i - 6) // 3) % 10 if i < 36 else 0
        x = torch.randn(3) * 0.3
        try:
            l, v = f(x)
            look(l)
            out += [T(l), str(v)]
        except RuntimeError:
            out.append("RuntimeError")
        out += [T(w), T(w.grad), T(x), w._version, x._version]
        if i % 3 == 2:
            w.grad = None
    return out
