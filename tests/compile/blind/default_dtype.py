"""Set_default_dtype midway, constants created inside."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(28)
    st = {"v": [1, 2, 3]}

    def step(x):
        a = torch.ones(3)
        b = torch.tensor([0.1, 0.2, 0.3])
        c = torch.arange(3) / 2
        d = torch.linspace(0, 1, 3)
        t = torch.tensor(st["v"])
        e = torch.as_tensor(st["v"][0])
        return (
            a + b * x,
            c,
            d,
            t * x,
            (t / 3),
            e,
            torch.randn(2),
            torch.eye(2),
            torch.zeros(2, dtype=torch.int16) + 1.5,
        )

    f = wrap(step)
    out = []
    x = torch.ones(3)
    try:
        for i in range(30):
            if i == 8:
                torch.set_default_dtype(torch.float64)
            if i == 14:
                torch.set_default_dtype(torch.float32)
            if i == 17:
                st["v"][1] = 2.5
            if i == 20:
                st["v"] = (1, 2, 3)
            if i == 22:
                st["v"] = [True, False, True]
            if i == 25:
                st["v"] = [1, 2, 3]
                torch.set_default_dtype(torch.float64)
                x = x.double()
            r = f(x)
            look(r[0])
            out += [T(v) for v in r]
    finally:
        torch.set_default_dtype(torch.float32)
    return out
