"""Correct as well: param groups lr by hand."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.0)
for step in range(10):
    for group in opt.param_groups:
        group["lr"] = 0.1 * min(1.0, step / 3)
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
