"""Norms, convolutions, pooling, recurrent layers, tables and activations."""

from __future__ import annotations

from tests.compile.bits.common import program, state_of, training, weights


@program
def layer_and_rms_norms(torch):
    """Over one axis and two, with and without weights, of odd sizes and one element, after a residual."""
    torch.manual_seed(31)
    nn, F = torch.nn, torch.nn.functional
    model = nn.ModuleList(
        [
            nn.LayerNorm(67),
            nn.LayerNorm((13, 67), elementwise_affine=False),
            nn.LayerNorm(67, bias=False, eps=1e-3),
            nn.RMSNorm(67),
            nn.RMSNorm((13, 67), eps=1e-6),
            nn.Linear(67, 67),
            nn.LayerNorm(1),
            nn.LayerNorm(7),
        ]
    )

    def loss_of(k):
        x = torch.randn(11, 13, 67) * 3 + 1
        for layer in model[:5]:
            x = x + F.gelu(model[5](layer(x)))
        total = (
            F.layer_norm(x.transpose(1, 2), (13,)).pow(3).mean()
            + F.rms_norm(x[:, ::2], (67,)).square().mean()
        )
        total = (
            total + model[6](x[..., :1]).square().mean() + model[7](x[:, :7].transpose(1, 2)).tanh().mean()
        )
        return total + x.square().mean() * 0.01

    return training(torch.optim.AdamW(model.parameters(), lr=0.01), loss_of, model)


@program
def batch_norms(torch):
    """Of one, two and three dimensions, with running and cumulative averages, training and not by turns."""
    torch.manual_seed(32)
    nn = torch.nn
    model = nn.ModuleList(
        [
            nn.BatchNorm1d(19),
            nn.BatchNorm1d(19, momentum=None),
            nn.BatchNorm2d(5, affine=False),
            nn.BatchNorm2d(5, track_running_stats=False),
            nn.BatchNorm3d(3, momentum=0.3, eps=1e-2),
        ]
    )
    (w,) = weights(torch, (19, 19))

    def loss_of(k):
        model.train(k % 3 != 2)
        x = model[1]((model[0](torch.randn(31, 19) * 2 + 1) @ w).relu())
        y = model[3](model[2](torch.randn(9, 5, 7, 11) + x[:9, :5, None, None]).sigmoid())
        z = model[4](torch.randn(4, 3, 5, 3, 7) * y.mean()).tanh()
        u = model[0](torch.randn(6, 19, 13) + x[:6, :, None])
        return x.square().mean() + y.abs().mean() + (z * torch.randn(7)).mean() + u.logsumexp((0, 2)).mean()

    optimizer = torch.optim.SGD([w, *model.parameters()], lr=0.05, momentum=0.9, nesterov=True)
    return training(optimizer, loss_of, model)


@program
def group_and_instance_norms(torch):
    """Groups of one channel and of all, instances with averages, local responses."""
    torch.manual_seed(33)
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1),
        nn.GroupNorm(4, 12),
        nn.SiLU(),
        nn.InstanceNorm2d(12, affine=True, track_running_stats=True),
        nn.GroupNorm(12, 12, affine=False),
        nn.LocalResponseNorm(5),
        nn.Conv2d(12, 12, 1, groups=3),
        nn.GroupNorm(1, 12, eps=1e-3),
    )

    def loss_of(k):
        x = model(torch.randn(4, 3, 13, 9))
        y = F.instance_norm(x.flatten(2)) + F.group_norm(x, 6).flatten(2)
        return (x - torch.rand(12, 1, 1)).square().mean() + y.pow(3).mean() + y.std((0, 2)).mean()

    return training(torch.optim.RAdam(model.parameters(), lr=0.01), loss_of, model)


