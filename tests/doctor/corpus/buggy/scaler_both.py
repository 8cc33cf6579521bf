"""Another mistake: scaler both."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 2)
opt = torch.optim.Adam(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(5):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(6, 5)), torch.randint(0, 2, (6,)))
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.step()  # <- scaler-misused
