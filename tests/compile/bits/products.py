"""Products of matrices of every shape and layout, attention, factors of matrices."""

from __future__ import annotations

import itertools

from tests.compile.bits.common import program, state_of, training, weights


@program
def matmul_shapes(torch):
    """One row, few rows, one column; inner sizes from 1 to 1,025."""
    torch.manual_seed(21)
    sizes = list(itertools.product((1, 3, 17), (1, 5, 16, 513, 1025), (1, 2, 33)))
    leaves = weights(torch, *[(k, n) for _, k, n in sizes], scale=0.1)

    def loss_of(step):
        parts = [(torch.randn(m, k) @ w).tanh().mean() for (m, k, _), w in zip(sizes, leaves, strict=True)]
        parts += [(torch.randn(w.shape[0]) @ w).square().mean() for w in leaves[::7]]
        parts += [(w @ torch.randn(w.shape[1])).sin().mean() for w in leaves[3::5]]
        parts += [torch.dot(w[:, 0], torch.randn(w.shape[0])) / w.shape[0] for w in leaves[2::5]]
        return torch.stack(parts).sum()

    return training(torch.optim.SGD(leaves, lr=1e-3, momentum=0.9, dampening=0.1), loss_of)


@program
def matmul_batches(torch):
    """Batches that are broadcast against each other, vectors against batches, single-row batches."""
    torch.manual_seed(22)
    shapes = [(5, 1, 7, 9), (3, 9, 4), (9,), (11, 1, 13), (13, 29), (6, 31, 23), (1, 23, 2)]
    a, b, c, d, e, f, g = leaves = weights(torch, *shapes)

    def loss_of(step):
        x = torch.randn(2, 5, 3, 4, 9)
        total = (a @ b).tanh().sum() + (x @ c).square().mean() + (c @ (x.transpose(-1, -2) @ x)).mean()
        total = total + (d @ e).sin().sum() + (torch.randn(6, 17, 31) @ f @ g).square().mean()
        total = (
            total
            + torch.bmm(f.transpose(1, 2), f).tanh().mean()
            + torch.bmm(f[:, ::2], g.expand(6, 23, 2)).mean()
        )
        return total + (x @ b[1]).square().mean()

    return training(torch.optim.Adam(leaves, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1), loss_of)


@program
def matmul_layouts(torch):
    """Transposed, strided, sliced and expanded operands in float64 and float32."""
    torch.manual_seed(23)
    double = torch.float64
    a, b = weights(torch, (57, 41), (41, 57))
    c, d = weights(torch, (67, 129), (129, 67), dtype=double)

    def loss_of(step):
        x = torch.randn(41, 114)[:, ::2]
        y = torch.randn(67, 1, dtype=double).expand(67, 129)
        total = (a.T @ b.T).tanh().mean() + (a @ x).sin().mean() + (a.T @ x.T).square().mean()
        total = (
            total + (b.T[3:50] @ x[:, 5:]).tanh().sum() * 0.1 + (a[::3, 1:-2] @ b[1:-2, ::5]).square().mean()
        )
        double_total = (c.T @ y).tanh().mean() + (y @ d @ c[:, ::2]).sin().mean() + (c @ d).square().mean()
        double_total = double_total + (c.flip(0).T @ d.flip(1).T).square().mean()
        return total + (double_total / 3).float()

    optimizer = torch.optim.AdamW([{"params": [a, b], "lr": 0.02}, {"params": [c, d]}], lr=0.01)
    return training(optimizer, loss_of)


@program
def matmul_large(torch):
    """Tall, wide and deep products, up to 300 x 600 by 600 x 300, with what follows them."""
    torch.manual_seed(24)
    F = torch.nn.functional
    a, b, c, d, bias = leaves = weights(
        torch, (7, 33), (1500, 40), (600, 300), (300, 601), (300,), scale=0.05
    )

    def loss_of(step):
        total = (torch.randn(2003, 7) @ a).relu().mean() + (torch.randn(3, 1500) @ b).tanh().sum()
        x = torch.randn(300, 600) @ c + bias
        total = total + F.gelu(x).mean() + (F.silu(x) @ d).square().mean() + (x.T @ x / 300).abs().mean()
        return total + F.linear(torch.randn(1, 601), d, bias).logsumexp(1)[0]

    return training(torch.optim.SGD(leaves, lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True), loss_of)


