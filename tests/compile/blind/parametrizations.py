"""Parametrizations, weight_norm, spectral_norm; removed midway."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    P = nn.utils.parametrize
    torch.manual_seed(48)
    a = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    b = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    c = nn.Linear(4, 2)

    class Sym(nn.Module):
        k = 1.0

        def forward(s, w):
            return w.abs() * s.k

        def right_inverse(s, w):
            return w

    m = nn.Sequential(a, nn.Tanh(), b, c)
    bx = {"o": torch.optim.SGD(m.parameters(), 0.1)}

    def step(x):
        bx["o"].zero_grad()
        l = m(x).pow(2).mean()
        l.backward()
        bx["o"].step()
        return l

    f = wrap(step)
    out = []
    for i in range(24):
        if i == 6:
            P.register_parametrization(c, "weight", Sym())
            bx["o"] = torch.optim.SGD(m.parameters(), 0.1)
        if i == 9:
            c.parametrizations.weight[0].k = 0.5
        if i == 11:
            Sym.k = 3.0
            del c.parametrizations.weight[0].k
        if i == 13:
            P.remove_parametrizations(a, "weight")
            bx["o"] = torch.optim.SGD(m.parameters(), 0.1)
        if i == 16:
            b.eval()
        if i == 19:
            c.weight = torch.ones(2, 4)
        x = torch.randn(4, 3)
        if i > 20:
            with P.cached():
                l = f(x)
        else:
            l = f(x)
        look(l)
        out += [T(l), *map(T, m.state_dict().values())]
    return out
