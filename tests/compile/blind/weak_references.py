"""Weakrefs and gc."""

import gc
import weakref

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(34)
    m = nn.Linear(3, 2)
    log = []

    class Ctx:
        pass

    class Fn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            c = Ctx()
            weakref.finalize(c, log.append, "ctx dead")
            ctx.c = c
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            log.append("bw")
            return g

    refs = []

    def step(x, keep):
        h = Fn.apply(m(x))
        refs.append(weakref.ref(h))
        l = h.sum()
        g = l.grad_fn
        refs.append(weakref.ref(l))
        l.backward(retain_graph=keep)
        m.zero_grad()
        log.append("end")
        return l if keep else l.detach()

    f = wrap(step)
    out = []
    keepers = []
    x = torch.randn(2, 3)
    for i in range(16):
        l = f(x, i % 5 == 4)
        look(l)
        keepers.append(l)
        log.append(str([r() is None for r in refs[-2:]]))
        if i % 4 == 3:
            keepers.clear()
            log.append("cleared")
        if i == 8:
            x = torch.randn(2, 3)
        if i == 12:
            gc.collect()
            log.append("gc")
        out += [T(l)]
    del l
    keepers.clear()
    log.append(str([r() is None for r in refs]))
    return out + log
