"""Printing, formatting, comparing, bool, dict keys, sorting."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    torch.manual_seed(29)
    w = torch.randn(3, 3, requires_grad=True)
    memo = {}
    log = []

    def step(x, i):
        y = (w * x).sum(0)
        log.append(f"{y.sum():.4f}")
        log.append(repr(y))
        memo[w] = i
        memo.setdefault(x, i)
        if y[0] > 0:
            y = y * 2
        if (y == y).all() and w in memo:
            y = y + 1
        best = max(y, key=lambda t: t.item()) if i % 3 else max(y.unbind())
        log.append(str(sorted(y.tolist())))
        log.append(str(best))
        log.append(f"{x.shape} {x.dtype} {y.requires_grad} {y.grad_fn.__class__.__name__}")
        a, b, c = y
        log.append("%.3f %s" % (float(a), int(c.detach() * 10)))
        log.append(str([round(v, 3) for v in map(float, y)]))
        log.append(str(0.5 in x))
        log.append(str(len(x)) + str(bool(a != b)) + str(a is not y[0]))
        y.sum().backward()
        w.data.sub_(0.01 * w.grad)
        log.append(f"{w.grad}")
        w.grad = None
        return y

    f = wrap(step)
    out = []
    xs = [torch.randn(3, 3) for _ in range(2)]
    for i in range(16):
        if i == 8:
            torch.set_printoptions(precision=2, sci_mode=True)
        if i == 11:
            torch.set_printoptions(profile="default")
        y = f(xs[i % 2], i)
        look(y)
        out.append(T(y))
    return out + [len(memo), memo[w], memo[xs[0]], *log]
