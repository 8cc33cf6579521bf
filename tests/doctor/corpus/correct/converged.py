"""Correct as well: converged."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(32, 3)
y = x @ torch.tensor([[1.0], [-2.0], [0.5]])
model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-2)
for _ in range(150):
    opt.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    opt.step()
