"""LBFGS with closures."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(46)
    w = torch.tensor([-1.2, 1.0], requires_grad=True)
    b = {"o": torch.optim.LBFGS([w], lr=0.1, max_iter=3)}
    n = [0]
    st = {"a": 1.0}

    def closure():
        b["o"].zero_grad()
        l = (st["a"] - w[0]) ** 2 + 10 * (w[1] - w[0] ** 2) ** 2
        l.backward()
        n[0] += 1
        return l

    def step():
        return b["o"].step(closure)

    f = wrap(step)
    out = []
    for i in range(14):
        if i == 5:
            b["o"] = torch.optim.LBFGS([w], max_iter=4, line_search_fn="strong_wolfe")
        if i == 8:
            st["a"] = 2.0
        if i == 10:
            b["o"].param_groups[0]["max_iter"] = 2
        if i == 12:
            b["o"] = torch.optim.SGD([w], 0.001, momentum=0.9)
        l = f()
        look(l)
        out += [T(l), T(w), n[0], T(w.grad)]
    return out
