"""Sums, means, extremes and losses over axes of every kind and size."""

from __future__ import annotations

from tests.compile.bits.common import program, training, weights

SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 251, 255, 256, 257, 521)


@program
def sums_over_all_axes(torch):
    """Sums and means over every choice of three axes, kept or not."""
    torch.manual_seed(1)
    (w,) = weights(torch, (7, 31, 13))
    axes = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (-1, 0), (0, 1, 2)]

    def loss_of(k):
        x = torch.randn(7, 31, 13) * w
        total = x.sum() / 3
        for chosen in axes:
            total = total + x.sum(chosen).tanh().sum() + (x - x.mean(chosen, keepdim=True)).pow(2).mean()
        return total

    return training(torch.optim.SGD([w], lr=0.01, momentum=0.9), loss_of)


@program
def sizes_around_powers(torch):
    """Vectors, rows and columns of sizes beside the widths of registers and blocks."""
    torch.manual_seed(2)
    leaves = weights(torch, *[shape for n in SIZES for shape in ((n,), (3, n), (n, 3))])

    def loss_of(k):
        parts = []
        for w in leaves:
            x = torch.randn(w.shape) + w
            parts.append(x.mean().exp() + x.square().sum().sqrt())
            if x.dim() == 2:
                parts.append((x.sum(0) * 0.1).sin().sum() + (x.mean(1) / 7).cos().sum())
        return torch.stack(parts).mean()

    return training(torch.optim.Adam(leaves, lr=0.01), loss_of)


@program
def sums_of_views(torch):
    """Transposed, sliced, flipped, expanded, diagonal and overlapping views of 12,221 elements."""
    torch.manual_seed(3)
    w, v = weights(torch, (121, 101), (1, 101))

    def loss_of(k):
        x = w * torch.rand(121, 101) + v.expand(121, 101)
        total = x.T.sum(0).square().mean() * 0.01 + x.t()[::3].sum(1).sin().sum()
        total = total + x[1::2, 5:-4:3].mean(0).exp().mean() + x.flip(0).cumsum(0).mean() * 0.01
        total = total + x.diagonal(3).sum() * x.diagonal(-2).mean() + x.unfold(1, 9, 4).sum(2).tanh().sum()
        total = total + v.expand(37, 101).sum(0).square().mean() * 0.01 + v.expand(33, 101).mean().square()
        total = total + x[:120].reshape(4, 30, 101).permute(2, 0, 1).sum((0, 2)).square().sum() * 1e-6
        return total + torch.as_strided(x, (60, 50), (203, 2)).mean(0).cosh().sum()

    return training(torch.optim.SGD([w, v], lr=1e-3, momentum=0.9, nesterov=True), loss_of)


@program
def large_sums(torch):
    """120,701 elements: all of them, rows, columns, and rows that are not contiguous."""
    torch.manual_seed(4)
    w, scale = weights(torch, (301, 401), (401,))

    def loss_of(k):
        x = torch.randn(301, 401) * scale + w
        y = torch.randn(401, 301).T - w
        total = x.sum() * 1e-3 + x.mean(0).square().sum() + (x * y).sum(1).tanh().mean()
        total = total + (x - y).abs().mean() + (x / (1 + y.square())).sum(0).sigmoid().sum()
        return total + (x[:, 1:] - x[:, :-1]).square().mean() + x.var() + y.std(0).sum() * 0.1

    return training(torch.optim.AdamW([w, scale], lr=0.01, weight_decay=0.1), loss_of)


@program
def variances_with_large_means(torch):
    """Deviations of numbers far from zero, over channels of images, corrected or not."""
    torch.manual_seed(5)
    w, shift = weights(torch, (5, 17, 9, 11), (17, 1, 1))

    def loss_of(k):
        x = (w + torch.randn(5, 17, 9, 11) + 1000 * shift).permute(0, 2, 3, 1)
        total = x.var((0, 1, 2)).log().sum() + x.std(-1, correction=0).mean()
        variance, mean = torch.var_mean(x, (1, 2), correction=2, keepdim=True)
        total = total + ((x - mean) * (variance + 1e-5).rsqrt()).pow(3).mean()
        deviation, middle = torch.std_mean(x, (0, 3))
        return total + (middle / deviation).square().mean() * 1e-4 + x.flatten().var(correction=0).sqrt()

    return training(torch.optim.RMSprop([w, shift], lr=1e-3, centered=True, momentum=0.5), loss_of)


