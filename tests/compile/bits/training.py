"""What training loops do beside layers: optimizers, precision, hooks, gradients of gradients, writes in place."""

from __future__ import annotations

import functools

from tests.compile.bits.common import program, state_of, training, weights


@program
def gather_and_scatter(torch):
    """20,011 rows added into 37 places, and every other op that reads or writes by index, with repeats."""
    torch.manual_seed(51)
    w, v, u = weights(torch, (20011,), (37, 12), (41, 19))

    def loss_of(k):
        places = torch.randint(37, (20011,))
        sums = torch.zeros(37).index_add(0, places, w * torch.randn(20011), alpha=0.3)
        counts = torch.bincount(places, minlength=37)
        total = (sums / counts).square().sum() + torch.zeros(37).scatter_add(0, places, w.sin()).tanh().mean()
        rows = torch.randint(37, (301,))
        x = v[rows] * v.index_select(0, rows.flip(0))
        total = (
            total
            + x.square().mean()
            + torch.zeros(37, 12).index_put((rows,), x, accumulate=True).sin().mean()
        )
        target = torch.randint(19, (41, 50))
        total = (
            total + u.gather(1, target).tanh().mean() + torch.take_along_dim(u, u.argsort(1), 1)[:, 3].mean()
        )
        for kind in ("sum", "mean", "prod", "amax"):
            total = total + torch.ones(41, 19).scatter_reduce(1, target, u.repeat(1, 3)[:, :50], kind).mean()
        wide = rows[:, None].expand(301, 12)
        total = (
            total + torch.zeros(37, 12).scatter_reduce(0, wide, x, "mean", include_self=False).square().mean()
        )
        u_rows = u[torch.tensor([3, 3, -1]), :, None][..., [0, 0]].sum() + u.take(target.flatten() * 3).mean()
        return total + u_rows * 0.1 + v[v > 0.1].square().sum() * 0.1 + u.masked_select(u < 0).mean()

    return training(torch.optim.SGD([w, v, u], lr=0.05, momentum=0.9), loss_of)


@program
def float16_with_scaler(torch):
    """Autocast to float16, a scaler that meets overflows, gradients unscaled and clipped."""
    torch.manual_seed(52)
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(
        nn.Linear(33, 129), nn.LayerNorm(129), nn.GELU(), nn.Linear(129, 65), nn.Softmax(1), nn.Linear(65, 7)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=3)

    def step(k):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(torch.randn(95, 33))
            loss = F.cross_entropy(out * 5, torch.randint(7, (95,)), label_smoothing=0.1) + out.mean() / 3
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step, lambda: [*state_of(model, optimizer)(), torch.tensor(scaler.get_scale())]


