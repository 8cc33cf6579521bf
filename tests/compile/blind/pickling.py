"""Pickling and torch.save in the loop."""

import copy
import io
import pickle

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(35)
    b = {"m": nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))}
    b["o"] = torch.optim.Adam(b["m"].parameters(), 0.03)

    def step(x):
        b["o"].zero_grad()
        l = b["m"](x).abs().mean()
        l.backward()
        b["o"].step()
        return l

    f = wrap(step)
    out = []
    x = torch.randn(6, 3)
    shared = torch.zeros(6)
    v = shared[2:4]
    for i in range(20):
        l = f(x)
        v.add_(l.detach())
        look(l)
        if i % 3 == 2:
            bf = io.BytesIO()
            torch.save(
                {"m": b["m"].state_dict(), "o": b["o"].state_dict(), "v": v, "s": shared, "l": l.detach()}, bf
            )
            bf.seek(0)
            d = torch.load(bf)
            d["v"].add_(1)
            out += [d["s"], d["l"], d["v"]]
            if i in (8, 14):
                b["m"].load_state_dict(d["m"])
                b["o"].load_state_dict(d["o"])
                shared = d["s"]
                v = d["v"]
        if i == 10:
            b["m"] = pickle.loads(pickle.dumps(b["m"]))
            b["o"] = torch.optim.SGD(b["m"].parameters(), 0.1)
        if i == 12:
            out.append(pickle.loads(pickle.dumps((l.detach(), x[::2].t(), x.t()))))
        if i == 16:
            b["m"] = copy.deepcopy(b["m"]).double()
            x = x.double()
            b["o"] = torch.optim.Adam(b["m"].parameters())
        out += [T(l), T(shared), *map(T, b["m"].parameters())]
    return out
