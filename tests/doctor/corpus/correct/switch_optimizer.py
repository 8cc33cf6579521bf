"""Correct as well: switch optimizer."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
for make in (torch.optim.Adam, lambda p: torch.optim.SGD(p, lr=0.01)):
    opt = make(model.parameters())
    for _ in range(4):
        opt.zero_grad()
        model(torch.randn(6, 5)).pow(2).mean().backward()
        opt.step()
