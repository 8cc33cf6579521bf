"""NaN, inf, -0.0."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(22)
    nan, inf = float("nan"), float("inf")
    F = torch.nn.functional
    vals = torch.tensor([0.0, -0.0, nan, inf, -inf, 1.0, -1.0, 1e-45, 3e38, -2.5, 0.5])
    st = {"c": 0.0, "p": 2}

    def step(a, b):
        c = st["c"]
        return [
            torch.maximum(a, b),
            torch.minimum(a, b),
            a.relu(),
            a.clamp(min=c),
            a.clamp(-1, c + 1),
            a.sign(),
            torch.atan2(a, b),
            torch.fmod(a, b),
            torch.remainder(a, b),
            a ** st["p"],
            torch.copysign(a, b),
            a / b,
            a * c,
            a + c,
            a - c,
            -a,
            a.abs(),
            torch.where(a > c, a, b),
            a.max(),
            a.min(),
            a.argmax(),
            a.sum(),
            torch.softmax(a, 0),
            F.leaky_relu(a, -0.1),
            a.sqrt(),
            a.rsqrt(),
            a.exp(),
            a.log1p(),
            a.round(),
            a.trunc(),
            a.floor(),
            F.hardtanh(a),
            F.gelu(a),
            a.nan_to_num(),
            a.isclose(b, equal_nan=True),
            torch.fmax(a, b),
            torch.signbit(a),
            a.sort()[0],
            a.cummax(0)[0],
            torch.lerp(a, b, c),
            torch.addcmul(a, a, b, value=c),
            F.softplus(a),
            F.elu(a),
            a.sigmoid(),
            a.tanh(),
            torch.heaviside(a, b),
            torch.hypot(a, b),
            a.logsumexp(0),
            a.var(),
            a == b,
            a != b,
            a.prod(),
            torch.xlogy(a, b),
        ]

    f = wrap(step)
    out = []
    for i in range(26):
        if i == 8:
            st["c"] = -0.0
        if i == 12:
            st["c"] = nan
        if i == 16:
            st["c"] = inf
            st["p"] = -1
        if i == 20:
            st["c"] = 0.0
            st["p"] = 0.5
        if i == 23:
            st["c"] = 0
            st["p"] = nan
        b = vals.roll(i % 4)
        r = f(vals, b)
        look(r[17])
        out += [T(v) for v in r]
    return out
