"""Correct as well: raw targets."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.rand(64, 3) * 1000
y = x.sum(1, keepdim=True) * 100
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(40):
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()
