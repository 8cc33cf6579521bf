"""Correct as well: saliency."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(3):
    net.train()
    for _ in range(3):
        opt.zero_grad()
        nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        opt.step()
    net.eval()
    x = torch.randn(2, 4, requires_grad=True)
    net(x)[:, 0].sum().backward()
    saliency = x.grad.abs()