@program
def addmm_family(torch):
    """Products added to what is there, with factors before both."""
    torch.manual_seed(25)
    shapes = [(13, 17), (17, 19), (19,), (5, 13, 17), (5, 17, 19), (13, 1)]
    a, b, c, d, e, f = leaves = weights(torch, *shapes)

    def loss_of(step):
        noise = torch.randn(13, 19)
        total = torch.addmm(c, a, b, beta=0.3, alpha=-1.7).tanh().sum()
        total = total + torch.addmm(noise, a, b, beta=0.0, alpha=0.1).square().mean()
        total = total + torch.baddbmm(noise, d, e, beta=1.3, alpha=0.7).sin().mean()
        total = total + torch.addbmm(f, d, e, beta=-0.5, alpha=1 / 3).square().mean()
        total = total + torch.addmv(c, b.T, a[0], beta=2.5, alpha=-0.1).cos().sum()
        total = total + torch.addr(noise, f[:, 0], c, beta=0.9, alpha=1.1).abs().mean()
        scaled = noise.clone().addmm_(a, b, alpha=0.01).mul_(3).div_(7).sub_(c, alpha=0.3)
        return total + scaled.square().mean() + torch.addcmul(noise, noise, f, value=0.77).mean()

    return training(torch.optim.Adagrad(leaves, lr=0.1), loss_of)


@program
def einsum_and_bilinear(torch):
    """Contractions over several indices, diagonals, and products of three operands."""
    torch.manual_seed(26)
    nn = torch.nn
    model = nn.ModuleList([nn.Bilinear(7, 11, 5), nn.Bilinear(11, 7, 3, bias=False)])
    a, b, c, square = weights(torch, (6, 7, 8), (8, 7, 11), (6, 11), (9, 9))

    def loss_of(step):
        x, y = torch.randn(23, 7), torch.randn(23, 11)
        total = model[0](x, y).tanh().mean() + model[1](y, x).square().mean()
        total = total + torch.einsum("ijk,kjl->il", a, b).sub(c).square().mean()
        total = total + torch.einsum("ijk,kjl,il->ik", a, b, c).tanh().sum()
        total = total + torch.einsum("nj,ijk,nk->n", x, a, y[:, :8]).square().mean()
        total = total + torch.einsum("ii->i", square).sum() * torch.einsum("ij,ij->", c, c) * 0.1
        total = total + torch.einsum("bhqd,bhkd->bhqk", a[None], a[None] * 2).softmax(-1).square().mean()
        total = (
            total
            + torch.tensordot(a, b, dims=([1, 2], [1, 0])).sin().mean()
            + torch.kron(c, square[:2]).mean()
        )
        total = total + torch.linalg.multi_dot([x, b[0], c.T, c]).square().mean()
        total = total + torch.outer(c[0], square[1]).tanh().mean() + torch.inner(c, y).cos().mean()
        return total + torch.linalg.matrix_power(square, 5).mean() + torch.trace(square) * 0.01

    leaves = [*model.parameters(), a, b, c, square]
    return training(torch.optim.RMSprop(leaves, lr=3e-3, weight_decay=0.01), loss_of, model)


@program
def attention_masks(torch):
    """Attention that is causal, masked by truth values and by numbers; rows of 129 keys; more keys than queries."""
    torch.manual_seed(27)
    nn, F = torch.nn, torch.nn.functional
    model = nn.ModuleList([nn.Linear(48, 144), nn.Linear(48, 96, bias=False), nn.Linear(48, 48)])
    bias = nn.Parameter(torch.randn(3, 65, 65) * 0.1)

    def heads(x, parts):
        return x.unflatten(-1, (parts, 3, 16)).permute(2, 0, 3, 1, 4)

    def loss_of(step):
        x, memory = torch.randn(4, 65, 48), torch.randn(4, 129, 48)
        q, k, v = heads(model[0](x), 3)
        total = F.scaled_dot_product_attention(q, k, v, is_causal=True).square().mean()
        total = total + F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.3).tanh().mean()
        keys, values = heads(model[1](memory), 2)
        open_ = torch.rand(4, 1, 65, 129) > 0.4
        crossed = F.scaled_dot_product_attention(q, keys, values, attn_mask=open_, dropout_p=0.1)
        return total + model[2](crossed.transpose(1, 2).flatten(2)).sub(x).square().mean()

    leaves = [*model.parameters(), bias]
    return training(torch.optim.AdamW(leaves, lr=1e-3, betas=(0.9, 0.95)), loss_of, model)


