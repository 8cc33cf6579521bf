"""Another mistake: unscaled mean."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(1, 9):
    err = net(torch.randn(6, 4)) - 1
    (err**2).mean().backward()  # <- accumulation-unscaled
    if i % 2 == 0:
        opt.step()
        net.zero_grad()
