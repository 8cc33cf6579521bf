"""RNG: seeds in the middle, states, generators, fork_rng."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    F = torch.nn.functional
    torch.manual_seed(25)
    g = torch.Generator().manual_seed(7)
    st = {"p": 0.5, "gen": None}

    def step(x):
        a = F.dropout(x, st["p"])
        b = torch.randn(3, generator=st["gen"])
        c = torch.rand_like(x)
        d = torch.randint(0, 9, (2,))
        e = torch.bernoulli(x.abs().clamp(0, 1))
        n = torch.empty(3).normal_(1, 2)
        u = torch.empty(2).uniform_(-1, 1)
        return (
            a,
            b,
            c,
            d,
            e,
            n,
            u,
            torch.randperm(5),
            torch.multinomial(torch.ones(4), 3),
            torch.normal(0.0, torch.ones(2)),
            torch.empty(2).exponential_(),
        )

    f = wrap(step)
    out = []
    x = torch.randn(2, 3)
    for i in range(30):
        if i in (6, 17):
            torch.manual_seed(3)
        if i == 8:
            sv = torch.get_rng_state()
        if i == 11:
            torch.set_rng_state(sv)
        if i == 13:
            st["gen"] = g
        if i == 15:
            g.manual_seed(1)
        if i == 19:
            st["p"] = 0.0
        if i == 21:
            st["p"] = 1.0
        if i == 23:
            st["gen"] = None
            st["p"] = 0.1
        if i == 25:
            with torch.random.fork_rng():
                torch.manual_seed(0)
                r = f(x)
                out += [T(v) for v in r]
        if i == 27:
            x = x[:1]
        r = f(x)
        look(r[0])
        out += [T(v) for v in r]
        if i % 5 == 0:
            out += [torch.rand(1).item(), torch.initial_seed()]
    return out + [torch.get_rng_state(), g.get_state()]
