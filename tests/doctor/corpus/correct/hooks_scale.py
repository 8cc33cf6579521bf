"""Correct as well: hooks scale."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
for p in net[0].parameters():
    p.register_hook(lambda g: g * 0.1)
opt = torch.optim.Adagrad(net.parameters(), lr=0.05)
for _ in range(6):
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
