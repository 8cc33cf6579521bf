"""Correct as well: frozen bn."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
for m in net.modules():
    if isinstance(m, nn.BatchNorm2d):
        m.eval()
        m.weight.requires_grad = m.bias.requires_grad = False
opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05)
for _ in range(5):
    opt.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(4, 1, 6, 6)), torch.randint(0, 2, (4,))).backward()
    opt.step()
