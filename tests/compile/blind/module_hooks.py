"""Module hooks: pre, forward, full backward; global module hook."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(2)
    m = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    o = torch.optim.SGD(m.parameters(), 0.2, momentum=0.9)
    log = []
    acts = {}
    x = torch.randn(7, 3)
    y = torch.randint(0, 2, (7,))

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = nn.functional.cross_entropy(out, y)
        l.backward()
        o.step()
        return l

    f = wrap(step)
    res = []
    hs = []
    for i in range(24):
        if i == 5:
            hs.append(m[0].register_forward_pre_hook(lambda mod, a: (a[0] * 1.5,)))
        if i == 8:
            hs.append(
                m[1].register_forward_hook(lambda mod, a, r: acts.__setitem__("a", r) or log.append("fw"))
            )
        if i == 11:
            hs.append(
                m[2].register_full_backward_hook(lambda mod, gi, go: log.append("bw") or (gi[0] * 0.5,))
            )
        if i == 14:
            hs.pop(0).remove()
        if i == 16:
            hs.append(
                nn.modules.module.register_module_forward_hook(
                    lambda mod, a, r: log.append(type(mod).__name__)
                )
            )
        if i == 18:
            hs.pop().remove()
        if i == 20:
            for h in hs:
                h.remove()
        l = f(x, y)
        look(l)
        res += [T(l), T(m[0].weight), T(acts.get("a"))]
    return res + [str(log)]
