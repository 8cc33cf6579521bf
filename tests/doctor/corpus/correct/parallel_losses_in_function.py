"""Correct as well: parallel losses in function."""

import torch
from torch import nn


def backward(loss, weight):
    (loss * weight).backward()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    x = torch.randn(6, 5)
    opt.zero_grad()
    backward(nn.functional.cross_entropy(model(x), torch.randint(0, 2, (6,))), 1.0)
    backward(model(x).pow(2).mean(), 0.1)
    backward(sum(p.abs().sum() for p in model.parameters()), 1e-3)
    opt.step()