@program
def broadcast_gradients(torch):
    """Gradients of broadcast operands, which are sums over leading, middle and several axes."""
    torch.manual_seed(6)
    shapes = [(), (1,), (13,), (19, 1), (1, 1, 13), (11, 1, 1), (11, 1, 13), (5, 1, 19, 1), (5, 11, 1, 13)]
    leaves = weights(torch, *shapes)

    def loss_of(k):
        x = torch.randn(5, 11, 19, 13)
        for number, w in enumerate(leaves):
            x = x * (1 + w / 3) if number % 2 else x - w * 0.7
        y = torch.addcmul(x, leaves[3], leaves[4], value=0.3)
        y = torch.addcdiv(y, leaves[2], leaves[5].square() + 1.1, value=-0.7)
        y = torch.lerp(y, leaves[6].expand(5, 11, 19, 13), 0.37)
        return torch.atan2(y, 1 + leaves[7].abs()).square().mean() + y.mean().square()

    return training(torch.optim.Adagrad(leaves, lr=0.05, lr_decay=0.01, weight_decay=0.01), loss_of)


@program
def softmax_axes(torch):
    """Softmax and its kin over each axis, with masked entries and entries far apart."""
    torch.manual_seed(7)
    (w,) = weights(torch, (17, 33, 29))
    F = torch.nn.functional

    def loss_of(k):
        x = w + 20 * torch.randn(17, 33, 29)
        hidden = torch.rand(17, 33, 29) < 0.3
        total = (x.logsumexp((0, 2)) + x.logsumexp(1, keepdim=True).sum((0, 2))[:1]).mean()
        for axis in range(3):
            shares = x.masked_fill(hidden, float("-inf")).softmax(axis)
            total = total + (shares * x).sum(axis).mean() - F.log_softmax(x / 3, axis)[2:5].mean()
        total = (
            total + F.softmin(x, 1)[..., ::2].square().sum() + F.gumbel_softmax(w, 0.7, dim=2).pow(3).sum()
        )
        return total + torch.logaddexp(x[0], x[1]).mean() + F.logsigmoid(x.transpose(0, 2)).mean()

    return training(torch.optim.SGD([w], lr=0.1), loss_of)


@program
def cross_entropy_kinds(torch):
    """Class weights, ignored targets, smoothing, soft targets, images of classes, all reductions."""
    torch.manual_seed(8)
    nn, F = torch.nn, torch.nn.functional
    model = nn.Linear(11, 17)
    share = torch.rand(17) + 0.1

    def loss_of(k):
        out = model(torch.randn(63, 11))
        target = torch.randint(17, (63,))
        target[::5] = 3
        total = F.cross_entropy(out, target, weight=share, ignore_index=3)
        total = total + F.cross_entropy(out, target, label_smoothing=0.13, weight=share, ignore_index=3)
        total = total + F.cross_entropy(out, torch.rand(63, 17).softmax(1), label_smoothing=0.2, weight=share)
        total = total + F.cross_entropy(out, target, reduction="sum", label_smoothing=0.3) / 100
        total = total + (F.cross_entropy(out, target, reduction="none") * torch.rand(63)).mean()
        image = out.reshape(7, 9, 17).permute(2, 0, 1).reshape(1, 17, 7, 9)
        total = total + F.cross_entropy(image, target.reshape(1, 7, 9), ignore_index=3, weight=share)
        return total + F.nll_loss(F.log_softmax(out, 1), target, weight=share, ignore_index=3)

    return training(torch.optim.NAdam(model.parameters(), lr=0.01, weight_decay=0.01), loss_of, model)


