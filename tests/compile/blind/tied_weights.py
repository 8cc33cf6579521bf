"""Weight tying, untied midway, and retied to a transposed view."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    F = nn.functional
    torch.manual_seed(10)

    class LM(nn.Module):
        def __init__(s):
            super().__init__()
            s.e = nn.Embedding(7, 5)
            s.l = nn.Linear(5, 5)
            s.d = nn.Linear(5, 7, bias=False)
            s.d.weight = s.e.weight

        def forward(s, t):
            return s.d(torch.tanh(s.l(s.e(t))))

    m = LM()
    b = {"o": torch.optim.AdamW(m.parameters(), 0.05, weight_decay=0.1)}

    def step(t):
        b["o"].zero_grad()
        l = F.cross_entropy(m(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
        l.backward()
        b["o"].step()
        return l

    f = wrap(step)
    out = []
    for i in range(20):
        if i == 8:
            m.d.weight = nn.Parameter(m.e.weight.detach().clone())
            b["o"].add_param_group({"params": [m.d.weight], "lr": 0.2})
        if i == 14:
            m.d.weight = m.e.weight
        t = torch.randint(0, 7, (3, 6))
        l = f(t)
        look(l)
        out += [T(l), m.d.weight is m.e.weight, T(m.e.weight), T(m.d.weight), len(list(m.parameters()))]
    return out
