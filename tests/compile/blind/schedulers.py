"""Lr schedulers of all sorts in sequence."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    L = torch.optim.lr_scheduler
    torch.manual_seed(14)
    m = nn.Linear(3, 1)
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    z = {"c": 1.0}
    mk = [
        lambda: L.OneCycleLR(o, 0.2, total_steps=8),
        lambda: L.CosineAnnealingWarmRestarts(o, 3),
        lambda: L.ReduceLROnPlateau(o, patience=0, factor=0.3),
        lambda: L.SequentialLR(o, [L.LinearLR(o, 0.1, total_iters=3), L.StepLR(o, 2)], [3]),
        lambda: L.LambdaLR(o, lambda e: z["c"] / (e + 1)),
        lambda: L.CyclicLR(o, 0.01, 0.1, step_size_up=2),
        lambda: L.ChainedScheduler([L.ConstantLR(o, 0.5, 2), L.PolynomialLR(o, 5)]),
    ]

    def step(x):
        l = (m(x) - x[:, :1]).pow(2).mean()
        o.zero_grad()
        l.backward()
        o.step()
        return l

    f = wrap(step)
    out = []
    for k in range(len(mk)):
        for g in o.param_groups:
            g["lr"] = 0.1
            g.pop("initial_lr", None)
        s = mk[k]()
        for i in range(6):
            if i == 4:
                z["c"] = 3.0
            l = f(torch.randn(4, 3))
            look(l)
            s.step(l) if k == 2 else s.step()
            out += [T(l), float(o.param_groups[0]["lr"]), float(o.param_groups[0]["momentum"]), T(m.weight)]
    return out