@program
def bfloat16_and_mixed(torch):
    """Weights in bfloat16 and float16 themselves, autocast over convolutions, sums over mixed dtypes."""
    torch.manual_seed(53)
    nn, F = torch.nn, torch.nn.functional
    half = nn.Sequential(nn.Linear(21, 50), nn.SiLU(), nn.LayerNorm(50), nn.Linear(50, 9)).to(torch.bfloat16)
    full = nn.Sequential(
        nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 4, 3, groups=2), nn.Flatten()
    )
    (tiny,) = weights(torch, (130,), dtype=torch.float16)

    def loss_of(k):
        x = half(torch.randn(67, 21).bfloat16() / 3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = full(torch.randn(6, 3, 11, 10))
            y = (y @ torch.randn(168, 13)).softmax(1) * torch.randn(13, dtype=torch.float64)
        z = (tiny * torch.randn(130).half() * 0.1 + 1).cumsum(0) * torch.arange(130)
        total = (
            F.mse_loss(x.float(), torch.randn(67, 9)) + x.sum(0).tanh().mean() + x.std() * x.softmax(0).norm()
        )
        return (
            total
            + y.square().mean().float()
            + (z / 7).mean() * 1e-3
            + (tiny.float() * 0.1).exp().sum() * 0.01
        )

    leaves = [*half.parameters(), *full.parameters(), tiny]
    return training(torch.optim.SGD(leaves, lr=0.03, momentum=0.9, weight_decay=0.01), loss_of, half, full)


def optimizers_on(torch, shapes, dtype=None):
    """One copy of the leaves for each optimizer, in two groups of other options."""
    optim = torch.optim
    kinds = [
        functools.partial(optim.SGD, momentum=0.9, dampening=0.2, weight_decay=0.01),
        functools.partial(optim.SGD, momentum=0.8, nesterov=True, maximize=True),
        functools.partial(optim.Adam, weight_decay=0.1, amsgrad=True),
        functools.partial(optim.AdamW, betas=(0.7, 0.98), eps=1e-4, maximize=True),
        functools.partial(optim.RMSprop, alpha=0.9, centered=True, momentum=0.3, weight_decay=0.02),
        functools.partial(optim.Adagrad, lr_decay=0.1, initial_accumulator_value=0.1),
        functools.partial(optim.Adadelta, rho=0.8, weight_decay=0.1),
        functools.partial(optim.Adamax, weight_decay=0.03),
        functools.partial(optim.NAdam, decoupled_weight_decay=True, weight_decay=0.1, momentum_decay=0.02),
        functools.partial(optim.RAdam, weight_decay=0.01),
        functools.partial(optim.Rprop, etas=(0.4, 1.3)),
        functools.partial(optim.ASGD, t0=3, weight_decay=0.01),
        functools.partial(optim.Adafactor, weight_decay=0.01),
    ]
    start = weights(torch, *shapes, dtype=dtype)
    copies = [[w.detach().clone().requires_grad_() for w in start] for _ in kinds]
    made = []
    for kind, leaves in zip(kinds, copies, strict=True):
        made.append(kind([{"params": leaves[:1]}, {"params": leaves[1:], "lr": 0.003}], lr=0.02))
    return copies, made


@program
def optimizers_small(torch):
    """Thirteen optimizers in float64 on a layer of 35 numbers, with a schedule for each."""
    torch.manual_seed(54)
    copies, made = optimizers_on(torch, [(5, 7), (5,), (1, 5)], torch.float64)
    schedules = torch.optim.lr_scheduler
    ways = [
        lambda o: schedules.OneCycleLR(o, 0.1, total_steps=20, cycle_momentum=False),
        lambda o: schedules.ExponentialLR(o, 0.9),
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 3),
        lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o, 0.1, total_iters=3), schedules.StepLR(o, 2, 0.3)], [3]
        ),
    ]
    plans = [ways[number % len(ways)](optimizer) for number, optimizer in enumerate(made)]

    def step(k):
        x = torch.randn(11, 7, dtype=torch.float64)
        total = 0.0
        for (a, b, c), optimizer in zip(copies, made, strict=True):
            optimizer.zero_grad(set_to_none=k % 2 == 0)
            loss = ((x @ a.T + b).tanh() * c).sum(1).sub(x.sin().sum(1)).square().mean()
            loss.backward()
            optimizer.step()
            total = total + loss.detach()
        for plan in plans:
            plan.step()
        return total

    return step, state_of(*made)


@program
def optimizers_large(torch):
    """Thirteen optimizers in float32 on 10,609 weights and a bias."""
    torch.manual_seed(55)
    copies, made = optimizers_on(torch, [(103, 103), (103,)])

    def step(k):
        x = torch.randn(9, 103)
        parts = []
        for a, b in copies:
            parts.append(torch.nn.functional.linear(x, a, b).sigmoid().sub(x).abs().mean())
        loss = torch.stack(parts).sum()
        loss.backward()
        for optimizer in made:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return step, state_of(*made)


