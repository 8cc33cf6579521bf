"""Gradients with respect to inputs; graphs through the boundary of the step; autograd.grad forms."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(65)
    w = torch.randn(3, requires_grad=True)
    u = torch.randn(3, requires_grad=True)
    st = {"m": 0}

    def step(x):
        y = (x * w).tanh()
        if st["m"] == 1:
            return torch.autograd.grad(y.sum(), [w, u], allow_unused=True, retain_graph=True) + (y,)
        if st["m"] == 2:
            return torch.autograd.grad(
                y,
                [w, x] if x.requires_grad else [w, w],
                grad_outputs=torch.ones_like(y) * 2,
                create_graph=True,
            ) + (y,)
        if st["m"] == 3:
            y.backward(torch.arange(3.0))
            return w.grad, x.grad if x.is_leaf else None, y.detach()
        return None, None, y

    f = wrap(step)
    out = []
    for i in range(48):
        st["m"] = (i // 6) % 4
        x = torch.randn(3)
        if i % 3 == 1 or i > 24:
            x.requires_grad_()
        pre = x * u if i % 2 else x
        a, b, y = f(pre)
        look(y)
        out += [T(a), T(b), T(y), y.requires_grad]
        if y.requires_grad:
            if i % 4 == 0:
                y.register_hook(lambda g: g * 2)
            (y.sum() if a is None or not a.requires_grad else (a * y).sum()).backward()
        out += [T(w.grad), T(u.grad), T(x.grad) if x.is_leaf else 0]
        if i % 5 == 0:
            w.grad = u.grad = None
    return out