@program
def cross_entropy_large_batch(torch):
    """1,031 rows of 257 classes, a third of them ignored."""
    torch.manual_seed(9)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(19, 67), nn.GELU(), nn.Linear(67, 257))
    criterion = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1, weight=torch.rand(257) + 0.5)

    def loss_of(k):
        target = torch.randint(257, (1031,)) * (torch.rand(1031) > 0.3)
        return criterion(model(torch.randn(1031, 19)), target)

    return training(torch.optim.AdamW(model.parameters(), lr=3e-3, amsgrad=True), loss_of, model)


@program
def losses_of_many_kinds(torch):
    """Seventeen losses on one model, by turns with mean and sum."""
    torch.manual_seed(10)
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(nn.Linear(9, 23), nn.Softplus(), nn.Linear(23, 13))

    def loss_of(k):
        x, y, z = (model(torch.randn(37, 9)) for _ in range(3))
        sign = torch.randint(2, (37,)) * 2 - 1
        positive = torch.rand(37, 13)
        labels = torch.randint(13, (37,))
        parts = [
            F.smooth_l1_loss(x, positive, beta=0.3),
            F.huber_loss(x, positive, delta=0.7, reduction="sum") / 37,
            F.kl_div(F.log_softmax(x, 1), positive.softmax(1), reduction="batchmean"),
            F.binary_cross_entropy_with_logits(x, positive, pos_weight=torch.rand(13), weight=torch.rand(13)),
            F.binary_cross_entropy(x.sigmoid(), positive),
            F.gaussian_nll_loss(x, positive, y.square() + 0.1),
            F.poisson_nll_loss(x, positive, full=True),
            F.margin_ranking_loss(x[:, 0], y[:, 0], sign.float(), margin=0.1),
            F.triplet_margin_loss(x, y, z, swap=True),
            F.cosine_embedding_loss(x, y, sign, margin=0.2),
            F.multi_margin_loss(x, labels, p=2),
            F.hinge_embedding_loss(x.abs(), sign[:, None].expand(37, 13)),
            F.soft_margin_loss(x, sign[:, None].float()),
            F.multilabel_soft_margin_loss(x, positive.round()),
            F.l1_loss(x, y, reduction="sum") / 41,
            F.mse_loss(y, z),
            F.ctc_loss(x[:, None].log_softmax(2), labels[None, :9] % 12 + 1, (37,), (9,)) / 9,
        ]
        return sum(parts)

    return training(torch.optim.RAdam(model.parameters(), lr=0.01, weight_decay=0.02), loss_of, model)


@program
def norms_and_distances(torch):
    """Norms of odd orders over one and two axes, distances, similarities."""
    torch.manual_seed(11)
    w, v = weights(torch, (43, 61), (29, 61))
    F = torch.nn.functional

    def loss_of(k):
        x, y = w + torch.randn(43, 61), v * torch.randn(61)
        total = x.norm() + y.norm(1, 0).mean() + x.norm(3, 1).mean() + y.norm(float("inf"), 1).sum() * 0.1
        for order in (0.5, 1.5, 2, 2.7, float("-inf")):
            total = total + torch.linalg.vector_norm(x, order, dim=0).mean().log1p()
        total = total + torch.linalg.matrix_norm(y, "fro") + torch.linalg.matrix_norm(x, 1) * 0.1
        total = (
            total
            + torch.cdist(x, y).mean()
            + torch.cdist(x, y, p=1.0).mean()
            + torch.cdist(y, y[:5], p=3.0).mean()
        )
        total = (
            total
            + F.pairwise_distance(x[:29], y).mean()
            + F.cosine_similarity(x[None, :7], y[:, None], dim=2).sum()
        )
        return total + (F.normalize(x, p=3.0, dim=0) @ F.normalize(y, dim=1).T).square().sum()

    return training(torch.optim.Adadelta([w, v], lr=0.5, weight_decay=0.01), loss_of)