@program
def norms_of_large_arrays(torch):
    """131,584 elements in rows of 257, and 173,056 in sixteen channels."""
    torch.manual_seed(34)
    nn, F = torch.nn, torch.nn.functional
    rows, channels, groups = nn.LayerNorm(257), nn.BatchNorm2d(16), nn.GroupNorm(8, 16)
    model = nn.ModuleList([rows, channels, groups, nn.RMSNorm(257)])

    def loss_of(k):
        x, y = torch.randn(512, 257), torch.randn(64, 16, 13, 13) * 2 - 0.7
        x = model[3](F.gelu(rows(x)) + x)
        y = groups(F.relu(channels(y)) + y * 0.1)
        return (
            x.square().mean()
            + (x.softmax(1) * x).sum(1).mean()
            + y.abs().mean()
            + F.softplus(y).mean((0, 2, 3)).sum()
        )

    return training(torch.optim.Adam(model.parameters(), lr=0.02), loss_of, model)


@program
def conv1d_and_conv3d(torch):
    """Strides, dilations, groups, and padding by zeros, reflection, repetition and around."""
    torch.manual_seed(35)
    nn = torch.nn
    line = nn.Sequential(
        nn.Conv1d(5, 16, 7, stride=2, padding=3),
        nn.ELU(),
        nn.Conv1d(16, 16, 3, padding="same", dilation=3, groups=4, padding_mode="circular"),
        nn.Tanh(),
        nn.Conv1d(16, 24, 4, padding=2, padding_mode="reflect", bias=False),
        nn.Conv1d(24, 24, 5, groups=24, padding=1, padding_mode="replicate"),
    )
    space = nn.Sequential(
        nn.Conv3d(2, 6, 3, padding=1),
        nn.LeakyReLU(0.1),
        nn.Conv3d(6, 6, (1, 3, 2), stride=(1, 2, 1), dilation=(1, 1, 2), groups=2),
    )

    def loss_of(k):
        x, y = line(torch.randn(7, 5, 61)), space(torch.randn(3, 2, 5, 9, 7))
        return (
            x.square().mean() + x.mean((0, 2)).tanh().sum() + y.abs().mean() + y.sum((2, 3, 4)).sin().mean()
        )

    optimizer = torch.optim.Adam([*line.parameters(), *space.parameters()], lr=3e-3)
    return training(optimizer, loss_of, line, space)


@program
def conv2d_forms(torch):
    """Depthwise, pointwise, strided and dilated ones on 49,152 numbers, also laid out with channels last."""
    torch.manual_seed(36)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.ReLU(),
        nn.Conv2d(16, 16, 5, padding=2, groups=16),
        nn.Conv2d(16, 33, 1),
        nn.GELU(),
        nn.Conv2d(33, 20, 3, stride=2, dilation=2),
        nn.Hardswish(),
        nn.Conv2d(20, 10, (1, 5), padding=(0, 2), groups=5),
        nn.Conv2d(10, 7, (6, 3), stride=(3, 1)),
    )
    last = nn.Conv2d(7, 4, 2).to(memory_format=torch.channels_last)

    def loss_of(k):
        x = model(torch.randn(16, 3, 32, 32))
        y = last(x.contiguous(memory_format=torch.channels_last))
        return x.square().mean() + y.transpose(1, 3).softmax(3).square().sum() + y.amax((2, 3)).mean()

    optimizer = torch.optim.SGD([*model.parameters(), *last.parameters()], lr=1e-3, momentum=0.9)
    return training(optimizer, loss_of, model, last)


@program
def transposed_convolutions(torch):
    """An autoencoder of one, two and three dimensions, with padding of the output and groups."""
    torch.manual_seed(37)
    nn = torch.nn
    model = nn.ModuleList(
        [
            nn.ConvTranspose1d(6, 9, 4, stride=3, padding=1, output_padding=2, groups=3),
            nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1),
            nn.ConvTranspose2d(6, 4, (3, 2), dilation=(2, 3), groups=2, bias=False),
            nn.ConvTranspose3d(3, 5, 3, stride=(2, 1, 3)),
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.ConvTranspose2d(4, 3, 1),
        ]
    )

    def loss_of(k):
        x, image, y = torch.randn(5, 6, 11), torch.randn(6, 3, 20, 26), torch.randn(2, 3, 4, 5, 3)
        back = model[5](model[2](model[1](model[4](image).relu()).sigmoid()))
        total = (back[..., 2:22, 1:27] - image).square().mean() + model[0](x).tanh().mean()
        return total + model[3](y).square().mean((0, 2, 3, 4)).sqrt().sum()

    return training(torch.optim.Adamax(model.parameters(), lr=0.01, weight_decay=0.01), loss_of, model)


