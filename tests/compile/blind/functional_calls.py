"""Functional_call, torch.func.grad / vmap / grad_and_value with changing state."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    fn = torch.func
    torch.manual_seed(39)
    m = nn.Linear(3, 2)
    st = {"k": 1.0}
    P = {k: v.detach().clone() for k, v in m.named_parameters()}

    def loss(p, x, y):
        return (fn.functional_call(m, p, (x,)) - y).pow(2).mean() * st["k"]

    def step(p, x, y):
        g, l = fn.grad_and_value(loss)(p, x, y)
        new = {k: p[k] - 0.1 * g[k] for k in p}
        ps = fn.vmap(fn.grad(loss), in_dims=(None, 0, 0))(new, x, y)
        return new, l, ps

    f = wrap(step)
    out = []
    for i in range(18):
        if i == 7:
            st["k"] = 2.0
        if i == 10:
            m.bias.data.fill_(3.0)
            P = {"weight": P["weight"]}
        if i == 13:
            P["bias"] = torch.zeros(2)
        if i == 15:
            P = dict(reversed(P.items()))
        P, l, ps = f(P, torch.randn(4, 3), torch.randn(4, 2))
        look(l)
        out += [
            T(l),
            {k: T(v) for k, v in P.items()},
            {k: T(v) for k, v in ps.items()},
            T(m.weight),
            m.weight.grad is None,
        ]
    return out
