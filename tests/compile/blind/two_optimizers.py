"""GAN with two optimizers, freezing of D, label noise, n_critic changes."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    F = nn.functional
    torch.manual_seed(45)
    G = nn.Sequential(nn.Linear(2, 6), nn.LeakyReLU(0.2), nn.Linear(6, 2))
    D = nn.Sequential(nn.Linear(2, 6), nn.LeakyReLU(0.2, inplace=True), nn.Linear(6, 1))
    og = torch.optim.Adam(G.parameters(), 0.01, betas=(0.5, 0.9))
    od = torch.optim.Adam(D.parameters(), 0.02)
    st = {"nc": 1, "fz": False}

    def step(r):
        for _ in range(st["nc"]):
            od.zero_grad()
            fk = G(torch.randn(len(r), 2)).detach()
            a = D(r)
            b = D(fk)
            ld = F.binary_cross_entropy_with_logits(
                a, torch.ones_like(a)
            ) + F.binary_cross_entropy_with_logits(b, torch.zeros_like(b))
            ld.backward()
            od.step()
        if st["fz"]:
            D.requires_grad_(False)
        og.zero_grad()
        lg = -F.logsigmoid(D(G(torch.randn(len(r), 2)))).mean()
        lg.backward()
        og.step()
        if st["fz"]:
            D.requires_grad_(True)
        return ld, lg

    f = wrap(step)
    out = []
    for i in range(22):
        if i == 7:
            st["nc"] = 2
        if i == 11:
            st["fz"] = True
        if i == 15:
            st["nc"] = 0
        if i == 16:
            st["nc"] = 1
        if i == 18:
            og.param_groups[0]["betas"] = (0.0, 0.9)
        try:
            ld, lg = f(torch.randn(5, 2))
            look(ld)
            out += [T(ld), T(lg)]
        except UnboundLocalError:
            out.append("UnboundLocalError")
        out += [T(G[0].weight), T(D[2].weight), T(D[0].weight.grad)]
    return out