@program
def cumulative(torch):
    """Running sums, products, extremes and logarithms of sums along short and long axes."""
    torch.manual_seed(12)
    w, v = weights(torch, (1031,), (23, 517))

    def loss_of(k):
        x, y = w + torch.randn(1031), v * torch.randn(23, 517)
        total = (x.cumsum(0) / 31).tanh().mean() + x.logcumsumexp(0).mean() + (1 + x * 0.01).cumprod(0).mean()
        total = (
            total + y.cumsum(0).square().mean() + y.cumsum(1).sin().mean() + y.T.logcumsumexp(1)[::7].mean()
        )
        total = (
            total + (1 + y * 0.1).cumprod(1)[:, 5:50].mean() + y.cummax(1)[0].mean() - y.cummin(0)[0].mean()
        )
        total = total + torch.trapezoid(y, dx=0.3).square().mean() + y.diff(dim=0).square().mean()
        decay = torch.full((517,), 0.9).cumprod(0)
        return total + (y * decay).flip(1).cumsum(1).flip(1).square().mean()

    return training(torch.optim.Adamax([w, v], lr=0.01), loss_of)


@program
def order_statistics(torch):
    """Sorted values, the largest, medians and quantiles inside the loss; ties share their gradient."""
    torch.manual_seed(13)
    w, v = weights(torch, (47, 83), (53, 16, 15))

    def loss_of(k):
        x = w + torch.randn(47, 83)
        y = ((v + torch.randn(53, 16, 15)) * 2).round() / 2 + v
        ramp = torch.linspace(-1, 1, 83)
        total = (x.sort(1)[0] * ramp).sum(1).square().mean() + (x.topk(5, 0)[0].softmax(0)).pow(3).sum()
        total = (
            total + x.median(1)[0].square().mean() + x.quantile(0.3, dim=0).sum() + x.kthvalue(7, 0)[0].mean()
        )
        total = total + (x.argsort(0).float() * x).mean() + x.max(1)[0].mean() * x.min(0)[0].mean()
        ties = y.detach().mul(2).round() / 2 + 0 * y
        total = total + ties.amax((0, 2)).square().sum() - y.round().add(y - y.detach()).amin(1).mean()
        return (
            total + y.aminmax().max * 0.1 + torch.maximum(y, ties).mean() + torch.fmin(y, v).square().mean()
        )

    return training(torch.optim.Rprop([w, v], lr=0.01), loss_of)


@program
def signed_zeros(torch):
    """Zeros of both signs, subnormal and huge numbers: in sums, products, extremes, choices, divisions."""
    torch.manual_seed(14)
    (w,) = weights(torch, (9, 65))
    seen, zeros = torch.zeros(20, 65), torch.zeros(65)
    F = torch.nn.functional
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    def loss_of(k):
        x = w * (torch.randn(9, 65) > 0) * -1.0
        tiny, huge = w * 1e-39, w * 3e38
        with torch.no_grad():
            rows = [
                (x * 0).sum(0),
                (-(x * 0).abs()).sum(0, keepdim=True)[0],
                (-(x * 0).abs())[:1].sum(0),
                (-(x * 0).abs())[:1].mean(0),
                (-(x.abs() * 0)).amax(0) + 0,
                torch.maximum(-(x * 0).abs(), torch.zeros(9, 65))[3],
                F.relu(x)[4] - F.leaky_relu(-x, 0.0)[4],
                x.clamp(min=0.0)[5] * -1 + x.clamp(max=-0.0)[5],
                (x[:, :1].T * 0 @ x.abs())[0],
                tiny.sum(0) + tiny.prod(0),
                torch.where(x == 0, -x, x).round()[7] / 3,
                huge.mean(0) - huge.sum(0),
                F.relu(-zeros),
                (-zeros).relu_(),
                F.leaky_relu(-zeros, 0.1),
                F.elu(-zeros),
                F.selu(-zeros),
                F.celu(-zeros),
                torch.fmax(-zeros, zeros),
                torch.fmin(zeros, -zeros),
            ]
            seen.copy_(torch.stack(rows))
        total = (
            (x.abs() * 1e-20).square().sum() + tiny.mean() + F.relu(x).sum() - F.hardtanh(x, -0.0, 0.5).mean()
        )
        total = total + (0 * x - x * 0).sum() + (-x).sum().neg() * -0.0 + x.sign().mul(x).mean()
        return total + torch.copysign(x, w).mean() + (x / (x * x + 1e-30)).clamp(-1, 1).mean()

    return training(optimizer, loss_of, seen)
