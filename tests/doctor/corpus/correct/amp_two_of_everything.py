"""One scaler, two losses, two optimizers, both unscaled and clipped before their steps."""

import torch
from torch import nn

torch.manual_seed(0)
a, b = nn.Linear(4, 8), nn.Linear(8, 1)
opt_a, opt_b = torch.optim.SGD(a.parameters(), lr=0.01), torch.optim.Adam(b.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=512.0, growth_interval=4)
for _ in range(10):
    opt_a.zero_grad()
    opt_b.zero_grad()
    h = torch.relu(a(torch.randn(8, 4)))
    first, second = b(h).pow(2).mean(), h.abs().mean()
    scaler.scale(first).backward(retain_graph=True)
    scaler.scale(0.1 * second).backward()
    for optimizer, model in ((opt_a, a), (opt_b, b)):
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
    scaler.update()
