"""Grad-mode contexts entered and left at different iterations."""

import contextlib

from tests.compile.blind.telling import T, err, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(37)
    m = nn.Linear(3, 2)
    st = {"in": contextlib.nullcontext}

    def step(x):
        with st["in"]():
            h = m(x)
        y = h.relu() + m.bias
        return y, h, x.is_inference() or y.is_inference()

    f = wrap(step)
    out = []
    cms = {0: contextlib.nullcontext, 1: torch.no_grad, 2: torch.inference_mode, 3: torch.enable_grad}
    for i in range(40):
        x = torch.randn(2, 3)
        st["in"] = cms[(i // 10) % 4]
        outer = cms[(i // 4) % 4]
        if i == 33:
            m.weight.requires_grad_(False)
        with outer():
            r = f(x)
            look(r[0])
            out += [
                r[0].requires_grad,
                r[1].requires_grad,
                r[0].is_inference(),
                r[1].is_inference(),
                r[2],
                str(type(r[0].grad_fn).__name__),
                str(type(r[1].grad_fn).__name__),
            ]

        def b():
            r[0].sum().backward()
            return "ok"

        out += [T(r[0]), err(b), T(m.weight.grad), T(m.bias.grad), err(lambda: r[1].add_(1) is r[1])]
        m.zero_grad()
    prev = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    for i in range(6):
        out.append(f(torch.ones(1, 3))[0].requires_grad)
    torch.set_grad_enabled(True)
    for i in range(6):
        out.append(f(torch.ones(1, 3))[0].requires_grad)
    return out
