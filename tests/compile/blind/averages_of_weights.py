"""EMA with swa_utils, update_bn, deepcopy of it midway."""

import copy

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(9)

    sw = torch.optim.swa_utils
    m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    o = torch.optim.SGD(m.parameters(), 0.1)
    ema = sw.AveragedModel(m, multi_avg_fn=sw.get_ema_multi_avg_fn(0.9), use_buffers=True)
    swa = sw.AveragedModel(m)
    box = {"ema": ema}
    sch = sw.SWALR(o, swa_lr=0.02, anneal_epochs=5)
    data = [torch.randn(6, 3) for _ in range(3)]

    def step(x):
        o.zero_grad()
        l = (m(x) - x.sum(1, keepdim=True)).pow(2).mean()
        l.backward()
        o.step()
        box["ema"].update_parameters(m)
        return l

    f = wrap(step)
    out = []
    for i in range(20):
        if i > 8 and i % 3 == 0:
            swa.update_parameters(m)
            sch.step()
        if i == 11:
            box["ema"] = copy.deepcopy(box["ema"])
            box["ema"].avg_fn = lambda a, b, n: a * 0.5 + b * 0.5
            box["ema"].multi_avg_fn = None
        l = f(data[i % 3])
        look(l)
        out += [T(l), o.param_groups[0]["lr"]] + [T(v) for v in box["ema"].state_dict().values()]
    sw.update_bn(data, swa)
    return out + [T(v) for v in swa.state_dict().values()] + [T(v) for v in ema.state_dict().values()]
