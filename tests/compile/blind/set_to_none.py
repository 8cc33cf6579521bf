"""Set_to_none toggling, grad identity, kept old grads, clip_grad_value_."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(7)
    m = nn.Linear(3, 3)
    o = torch.optim.Adagrad(m.parameters(), 0.1)
    st = {"none": True, "clip": 0.3}

    def step(x):
        o.zero_grad(set_to_none=st["none"])
        l = m(x).exp().sum()
        l.backward()
        if st["clip"] is not None:
            nn.utils.clip_grad_value_(m.parameters(), st["clip"])
        o.step()
        return l, m.weight.grad

    f = wrap(step)
    out = []
    kept = []
    prev = None
    for i in range(24):
        if i == 6:
            st["none"] = False
        if i == 11:
            st["clip"] = 1
        if i == 13:
            st["clip"] = None
        if i == 16:
            m.weight.grad = torch.ones(3, 3).t()
        if i == 18:
            m.bias.grad = None
        if i == 20:
            st["none"] = True
            m.weight.grad.zero_()
        l, g = f(torch.randn(2, 3) * 0.3)
        look(l)
        kept.append(g)
        out += [T(l), g is m.weight.grad, g is prev, T(g), T(m.weight), g._version, g.stride()]
        prev = g
    return out + kept
