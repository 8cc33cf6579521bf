"""Custom Function with class state, saved tensors, python side effects in backward."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    log = []

    class Sq(torch.autograd.Function):
        k = 1.0

        @staticmethod
        def forward(ctx, x, y, p):
            ctx.save_for_backward(x, y)
            ctx.p = p
            log.append(("f", p))
            return x**p + y * Sq.k, (x > y).sum()

        @staticmethod
        def backward(ctx, g, _):
            x, y = ctx.saved_tensors
            log.append(("b", ctx.needs_input_grad[1]))
            return g * ctx.p * x ** (ctx.p - 1), g * Sq.k if ctx.needs_input_grad[1] else None, None

    torch.manual_seed(0)
    a = torch.rand(5, requires_grad=True)
    b = torch.randn(5, requires_grad=True)
    cfg = {"p": 2}

    def step(s):
        o, n = Sq.apply(a, b, cfg["p"])
        l = (o * s).sum()
        l.backward()
        with torch.no_grad():
            a.sub_(0.1 * a.grad).clamp_(min=0.01)
            if b.grad is not None:
                b.sub_(0.1 * b.grad)
        a.grad = None
        b.grad = None
        return l, n

    f = wrap(step)
    out = []
    for i in range(18):
        if i == 7:
            cfg["p"] = 3
        if i == 10:
            Sq.k = -0.5
        if i == 13:
            b.requires_grad_(False)
        if i == 15:
            cfg["p"] = 3.0
        l, n = f(1.0 + i % 2)
        look(l)
        out += [T(l), T(n), T(a), T(b)]
    return out + [str(log)]
