"""Numbers that are == but not the same: 1, True, 1.0, np.float32(1), 0.0, -0.0, nan, int subclass, Fraction."""

import enum

import numpy as np

from tests.compile.blind.telling import T, err, look


def run(torch, wrap):
    class E(enum.IntEnum):
        ONE = 1

    class MyF(float):
        def __mul__(s, o):
            return "no"

        def __rmul__(s, o):
            return o * 7

    cfg = {"f": 1}
    xi = torch.arange(4)
    xf = torch.tensor([1.0, -1.0, 0.0, -0.0])

    def step(x, y):
        return (
            x * cfg["f"],
            y * cfg["f"],
            y + cfg["f"],
            x + cfg["f"],
            torch.full((2,), cfg["f"]),
            torch.tensor(cfg["f"]),
            [k for k in (1, 2) if k == cfg["f"]],
        )

    f = wrap(step)
    out = []
    seq = (
        [1] * 7
        + [True] * 3
        + [1.0] * 7
        + [1] * 2
        + [E.ONE] * 3
        + [0.0] * 7
        + [-0.0] * 3
        + [False] * 2
        + [0] * 7
        + [0.0] * 2
        + [-0.0] * 6
        + [0.0] * 2
        + [float("nan")] * 6
        + [np.float64(1.0)] * 3
        + [True] * 6
        + [1] * 3
    )
    for k in seq:
        cfg["f"] = k
        r = f(xi, xf)
        look(r[0])
        out += [T(v) for v in r[:6]] + [r[6], T(err(lambda: xf * MyF(1.0)) if False else xf)]
    return out
