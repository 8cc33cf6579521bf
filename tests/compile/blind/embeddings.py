"""Embeddings: padding_idx, max_norm, EmbeddingBag, scale_grad_by_freq."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    F = nn.functional
    torch.manual_seed(64)
    e = nn.Embedding(8, 3, padding_idx=0, max_norm=1.0)
    g = nn.Embedding(8, 3, scale_grad_by_freq=True)
    b = nn.EmbeddingBag(8, 3, mode="mean")
    o = torch.optim.Adagrad([*e.parameters(), *g.parameters(), *b.parameters()], 0.1)

    def step(i, off):
        o.zero_grad()
        x = e(i).sum(0) + g(i).mean(0)
        y = b(i, off)
        l = x.pow(2).sum() + y.sin().sum()
        l.backward()
        gr = g.weight.grad
        o.step()
        return l, gr, y

    f = wrap(step)
    out = []
    for k in range(24):
        if k == 7:
            e.max_norm = 0.5
        if k == 10:
            b.mode = "sum"
        if k == 13:
            e.padding_idx = 3
        if k == 16:
            e.max_norm = None
            g.scale_grad_by_freq = False
        if k == 19:
            b.mode = "max"
        if k == 21:
            e.weight.data[0] = 5.0
        i = torch.randint(0, 8, (6,))
        i[1] = i[0]
        l, gr, y = f(i, torch.tensor([0, 2, 2] if k % 2 else [0, 3, 5]))
        look(l)
        out += [T(l), gr, T(y), T(e.weight), T(b.weight)]
    return out