@program
def lbfgs_closure(torch):
    """LBFGS with and without a search along its line; the closure is called as often as values say."""
    torch.manual_seed(56)
    nn, F = torch.nn, torch.nn.functional
    model, other = nn.Sequential(nn.Linear(6, 15), nn.Tanh(), nn.Linear(15, 2)), nn.Linear(6, 2)
    searching = torch.optim.LBFGS(
        model.parameters(), lr=0.5, max_iter=4, history_size=5, line_search_fn="strong_wolfe"
    )
    plain = torch.optim.LBFGS(other.parameters(), lr=0.3, max_iter=3)

    def step(k):
        x, y = torch.randn(43, 6), torch.randn(43, 2)

        def closure(layers, optimizer):
            optimizer.zero_grad()
            loss = F.mse_loss(layers(x), y) + sum(p.square().sum() for p in layers.parameters()) * 1e-3
            loss.backward()
            return loss

        first = searching.step(lambda: closure(model, searching))
        return first + plain.step(lambda: closure(other, plain))

    return step, state_of(model, other, searching, plain)


@program
def accumulation_clipping_average(torch):
    """Gradients of three uneven parts, clipped by four norms and by value; a moving average of all weights."""
    torch.manual_seed(57)
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(
        nn.Linear(50, 120), nn.BatchNorm1d(120), nn.SELU(), nn.Linear(120, 90), nn.CELU(), nn.Linear(90, 5)
    )
    average = [p.detach().clone() for p in model.parameters()]
    swa = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    norms = []

    def step(k):
        total = 0.0
        for rows in (17, 32, 5):
            loss = F.huber_loss(model(torch.randn(rows, 50)), torch.randn(rows, 5)) / 3
            loss.backward()
            total = total + loss.detach()
        kind = (1.0, 2.0, 3.0, float("inf"))[k % 4]
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=kind))
        nn.utils.clip_grad_value_(model[0].parameters(), 1e-3)
        optimizer.step()
        optimizer.zero_grad(set_to_none=k % 3 == 0)
        with torch.no_grad():
            for kept, p in zip(average, model.parameters(), strict=True):
                kept.mul_(0.9).add_(p, alpha=0.1) if k % 2 else kept.lerp_(p, 0.1)
        swa.update_parameters(model)
        return total

    return step, state_of(model, optimizer, average, swa, norms)


@program
def hooks_and_functions(torch):
    """Hooks that change gradients, functions with a backward of their own, checkpoints, normed weights."""
    torch.manual_seed(58)
    nn, F = torch.nn, torch.nn.functional
    checkpoint = torch.utils.checkpoint.checkpoint

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x * x * x * scale

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x * ctx.scale + grad.mean(0), None

    class Straight(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 8).round() / 8

        @staticmethod
        def backward(ctx, grad):
            return grad.clamp(-1e-3, 1e-3)

    model = nn.Sequential(nn.Linear(23, 31), nn.Tanh(), nn.Linear(31, 31), nn.SiLU(), nn.Linear(31, 4))
    nn.utils.parametrizations.weight_norm(model[0])
    nn.utils.parametrizations.spectral_norm(model[2])
    seen = torch.zeros(31)

    def note(p):
        seen.add_(p.grad, alpha=0.3)

    model[4].weight.register_hook(lambda grad: grad / (grad.norm() + 1e-6) * 0.1)
    model[4].bias.register_hook(lambda grad: grad * 2 - grad.mean())
    model[2].register_full_backward_hook(
        lambda layer, before, after: (before[0] * 1.1 + after[0].mean() * 1e-3,)
    )
    model[1].register_forward_hook(lambda layer, given, out: out * 0.9)
    model[0].bias.register_post_accumulate_grad_hook(note)

    def loss_of(k):
        x = Cube.apply(model[:2](torch.randn(29, 23)), 0.3)
        y = checkpoint(
            lambda t: model[3](model[2](F.dropout(t, 0.2))), Straight.apply(x), use_reentrant=False
        )
        y.register_hook(lambda grad: grad.clamp(-0.01, 0.01) + grad.std() * 1e-3)
        return model[4](y).logsumexp(1).square().mean() + y.square().mean()

    return training(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), loss_of, model, seen)