@program
def pooling(torch):
    """Averages and maxima over overlapping, uneven and adaptive windows of 24,024 numbers."""
    torch.manual_seed(38)
    F = torch.nn.functional
    w, v, u = weights(torch, (4, 6, 77, 13), (5, 3, 51), (2, 3, 9, 7, 8))

    def loss_of(k):
        x, y, z = w + torch.randn(4, 6, 77, 13), v * torch.randn(5, 3, 51), u + torch.randn(2, 3, 9, 7, 8)
        total = F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False).square().mean()
        total = total + F.avg_pool2d(x, (7, 2), ceil_mode=True, divisor_override=5).tanh().mean()
        total = (
            total + F.max_pool2d(x, 3, 2, padding=1, dilation=2).mean() + F.lp_pool2d(x.abs(), 3.0, 4).mean()
        )
        total = (
            total
            + F.adaptive_avg_pool2d(x, (11, 5)).sin().mean()
            + F.adaptive_max_pool2d(x, (9, 1)).square().mean()
        )
        total = total + F.avg_pool1d(y, 9, 4).abs().mean() + F.adaptive_avg_pool1d(y, 16).square().mean()
        top, where = F.max_pool1d(y, 5, 3, return_indices=True)
        total = total + F.max_unpool1d(top.tanh(), where, 5, 3, output_size=(5, 3, 51)).mul(y).mean()
        total = total + F.avg_pool3d(z, 3, 2, padding=1).square().mean() + F.max_pool3d(z, 2).mean()
        return total + F.adaptive_avg_pool3d(z, (2, 3, 5)).cosh().mean() + x.mean((2, 3)).logsumexp(1).mean()

    return training(torch.optim.ASGD([w, v, u], lr=0.1), loss_of)


