"""Integer overflow and integer semantics."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(23)
    st = {"s": 100, "d": -3}
    accs = [
        torch.ones(6, dtype=d) * 7 for d in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
    ]

    def step(x):
        out = []
        for a in accs:
            y = x.to(a.dtype)
            a.mul_(3).add_(y)
            a.sub_(st["s"] % 50)
            out += [
                a.clone(),
                a + st["s"],
                a * a,
                -a,
                a.abs(),
                a // st["d"],
                a % st["d"],
                torch.remainder(a, 7),
                torch.fmod(a, st["d"] if a.dtype != torch.uint8 else 3),
                a << 2,
                a >> 1,
                a & 15,
                a ^ y,
                ~a,
                a.sum(),
                a.prod(),
                a.cumsum(0),
                a.max(),
                a / 2,
                a.float().mean(),
                (a > 5).sum(),
                torch.div(a, 4, rounding_mode="trunc"),
                torch.clamp(a, -5, 5),
                a**2,
                a.sum(dtype=torch.int8),
            ]
        return out

    f = wrap(step)
    out = []
    for i in range(18):
        if i == 7:
            st["s"] = 2**20
        if i == 10:
            st["s"] = 2**40
        if i == 12:
            st["d"] = 5
        if i == 15:
            st["s"] = True
        r = f(torch.randint(-1000, 1000, (6,)))
        look(r[0])
        out += [T(v) for v in r]
    return out