@program
def gradient_penalty(torch):
    """A critic with a penalty on the slope, and a step learned through two inner steps."""
    torch.manual_seed(59)
    nn, F, grad = torch.nn, torch.nn.functional, torch.autograd.grad
    maker = nn.Sequential(nn.Linear(5, 37), nn.Softplus(), nn.Linear(37, 11))
    critic = nn.Sequential(nn.Linear(11, 41), nn.Mish(), nn.LayerNorm(41), nn.Linear(41, 1))
    (inner,) = weights(torch, (11, 3))
    outer, judge = (torch.optim.Adam(m.parameters(), lr=1e-3, betas=(0.5, 0.9)) for m in (maker, critic))
    slow = torch.optim.SGD([inner], lr=0.1)

    def step(k):
        real, made = torch.randn(47, 11), maker(torch.randn(47, 5))
        mixed = torch.lerp(real, made.detach(), torch.rand(47, 1)).requires_grad_()
        (slope,) = grad(critic(mixed).sum(), mixed, create_graph=True)
        loss = (
            critic(made.detach()).mean() - critic(real).mean() + 10 * (slope.norm(2, 1) - 1).square().mean()
        )
        judge.zero_grad()
        loss.backward()
        judge.step()
        outer.zero_grad()
        (-critic(maker(torch.randn(47, 5))).mean()).backward()
        outer.step()
        fast = inner
        for _ in range(2):
            (first,) = grad(F.cross_entropy(real @ fast, torch.randint(3, (47,))), fast, create_graph=True)
            fast = fast - 0.3 * first
        after = F.cross_entropy(real.sin() @ fast, torch.randint(3, (47,)))
        (curve,) = grad(after, inner, create_graph=True)
        slow.zero_grad()
        (after + (curve * torch.randn(11, 3)).sum() * 0.01).backward()
        slow.step()
        return loss + after.detach()

    return step, state_of(maker, critic, outer, judge, slow)


@program
def writes_in_place(torch):
    """Views written in place, buffers that grow and turn, updates by hand without an optimizer."""
    torch.manual_seed(60)
    w, v = leaves = weights(torch, (34, 27), (27,))
    speed = [torch.zeros_like(p) for p in leaves]
    queue, counts = torch.zeros(5, 27), torch.zeros(27, dtype=torch.int64)

    def step(k):
        x = torch.randn(40, 34) @ w
        x[:, ::3] *= 0.7
        x[5:9].add_(v).mul_(0.3)
        x.T[2].sub_(x[:, 3] / 3)
        x.view(20, 54)[::2, :27].mul_(1 + v)
        y = torch.zeros(40, 27)
        y[3:, 1:] = x[:-3, :-1] * 0.5
        y[y.detach() > 0.8] = 0.25
        y.diagonal().copy_(x.diagonal().sin())
        queue[k % 5] = y.detach().mean(0)
        counts.add_((y.detach() > 0).sum(0))
        loss = (y - queue.mean(0)).square().mean() + x.clone().relu_().mean() + (y / (1 + counts)).sum()
        loss.backward()
        with torch.no_grad():
            for p, s in zip(leaves, speed, strict=True):
                s.mul_(0.9).add_(p.grad).clamp_(-1, 1)
                p -= 0.05 * s / (1 + k)
                p[0].mul_(0.99)
                p.grad = None if k % 2 else p.grad.zero_()
        return loss

    return step, state_of(leaves, speed, queue, counts)


