"""Convs with BatchNorm2d, in-place relu, attributes of layers changed."""

from tests.compile.blind.telling import T, look


def run(torch, wrap):
    nn = torch.nn
    torch.manual_seed(43)
    c1, c2 = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2, groups=2)
    bn = nn.BatchNorm2d(4)
    ct = nn.ConvTranspose2d(4, 2, 2)
    pool = nn.MaxPool2d(2)
    m = nn.Sequential(c1, bn, nn.ReLU(inplace=True), pool, c2, ct, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    o = torch.optim.SGD(m.parameters(), 0.05, momentum=0.9)

    def step(x, y):
        o.zero_grad()
        l = nn.functional.cross_entropy(m(x), y, label_smoothing=0.1)
        l.backward()
        o.step()
        return l

    f = wrap(step)
    out = []
    for i in range(24):
        if i == 6:
            c2.stride = (1, 1)
        if i == 9:
            c1.padding_mode = "circular"
            c1._reversed_padding_repeated_twice = [1, 1, 1, 1]
        if i == 12:
            pool.kernel_size = 3
            pool.stride = 1
        if i == 14:
            m[2].inplace = False
        if i == 16:
            c1.bias = None
        if i == 19:
            m[3] = nn.AvgPool2d(2)
        x = torch.randn(2, 2, 8, 8)
        if i > 20:
            x = x.to(memory_format=torch.channels_last)
        l = f(x, torch.tensor([0, 1]))
        look(l)
        out += [T(l), T(c1.weight), T(c2.weight), T(bn.running_var), T(ct.weight.grad)]
    return out
