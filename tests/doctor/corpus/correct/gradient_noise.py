"""Correct as well: gradient noise."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    opt.zero_grad()
    model(torch.randn(6, 5)).pow(2).mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            p.grad.add_(torch.randn_like(p.grad) * 0.01)
    opt.step()