@program
def dropout_and_choices(torch):
    """All kinds of dropout, random numbers that nobody uses, batches of other sizes, branches on values."""
    torch.manual_seed(61)
    nn, F = torch.nn, torch.nn.functional
    first, second = nn.Linear(18, 130), nn.Linear(130, 12)
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()], lr=0.01)
    scale = {"value": 1.0}

    def step(k):
        rows = (96, 97, 31)[k % 3] if k > 3 else 96
        x, unused = torch.randn(rows, 18), torch.rand(7)
        h = F.alpha_dropout(F.selu(first(x)), 0.1, training=True)
        h = F.dropout(h, 0.3) + F.feature_alpha_dropout(h[:, :, None], 0.2, training=True)[..., 0]
        h = F.dropout1d(h.reshape(rows, 13, 10), 0.2).flatten(1) + torch.randn_like(h) * 0.01
        unused.mul_(h.detach().mean())
        out = second(torch.where(h > 0.5, h.abs().sqrt().nan_to_num(0.0), h * 0.3 - 0.1))
        kept = torch.bernoulli(torch.full((rows, 12), 0.7)).bool()
        chosen = out.masked_fill(~kept, 0.0).sum(1) / kept.sum(1).clamp(min=1)
        noise = torch.multinomial(out.detach().softmax(1), 2, replacement=True)
        loss = (chosen - x.sum(1)).square().mean() * scale["value"] + out.gather(1, noise).mean() * 0.1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if k % 4 == 3:
            scale["value"] = 0.5 if loss.item() > 15 else 1.1 * scale["value"]
        return loss

    return step, state_of(first, second, optimizer)


@program
def complex_and_fft(torch):
    """Filters in the frequency domain, complex weights, spectra of 16,384 numbers."""
    torch.manual_seed(62)
    fft = torch.fft
    gain, phase = weights(torch, (129,), (9, 9))
    kernel = (torch.randn(9, 9, dtype=torch.complex64) * 0.3).requires_grad_()
    image = weights(torch, (4, 64, 64))[0]

    def loss_of(k):
        x = torch.randn(7, 256)
        filtered = fft.irfft(fft.rfft(x) * (1 + gain), n=256)
        turned = torch.polar(torch.ones(9, 9), phase) @ kernel
        z = turned * torch.randn(5, 9, 9, dtype=torch.complex64)
        total = (
            (filtered - x.roll(1, 1)).square().mean() + z.abs().mean() + (z @ kernel.mH).real.square().mean()
        )
        total = total + torch.view_as_real(z.sum(0)).square().mean() + (z.conj() * z).sum().real * 0.01
        spectrum = fft.fft2(image + torch.randn(64, 64) * 0.1, norm="ortho").abs()
        total = total + spectrum.mean() + fft.fftn(image[:, :15, :14]).imag.square().mean() * 0.01
        return (
            total
            + z.angle().sin().mean()
            + fft.ifft(z, dim=0).abs().square().sum()
            + (kernel.exp() / 3).real.mean()
        )

    return training(torch.optim.SGD([gain, phase, kernel, image], lr=2e-3, momentum=0.9), loss_of)


@program
def images_resized(torch):
    """Resizing, sampling along a grid, windows folded and unfolded, borders of every kind, pixels shuffled."""
    torch.manual_seed(63)
    F = torch.nn.functional
    w, turn = weights(torch, (3, 4, 31, 27), (3, 2, 3))

    def loss_of(k):
        x = w + torch.randn(3, 4, 31, 27)
        total = 0.0
        for mode in ("nearest", "bilinear", "bicubic", "area"):
            total = total + F.interpolate(x, size=(17, 40), mode=mode).square().mean()
        total = total + F.interpolate(x, scale_factor=2.3, mode="bilinear", align_corners=True).tanh().mean()
        grid = F.affine_grid(turn + torch.eye(2, 3), (3, 4, 19, 23), align_corners=False)
        total = total + F.grid_sample(x, grid, align_corners=False).square().mean()
        total = (
            total
            + F.grid_sample(
                x, grid * 1.3, mode="bilinear", padding_mode="reflection", align_corners=True
            ).mean()
        )
        patches = F.unfold(x, 5, dilation=2, stride=3, padding=1)
        total = total + F.fold(patches.sin(), (31, 27), 5, dilation=2, stride=3, padding=1).square().mean()
        for mode in ("reflect", "replicate", "circular"):
            total = total + F.pad(x, (3, 5, 2, 1), mode=mode).roll(7, 3).cumsum(2).tanh().mean()
        return (
            total
            + (F.pixel_shuffle(x, 2)[..., ::3] * 0.3).sin().mean()
            + F.channel_shuffle(x, 2)[:, 1].mean()
        )

    return training(torch.optim.Adam([w, turn], lr=0.01), loss_of)