@program
def small_resnet(torch):
    """Residual blocks with batch norm on 8 x 3 x 24 x 24 images, a cosine schedule, decay of weights."""
    torch.manual_seed(39)
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
            self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
            self.short = nn.Conv2d(before, after, 1, stride, bias=False) if stride > 1 else nn.Identity()

        def forward(self, x):
            y = F.relu(self.norms[0](self.first(x)), inplace=True)
            return F.relu(self.norms[1](self.second(y)) + self.short(x))

    stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
    model = nn.Sequential(
        stem, Block(16, 16, 1), Block(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)

    def step(k):
        loss = F.cross_entropy(model(torch.randn(8, 3, 24, 24)), torch.randint(10, (8,)), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    return step, state_of(model, optimizer)


@program
def lstm_packed(torch):
    """Two layers in both directions with projections, over packed sequences of uneven lengths."""
    torch.manual_seed(40)
    nn = torch.nn
    rnn = nn.utils.rnn
    model = nn.LSTM(7, 19, num_layers=2, bidirectional=True, proj_size=5, dropout=0.2, batch_first=True)
    head = nn.Linear(10, 3)

    def loss_of(k):
        lengths = [11, 3, 9, 9, 1, 6][k % 2 :]
        x = torch.randn(len(lengths), 11, 7)
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, (h, c) = model(packed)
        padded, _ = rnn.pad_packed_sequence(out, batch_first=True)
        return head(padded).square().mean() + h.tanh().sum() * 0.01 + c.square().mean()

    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
    return training(optimizer, loss_of, model, head)


@program
def recurrent_layers_and_cells(torch):
    """GRU and plain layers, a wide LSTM, and cells whose state is carried from step to step."""
    torch.manual_seed(41)
    nn, F = torch.nn, torch.nn.functional
    gru, rnn = nn.GRU(9, 21, num_layers=2, bidirectional=True), nn.RNN(42, 8, nonlinearity="relu")
    wide, cell, small = nn.LSTM(8, 96), nn.LSTMCell(8, 11), nn.GRUCell(11, 6)
    model = nn.ModuleList([gru, rnn, wide, cell, small])
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    carried = {"h": torch.zeros(13, 11), "c": torch.zeros(13, 11), "g": torch.zeros(13, 6)}

    def step(k):
        x, _ = gru(torch.randn(17, 13, 9))
        y, last = rnn(x)
        z, _ = wide(y)
        h, c, g = carried.values()
        for row in y[:6]:
            h, c = cell(row, (h, c))
            g = small(h, g)
        loss = F.mse_loss(z.mean(2), torch.randn(17, 13)) + g.square().mean() + last.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.01)
        optimizer.step()
        carried.update(h=h.detach(), c=c.detach(), g=g.detach())
        return loss

    return step, state_of(model, optimizer, carried)


@program
def embeddings_and_bags(torch):
    """Rows looked up many times, padding, counts of rows, limited norms, bags of uneven sizes."""
    torch.manual_seed(42)
    nn = torch.nn
    model = nn.ModuleList(
        [
            nn.Embedding(29, 37, padding_idx=3),
            nn.Embedding(13, 37, scale_grad_by_freq=True),
            nn.EmbeddingBag(31, 11, mode="sum"),
            nn.EmbeddingBag(31, 11, mode="mean", padding_idx=0),
            nn.EmbeddingBag(31, 11, mode="max"),
            nn.Linear(37, 11),
            nn.Embedding(17, 8, max_norm=1.3),
        ]
    )

    def loss_of(k):
        words, few = torch.randint(29, (23, 31)), torch.randint(13, (23, 31)) // 4
        x = model[5](model[0](words) * 0.3 + model[1](few)).tanh()
        bags = torch.randint(31, (200,))
        starts = torch.tensor([0, 1, 50, 50, 97, 160])
        total = x.square().mean() + model[2](bags, starts, per_sample_weights=torch.rand(200)).sin().mean()
        total = total + model[3](bags, starts).square().sum() + model[4](bags, starts).mean()
        return total + model[6](few).square().mean() + model[2](words)[::2].mean()

    return training(torch.optim.Adagrad(model.parameters(), lr=0.1), loss_of, model)


@program
def activations(torch):
    """Every activation and many functions, on 11,000 numbers and on 97, in float32 and float64."""
    torch.manual_seed(43)
    F = torch.nn.functional
    large, small = weights(torch, (110, 100), (97,), scale=1.5)
    (double,) = weights(torch, (211,), scale=1.5, dtype=torch.float64)
    kinds = [
        F.gelu,
        lambda x: F.gelu(x, approximate="tanh"),
        F.silu,
        F.mish,
        F.softplus,
        torch.tanh,
        torch.erf,
    ]
    kinds += [F.elu, F.selu, F.celu, F.hardsigmoid, F.hardswish, F.softsign, F.tanhshrink, F.logsigmoid]
    kinds += [lambda x: F.softplus(x, beta=3, threshold=2), lambda x: F.rrelu(x, training=True), torch.sin]
    kinds += [lambda x: x.abs().pow(2.7), lambda x: x**3, lambda x: x**5, lambda x: (x.abs() + 0.1) ** -1.5]
    kinds += [lambda x: (x.abs() + 0.1) ** 0.5, lambda x: 1.7**x, lambda x: (x.abs() + 0.1) ** x, torch.atan]
    kinds += [
        torch.expm1,
        lambda x: x.abs().log1p(),
        torch.sinc,
        torch.erfc,
        lambda x: torch.lgamma(x.abs() + 0.3),
    ]
    kinds += [
        lambda x: torch.digamma(x.abs() + 1),
        lambda x: torch.special.erfcx(x.abs()),
        torch.asinh,
        torch.sigmoid,
    ]
    kinds += [lambda x: x.abs().rsqrt().clamp(max=3), lambda x: (x / 3).fmod(0.7), lambda x: x.remainder(0.3)]
    kinds += [
        lambda x: x.tan().clamp(-2, 2),
        lambda x: 1 / (1 + (-x * 3).exp()),
        lambda x: torch.hypot(x, x * 2),
    ]

    def loss_of(k):
        total = 0.0
        for w in (large, small, double):
            x = w + torch.randn(w.shape, dtype=w.dtype) * 0.1
            total = total + sum((kind(x) / 3).mean().float() for kind in kinds)
        return total + (large.relu() * F.glu(large[:, :50].repeat(1, 2) * 3, 1).repeat(1, 4)[:, :100]).mean()

    return training(torch.optim.Adam([large, small, double], lr=0.01), loss_of)
