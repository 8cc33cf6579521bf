"""Attention, mask changed in place, causal."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    F = nn.functional
    torch.manual_seed(42)
    a = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
    enc = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
    ps = [*a.parameters(), *enc.parameters()]
    o = torch.optim.AdamW(ps, 0.01)
    mask = torch.zeros(4, 4, dtype=torch.bool)
    bias = torch.zeros(4, 4)
    st = {"c": False}

    def step(x):
        o.zero_grad()
        y, w = a(x, x, x, attn_mask=mask)
        z = enc(y)
        q = F.scaled_dot_product_attention(z, x, x, is_causal=st["c"]) + F.scaled_dot_product_attention(
            z, x, x, attn_mask=bias
        )
        l = q.pow(2).mean()
        l.backward()
        nn.utils.clip_grad_norm_(ps, 0.1)
        o.step()
        return l, w

    f = wrap(step)
    out = []
    for i in range(20):
        if i == 6:
            mask[0, 3] = True
        if i == 9:
            mask.triu_(1).logical_not_().logical_not_()
            mask |= torch.ones(4, 4).triu(1).bool()
        if i == 12:
            st["c"] = True
            bias[1] = float("-inf")
            bias[1, 1] = 0
        if i == 14:
            a.eval()
            enc.eval()
        if i == 17:
            a.train()
            bias = torch.ones(4, 4) * 0.1
            a.dropout = 0.5
        l, w = f(torch.randn(2, 4, 8))
        look(l)
        out += [T(l), T(w), T(a.in_proj_weight), T(enc.linear1.weight)]
    return out
