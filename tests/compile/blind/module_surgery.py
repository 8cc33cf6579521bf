"""Surgery on Sequential / ModuleList / ModuleDict / ParameterList, instance forward."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(61)
    seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    ml = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    md = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Sigmoid()})
    pl = nn.ParameterList([torch.ones(4)])
    bx = {"k": "a"}
    al = nn.ModuleList([seq, ml, md, pl])
    bx["o"] = torch.optim.SGD(al.parameters(), 0.1)

    def step(x):
        for l in ml:
            x = l(x)
        x = md[bx["k"]](seq(x))
        for p in pl:
            x = x * p
        l = x.pow(2).mean()
        bx["o"].zero_grad()
        l.backward()
        bx["o"].step()
        return l

    f = wrap(step)
    out = []
    for i in range(32):
        if i == 6:
            seq.append(nn.Linear(4, 4))
        if i == 8:
            ml[0], ml[1] = ml[1], ml[0]
        if i == 10:
            bx["k"] = "b"
        if i == 12:
            pl.append(torch.full((4,), 2.0))
            bx["o"].add_param_group({"params": [pl[1]]})
        if i == 14:
            del seq[1]
        if i == 16:
            seq[0].forward = lambda x: x * 3
        if i == 18:
            del seq[0].forward
            seq[0].bias = None
        if i == 20:
            md["b"] = nn.Softmax(-1)
        if i == 22:
            ml.insert(1, nn.Dropout(0.5))
        if i == 24:
            seq[0].weight.requires_grad_(False)
            md.pop("a")
        if i == 26:
            seq[0] = nn.Identity()
            ml.extend([nn.LayerNorm(4)])
        if i == 28:
            pl[0] = nn.Parameter(torch.zeros(4))
        l = f(torch.randn(3, 4))
        look(l)
        out += [T(l), *map(T, al.parameters())]
    return out
