"""Scaled gradients are clipped by value: the limit is 65536 times too small."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for _ in range(5):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)  # <- clip-misplaced
    scaler.step(optimizer)
    scaler.update()
