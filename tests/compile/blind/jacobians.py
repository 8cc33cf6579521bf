"""Jacobian, hessian, per-sample gradients, vjp/jvp."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    fn = torch.func
    AF = torch.autograd.functional
    torch.manual_seed(66)
    W = torch.randn(3, 3)
    st = {"k": 1.0}

    def g(x):
        return (W @ x).sin() * st["k"]

    def step(x):
        j = AF.jacobian(g, x)
        h = AF.hessian(lambda v: g(v).sum(), x)
        jr = fn.jacrev(g)(x)
        o, vj = fn.vjp(g, x)
        return (
            j,
            h,
            jr,
            o,
            vj(torch.ones(3))[0],
            fn.vmap(g)(torch.stack([x, x * 2])),
            fn.hessian(lambda v: g(v).prod())(x),
        )

    f = wrap(step)
    out = []
    for i in range(16):
        if i == 7:
            st["k"] = 2
        if i == 10:
            W.t_()
        if i == 12:
            W[0] = 0.0
        if i == 14:
            W = W.double()
        r = f(torch.randn(3).to(W.dtype))
        look(r[0])
        out += [T(v) for v in r]
    return out
