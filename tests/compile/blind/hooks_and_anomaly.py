"""Saved_tensors_hooks, anomaly mode, multi-grad hooks, detach_, requires_grad_ on intermediates, grad_fn names."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    G = torch.autograd.graph
    torch.manual_seed(68)
    w = torch.randn(3, requires_grad=True)
    v = torch.randn(3, requires_grad=True)
    st = {"p": False, "an": False, "det": False}
    log = []

    def pack(t):
        log.append("p%d" % t.numel())
        return (t.detach() * 2, t.shape)

    def unpack(s):
        log.append("u")
        return s[0]

    def core(x):
        h = (w * x) ** 2
        if st["det"]:
            h.detach_()
            h.requires_grad_()
        y = (h * v).sum()
        log.append(type(y.grad_fn).__name__ + str(len(y.grad_fn.next_functions)))
        return y, h

    def step(x):
        if st["p"]:
            with G.saved_tensors_hooks(pack, unpack):
                y, h = core(x)
        else:
            y, h = core(x)
        if st["an"]:
            with torch.autograd.set_detect_anomaly(True):
                y.backward()
        else:
            y.backward()
        return y, h

    f = wrap(step)
    out = []
    hd = None
    for i in range(30):
        st["p"] = 6 <= i < 10 or i in (16, 25)
        st["an"] = 12 <= i < 16
        st["det"] = 18 <= i < 22
        if i == 23:
            hd = G.register_multi_grad_hook([w, v], lambda gs: log.append([g is None for g in gs]))
        if i == 27:
            hd.remove()
        x = torch.randn(3)
        if i in (14, 15):
            x[0] = float("nan")
        try:
            y, h = f(x)
            look(y)
            out += [T(y), T(h), h.is_leaf, T(h.grad) if h.is_leaf else 0]
        except RuntimeError:
            out.append("RuntimeError")
        out += [T(w.grad), T(v.grad)]
        w.grad = v.grad = None
    return out + [str(log)]
