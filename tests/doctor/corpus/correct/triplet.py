"""Correct as well: triplet."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
loss_fn = nn.TripletMarginLoss()
for _ in range(6):
    a, p, n = (net(torch.randn(6, 5)) for _ in range(3))
    opt.zero_grad()
    loss_fn(a, p, n).backward()
    opt.step()
