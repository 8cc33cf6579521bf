"""Optimizer in backward by post-accumulate hooks."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(3)
    m = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
    opts = {p: torch.optim.AdamW([p], lr=0.01) for p in m.parameters()}
    order = []
    names = {p: n for n, p in m.named_parameters()}

    def hook(p):
        opts[p].step()
        opts[p].zero_grad()
        order.append(names[p])

    hs = [p.register_post_accumulate_grad_hook(hook) for p in m.parameters()]

    def step(x, y):
        l = (m(x) - y).abs().mean()
        l.backward()
        return l

    f = wrap(step)
    out = []
    for i in range(20):
        x = torch.randn(5, 4)
        y = x.sum(1, keepdim=True)
        if i == 9:
            hs[1].remove()
        if i == 12:
            opts[m[0].weight].param_groups[0]["lr"] = 0.1
        if i == 15:
            m[2].weight.requires_grad_(False)
        l = f(x, y)
        look(l)
        out += [T(l)] + [T(p) for p in m.parameters()] + [T(p.grad) for p in m.parameters()]
    return out + [str(order)]