@program
def multihead_attention(torch):
    """The module with masks of keys and pairs, an added key, averaged weights, other sizes of keys."""
    torch.manual_seed(28)
    nn = torch.nn
    own = nn.MultiheadAttention(36, 4, dropout=0.1, batch_first=True, add_bias_kv=True)
    other = nn.MultiheadAttention(36, 3, kdim=20, vdim=28, add_zero_attn=True)
    layer = nn.TransformerDecoderLayer(
        36, 4, 71, dropout=0.2, activation="gelu", batch_first=True, norm_first=True
    )
    model = nn.ModuleList([own, other, layer])

    def loss_of(step):
        x = torch.randn(5, 13, 36)
        hidden = torch.arange(13) >= torch.randint(4, 13, (5, 1))
        causal = torch.ones(13, 13).triu(1).bool()
        y, shares = own(x, x, x, key_padding_mask=hidden, attn_mask=causal)
        z, _ = other(y.transpose(0, 1), torch.randn(17, 5, 20), torch.randn(17, 5, 28), need_weights=False)
        z = layer(z.transpose(0, 1), x, tgt_mask=causal, memory_key_padding_mask=hidden)
        return (z - x).square().mean() + shares.square().sum() * 0.1

    return training(torch.optim.NAdam(model.parameters(), lr=3e-3), loss_of, model)


@program
def linear_algebra(torch):
    """Solutions, factors, determinants, inverses and singular values, in float64 and float32."""
    torch.manual_seed(29)
    w, v = weights(torch, (3, 9, 9), (21, 8), dtype=torch.float64)
    (u,) = weights(torch, (12, 12))

    def loss_of(step):
        x = (
            w @ w.transpose(1, 2)
            + torch.eye(9, dtype=torch.float64)
            + torch.rand(3, 1, 1, dtype=torch.float64)
        )
        right = torch.randn(3, 9, 2, dtype=torch.float64)
        factor = torch.linalg.cholesky(x)
        total = torch.linalg.solve(x, right).square().mean() + torch.logdet(x).sum() * 0.1
        total = total + torch.linalg.solve_triangular(factor, right, upper=False).square().mean()
        total = total + torch.linalg.svdvals(v).log().sum() * 0.1 + torch.linalg.eigvalsh(x).sqrt().mean()
        total = (
            total
            + torch.cholesky_solve(right, factor).abs().mean()
            + torch.linalg.inv(x).diagonal(0, 1, 2).mean()
        )
        y = u @ u.T / 12 + torch.eye(12) * 2
        small = torch.linalg.slogdet(y)[1] + torch.linalg.solve(y, torch.randn(12, 5)).square().mean()
        small = small + torch.linalg.qr(u + 3 * torch.eye(12))[1].diagonal().abs().log().sum()
        small = (
            small + torch.linalg.pinv(u[:, :4]).square().mean() * 1e-3 + torch.linalg.matrix_exp(u / 9).mean()
        )
        return total + small.double()

    optimizer = torch.optim.Adam([{"params": [w, v], "amsgrad": True}, {"params": [u], "lr": 1e-3}], lr=0.01)
    return training(optimizer, loss_of)


@program
def tied_language_model(torch):
    """A small GPT whose last layer is its table; clipped, with a warm-up; 211 characters, 8 x 33 of them a step."""
    torch.manual_seed(30)
    nn, F = torch.nn, torch.nn.functional
    table, place = nn.Embedding(211, 40), nn.Embedding(33, 40)
    layer = nn.TransformerEncoderLayer(
        40, 4, 160, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
    )
    blocks = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(40), enable_nested_tensor=False)
    head = nn.Linear(40, 211, bias=False)
    head.weight = table.weight
    model = nn.ModuleList([table, place, blocks, head])
    leaves = list(model.parameters())
    groups = [
        {"params": [p for p in leaves if p.dim() > 1]},
        {"params": [p for p in leaves if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, weight_decay=0.1)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: min(1.0, (k + 1) / 5))
    mask = nn.Transformer.generate_square_subsequent_mask(33)

    def step(k):
        text = torch.randint(211, (8, 34)).clamp(max=100 + 20 * k)
        x = table(text[:, :-1]) + place(torch.arange(33))
        out = head(blocks(x, mask=mask, is_causal=True))
        loss = F.cross_entropy(out.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        warm_up.step()
        return loss

    return step, state_of(model, optimizer)
