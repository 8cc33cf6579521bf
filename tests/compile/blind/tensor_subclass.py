"""Tensor subclass with __torch_function__."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    log = []

    class My(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append(getattr(func, "__name__", str(func)))
            r = super().__torch_function__(func, types, args, kwargs or {})
            return r

        def twice(self):
            return self * 2

    torch.manual_seed(47)
    w = torch.randn(3, requires_grad=True)

    def step(x):
        y = (x * w).sum()
        y.backward()
        z = x.detach() + 1
        z.add_(1)
        return y, z, x.twice() if hasattr(x, "twice") else x

    f = wrap(step)
    out = []
    for i in range(18):
        x = torch.ones(3) * i
        x = x.as_subclass(My) if i % 6 < 4 else x
        if i == 12:
            My.twice = lambda s: s * 3
        y, z, t = f(x)
        look(y)
        out += [
            type(y).__name__,
            type(z).__name__,
            type(t).__name__,
            y.as_subclass(torch.Tensor).detach(),
            z.as_subclass(torch.Tensor).clone(),
            t.as_subclass(torch.Tensor).clone(),
            T(w.grad),
            len(log),
        ]
        if i % 4 == 0:
            w.grad = None
    return out + [str(log[-20:])]
