"""Correct as well: small rate."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
opt = torch.optim.SGD(net.parameters(), lr=1e-5)
for _ in range(8):
    opt.zero_grad()
    (nn.functional.cross_entropy(net(torch.randn(8, 8)), torch.randint(0, 4, (8,))) * 0.01).backward()
    opt.step()
