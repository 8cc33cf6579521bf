"""Exceptions in the middle of a step; what happened before stays."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(32)
    m = nn.Linear(3, 3)
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    buf = torch.zeros(3)
    log = []
    st = {"at": None}

    class Boom(Exception):
        pass

    def chk(n):
        if st["at"] == n:
            raise Boom(n)

    def step(x):
        try:
            o.zero_grad()
            buf.add_(1)
            chk(0)
            h = m(x)
            chk(1)
            with torch.no_grad():
                m.bias.mul_(0.9)
                chk(2)
            l = h.sum() if False else m(x).pow(2).sum()
            l.backward()
            chk(3)
            o.step()
            buf.mul_(1.01)
            chk(4)
            return l
        finally:
            log.append(torch.is_grad_enabled())
            buf.sub_(0.5)

    f = wrap(step)
    out = []
    for i in range(30):
        st["at"] = {7: 0, 9: 1, 11: 2, 13: 3, 15: 4, 18: 2, 19: 2, 22: 3, 23: 3, 24: 3, 25: 3}.get(i)
        x = torch.randn(2, 3) if i != 20 else torch.randn(2, 4)
        try:
            l = f(x)
            out.append(T(l))
            look(l)
        except Boom as e:
            out.append("boom %s" % e)
        except RuntimeError:
            out.append("RuntimeError")
        out += [T(buf), T(m.weight), T(m.bias), T(m.weight.grad), m.bias._version]
    return out + [str(log)]
