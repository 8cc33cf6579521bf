"""Bidirectional GRU with packed sequences of changing lengths."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    R = nn.utils.rnn
    torch.manual_seed(41)
    m = nn.GRU(3, 4, bidirectional=True)
    e = nn.Embedding(6, 3, padding_idx=0)
    ps = [*m.parameters(), *e.parameters()]
    o = torch.optim.RMSprop(ps, 0.01, momentum=0.5, centered=True)

    def step(seqs, lens):
        o.zero_grad()
        x = e(R.pad_sequence(seqs))
        pk = R.pack_padded_sequence(x, lens, enforce_sorted=False)
        y, h = m(pk)
        y, n = R.pad_packed_sequence(y)
        l = (y.sum(0) / n.unsqueeze(1)).pow(2).mean() + h.sum() * 0.01
        l.backward()
        o.step()
        return l, y, n

    f = wrap(step)
    out = []
    L = [[3, 2, 4]] * 7 + [[4, 4, 1]] * 3 + [[3, 2, 4]] * 2 + [[2, 3, 4]] * 3 + [[1, 1]] * 4
    for i, ln in enumerate(L):
        l, y, n = f([torch.randint(1, 6, (k,)) for k in ln], torch.tensor(ln) if i % 2 else ln)
        look(l)
        out += [T(l), T(y), T(n), T(e.weight), T(m.weight_hh_l0_reverse)]
    return out
