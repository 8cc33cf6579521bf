"""Threads using the same tensors; grad mode is per thread."""

import queue
import threading

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(33)
    m = nn.Linear(3, 2)
    o = torch.optim.Adam(m.parameters(), 0.05)
    acc = torch.zeros(2)

    def step(x):
        o.zero_grad()
        l = m(x).pow(2).mean()
        l.backward()
        o.step()
        return l

    f = wrap(step)
    out = []
    qi, qo = queue.Queue(), queue.Queue()

    def work():
        while (t := qi.get()) is not None:
            i, v = t
            acc.add_(v.detach())
            with torch.no_grad():
                m.bias.add_(0.01 * i)
            y = m(torch.ones(1, 3))
            qo.put((y, torch.is_grad_enabled(), f(torch.ones(2, 3)) if i % 4 == 3 else None))

    th = threading.Thread(target=work)
    th.start()
    try:
        for i in range(20):
            l = f(torch.randn(4, 3))
            look(l)
            z = m.bias * 2
            w = torch.stack([l.detach(), l.detach() * 2])
            with torch.no_grad() if i % 2 else torch.enable_grad():
                qi.put((i, w))
                y, ge, l2 = qo.get()
                acc.mul_(0.5)
                out += [T(l), T(y), ge, y.requires_grad, T(z), T(acc), T(m.bias), T(l2)]
            y.sum().backward() if y.requires_grad and i % 3 == 0 else None
            out.append(T(m.bias.grad))
    finally:
        qi.put(None)
        th.join()
    return out
