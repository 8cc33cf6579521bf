"""Optimizer zoo with hyper-parameters changed midway."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    O = torch.optim
    out = []
    mk = [
        lambda p: O.SGD(p, 0.1, momentum=0.9, dampening=0.1),
        lambda p: O.Adam(p, 0.1, amsgrad=True),
        lambda p: O.Adadelta(p),
        lambda p: O.NAdam(p, 0.05),
        lambda p: O.RAdam(p, 0.05),
        lambda p: O.Rprop(p, 0.01),
        lambda p: O.ASGD(p, 0.05),
        lambda p: O.Adamax(p, 0.05),
        lambda p: O.Adagrad(p, 0.1, lr_decay=0.1),
        lambda p: O.AdamW(p, 0.1, foreach=False),
    ]
    for k, mo in enumerate(mk):
        torch.manual_seed(50 + k)
        w = torch.randn(5, requires_grad=True)
        b = torch.randn((), requires_grad=True)
        o = mo([{"params": [w]}, {"params": [b], "lr": 0.02}])

        def step(x):
            o.zero_grad()
            l = (w * x + b).pow(2).sum().sqrt()
            l.backward()
            o.step()
            return l

        f = wrap(step)
        for i in range(14):
            if i == 6:
                o.param_groups[0]["weight_decay"] = 0.1
            if i == 8:
                o.param_groups[1]["maximize"] = True
            if i == 10:
                for g in o.param_groups:
                    if "momentum" in g:
                        g["momentum"] = 0.0
                        g["dampening"] = 0
                    if "betas" in g:
                        g["betas"] = (0.5, 0.9)
                    if "eps" in g:
                        g["eps"] = 1e-2
                    g["lr"] = 0 if i == 9 else g["lr"] * 0.5
            if i == 12:
                o.param_groups[0]["lr"] = 0
            l = f(torch.linspace(-1, 1, 5) + i)
            look(l)
            out += [T(l), T(w), T(b)]
        out.append(
            [[str(kk), T(v) if hasattr(v, "detach") else v] for s in o.state.values() for kk, v in s.items()]
        )
    return out
