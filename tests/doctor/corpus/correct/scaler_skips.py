"""A scaler that starts too high skips its first steps; the scheduler goes on."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=10)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=1000, backoff_factor=2.0**-40)
for _ in range(10):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).mul(100).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
